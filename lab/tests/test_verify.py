"""What the checker calls wrong, stale and absent, answer by answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lab import stream
from lab.hosts.python.contract import Value
from lab.hosts.python.verify import Verifier
from lab.hosts.python.workload import Workload
from lab.protocol import Load, PhaseOf, StreamOf, Tally, ValueKind
from lab.stream import DELETE, GET, SET, Operation

SEED = 5
SIZE = 100

Phase = Sequence[Sequence[Operation]]


def get(key: int = 0) -> Operation:
    return Operation(GET, key, 0)


def put(key: int = 0, size: int = SIZE) -> Operation:
    return Operation(SET, key, size)


def delete(key: int = 0) -> Operation:
    return Operation(DELETE, key, 0)


# Two workers, the one under test is 0. It sets key 0 twice, then deletes it, and gets it all along.
FILL, MIX, LAST = range(3)
PRELOAD = [put(0), put(1)]
MINE = [get(), put(), get(), put(), get(), delete(), get()]
OTHERS = [put(0), put(1), put(0), *[get()] * 4]
FIRST_GET, FIRST_SET, SECOND_GET, SECOND_SET, THIRD_GET, DELETION, LAST_GET = range(7)
AGAIN = [get(), put(), get(), put(2)]
OTHERS_AGAIN = [put(0), *[get()] * 3]
TWO_WORKERS: Sequence[Phase] = ([PRELOAD], [MINE, OTHERS], [AGAIN, OTHERS_AGAIN])

GOOD, WRONG, STALE = (0, 0), (1, 0), (0, 1)


class Checked:
    """A worker's checker, fed by hand."""

    def __init__(
        self, folder: Path, phases: Sequence[Phase], kind: ValueKind = "binary", workers: int = 2
    ) -> None:
        keys = folder / "keys"
        keys.write_text("zero\none\ntwo\nthree\n", "ascii")
        base, described = 0, []
        for number, streams in enumerate(phases):
            named = []
            for worker, operations in enumerate(streams):
                path = folder / f"{number}-{worker}.ops"
                stream.write(path, operations)
                named.append(StreamOf(str(path), base))
                base += len(operations)
            described.append(PhaseOf(f"phase {number}", named))
        self.streams = phases
        self.bases = [[one.base for one in phase.streams] for phase in described]
        self.workload = Workload(
            Load(
                adapter="",
                distribution="",
                settings={},
                seed=SEED,
                worker=0,
                workers=workers,
                keys=str(keys),
                value=kind,
                phases=described,
            )
        )
        self.verifier = Verifier(self.workload)
        self.tallies = (Tally(), Tally(), Tally())

    def value(self, phase: int, worker: int, position: int) -> Value:
        """Return what a stream stores at a position."""
        _, key, size = self.streams[phase][worker][position]
        return self.workload.values.derive(key, self.bases[phase][worker] + position, size)

    def mine(self, position: int, phase: int = MIX) -> Value:
        return self.value(phase, 0, position)

    def other(self, position: int, phase: int = MIX) -> Value:
        return self.value(phase, 1, position)

    def preloaded(self, key: int = 0) -> Value:
        return self.value(FILL, 0, key)

    def answer(self, position: int, result: object, phase: int = MIX) -> tuple[int, int]:
        """Check one answer and return (wrong, stale) so far."""
        block = self.workload.block(phase, position, position + 1)
        self.verifier.check(block, [result], self.tallies)
        return self.verifier.verdict.wrong, self.verifier.verdict.stale

    @property
    def example(self) -> str:
        return self.verifier.verdict.examples[0]


@pytest.fixture
def checked(tmp_path: Path) -> Checked:
    return Checked(tmp_path, TWO_WORKERS)


def as_bytes(value: Value) -> bytes:
    assert isinstance(value, bytes)
    return value


# What is right.


def test_the_preloaded_value_is_right_at_first(checked: Checked) -> None:
    assert checked.answer(FIRST_GET, checked.preloaded()) == GOOD


