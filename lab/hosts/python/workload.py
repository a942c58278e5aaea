"""The inputs of a worker: blocks of operations, and the values that may be answered.

Owns the keys and the tables of marks. Must not touch a store, or keep a value.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from pathlib import Path

from lab.hosts.python.contract import Value
from lab.hosts.python.recorded import Origin, Phases
from lab.hosts.python.values import values_of
from lab.protocol import Load
from lab.stream import SET

_LINE = re.compile(rb"[^\n]*\n|[^\n]+$")
# A key with more values than this gets a table of marks when one of its answers is checked.
_FEW_VALUES = 4


@dataclass(frozen=True)
class Block:
    """Some operations in order; the first has the sequence `base`.

    `values` has None where nothing is stored. The elements of `texts` are new strings, whose hash
    is not yet computed.
    """

    phase: int
    base: int
    verbs: bytes
    keys: list[int]
    texts: list[str]
    values: list[Value | None]


class Workload:
    """The recorded streams, from the point of view of one worker.

    `_sequences` has the sequences of all sets by any worker, key by key; `_starts` says where those
    of a key begin. A value follows from its sequence, so neither values nor marks are kept. A key
    with many values gets a table of their marks; values of a few bytes may share a mark.
    """

    def __init__(self, load: Load) -> None:
        self.seed = load.seed
        self.worker = load.worker
        self.workers = load.workers
        self.values = values_of(load.value, load.seed)
        self.phases = Phases(load.phases, load.worker)
        self._texts = Path(load.keys).read_bytes()
        self._ends = array("Q", (found.end() for found in _LINE.finditer(self._texts)))
        self._starts, self._sequences = self._stored_by_key()
        self._tables: dict[int, dict[Hashable, list[int]]] = {}

    @property
    def key_count(self) -> int:
        """The number of keys."""
        return len(self._ends)

    def key(self, number: int) -> str:
        """Return a new string for the key, whose hash is not yet computed."""
        start = self._ends[number - 1] if number else 0
        return self._texts[start : self._ends[number]].decode("ascii").rstrip("\n")

    def is_stored_by(self, phase: int, key: int) -> bool:
        """Return whether a stream of `phase` or an earlier phase stores the key."""
        # Phases are in order, so the first sequence belongs to the first phase.
        sequences = self._sequences_of(key)
        return bool(sequences) and self.phases.trace(sequences[0])[0].phase <= phase

    def block(self, phase: int, start: int, stop: int) -> Block:
        """Return the worker's own operations from position `start` up to `stop`."""
        own = self.phases.own(phase)
        verbs, keys = own.verbs[start:stop], own.keys[start:stop].tolist()
        base = own.base + start
        operations = zip(verbs, keys, own.sizes[start:stop], strict=True)
        values = [
            self.values.derive(key, sequence, size) if verb == SET else None
            for sequence, (verb, key, size) in enumerate(operations, base)
        ]
        return Block(phase, base, verbs, keys, [self.key(key) for key in keys], values)

    def stored(self, key: int, answer: object) -> list[tuple[int, Origin]] | None:
        """Return the sequences of `key` whose value equals `answer`, with their origins.

        Only values of a few bytes can have several. None if `answer` is not a value at all.
        """
        marks = self.values.marks(answer)
        if marks is None:
            return None
        stored = []
        for sequence in self._marked(key, marks):
            origin, size = self.phases.trace(sequence)
            if self.values.is_whole(answer, key, sequence, size):
                stored.append((sequence, origin))
        return stored

    def key_of(self, answer: object) -> str | None:
        """Search all keys for one that stores `answer`, and return it."""
        keys = range(self.key_count)
        return next((self.key(key) for key in keys if self.stored(key, answer)), None)

    def _stored_by_key(self) -> tuple[array[int], array[int]]:
        """Return where the sequences of each key begin, and all sequences ordered by key."""
        next_ = array("Q", bytes(8 * (self.key_count + 1)))
        for _, recorded in self.phases.streams():
            for verb, key in zip(recorded.verbs, recorded.keys, strict=True):
                if verb == SET:
                    next_[key] += 1
        first = 0
        for key, count in enumerate(next_):
            next_[key] = first
            first += count
        starts = next_[:]
        sequences = array("Q", bytes(8 * first))
        for _, recorded in self.phases.streams():
            operations = zip(recorded.verbs, recorded.keys, strict=True)
            for sequence, (verb, key) in enumerate(operations, recorded.base):
                if verb == SET:
                    sequences[next_[key]] = sequence
                    next_[key] += 1
        return starts, sequences

    def _sequences_of(self, key: int) -> array[int]:
        return self._sequences[self._starts[key] : self._starts[key + 1]]

    def _marked(self, key: int, marks: Collection[Hashable]) -> list[int]:
        """Return the sequences of a key whose values have one of the marks."""
        sequences = self._sequences_of(key)
        if len(sequences) <= _FEW_VALUES:
            return [sequence for sequence in sequences if self._mark(key, sequence) in marks]
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = {}
            for sequence in sequences:
                table.setdefault(self._mark(key, sequence), []).append(sequence)
        return next((table[mark] for mark in marks if mark in table), [])

    def _mark(self, key: int, sequence: int) -> Hashable:
        return self.values.mark(key, sequence, self.phases.trace(sequence)[1])
