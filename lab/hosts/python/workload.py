"""What a worker needs before the clock starts: its operations, their keys, all expected values.

Owns the numbering of sequences (PROTOCOL.md) and the table of values that may be answered. Must not
touch a store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab import stream
from lab.hosts.python.values import derive
from lab.protocol import Load, Measure

PASSES: tuple[Measure, ...] = ("throughput", "latency")
PRELOADED = 0
AMBIGUOUS = -1

Timed = tuple[int, str, bytes]


@dataclass
class Prepared:
    """One pass.

    `timed` is what the clock sees: verb, key, value. `known` has key number and sequence of each.
    """

    timed: list[Timed]
    known: list[tuple[int, int]]


class Workload:
    """A worker's part of the recorded streams.

    tables[key] maps each value that any worker ever stores under the key to its sequence, or to
    AMBIGUOUS where two sequences have the same value (possible for values of a few bytes only).
    """

    def __init__(self, load: Load) -> None:
        self.seed = load.seed
        self.worker = load.worker
        self.workers = len(load.streams)
        self.key_format = load.key_format
        self.tables: list[dict[bytes, int]] = [{} for _ in range(load.keys)]
        self._streams = [list(stream.read(Path(path))) for path in load.streams]
        self.stream_length = len(self._streams[0])
        self._derived: dict[int, bytes] = {}
        self._preloaded: list[tuple[int, bytes]] = []
        for operation in stream.read(Path(load.preload)) if load.preload else ():
            value = self._expect(operation.key, PRELOADED, operation.length)
            self._preloaded.append((operation.key, value))
        for number in range(len(PASSES)):
            for worker, operations in enumerate(self._streams):
                own = worker == self.worker
                for position, operation in enumerate(operations):
                    if operation.verb == stream.SET:
                        sequence = self.sequence(number, worker, position)
                        value = self._expect(operation.key, sequence, operation.length)
                        if own:
                            self._derived[sequence] = value

    @property
    def own(self) -> list[stream.Operation]:
        """The operations of this worker."""
        return self._streams[self.worker]

    def sequence(self, number: int, worker: int, position: int) -> int:
        """Return the sequence of an operation: unique in the run, rising for each worker."""
        return 1 + (number * self.workers + worker) * self.stream_length + position

    def writer(self, sequence: int) -> int:
        """Return the worker that stores `sequence`, or the number of workers for the preload."""
        if sequence == PRELOADED:
            return self.workers
        return (sequence - 1) // self.stream_length % self.workers

    def key(self, number: int) -> str:
        """Return a new string for the key, whose hash nobody has computed yet."""
        return self.key_format.format(number=number)

    def preloaded(self) -> Iterator[tuple[str, bytes]]:
        """Yield the key and the value of each entry that is there before the clock starts."""
        for key, value in self._preloaded:
            yield self.key(key), value

    def prepare(self, measure: Measure) -> Prepared:
        """Return the operations of one pass, each with its own key object."""
        number = PASSES.index(measure)
        timed, known = [], []
        for position, operation in enumerate(self.own):
            sequence = self.sequence(number, self.worker, position)
            value = self._derived.get(sequence, b"")
            timed.append((operation.verb, self.key(operation.key), value))
            known.append((operation.key, sequence))
        return Prepared(timed, known)

    def _expect(self, key: int, sequence: int, length: int) -> bytes:
        value = derive(self.seed, key, sequence, length)
        table = self.tables[key]
        table[value] = AMBIGUOUS if value in table else sequence
        return value
