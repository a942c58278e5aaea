"""The recorded streams of a run, and the stream of each sequence.

Owns the numbering of sequences, and which worker has which stream of a phase. Must not know keys,
values or stores.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from lab import stream
from lab.protocol import PhaseOf, StreamOf


@dataclass(frozen=True)
class Recorded:
    """One stream in columns. The operation at `position` has the sequence `base + position`."""

    base: int
    verbs: bytes
    keys: array[int]
    sizes: array[int]

    @property
    def end(self) -> int:
        """The first sequence after this stream."""
        return self.base + len(self.verbs)


class Origin(NamedTuple):
    """The origin of a sequence: the phase, and the number of the stream in the phase."""

    phase: int
    stream: int


class Phases:
    """All streams of a run, from the point of view of `worker`."""

    def __init__(self, phases: list[PhaseOf], worker: int) -> None:
        self._worker = worker
        self._phases = [[_read(one) for one in phase.streams] for phase in phases]
        ranges = [
            (recorded.base, recorded.end, Origin(phase, number))
            for phase, streams in enumerate(self._phases)
            for number, recorded in enumerate(streams)
            if recorded.verbs
        ]
        ranges.sort()
        for (_, end, _), (base, _, _) in pairwise(ranges):
            if base < end:
                raise ValueError(f"the sequence {base} belongs to two streams")
        self._bases = [base for base, _, _ in ranges]
        self._origins = [origin for _, _, origin in ranges]

    def streams(self) -> list[tuple[Origin, Recorded]]:
        """Return every stream of every phase."""
        return [
            (Origin(phase, number), recorded)
            for phase, streams in enumerate(self._phases)
            for number, recorded in enumerate(streams)
        ]

    def width(self, phase: int) -> int:
        """Return how many streams a phase has."""
        return len(self._phases[phase])

    def own_number(self, phase: int) -> int:
        """Return the number of the stream of a phase that this worker runs."""
        return self._worker if self.width(phase) > 1 else 0

    def own(self, phase: int) -> Recorded:
        """Return the stream of a phase that this worker runs."""
        return self._phases[phase][self.own_number(phase)]

    def trace(self, sequence: int) -> tuple[Origin, int]:
        """Return the origin of a sequence of this run, and the size of its value."""
        origin = self._origins[bisect_right(self._bases, sequence) - 1]
        recorded = self._phases[origin.phase][origin.stream]
        return origin, recorded.sizes[sequence - recorded.base]


def _read(one: StreamOf) -> Recorded:
    verbs, keys, sizes = stream.columns(Path(one.path))
    return Recorded(one.base, verbs, keys, sizes)