def test_a_value_that_another_worker_stores_is_right(checked: Checked) -> None:
    assert checked.answer(FIRST_GET, checked.other(0)) == GOOD
    checked.answer(FIRST_SET, None)
    assert checked.answer(SECOND_GET, checked.other(2)) == GOOD


def test_a_miss_is_never_wrong(checked: Checked) -> None:
    assert checked.answer(FIRST_GET, None) == GOOD
    assert checked.tallies[GET].miss == 1


def test_a_value_of_an_earlier_phase_is_right_as_long_as_nobody_is_seen_to_write(
    checked: Checked,
) -> None:
    assert checked.answer(0, checked.preloaded(), LAST) == GOOD


# What is wrong.


@pytest.mark.parametrize("at", [0, 63, 64, SIZE - 1])
def test_a_flipped_bit_is_wrong(checked: Checked, at: int) -> None:
    value = as_bytes(checked.preloaded())
    spoilt = value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
    assert checked.answer(FIRST_GET, spoilt) == WRONG
    assert checked.tallies[GET].wrong == 1
    assert checked.example == "get('zero') answered 100 bytes that nobody stored"


@pytest.mark.parametrize("size", [0, 1, 64, SIZE - 1])
def test_a_shortened_value_is_wrong(checked: Checked, size: int) -> None:
    assert checked.answer(FIRST_GET, as_bytes(checked.preloaded())[:size]) == WRONG


def test_a_lengthened_value_is_wrong(checked: Checked) -> None:
    assert checked.answer(FIRST_GET, as_bytes(checked.preloaded()) + b"\0") == WRONG


def test_another_keys_value_is_wrong_and_named(checked: Checked) -> None:
    assert checked.answer(FIRST_GET, checked.other(1)) == WRONG
    assert checked.example == "get('zero') answered 100 bytes that belong to the key 'one'"


@pytest.mark.parametrize("result", ["text", 7, bytearray(b"x"), False, {"a": "b"}])
def test_anything_but_bytes_is_wrong(checked: Checked, result: object) -> None:
    assert checked.answer(FIRST_GET, result) == WRONG
    assert type(result).__name__ in checked.example


def test_a_value_from_the_future_is_wrong(checked: Checked) -> None:
    assert checked.answer(FIRST_GET, checked.mine(FIRST_SET)) == WRONG


@pytest.mark.parametrize("worker", [0, 1])
def test_a_value_of_a_later_phase_is_wrong(checked: Checked, worker: int) -> None:
    assert checked.answer(FIRST_GET, checked.value(LAST, worker, 1 - worker)) == WRONG


def test_a_value_whose_set_was_refused_is_wrong(checked: Checked) -> None:
    checked.answer(FIRST_SET, False)
    assert checked.answer(SECOND_GET, checked.mine(FIRST_SET)) == WRONG


# What is stale.


def test_an_own_overwritten_value_is_stale(checked: Checked) -> None:
    checked.answer(FIRST_SET, None)
    assert checked.answer(SECOND_GET, checked.mine(FIRST_SET)) == GOOD
    checked.answer(SECOND_SET, True)
    assert checked.answer(THIRD_GET, checked.mine(FIRST_SET)) == STALE


def test_the_preloaded_value_is_stale_after_a_write(checked: Checked) -> None:
    checked.answer(FIRST_SET, None)
    assert checked.answer(SECOND_GET, checked.preloaded()) == STALE


def test_the_preloaded_value_is_stale_after_another_was_seen(checked: Checked) -> None:
    checked.answer(FIRST_GET, checked.other(0))
    assert checked.answer(SECOND_GET, checked.preloaded()) == STALE


def test_whoever_ran_the_preload_knows_its_order(tmp_path: Path) -> None:
    checked = Checked(tmp_path, ([[put(0), put(0)]], [[get()], [get()]]))
    checked.answer(0, None, FILL)
    checked.answer(1, None, FILL)
    assert checked.answer(0, checked.value(FILL, 0, 1), MIX) == GOOD
    assert checked.answer(0, checked.value(FILL, 0, 0), MIX) == STALE


