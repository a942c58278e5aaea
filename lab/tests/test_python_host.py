"""What only the Python host does."""

from __future__ import annotations

import pytest

from lab.protocol import Failed, Loaded, Opened, Prepared, Run, Tally
from lab.stream import DELETE, GET, Operation
from lab.tests.runtimes import Hosts, gets, only
from lab.tests.talking import Conversation, Plan, one_worker, prepare

pytestmark = only("python")


def own_adapter(hosts: Hosts, get: str, before: str = "") -> tuple[Conversation, Plan]:
    """Start a host for an adapter whose get has the body `get`, with two gets and a delete."""
    path = hosts.folder / "adapter.py"
    path.write_text(
        f"{before}\n"
        "from lab.hosts.python.contract import Store\n"
        "entries = {}\n"
        "def get(key):\n"
        f"    {get}\n"
        "def delete(key): return len(entries) == 100\n"
        "def open(folder, limits, settings):\n"
        "    return Store(get=get, set=get, delete=delete, close=entries.clear)\n",
        "utf-8",
    )
    operations = [Operation(GET, 7, 0)] * 100 + [Operation(DELETE, 7, 0)]
    plan = hosts.plan("honest", one_worker(operations))
    plan.adapter = path
    return hosts.start(), plan


def test_keys_are_new_strings(hosts: Hosts) -> None:
    host, plan = own_adapter(hosts, "entries[id(key)] = key")
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    assert host.run(0).actions["delete"] == Tally(count=1)


def test_an_error_of_the_adapter_is_told_with_where_it_was(hosts: Hosts) -> None:
    host = hosts.scripted(["raise"], one_worker(gets(1)))
    host.ask(prepare(0), Prepared)
    assert host.ask(Run(0, ""), Failed).reason == "OSError: no value today"
    assert "Traceback" in host.words.read_text("utf-8")


@pytest.mark.parametrize("late", [False, True])
def test_a_module_that_is_not_installed_is_missing(hosts: Hosts, late: bool) -> None:
    host, plan = own_adapter(hosts, "pass", before="" if late else "import no_such_module")
    if late:
        assert plan.adapter is not None
        plan.adapter.write_text("def open(*_):\n    import no_such_module\n", "utf-8")
        host.ask(plan.load(), Loaded)
    failed = host.ask(plan.open() if late else plan.load(), Failed)
    assert failed.missing
    assert "no_such_module" in failed.reason
