"""Every host derives values, and runs, times and counts passes as the protocol says."""

from __future__ import annotations

import hashlib
import json
import struct
import time
from pathlib import Path

import pytest

from lab.protocol import (
    ACTIONS,
    Close,
    Closed,
    Failed,
    Measure,
    Opened,
    Prepared,
    Ran,
    Run,
    Tally,
    ValueKind,
    Verdict,
)
from lab.runner import catalogue
from lab.stream import DELETE, GET, SET, Operation
from lab.tests.derived import derive
from lab.tests.runtimes import Answer, Hosts, gets, mixed, probe, sets
from lab.tests.talking import expected, one_worker, prepare

NAMES = {"native": "Rust 1.", "perl": "Perl 5.", "php": "PHP 8", "python": "CPython 3."}
BINARY_ONLY = "native"


# Values that an adapter gets.


def kept(hosts: Hosts, size: int, value: ValueKind = "binary", seed: int = 1) -> bytes:
    """Return the value stored for key number 2 and sequence 3."""
    phases = one_worker([Operation(SET, 2, size)])
    host = hosts.scripted([True], phases, value=value, seed=seed, base=3)
    assert host.run(0).actions["set"] == Tally(count=1)
    return (hosts.folder / "store" / "key-2").read_bytes()


def test_the_vector_of_a_short_value(hosts: Hosts) -> None:
    assert kept(hosts, 16).hex() == "b735f219bc273e57528ade22a8a2bb15"


def test_the_vector_of_a_middling_value(hosts: Hosts) -> None:
    value = kept(hosts, 160)
    assert len(value) == 160
    assert value[-16:].hex() == "213f8fdc19127ea4b21dc76f14548aac"


def test_the_vector_of_a_large_value(hosts: Hosts) -> None:
    value = kept(hosts, 2_222_981)
    assert len(value) == 2_222_981
    digest = "2ad75dc6464d534612a572b889bba549b7162a70d9530a16125371ca8484cff9"
    assert hashlib.sha256(value).hexdigest() == digest


def test_the_vector_of_a_complex_value(hosts: Hosts) -> None:
    if hosts.runtime == BINARY_ONLY:
        plan = hosts.plan("honest", one_worker(sets(1)), value="complex")
        failed = hosts.start().ask(plan.load(), Failed)
        assert "store bytes" in failed.reason
        assert not failed.missing
        return
    value = json.loads(kept(hosts, 2, "complex"))
    assert value == {"b735f219": "bc273e57528ade22a8a2", "bb1548b8": "9e31e28cd7993e26c5b5"}


def test_a_seed_has_64_bits(hosts: Hosts) -> None:
    # PHP's integers have 63 bits and a sign.
    seed = 2**63 - 1 if hosts.runtime == "php" else 2**64 - 1
    assert kept(hosts, 64, seed=seed) == derive(2, 3, 64, seed)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 63, 64, 65, 2_000, 3 << 20])
def test_every_length_is_derived_and_a_short_one_is_a_weak_check(hosts: Hosts, size: int) -> None:
    # The second of three operations has the sequence after the base.
    operations = [Operation(GET, 5, 0), Operation(SET, 5, size), Operation(GET, 5, 0)]
    value = derive(5, 2**40 + 1, size)
    host = hosts.scripted([None, True, value], one_worker(operations), base=2**40)
    ran = host.run(0, "throughput")
    assert (hosts.folder / "store" / "key-5").read_bytes() == value
    assert ran.verdict == Verdict(weak=int(size < 8))
    assert (ran.actions["get"].miss, ran.actions["get"].absent) == (1, 1)


# Passes.


