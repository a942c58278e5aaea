"""The inputs of all contestants of a variant: files of keys and of operation streams.

Owns those files, the bases of sequences, and the pace of a pass. Must not know who reads them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab import stream
from lab.protocol import Measure, PhaseOf, StreamOf
from lab.runner import streams
from lab.runner.catalogue import (
    CatalogueError,
    Contestant,
    Form,
    Part,
    Phase,
    PhasesSuite,
    Variant,
)
from lab.runner.session import Session

# Limits of the answers that are kept until the clock stops: those of a block, or, with several
# workers, those of a pass.
ANSWER_BYTES_MAX = 64 << 20
PASS_BYTES_MAX = 2 << 30
# The memory of a field of a complex value in a runtime.
FIELD_BYTES = 256
# The text of a field of a complex value.
COMPLEX_FIELD_BYTES = 28


@dataclass(frozen=True)
class PlannedPass:
    """One pass of a phase. `index` is its position in `phases` of a load request.

    `operations` counts those of one worker, including `warmup`. `verbs` has one byte for each
    operation of each stream.
    """

    phase: Phase
    measure: Measure
    index: int
    operations: int
    warmup: int
    verbs: list[bytes]


class Stored:
    """The keys that are ever stored, in order, with the size of the first value of each.

    Uses arrays, because there may be ten million keys.
    """

    def __init__(self) -> None:
        self.keys = array("I")
        self.sizes = array("I")
        self._seen = bytearray()

    def has(self, key: int) -> bool:
        """Return whether a key is ever stored."""
        return key < len(self._seen) and bool(self._seen[key])

    def noting(self, operations: Iterable[stream.Operation]) -> Iterator[stream.Operation]:
        """Yield the operations, and note each key that is stored for the first time."""
        for operation in operations:
            key = operation.key
            if operation.verb == stream.SET and not self.has(key):
                self._seen.extend(bytes(max(key + 1 - len(self._seen), 0)))
                self._seen[key] = True
                self.keys.append(key)
                self.sizes.append(operation.size)
            yield operation


@dataclass(frozen=True)
class Inputs:
    """The files of one variant of a part, and the passes over them.

    `payload` is the number of bytes of the keys and values in `stored`.
    """

    keys: Path
    phases: list[PhaseOf]
    passes: list[PlannedPass]
    stored: Stored
    payload: int


@contextmanager
def inputs(
    session: Session, suite: PhasesSuite, part: Part, variant: Variant, form: Form
) -> Iterator[Inputs]:
    """Write the keys and streams of a variant, and delete them at the end."""
    folder = session.desk.fresh("inputs")
    try:
        keys = folder / "keys.txt"
        # Each worker inserts keys with its own numbers, above all numbers used so far.
        new_from = part.keys_of(variant) + streams.keys_absent(part, variant)
        phases: list[PhaseOf] = []
        passes: list[PlannedPass] = []
        stored = Stored()
        base = 1
        for phase in part.phases:
            operations = streams.operations(phase, part, variant, form)
            measures: list[Measure] = ["untimed"] if phase.preload else [*phase.passes]
            for measure in measures:
                of_workers = []
                verbs = []
                for worker in range(1 if phase.preload else part.processes):
                    path = folder / f"{len(phases)}-{worker}.ops"
                    thrown = streams.dice(
                        session.seed,
                        suite.name,
                        part.name,
                        variant.name,
                        phase.name,
                        measure,
                        worker,
                    )
                    drawn = streams.draw(phase, part, variant, form, thrown, new_from)
                    written = stream.write(path, stored.noting(drawn))
                    verbs.append(written.verbs)
                    new_from = max(new_from, written.key_count)
                    of_workers.append(StreamOf(str(path), base))
                    base += operations
                passes.append(
                    PlannedPass(
                        phase,
                        measure,
                        len(phases),
                        operations,
                        0 if phase.preload else streams.warmup(phase, operations),
                        verbs,
                    )
                )
                phases.append(PhaseOf(f"{phase.name}/{measure}", of_workers))
        texts = (streams.key_text(part.key_shape, session.seed, key) for key in range(new_from))
        payload = sum(stored.sizes) * (COMPLEX_FIELD_BYTES if variant.value == "complex" else 1)
        with keys.open("w", encoding="ascii") as file:
            for key, text in enumerate(texts):
                file.write(f"{text}\n")
                payload += len(text) * stored.has(key)
        yield Inputs(keys, phases, passes, stored, payload)
    finally:
        session.desk.discard(folder)


@dataclass(frozen=True)
class Pace:
    """The operations between two readings of the clock (`block`) and two checks (`stretch`).

    `cores` is the number of cores that all workers share.
    """

    block: int
    stretch: int
    workers: int
    cores: int


def pace(
    planned: PlannedPass, contestant: Contestant, variant: Variant, workers: int, cores: int
) -> Pace:
    """Return the pace of a pass. Raises CatalogueError if the kept answers were too large.

    A block has whole batches. One worker checks its answers after each block. Several workers check
    them after the whole pass, so that no worker checks while others are measured.
    """
    largest = variant.sizes.largest * (FIELD_BYTES if variant.value == "complex" else 1)
    batch = planned.phase.batch
    block = min(planned.phase.block, contestant.block, ANSWER_BYTES_MAX // largest)
    block = max(block // batch, 1) * batch
    if workers == 1:
        return Pace(block, block, workers, cores)
    kept = workers * planned.operations * largest
    if kept > PASS_BYTES_MAX:
        raise CatalogueError(
            f"{workers} workers would keep {kept / 1e9:.1f} GB of answers in phase "
            f"{planned.phase.name!r}: use fewer operations or smaller values"
        )
    return Pace(block, planned.operations, workers, cores)
