"""What the checker calls wrong and stale, answer by answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import stream
from lab.hosts.python.values import derive
from lab.hosts.python.verify import Verifier
from lab.hosts.python.workload import Workload
from lab.protocol import Load, Tally
from lab.stream import DELETE, GET, SET, Operation

SEED = 5
LENGTH = 40

# The worker under test is 0: it sets key 0 twice, then deletes it, and gets it all along.
MINE = [
    Operation(GET, 0, 0),
    Operation(SET, 0, LENGTH),
    Operation(GET, 0, 0),
    Operation(SET, 0, LENGTH),
    Operation(GET, 0, 0),
    Operation(DELETE, 0, 0),
    Operation(GET, 0, 0),
]
OTHERS = [
    Operation(SET, 0, LENGTH),
    Operation(SET, 1, LENGTH),
    Operation(SET, 0, LENGTH),
    *[Operation(GET, 0, 0)] * 4,
]
FIRST_GET, FIRST_SET, SECOND_GET, SECOND_SET, THIRD_GET, DELETION, LAST_GET = range(7)


class Checked:
    """A worker's checker, fed by hand."""

    def __init__(self, folder: Path) -> None:
        paths = []
        for worker, operations in enumerate((MINE, OTHERS)):
            path = folder / f"{worker}.ops"
            stream.write(path, operations)
            paths.append(str(path))
        stream.write(folder / "preload.ops", [Operation(SET, 0, LENGTH), Operation(SET, 1, LENGTH)])
        load = Load(
            adapter="",
            distribution="",
            settings={},
            seed=SEED,
            worker=0,
            keys=2,
            key_format="{number}",
            preload=str(folder / "preload.ops"),
            streams=paths,
        )
        self.workload = Workload(load)
        self.prepared = self.workload.prepare("throughput")
        self.verifier = Verifier(self.workload)
        self.tallies = (Tally(), Tally(), Tally())

    def mine(self, position: int, key: int = 0) -> bytes:
        return derive(SEED, key, self.workload.sequence(0, 0, position), LENGTH)

    def other(self, position: int, key: int = 0) -> bytes:
        return derive(SEED, key, self.workload.sequence(0, 1, position), LENGTH)

    def preloaded(self, key: int = 0) -> bytes:
        return derive(SEED, key, 0, LENGTH)

    def answer(self, position: int, result: object) -> tuple[int, int]:
        """Check one answer and return (wrong, stale) so far."""
        self.verifier.check(self.prepared, position, [result], self.tallies)
        return self.verifier.verdict.wrong, self.verifier.verdict.stale


@pytest.fixture
def checked(tmp_path: Path) -> Checked:
    return Checked(tmp_path)


GOOD, WRONG, STALE = (0, 0), (1, 0), (0, 1)


def test_the_preloaded_value_is_right_at_first(checked: Checked) -> None:
    assert checked.answer(FIRST_GET, checked.preloaded()) == GOOD


def test_a_value_that_another_worker_stores_is_right(checked: Checked) -> None:
    assert checked.answer(FIRST_GET, checked.other(0)) == GOOD
    checked.answer(FIRST_SET, None)
    assert checked.answer(SECOND_GET, checked.other(2)) == GOOD


def test_a_miss_is_never_wrong(checked: Checked) -> None:
    assert checked.answer(FIRST_GET, None) == GOOD
    assert checked.tallies[GET].miss == 1


def test_a_flipped_bit_is_wrong(checked: Checked) -> None:
    value = checked.preloaded()
    assert checked.answer(FIRST_GET, value[:-1] + bytes([value[-1] ^ 1])) == WRONG
    assert checked.tallies[GET].wrong == 1
    assert "that nobody stored" in checked.verifier.verdict.examples[0]


def test_a_shortened_value_is_wrong(checked: Checked) -> None:
    assert checked.answer(FIRST_GET, checked.preloaded()[:-1]) == WRONG


def test_another_keys_value_is_wrong_and_named(checked: Checked) -> None:
    assert checked.answer(FIRST_GET, checked.other(1, key=1)) == WRONG
    assert "belong to the key '1'" in checked.verifier.verdict.examples[0]


@pytest.mark.parametrize("result", ["text", 7, bytearray(b"x"), False])
def test_anything_but_bytes_is_wrong(checked: Checked, result: object) -> None:
    assert checked.answer(FIRST_GET, result) == WRONG


def test_a_value_from_the_future_is_wrong(checked: Checked) -> None:
    assert checked.answer(FIRST_GET, checked.mine(FIRST_SET)) == WRONG


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


def test_an_older_value_of_the_same_other_worker_is_stale(checked: Checked) -> None:
    checked.answer(FIRST_GET, checked.other(2))
    assert checked.answer(SECOND_GET, checked.other(0)) == STALE


def test_a_deleted_value_is_stale(checked: Checked) -> None:
    checked.answer(SECOND_SET, None)
    checked.answer(DELETION, True)
    assert checked.answer(LAST_GET, checked.mine(SECOND_SET)) == STALE


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


def test_warming_up_is_checked_but_not_counted(checked: Checked) -> None:
    checked.verifier.check(checked.prepared, FIRST_GET, [b"nonsense"], None)
    assert checked.verifier.verdict.wrong == 1
    assert checked.tallies[GET].count == 0


def test_keys_are_equal_but_never_the_same_object(checked: Checked) -> None:
    first = checked.prepared.timed
    second = checked.workload.prepare("latency").timed
    keys = [checked.workload.key(1_000) for _ in range(2)]
    assert keys[0] == keys[1]
    assert keys[0] is not keys[1]
    assert [key for _, key, _ in first] == [key for _, key, _ in second]


def test_sequences_are_unique_and_know_their_writer(checked: Checked) -> None:
    workload = checked.workload
    seen = set()
    for number in range(2):
        for worker in range(2):
            for position in range(len(MINE)):
                sequence = workload.sequence(number, worker, position)
                assert workload.writer(sequence) == worker
                seen.add(sequence)
    assert len(seen) == 2 * 2 * len(MINE)
    assert 0 not in seen