@pytest.mark.parametrize("value", ["binary", "complex"])
def test_the_honest_one_is_accused_of_nothing(hosts: Hosts, value: ValueKind) -> None:
    row = hosts.row("honest")
    if value not in row.values:
        pytest.skip(f"{row.name} takes no {value} values")
    phases = mixed(value=value)
    host, plan = hosts.start(), hosts.plan("honest", phases, value=value)
    loaded = host.load_or_skip(plan.load())
    assert loaded.runtime.startswith(NAMES[hosts.runtime])
    assert "optimised" not in loaded.runtime
    assert len(loaded.timer_ns) == 1_000
    # Two readings of a clock may be equal.
    assert 0 <= min(loaded.timer_ns) < 1_000_000
    assert loaded.create_ns > 0
    assert host.ask(plan.open("probe"), Opened).elapsed_ns > 0
    written, verdict = probe(host)
    assert (written.keys, written.refused) == (64, 0)
    assert verdict == Verdict()
    assert host.ask(Close(), Closed).elapsed_ns >= 0

    host.ask(plan.open(), Opened)
    preload = host.run(0)
    assert (preload.done, preload.elapsed_ns, preload.cpu_ns) == (25, 0, 0)
    assert (preload.started_ns, preload.ended_ns, preload.blocks_ns) == (0, 0, [])
    assert preload.actions["set"].count == 25
    ran = host.run(1, "throughput")
    assert ran.done == 2_000
    assert ran.verdict == Verdict()
    assert ran.actions == expected(phases)
    assert ran.actions["get"].absent == ran.actions["get"].miss > 0
    # 2,000 operations are 31 full blocks of 64 and a rest. Answers are checked between stretches.
    assert len(ran.blocks_ns) == 31
    assert 0 < sum(ran.blocks_ns) < ran.elapsed_ns < ran.ended_ns - ran.started_ns
    assert ran.cpu_ns > 0
    host.ask(Close(), Closed)
    assert host.end() == 0
    # This is not a reply.
    assert "an adapter may print" in host.words.read_text("utf-8")


def test_a_latency_pass_keeps_each_duration(hosts: Hosts) -> None:
    host, _ = hosts.opened("honest", mixed())
    path = hosts.folder / "durations"
    ran = host.run(1, "latency", warmup=100, durations=str(path))
    durations_ns = struct.unpack("<1900Q", path.read_bytes())
    assert sum(durations_ns) < ran.elapsed_ns
    assert min(durations_ns) > 0
    assert sum(tally.count for tally in ran.actions.values()) == 1_900
    assert (ran.done, ran.blocks_ns) == (2_000, [])
    assert ran.cpu_ns > 0


def test_durations_are_not_written_over_others(hosts: Hosts) -> None:
    host, _ = hosts.opened("honest", mixed())
    path = hosts.folder / "durations"
    path.write_bytes(b"those of another pass")
    host.ask(prepare(1, "latency"), Prepared)
    assert "durations" in host.ask(Run(0, str(path)), Failed).reason
    assert path.read_bytes() == b"those of another pass"


def test_the_warmup_is_checked_and_not_counted(hosts: Hosts) -> None:
    host, _ = hosts.opened("wrong_value", one_worker([*sets(50), *gets(110)]))
    # The fiftieth and the hundredth hit are spoiled; the first of them while warming up.
    ran = host.run(0, "throughput", warmup=110, block=50)
    assert (ran.done, ran.verdict.wrong) == (160, 2)
    assert ran.actions == {"get": Tally(count=50, wrong=1), "set": Tally(), "delete": Tally()}
    assert len(ran.blocks_ns) == 1


def test_a_pass_may_be_nothing_but_warmup(hosts: Hosts) -> None:
    host, _ = hosts.opened("wrong_value", mixed())
    host.run(0)
    ran = host.run(1, "throughput", warmup=2_000)
    assert ran.done == 2_000
    assert ran.verdict.wrong > 0
    assert all(tally == Tally() for tally in ran.actions.values())
    assert (ran.blocks_ns, ran.elapsed_ns) == ([], 0)


@pytest.mark.parametrize("verb", [GET, SET, DELETE])
@pytest.mark.parametrize("measure", ["throughput", "latency"])
def test_a_block_of_one_verb_is_obeyed_as_any_other(
    hosts: Hosts, verb: int, measure: Measure
) -> None:
    phases = one_worker([Operation(verb, key % 50, 20) for key in range(100)])
    host, _ = hosts.opened("honest", phases)
    ran = host.run(0, measure, block=30)
    assert ran.actions == expected(phases)
    assert ran.actions[ACTIONS[verb]].count == ran.done == 100
    assert len(ran.blocks_ns) == (3 if measure == "throughput" else 0)


@pytest.mark.parametrize("measure", ["throughput", "latency"])
def test_a_stretch_is_obeyed_without_a_pause_and_checked_afterwards(
    hosts: Hosts, measure: Measure
) -> None:
    phases = mixed()
    host, _ = hosts.opened("honest", phases)
    host.run(0)
    ran = host.run(1, measure, block=64, stretch=2_000)
    assert ran.actions == expected(phases)
    # The rest of 16 operations is no full block.
    assert (ran.done, len(ran.blocks_ns)) == (2_000, 31 if measure == "throughput" else 0)
    assert sum(ran.blocks_ns) < ran.elapsed_ns == ran.ended_ns - ran.started_ns


