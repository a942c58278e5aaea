"""The native host derives the values of the protocol and times its passes by it.

The negative controls keep a file for each entry, so that the tests can see what a host really
stored.
"""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.protocol import (
    Close,
    Closed,
    Failed,
    Loaded,
    Measure,
    Open,
    Opened,
    Prepared,
    Ran,
    Run,
    Tally,
    Verdict,
)
from lab.stream import GET, SET, Operation
from lab.tests.native_hosts import (
    KEYS,
    PRELOAD,
    StartHost,
    a_load,
    an_open,
    derive,
    key_text,
    native_hosts,
    some_work,
    work_through,
)
from lab.tests.talking import (
    Conversation,
    model,
    needs,
    prepare,
)

HOSTS = native_hosts
pytestmark = needs("cargo")


# Values.


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (16, lambda value: value.hex() == "b735f219bc273e57528ade22a8a2bb15"),
        (160, lambda value: value[-16:].hex() == "213f8fdc19127ea4b21dc76f14548aac"),
        (
            2_222_981,
            lambda value: (
                hashlib.sha256(value).hexdigest()
                == "2ad75dc6464d534612a572b889bba549b7162a70d9530a16125371ca8484cff9"
            ),
        ),
    ],
)
def test_it_stores_the_vectors_of_the_protocol(
    tmp_path: Path, start: StartHost, size: int, told: Callable[[bytes], bool]
) -> None:
    host = start("native_honest")
    operations = [Operation(SET, 2, size), Operation(GET, 2, 0)]
    host.ask(a_load(tmp_path, operations, base=3), Loaded)
    host.ask(an_open(tmp_path), Opened)
    ran = host.run(0, "throughput")
    assert ran.verdict == Verdict()
    value = (tmp_path / "store" / key_text(2)).read_bytes()
    assert len(value) == size
    assert told(value)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 2_000, 3 << 20])
def test_it_derives_every_length(tmp_path: Path, start: StartHost, size: int) -> None:
    host = start("native_honest")
    # The second of two operations has the sequence after the base.
    operations = [Operation(GET, 5, 0), Operation(SET, 5, size), Operation(GET, 5, 0)]
    host.ask(a_load(tmp_path, operations, base=2**40), Loaded)
    host.ask(an_open(tmp_path), Opened)
    ran = host.run(0, "throughput")
    assert (tmp_path / "store" / key_text(5)).read_bytes() == derive(5, 2**40 + 1, size)
    assert ran.verdict == Verdict(weak=int(size < 8))
    assert (ran.actions["get"].miss, ran.actions["get"].absent) == (1, 1)


# Passes.


def test_the_honest_one_is_accused_of_nothing(tmp_path: Path, start: StartHost) -> None:
    host = start("native_honest")
    preload, ran = work_through(host, tmp_path)
    assert preload.verdict == ran.verdict == Verdict()
    assert (preload.done, preload.elapsed_ns, preload.cpu_ns) == (KEYS, 0, 0)
    assert (preload.started_ns, preload.ended_ns, preload.blocks_ns) == (0, 0, [])
    assert ran.done == len(some_work())
    # What a store without any limit must answer.
    there = set(range(KEYS))
    assert ran.actions == model(some_work(), there)
    assert ran.actions["get"].absent == ran.actions["get"].miss > 0
    assert len(ran.blocks_ns) == len(some_work()) // 64
    # A rest of 24 operations is no full block. Answers are checked between the stretches.
    assert 0 < sum(ran.blocks_ns) < ran.elapsed_ns < ran.ended_ns - ran.started_ns
    assert ran.cpu_ns > 0
    assert {path.name for path in (tmp_path / "store").iterdir()} == {key_text(k) for k in there}
    assert host.ask(Close(), Closed).elapsed_ns >= 0
    assert host.end() == 0


def test_a_latency_pass_writes_each_duration(tmp_path: Path, start: StartHost) -> None:
    host = start("native_honest")
    host.ask(a_load(tmp_path, some_work(), some_work()), Loaded)
    host.ask(an_open(tmp_path), Opened)
    path = tmp_path / "durations"
    ran = host.run(0, "latency", warmup=50, durations=str(path))
    durations_ns = struct.unpack(f"<{len(some_work()) - 50}Q", path.read_bytes())
    assert sum(durations_ns) < ran.elapsed_ns
    assert min(durations_ns) > 0
    assert ran.blocks_ns == []
    assert ran.done == len(some_work())
    assert sum(tally.count for tally in ran.actions.values()) == len(durations_ns)
    # What is there is not written over.
    host.ask(prepare(1, "latency"), Prepared)
    assert "durations" in host.ask(Run(0, str(path)), Failed).reason


