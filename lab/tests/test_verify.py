"""The inputs of the Python host's checker, in addition to the rules of all hosts.

The rules are in `answer_rules.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lab import stream
from lab.hosts.python.contract import Value
from lab.hosts.python.verify import Verifier
from lab.hosts.python.workload import Workload
from lab.protocol import Load, PhaseOf, StreamOf, Tally, ValueKind
from lab.stream import GET, SET, Operation
from lab.tests.answer_rules import FILL, FIRST_GET, MIX, PHASES, get, put

SEED = 5

Phase = Sequence[Sequence[Operation]]


GOOD, WRONG, STALE = (0, 0), (1, 0), (0, 1)


class Checked:
    """A worker's checker, called directly."""

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
        """Return the value that a stream stores at a position."""
        _, key, size = self.streams[phase][worker][position]
        return self.workload.values.derive(key, self.bases[phase][worker] + position, size)

    def mine(self, position: int) -> Value:
        return self.value(MIX, 0, position)

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
    return Checked(tmp_path, PHASES)


def as_bytes(value: Value) -> bytes:
    assert isinstance(value, bytes)
    return value


# Wrong answers.


def test_a_lengthened_value_is_wrong(checked: Checked) -> None:
    assert checked.answer(FIRST_GET, as_bytes(checked.preloaded()) + b"\0") == WRONG


@pytest.mark.parametrize("result", ["text", 7, bytearray(b"x"), False, {"a": "b"}])
def test_anything_but_bytes_is_wrong(checked: Checked, result: object) -> None:
    assert checked.answer(FIRST_GET, result) == WRONG
    assert type(result).__name__ in checked.example


# Short values, which several sequences may share.


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
    assert checked.example == "get('zero') returned 4 fields that were never stored"


def test_bytes_are_no_complex_value(tmp_path: Path) -> None:
    checked = Checked(tmp_path, ([[put(0, 5)]], [[get()], [get()]]), "complex")
    assert checked.answer(0, b"bytes") == WRONG


# Inputs.


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
    block = checked.workload.block(MIX, 0, len(PHASES[MIX][0]))
    expected = [
        checked.mine(at) if one.verb == SET else None for at, one in enumerate(PHASES[MIX][0])
    ]
    assert block.values == expected


def test_sequences_know_their_stream_and_size(checked: Checked) -> None:
    for phase, streams in enumerate(PHASES):
        for worker, operations in enumerate(streams):
            for position, operation in enumerate(operations):
                sequence = checked.bases[phase][worker] + position
                traced = checked.workload.phases.trace(sequence)
                assert traced == ((phase, worker), operation.size)


def test_a_sequence_of_two_streams_is_refused(tmp_path: Path) -> None:
    load = Checked(tmp_path, PHASES).workload
    path = tmp_path / "0-0.ops"
    phases = [PhaseOf("a", [StreamOf(str(path), 0)]), PhaseOf("b", [StreamOf(str(path), 1)])]
    with pytest.raises(ValueError, match="the sequence 1 belongs to two streams"):
        type(load.phases)(phases, worker=0)
