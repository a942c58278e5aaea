"""The instruction counts that are kept, to be compared with in review.

Owns their form and their file. Must not count.
"""

from __future__ import annotations

import msgspec

from rig import kept
from rig.sources import ROOT

PATH = ROOT / "benches" / "instructions.json"

#: A change that is less is as likely the random key of the cache's file.
CHANGE_MIN = 0.005


class Counts(msgspec.Struct, frozen=True):
    """Instructions of an operation, by its name, and what they were counted with."""

    valgrind: str
    python: str
    rustc: str
    instructions: dict[str, float]


def read() -> Counts | None:
    """Return the counts that are kept, None without a file. Raises RecordError."""
    return kept.read(PATH, Counts)


def changes(before: Counts | None, now: Counts) -> dict[str, float]:
    """Return by which share of what it was each count has changed; nothing for new ones."""
    was = before.instructions if before else {}
    return {
        name: instructions / was[name] - 1
        for name, instructions in now.instructions.items()
        if name in was
    }
