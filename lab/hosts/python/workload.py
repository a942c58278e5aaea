"""What a worker needs beside the clock: blocks of operations, and which values may be answered.

Owns the keys and the tables of marks. Must not touch a store, or keep a value.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path

from lab.hosts.python.contract import Value
from lab.hosts.python.recorded import Origin, Phases
from lab.hosts.python.values import values_of
from lab.protocol import Load
from lab.stream import SET

_NOTHING: dict[Hashable, int | list[int]] = {}


@dataclass(frozen=True)
class Block:
    """Some operations in their order, the first of them with the sequence `base`.

    `values` has None where nothing is stored. A `texts` element is a new string, whose hash nobody
    has computed yet.
    """

    phase: int
    base: int
    verbs: bytes
    keys: list[int]
    texts: list[str]
    values: list[Value | None]


class Workload:
    """A worker's part of the recorded streams.

    For each key there is a table of the marks of all values that any worker ever stores under it,
    with their sequences: a list where several have the same mark, which values of a few bytes may.
    """

    def __init__(self, load: Load) -> None:
        self.seed = load.seed
        self.worker = load.worker
        self.workers = load.workers
        self.values = values_of(load.value, load.seed)
        self.phases = Phases(load.phases, load.worker)
        self._keys = Path(load.keys).read_bytes().splitlines()
        self._tables: dict[int, dict[Hashable, int | list[int]]] = {}
        self._stored_from: dict[int, int] = {}
        for (phase, _), recorded in self.phases.streams():
            operations = zip(recorded.verbs, recorded.keys, recorded.sizes, strict=True)
            for sequence, (verb, key, size) in enumerate(operations, recorded.base):
                if verb == SET:
                    self._stored_from.setdefault(key, phase)
                    self._expect(key, sequence, size)

    @property
    def key_count(self) -> int:
        """How many keys there are."""
        return len(self._keys)

    def key(self, number: int) -> str:
        """Return a new string for the key, whose hash nobody has computed yet."""
        return self._keys[number].decode("ascii")

    def is_stored_by(self, phase: int, key: int) -> bool:
        """Return whether a stream of `phase` or one before stores the key."""
        return self._stored_from.get(key, phase + 1) <= phase

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
        """Return the sequences of `key` whose value `answer` is, byte for byte, and their origins.

        There is more than one only for values of a few bytes. None when it is no value at all.
        """
        marks = self.values.marks(answer)
        if marks is None:
            return None
        table = self._tables.get(key, _NOTHING)
        found: int | list[int] = []
        for mark in marks:
            if mark in table:
                found = table[mark]
                break
        stored = []
        for sequence in (found,) if isinstance(found, int) else found:
            origin, size = self.phases.trace(sequence)
            if self.values.is_whole(answer, key, sequence, size):
                stored.append((sequence, origin))
        return stored

    def key_of(self, answer: object) -> str | None:
        """Search all keys for one that stores `answer`, and return it."""
        return next((self.key(key) for key in self._tables if self.stored(key, answer)), None)

    def _expect(self, key: int, sequence: int, size: int) -> None:
        mark = self.values.mark(key, sequence, size)
        table = self._tables.setdefault(key, {})
        there = table.setdefault(mark, sequence)
        if isinstance(there, list):
            there.append(sequence)
        elif there != sequence:
            table[mark] = [there, sequence]
