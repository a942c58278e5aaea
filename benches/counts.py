"""The instruction counts that are kept, to be compared with in review.

Owns their form and their file. Must not count.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from benches.places import ROOT

PATH = ROOT / "benches" / "instructions.json"

#: A change that is less is as likely the random key of the cache's file.
CHANGE_MIN = 0.005


class Counts(msgspec.Struct, frozen=True):
    """Instructions of an operation, by its name, and what they were counted with."""

    valgrind: str
    python: str
    rustc: str
    instructions: dict[str, float]


class CountsError(Exception):
    """The file is not one of counts; the message says why."""


def read(path: Path = PATH) -> Counts | None:
    """Return the counts that are kept, None without a file. Raises CountsError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Counts)
    except FileNotFoundError:
        return None
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise CountsError(f"{path.name} has no counts: {error}; remove it") from error


def write(counts: Counts, path: Path = PATH) -> None:
    """Keep counts."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(counts), indent=1) + b"\n")


def changes(before: Counts | None, now: Counts) -> dict[str, float]:
    """Return by which share of what it was each count has changed; nothing for new ones."""
    was = before.instructions if before else {}
    return {
        name: instructions / was[name] - 1
        for name, instructions in now.instructions.items()
        if name in was
    }