def test_an_older_value_of_the_same_other_worker_is_stale(checked: Checked) -> None:
    checked.answer(FIRST_GET, checked.other(2))
    assert checked.answer(SECOND_GET, checked.other(0)) == STALE


def test_a_deleted_value_is_stale(checked: Checked) -> None:
    checked.answer(SECOND_SET, None)
    checked.answer(DELETION, True)
    assert checked.answer(LAST_GET, checked.mine(SECOND_SET)) == STALE


def test_a_value_of_an_earlier_phase_is_stale_after_a_write_in_a_later_one(
    checked: Checked,
) -> None:
    checked.answer(1, None, LAST)
    # The other worker's phase had ended before this one began.
    assert checked.answer(2, checked.other(2), LAST) == STALE


def test_a_value_of_an_earlier_phase_is_stale_after_one_of_a_later_was_seen(
    checked: Checked,
) -> None:
    checked.answer(0, checked.other(0, LAST), LAST)
    assert checked.answer(2, checked.mine(SECOND_SET), LAST) == STALE


# What was refused, or may have been.


def test_a_refused_set_leaves_the_old_value_right(checked: Checked) -> None:
    checked.answer(FIRST_SET, None)
    checked.answer(SECOND_SET, False)
    assert checked.tallies[SET].miss == 1
    assert checked.answer(THIRD_GET, checked.mine(FIRST_SET)) == GOOD


def test_a_delete_that_found_nothing_accuses_nobody(checked: Checked) -> None:
    checked.answer(SECOND_SET, None)
    checked.answer(DELETION, False)
    assert checked.tallies[DELETE].miss == 1
    assert checked.answer(LAST_GET, checked.mine(SECOND_SET)) == GOOD


# What a miss is.


def absent(checked: Checked, position: int, phase: int) -> bool:
    """Answer a get with a miss, and return whether that was right."""
    before = checked.tallies[GET].absent
    checked.answer(position, None, phase)
    return checked.tallies[GET].absent > before


def test_with_one_worker_a_miss_is_right_where_nothing_can_be(tmp_path: Path) -> None:
    operations = [get(), put(), get(), delete(), get(), put(), get(), put(), get(), delete(), get()]
    checked = Checked(tmp_path, [[operations]], workers=1)
    assert absent(checked, 0, 0)
    checked.answer(1, None, 0)
    assert not absent(checked, 2, 0)
    checked.answer(3, True, 0)
    assert absent(checked, 4, 0)
    # A refused set asked for it all the same.
    checked.answer(5, False, 0)
    assert not absent(checked, 6, 0)
    checked.answer(7, None, 0)
    assert not absent(checked, 8, 0)
    # It had been evicted; whether it was or was not there, it is not now.
    checked.answer(9, False, 0)
    assert absent(checked, 10, 0)
    assert checked.tallies[GET].miss == 6


def test_a_refused_set_may_have_cost_the_old_value(tmp_path: Path) -> None:
    checked = Checked(tmp_path, [[[put(), put(), get()]]], workers=1)
    checked.answer(0, None, 0)
    checked.answer(1, False, 0)
    assert not absent(checked, 2, 0)


def test_with_several_workers_a_miss_is_right_where_nobody_has_stored(tmp_path: Path) -> None:
    phases = ([[put(0)]], [[get(0), get(1), get(2)], [put(1)]], [[get(2)], [put(2)]])
    checked = Checked(tmp_path, phases)
    assert not absent(checked, 0, MIX)
    # The other worker may have stored it by now.
    assert not absent(checked, 1, MIX)
    assert absent(checked, 2, MIX)
    assert not absent(checked, 0, LAST)


# One worker.


def test_with_one_worker_only_the_value_stored_last_is_right(tmp_path: Path) -> None:
    phases = ([[put(), put(), get(), get()]], [[get(), get()]])
    checked = Checked(tmp_path, phases, workers=1)
    checked.answer(0, None, 0)
    checked.answer(1, None, 0)
    assert checked.answer(2, checked.value(0, 0, 1), 0) == GOOD
    assert checked.answer(0, checked.value(0, 0, 1), 1) == GOOD
    assert checked.answer(1, checked.value(0, 0, 0), 1) == STALE


