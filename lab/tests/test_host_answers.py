"""Every host judges answers correctly, with one worker and with several.

It detects every kind of fault, and reports none for an honest store.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.protocol import (
    Failed,
    Probed,
    ProbeRead,
    ProbeWrite,
    Replay,
    Replayed,
    ValueKind,
    Verdict,
)
from lab.stream import GET, Operation
from lab.tests import answer_rules
from lab.tests.derived import derive
from lab.tests.runtimes import EVERY, Answer, Hosts, mixed, only, probe, run_mixes
from lab.tests.talking import Conversation, ask_all, expected, one_worker, replay

VALUES: list[ValueKind] = ["binary", "complex"]


def taken(hosts: Hosts, name: str, value: ValueKind) -> None:
    """Skip the test if a contestant of the tests does not take such values."""
    if value not in hosts.row(name).values:
        pytest.skip(f"{hosts.row(name).name} takes no {value} values")


# Answer by answer.


Scripted = tuple[Hosts, Conversation]


@pytest.fixture(scope="module", params=EVERY)
def scripted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scripted]:
    """Return a host for all cases: its knowledge of one store must not affect the next."""
    with Hosts(request.param, tmp_path_factory.mktemp("scripted")) as hosts:
        yield hosts, hosts.start("scripted")


@pytest.mark.parametrize("name", answer_rules.ALONE)
def test_the_rules_of_one_worker(scripted: Scripted, name: str) -> None:
    answer_rules.check(*scripted, answer_rules.ALONE[name])


@pytest.mark.parametrize("name", answer_rules.CASES)
def test_the_rules_of_several_workers(scripted: Scripted, name: str) -> None:
    answer_rules.check(*scripted, answer_rules.CASES[name])


@pytest.mark.parametrize("seed", range(5))
def test_random_answers_are_judged_as_by_the_reference(scripted: Scripted, seed: int) -> None:
    answer_rules.check_randomly(*scripted, seed)


# One worker and a store that is sometimes wrong.


@pytest.mark.parametrize("value", VALUES)
def test_a_wrong_value_is_caught(hosts: Hosts, value: ValueKind) -> None:
    taken(hosts, "wrong_value", value)
    host, _ = hosts.opened("wrong_value", mixed(value=value), value=value)
    host.run(0)
    ran = host.run(1, "throughput")
    tally = ran.actions["get"]
    assert ran.verdict.wrong == tally.wrong == (tally.count - tally.miss) // 50 > 5
    assert ran.verdict.stale == 0
    assert len(ran.verdict.examples) == 5
    assert "that were never stored" in ran.verdict.examples[0]


def test_a_dropped_write_is_lost_and_a_miss(hosts: Hosts) -> None:
    phases = mixed()
    host, _ = hosts.opened("drops_writes", phases)
    written, verdict = probe(host)
    assert (written.refused, verdict.wrong, verdict.stale) == (0, 0, 0)
    assert verdict.lost > 2
    assert "is missing" in verdict.examples[0]
    host.run(0)
    ran = host.run(1)
    gets = ran.actions["get"]
    assert gets.absent == expected(phases)["get"].absent < gets.miss
    assert (ran.verdict.wrong, ran.verdict.stale) == (0, 0)


@pytest.mark.parametrize("value", VALUES)
def test_a_stale_value_is_caught(hosts: Hosts, value: ValueKind) -> None:
    taken(hosts, "stale", value)
    host, _ = hosts.opened("stale", mixed(value=value), value=value)
    _, verdict = probe(host)
    assert verdict.stale > 2
    assert (verdict.wrong, verdict.lost) == (0, 0)
    host.run(0)
    verdict = host.run(1).verdict
    assert verdict.stale > 2
    assert verdict.wrong == 0
    assert len(verdict.examples) <= 5
    assert "overwritten or deleted" in verdict.examples[0]


@only("native", "python")
def test_a_refusal_is_no_lie(hosts: Hosts) -> None:
    host, _ = hosts.opened("refuses", mixed())
    written, verdict = probe(host)
    assert written.refused > 0
    assert verdict == Verdict()
    host.run(0)
    ran = host.run(1)
    assert 0 < ran.actions["set"].miss < ran.actions["set"].count
    assert ran.actions["get"].miss > ran.actions["get"].absent
    assert ran.verdict == Verdict()


# The probe: 64 keys are set three times over, and every fourth is deleted.

SETS, DELETES = 3 * 64, 16


def probed(hosts: Hosts, written: list[bool], read: list[bytes | None]) -> tuple[Probed, Verdict]:
    """Probe a store that answers sets with `written` and gets with `read`."""
    answers: list[Answer] = [*written, *[True] * DELETES, *read]
    return probe(hosts.scripted(answers))


def last_value(number: int) -> bytes:
    """Return the value stored last under a probe key."""
    return derive(2**32 + number, 2, 160)


def test_a_probe_stores_the_values_of_the_protocol(hosts: Hosts) -> None:
    read = [None if number % 4 == 3 else last_value(number) for number in range(64)]
    written, verdict = probed(hosts, [True] * SETS, read)
    assert (written, verdict) == (Probed(64, 0, Verdict()), Verdict())
    files = {path.name: path.read_bytes() for path in (hosts.folder / "store").iterdir()}
    assert files == {f"probe-0-{number}": last_value(number) for number in range(64)}


def test_a_deleted_key_that_answers_is_caught(hosts: Hosts) -> None:
    _, verdict = probed(hosts, [True] * SETS, [last_value(number) for number in range(64)])
    assert (verdict.wrong, verdict.stale, verdict.lost) == (0, DELETES, 0)
    assert "deleted" in verdict.examples[0]


def test_a_refused_probe_key_accuses_nobody(hosts: Hosts) -> None:
    # Of three rounds each key is refused in one.
    refusals = [number % 3 != 0 for number in range(SETS)]
    written, verdict = probed(hosts, refusals, [None] * 64)
    assert (written.refused, verdict) == (64, Verdict())


def test_a_probe_reads_the_workers_it_is_told(hosts: Hosts) -> None:
    host, _ = hosts.opened("honest", [])
    probe(host)
    read = host.ask(ProbeRead([0, 3]), Probed)
    # Nobody wrote the keys of worker 3: all but the deleted ones are missing.
    assert (read.keys, read.verdict.lost) == (128, 48)


# The replay.


def requests(keys: int, count: int, size: int = 300) -> list[Operation]:
    return [Operation(GET, position * position % keys, size) for position in range(count)]


def test_a_replay_stores_on_a_miss(hosts: Hosts) -> None:
    operations = requests(40, 2_500, 2_000)
    host, _ = hosts.opened("honest", one_worker(operations))
    distinct = len({operation.key for operation in operations})
    assert replay(host, 2_500) == Replayed(2_500 - distinct, 0, Verdict())


def test_a_replay_numbers_its_sets_by_their_position(hosts: Hosts) -> None:
    # Three hits come first: the set of key 2 is the fourth request and has the sequence 3.
    operations = [Operation(GET, key, 16) for key in (0, 0, 0, 2)]
    host = hosts.scripted([b"hit", b"hit", b"hit", None, True], one_worker(operations))
    assert replay(host, 4, between=2).hits == 3
    kept = (hosts.folder / "store" / "key-2").read_bytes()
    assert kept.hex() == "b735f219bc273e57528ade22a8a2bb15"


def test_a_replay_checks_its_hits(hosts: Hosts) -> None:
    host, _ = hosts.opened("wrong_value", one_worker(requests(40, 1_000)))
    replayed = replay(host, 1_000)
    assert replayed.verdict.wrong == replayed.hits // 50 > 0


def test_a_replay_counts_refusals(hosts: Hosts) -> None:
    host = hosts.scripted([None, False, None, True], one_worker(requests(1, 2)))
    assert replay(host, 2) == Replayed(0, 1, Verdict())


@only("native")
def test_a_slice_beyond_the_stream_is_refused(hosts: Hosts) -> None:
    host, _ = hosts.opened("honest", one_worker(requests(1, 1)))
    assert "no slice 0..2 of 1 requests" in host.ask(Replay(0, 0, 2), Failed).reason


# Several workers on one store.


@pytest.mark.parametrize("value", VALUES)
def test_workers_on_one_honest_store_accuse_nobody(hosts: Hosts, value: ValueKind) -> None:
    taken(hosts, "honest", value)
    workers, plan = hosts.together(3, "honest", mixed(3, value=value), value=value)
    for ran in run_mixes(workers, plan):
        assert (ran.done, ran.verdict) == (2_000, Verdict())
        assert sum(tally.count for tally in ran.actions.values()) == 2_000
        assert ran.elapsed_ns == ran.ended_ns - ran.started_ns
        # Some stream stores every key, so no miss is certainly right.
        assert ran.actions["get"].absent == 0
        assert ran.actions["get"].miss < ran.actions["get"].count


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(("name", "kind"), [("wrong_value", "wrong"), ("stale", "stale")])
def test_workers_catch_what_one_would(hosts: Hosts, name: str, kind: str, value: ValueKind) -> None:
    taken(hosts, name, value)
    workers, plan = hosts.together(3, name, mixed(3, value=value), value=value)
    verdict = Verdict()
    for ran in run_mixes(workers, plan):
        verdict.add(ran.verdict)
    assert (verdict.wrong > 0, verdict.stale > 0) == (kind == "wrong", kind == "stale")


def test_workers_read_each_others_probe_keys(hosts: Hosts) -> None:
    workers, _ = hosts.together(3, "honest", mixed(3))
    ask_all(workers, [ProbeWrite()] * 3, Probed)
    for read in ask_all(workers, [ProbeRead([0, 2])] * 3, Probed):
        assert (read.keys, read.verdict) == (128, Verdict())
