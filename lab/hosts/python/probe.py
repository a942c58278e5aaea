"""The probe: does the store keep what fits, return the latest value, and delete?

Owns the probe keys, which are not part of the measured workload. Must not run while anything is
timed. All workers write their own keys at the same time, far fewer than the store may hold. They
read after all have finished. The store must not evict anything yet, so a missing key was lost.
"""

from __future__ import annotations

from lab.hosts.python.contract import Store
from lab.hosts.python.values import values_of
from lab.protocol import EXAMPLES_MAX, Load, Probed, ValueKind, Verdict

KEYS_PER_WORKER = 64
SIZES: dict[ValueKind, int] = {"binary": 160, "complex": 5}

_NUMBER_FIRST = 2**32
_SEQUENCES = range(3)


class Prober:
    """One worker's probe."""

    def __init__(self, load: Load) -> None:
        self._values = values_of(load.value, load.seed)
        self._size = SIZES[load.value]
        self._worker = load.worker
        self._refused: set[int] = set()

    def write(self, store: Store) -> Probed:
        """Store each of this worker's keys three times, and delete every fourth key."""
        refused = 0
        self._refused.clear()
        for sequence in _SEQUENCES:
            for number in range(KEYS_PER_WORKER):
                value = self._value(self._worker, number, sequence)
                if store.set(_key(self._worker, number), value) is False:
                    refused += 1
                    self._refused.add(number)
        for number in filter(_is_deleted, range(KEYS_PER_WORKER)):
            store.delete(_key(self._worker, number))
        return Probed(KEYS_PER_WORKER, refused, Verdict())

    def read(self, store: Store, workers: list[int]) -> Probed:
        """Read the keys of `workers` and compare each with its last value.

        If a set of this worker's key was refused, only another key's value is a fault. Refusals of
        other workers' keys are unknown here.
        """
        verdict = Verdict()
        for worker in workers:
            for number in range(KEYS_PER_WORKER):
                result = store.get(_key(worker, number))
                refused = worker == self._worker and number in self._refused
                self._judge(verdict, worker, number, result, refused)
        return Probed(KEYS_PER_WORKER * len(workers), 0, verdict)

    def _value(self, worker: int, number: int, sequence: int) -> object:
        key = _NUMBER_FIRST + worker * KEYS_PER_WORKER + number
        return self._values.derive(key, sequence, self._size)

    def _judge(
        self, verdict: Verdict, worker: int, number: int, result: object, refused: bool
    ) -> None:
        key, deleted = _key(worker, number), _is_deleted(number)
        if result is None:
            if deleted or refused:
                return
            verdict.lost += 1
            example = f"{key!r} was stored and is missing, though the store was not full"
        elif result == self._value(worker, number, _SEQUENCES[-1]) and not deleted:
            return
        elif any(result == self._value(worker, number, sequence) for sequence in _SEQUENCES):
            if refused:
                return
            verdict.stale += 1
            example = f"{key!r} returned a value that was {'deleted' if deleted else 'overwritten'}"
        else:
            verdict.wrong += 1
            example = f"{key!r} returned something that was never stored under it"
        if len(verdict.examples) < EXAMPLES_MAX:
            verdict.examples.append(example)


def _key(worker: int, number: int) -> str:
    return f"probe-{worker}-{number}"


def _is_deleted(number: int) -> bool:
    return number % 4 == 3