# Short values, of which several sequences may have the same.


def test_a_short_value_is_right_if_any_of_its_sequences_is(tmp_path: Path) -> None:
    operations = [put(0, 1) for _ in range(3_000)] + [get(), get()]
    checked = Checked(tmp_path, [[operations]], workers=1)
    block = checked.workload.block(0, 0, 3_000)
    checked.verifier.check(block, [None] * 3_000, checked.tallies)
    last = block.values[-1]
    assert sum(value == last for value in block.values) > 1
    assert checked.answer(3_000, last, 0) == GOOD
    assert checked.verifier.verdict.weak == 1
    other = next(value for value in block.values if value != last)
    assert checked.answer(3_001, other, 0) == STALE


def test_a_short_value_that_comes_again_later_is_right_now(tmp_path: Path) -> None:
    operations = [put(0, 1), get(), *[put(0, 1) for _ in range(3_000)]]
    checked = Checked(tmp_path, [[operations]], workers=1)
    first = checked.value(0, 0, 0)
    assert first in checked.workload.block(0, 2, 3_002).values
    checked.answer(0, None, 0)
    assert checked.answer(1, first, 0) == GOOD


# Complex values.


def test_a_complex_value_is_right_in_any_order(tmp_path: Path) -> None:
    checked = Checked(tmp_path, ([[put(0, 5)]], [[get(), get()], [get()]]), "complex")
    value = checked.preloaded()
    assert isinstance(value, dict)
    turned = dict(reversed(list(value.items())))
    assert list(turned) != list(value)
    assert checked.answer(0, turned) == GOOD
    assert checked.answer(1, dict(list(value.items())[1:])) == WRONG
    assert checked.example == "get('zero') answered 4 fields that nobody stored"


def test_bytes_are_no_complex_value(tmp_path: Path) -> None:
    checked = Checked(tmp_path, ([[put(0, 5)]], [[get()], [get()]]), "complex")
    assert checked.answer(0, b"bytes") == WRONG


# What is prepared.


def test_warming_up_is_checked_but_not_counted(checked: Checked) -> None:
    block = checked.workload.block(MIX, FIRST_GET, FIRST_GET + 1)
    checked.verifier.check(block, [b"nonsense"], None)
    assert checked.verifier.verdict.wrong == 1
    assert checked.tallies[GET].count == 0


def test_keys_are_equal_but_never_the_same_object(checked: Checked) -> None:
    first = checked.workload.block(MIX, 0, 3).texts
    second = checked.workload.block(MIX, 0, 3).texts
    assert first == second == ["zero"] * 3
    assert len({id(key) for key in first + second}) == 6


def test_values_are_derived_for_sets_alone(checked: Checked) -> None:
    block = checked.workload.block(MIX, 0, len(MINE))
    expected = [checked.mine(at) if one.verb == SET else None for at, one in enumerate(MINE)]
    assert block.values == expected


def test_sequences_know_their_stream_and_size(checked: Checked) -> None:
    for phase, streams in enumerate(TWO_WORKERS):
        for worker, operations in enumerate(streams):
            for position, operation in enumerate(operations):
                sequence = checked.bases[phase][worker] + position
                traced = checked.workload.phases.trace(sequence)
                assert traced == ((phase, worker), operation.size)


def test_a_sequence_of_two_streams_is_refused(tmp_path: Path) -> None:
    load = Checked(tmp_path, TWO_WORKERS).workload
    path = tmp_path / "0-0.ops"
    phases = [PhaseOf("a", [StreamOf(str(path), 0)]), PhaseOf("b", [StreamOf(str(path), 1)])]
    with pytest.raises(ValueError, match="the sequence 1 belongs to two streams"):
        type(load.phases)(phases, worker=0)
