"""The kept instruction counts, with which a review compares new ones.

Owns their format and their file. Must not count.
"""

from __future__ import annotations

import msgspec

from rig import kept
from rig.sources import ROOT

PATH = ROOT / "benches" / "instructions.json"

#: The random hash key of a cache file causes smaller changes.
CHANGE_MIN = 0.005


class Counts(msgspec.Struct, frozen=True):
    """The instructions of each operation, and the versions of the tools that counted them."""

    valgrind: str
    python: str
    rustc: str
    instructions: dict[str, float]


def read() -> Counts | None:
    """Return the kept counts, None if the file does not exist. Raises RecordError."""
    return kept.read(PATH, Counts)


def changes(before: Counts | None, now: Counts) -> dict[str, float]:
    """Return the relative change of each count, for operations that have an earlier count."""
    was = before.instructions if before else {}
    return {
        name: instructions / was[name] - 1
        for name, instructions in now.instructions.items()
        if name in was
    }
