"""Two levels in PHP, APCu near and files far, answer like one store."""

from __future__ import annotations

from collections.abc import Sequence

from lab.protocol import Close, Closed, Opened, Tally, Verdict
from lab.runner import catalogue
from lab.stream import Operation
from lab.tests.runtimes import Hosts, gets, mixed, only, probe, sets
from lab.tests.talking import Conversation, Plan, Streams, expected, one_worker

pytestmark = only("php")


def two_levels(hosts: Hosts, phases: Sequence[Streams]) -> tuple[Conversation, Plan]:
    """Start a host with APCu in front of files."""
    row = catalogue.contestants()["php_two_level:memcached"]
    return hosts.loaded(row, phases, distribution="apcu", settings={"far": "php_files"})


def test_two_levels_answer_as_one(hosts: Hosts) -> None:
    phases = mixed()
    host, plan = two_levels(hosts, phases)
    host.ask(plan.open("probe"), Opened)
    assert probe(host)[1] == Verdict()
    host.ask(Close(), Closed)
    host.ask(plan.open(), Opened)
    host.run(0)
    ran = host.run(1)
    assert ran.verdict.wrong == ran.verdict.stale == 0, ran.verdict
    assert ran.actions == expected(phases)


def test_the_near_level_answers_first_and_the_far_one_has_everything(hosts: Hosts) -> None:
    # APCu's 32 MB cannot hold 50 values of 1 MB, and a full APCu drops everything.
    phases: list[Sequence[Operation]] = [sets(50, 1_000_000), gets(50), gets(50)]
    host, plan = two_levels(hosts, one_worker(*phases))
    host.ask(plan.open(bytes_max=1 << 26), Opened)
    host.run(0)
    assert host.run(1).actions["get"] == Tally(count=50)
    for file in (hosts.folder / "store").iterdir():
        file.unlink()
    ran = host.run(2)
    assert 0 < ran.actions["get"].miss < 50
    assert ran.verdict.wrong == ran.verdict.stale == 0
