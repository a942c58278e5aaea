"""What only the native host does: settings, streams, memory, process."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.protocol import Failed, Loaded, Measure, Opened, Prepared, Ran, Replay, Run, Tally, Verdict
from lab.runner import catalogue
from lab.runner.catalogue import LAB
from lab.stream import GET, Operation
from lab.tests.runtimes import Hosts, gets, mixed, only, sets
from lab.tests.talking import SECONDS_MAX, Conversation, one_worker, prepare

pytestmark = only("native")


def faults(host: Conversation) -> int:
    """Return the number of page faults of the host."""
    stat = Path(f"/proc/{host.process.pid}/stat").read_text("ascii")
    # After the name in parentheses the first field is the third.
    return int(stat.rpartition(")")[2].split()[10 - 3])


@pytest.mark.parametrize("measure", ["throughput", "latency"])
def test_a_pass_meets_no_new_pages(hosts: Hosts, measure: Measure) -> None:
    row = catalogue.contestants()["native_hashmap"]
    host, _ = hosts.opened(row, one_worker(sets(40, 320), [Operation(GET, 7, 0)] * 100_000))
    host.run(0)
    host.ask(prepare(1, measure, stretch=100_000), Prepared)
    before = faults(host)
    assert host.ask(Run(0, ""), Ran).actions["get"] == Tally(count=100_000)
    # The copies take about 8,000 pages of 4 KiB, the answers 800, and the durations 200.
    assert faults(host) - before < 150


def test_null_costs_little_and_keeps_nothing(hosts: Hosts) -> None:
    row = catalogue.contestants()["native_null"]
    host, _ = hosts.opened(row, mixed(operations=60_000)[1:])
    ran = host.run(0, "throughput", block=256)
    assert ran.verdict == Verdict()
    assert ran.actions["get"].miss == ran.actions["get"].count > 0
    # The compiler has not removed the loop, and its measurements are plausible.
    assert all(block_ns > 0 for block_ns in ran.blocks_ns)


def test_a_panic_of_the_adapter_is_told(hosts: Hosts) -> None:
    host = hosts.scripted(["raise"], one_worker(gets(1)))
    host.ask(prepare(0), Prepared)
    told = Failed("the contestant panicked: no value today")
    assert host.ask(Run(0, ""), Failed) == told


@pytest.mark.parametrize(
    ("worker", "workers", "streams", "told"),
    [(2, 2, 1, "no worker 2 among 2"), (0, 1, 0, "0 streams")],
)
def test_streams_must_be_those_of_the_workers(
    hosts: Hosts, worker: int, workers: int, streams: int, told: str
) -> None:
    plan = hosts.plan("honest", [[sets(10)] * streams])
    assert told in hosts.start().ask(plan.load(worker, workers), Failed).reason


def test_settings_must_be_known_and_complete(hosts: Hosts) -> None:
    phases = one_worker(sets(10))
    odd = hosts.plan("honest", phases, settings={"colour": "red"}).load()
    assert "colour" in hosts.start().ask(odd, Failed).reason
    none = hosts.plan("scripted", phases).load()
    assert "script" in hosts.start("scripted").ask(none, Failed).reason


def test_the_distribution_has_its_version(hosts: Hosts) -> None:
    plan = hosts.plan("honest", one_worker(sets(10)), distribution="serde_json")
    version = hosts.start().ask(plan.load(), Loaded).version
    lock = (LAB / "Cargo.lock").read_text()
    assert lock.count(f'name = "serde_json"\nversion = "{version}"') == 1


def test_one_store_is_open_at_a_time(hosts: Hosts) -> None:
    host, plan = hosts.opened("honest", one_worker(sets(10)))
    assert "already open" in host.ask(plan.open("second"), Failed).reason
    assert "no phase 1" in host.ask(prepare(1), Failed).reason
    assert "no phase 1" in host.ask(Replay(1, 0, 0), Failed).reason


def test_a_pass_that_is_prepared_is_not_of_the_next_store(hosts: Hosts) -> None:
    host, plan = hosts.opened("honest", one_worker(sets(10)))
    host.ask(prepare(0), Prepared)
    host.say(b'{"verb": "close"}')
    host.ask(plan.open("second"), Opened)
    assert "no pass is ready" in host.ask(Run(0, ""), Failed).reason


@pytest.mark.parametrize(
    "line",
    [
        b'{"verb": "open", "folder": "/", "entries_max": -1, "bytes_max": 1}',
        b'{"verb": "run", "start_ns": -1, "durations": ""}',
        b'{"verb": "dance"}',
    ],
)
def test_what_is_not_of_the_protocol_fails(hosts: Hosts, line: bytes) -> None:
    reply = hosts.start().say(line)
    assert isinstance(reply, Failed)
    assert "not of this protocol" in reply.reason


@pytest.mark.parametrize("arguments", [[], ["x"], ["1"], ["1", "2"]])
def test_it_wants_its_parent(hosts: Hosts, arguments: list[str]) -> None:
    program, _ = hosts.command(hosts.row("honest"))
    ended = subprocess.run(
        [program, *arguments],
        input=b"",
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stdout == b""
    assert ended.stderr