def test_a_stretch_is_obeyed_without_a_pause_and_checked_afterwards(
    tmp_path: Path, start: StartHost
) -> None:
    host = start("native_honest")
    host.ask(a_load(tmp_path, PRELOAD, some_work()), Loaded)
    host.ask(an_open(tmp_path), Opened)
    host.run(0)
    ran = host.run(1, "throughput", warmup=30, stretch=1_000)
    assert (ran.done, len(ran.blocks_ns)) == (len(some_work()), (len(some_work()) - 30) // 64)
    assert 0 < sum(ran.blocks_ns) < ran.elapsed_ns == ran.ended_ns - ran.started_ns


def test_a_pass_waits_for_its_start(tmp_path: Path, start: StartHost) -> None:
    host = start("native_honest")
    host.ask(a_load(tmp_path, some_work()), Loaded)
    host.ask(an_open(tmp_path), Opened)
    host.ask(prepare(0, "throughput"), Prepared)
    start_ns = time.monotonic_ns() + 300_000_000
    ran = host.ask(Run(start_ns, ""), Ran)
    assert start_ns <= ran.started_ns < ran.ended_ns <= time.monotonic_ns()


def faults(host: Conversation) -> int:
    """Return how often the host has met a page that was not there."""
    stat = Path(f"/proc/{host.process.pid}/stat").read_text("ascii")
    # After the name in parentheses the first field is the third.
    return int(stat.rpartition(")")[2].split()[10 - 3])


@pytest.mark.parametrize("measure", ["throughput", "latency"])
def test_a_pass_meets_no_new_pages(tmp_path: Path, start: StartHost, measure: Measure) -> None:
    host = start("native_hashmap")
    gets = [Operation(GET, position % KEYS, 0) for position in range(100_000)]
    sets = [Operation(SET, key, 320) for key in range(KEYS)]
    host.ask(a_load(tmp_path, sets, gets), Loaded)
    host.ask(an_open(tmp_path), Opened)
    host.run(0)
    host.ask(prepare(1, measure, stretch=len(gets)), Prepared)
    before = faults(host)
    assert host.ask(Run(0, ""), Ran).actions["get"] == Tally(count=len(gets))
    # The copies take some 8,000 pages of 4 KiB, the answers 800, and the durations 200.
    assert faults(host) - before < 150


def test_the_warm_up_is_checked_and_not_counted(tmp_path: Path, start: StartHost) -> None:
    host = start("native_wrong_value")
    operations = [*PRELOAD, *(Operation(GET, key, 0) for key in range(KEYS) for _ in range(3))]
    host.ask(a_load(tmp_path, operations), Loaded)
    host.ask(an_open(tmp_path), Opened)
    ran = host.run(0, "throughput", warmup=KEYS + 60)
    # The fiftieth and the hundredth hit are spoiled; the first of them while warming up.
    assert ran.verdict.wrong == 2
    assert ran.actions["get"].count == 3 * KEYS - 60
    assert ran.actions["get"].wrong == 1
    assert ran.actions["set"].count == 0


def test_a_pass_ends_when_its_time_is_over(tmp_path: Path, start: StartHost) -> None:
    host = start("native_honest")
    host.ask(a_load(tmp_path, *[some_work()] * 4), Loaded)
    host.ask(an_open(tmp_path), Opened)
    assert host.run(0, "throughput", seconds_max=0).done == 64
    # It ends within a stretch, and what was not obeyed has no answers.
    ran = host.run(1, "throughput", seconds_max=0, stretch=1_000)
    assert (ran.done, sum(tally.count for tally in ran.actions.values())) == (64, 64)
    ran = host.run(2, "throughput", seconds_max=0, warmup=100)
    assert (ran.done, sum(tally.count for tally in ran.actions.values())) == (64, 0)
    assert (ran.started_ns, ran.elapsed_ns, ran.blocks_ns) == (0, 0, [])
    assert host.run(3, "throughput", warmup=100).done == len(some_work())


def test_a_new_store_is_known_to_be_empty(tmp_path: Path, start: StartHost) -> None:
    host = start("native_honest")
    work_through(host, tmp_path)
    host.ask(Close(), Closed)
    (tmp_path / "second").mkdir()
    host.ask(Open(str(tmp_path / "second"), 0, 1_000_000), Opened)
    ran = host.run(1, "throughput")
    assert ran.verdict == Verdict()
    assert ran.actions["get"].miss == ran.actions["get"].absent


def test_null_costs_little_and_keeps_nothing(tmp_path: Path, start: StartHost) -> None:
    host = start("native_null")
    host.ask(a_load(tmp_path, some_work(60_000)), Loaded)
    host.ask(an_open(tmp_path), Opened)
    ran = host.run(0, "throughput", block=256)
    assert ran.verdict == Verdict()
    assert ran.actions["get"].miss == ran.actions["get"].count > 0
    # The loop is there (a compiler might have removed it), and what it measures it has measured.
    assert all(block_ns > 0 for block_ns in ran.blocks_ns)