def test_an_operation_is_timed_in_its_block(hosts: Hosts) -> None:
    answers: list[Answer] = [None] * 12
    answers[4] = "slow"
    host = hosts.scripted(answers, one_worker(gets(12)))
    ran = host.run(0, "throughput", block=4, stretch=8)
    assert len(ran.blocks_ns) == 3
    assert ran.blocks_ns[1] >= 200_000_000
    assert sum(ran.blocks_ns) <= ran.elapsed_ns


def test_a_pass_waits_for_its_start(hosts: Hosts) -> None:
    host, _ = hosts.opened("honest", mixed())
    host.run(0)
    host.ask(prepare(1, "throughput"), Prepared)
    start_ns = time.monotonic_ns() + 300_000_000
    ran = host.ask(Run(start_ns, ""), Ran)
    assert start_ns <= ran.started_ns < ran.ended_ns <= time.monotonic_ns()


def test_what_is_prepared_is_warmed_up_and_no_further(hosts: Hosts) -> None:
    host = hosts.scripted([True] * 25, one_worker(sets(25)))
    store = hosts.folder / "store"
    host.ask(prepare(0, warmup=10), Prepared)
    assert len(list(store.iterdir())) == 10
    assert host.ask(Run(0, ""), Ran).done == 25
    assert len(list(store.iterdir())) == 25


@pytest.mark.parametrize("warmup", [0, 1_000])
def test_a_pass_ends_with_the_block_in_which_its_time_is_over(hosts: Hosts, warmup: int) -> None:
    # The tenth operation exceeds the time of the pass.
    answers: list[Answer] = [None] * 1_000
    answers[9] = "slow"
    host = hosts.scripted(answers, one_worker(gets(1_000)))
    ran = host.run(0, "throughput", warmup=warmup, block=4, stretch=40, seconds_max=0.2)
    # It ends within a stretch, and earlier on a machine that was asleep.
    assert ran.done in (4, 8, 12)
    counted = 0 if warmup else ran.done
    assert ran.actions["get"] == Tally(count=counted, miss=counted, absent=counted)
    assert (ran.elapsed_ns >= 200_000_000) == (not warmup)
    if warmup:
        assert (ran.started_ns, ran.elapsed_ns, ran.blocks_ns) == (0, 0, [])


def test_a_pass_without_time_has_one_block(hosts: Hosts) -> None:
    host, _ = hosts.opened("honest", one_worker(sets(200), gets(200)))
    ran = host.run(0, "throughput", seconds_max=0, stretch=1_000)
    assert (ran.done, sum(tally.count for tally in ran.actions.values())) == (64, 64)
    assert host.run(1, "throughput", warmup=100).done == 200


def test_what_is_known_lasts_from_phase_to_phase_and_not_from_store_to_store(hosts: Hosts) -> None:
    phases = one_worker([Operation(SET, 0, 20), Operation(SET, 1, 3)], gets(3))
    host, plan = hosts.opened("honest", phases)
    host.run(0)
    ran = host.run(1)
    assert ran.actions["get"] == Tally(count=3, miss=1, absent=1)
    # Three bytes could be right by chance.
    assert ran.verdict == Verdict(weak=1)
    host.ask(Close(), Closed)
    # A new store is empty, whatever the previous one contained.
    host.ask(plan.open("second"), Opened)
    assert host.run(1).actions["get"] == Tally(count=3, miss=3, absent=3)


def test_a_pass_that_is_prepared_and_not_run_is_forgotten(hosts: Hosts) -> None:
    phases = mixed()
    host, _ = hosts.opened("honest", phases)
    host.ask(prepare(0), Prepared)
    assert host.run(1).actions == expected(phases[1:])


def test_large_values_are_not_kept(hosts: Hosts) -> None:
    row = catalogue.contestants()["null" if hosts.runtime == "python" else f"{hosts.runtime}_null"]
    host, _ = hosts.opened(row, one_worker(sets(400, 2_000_000)))
    assert host.run(0, "throughput", block=4, stretch=16).done == 400
    status = Path(f"/proc/{host.process.pid}/status").read_text("ascii")
    peak_kb = int(next(line.split()[1] for line in status.splitlines() if "VmHWM" in line))
    # All of them would be 800 MB.
    assert peak_kb < 250_000
