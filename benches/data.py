"""The keys and values of the benchmarks.

Owns how they are made, and the comparison of answers with them. Must not store or time anything.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from rig.stamps import WrongAnswerError

ENTRIES = 20_000
VALUE_BYTES = 160

# An odd number: its multiples visit every 128-bit number once, in scattered order.
_STEP = 0x9E3779B97F4A7C15F39CC0605CEDC835


def keys(count: int, first: int = 0) -> list[str]:
    """Return UUIDs of 36 characters, numbered from `first`."""
    return [str(uuid.UUID(int=number * _STEP % 2**128)) for number in range(first, first + count)]


def values(count: int, size: int = VALUE_BYTES, seed: int = 0) -> list[bytes]:
    """Return values of `size` random bytes, the same for the same seed."""
    draw = random.Random(seed).randbytes
    return [draw(size) for _ in range(count)]


def fresh(keys: Iterable[str]) -> list[str]:
    """Return equal keys that are new objects, whose hash Python has not computed."""
    return [key.encode().decode() for key in keys]


def require(who: str, got: Iterable[object], wanted: Sequence[object]) -> None:
    """Raise WrongAnswerError unless the answers of `who` are the wanted ones."""
    answers = list(islice(got, len(wanted) + 1))
    if answers == list(wanted):
        return
    if len(answers) != len(wanted):
        raise WrongAnswerError(f"{who} gave {len(answers):,} answers instead of {len(wanted):,}")
    number = next(
        i for i, pair in enumerate(zip(answers, wanted, strict=True)) if pair[0] != pair[1]
    )
    raise WrongAnswerError(
        f"{who} answered number {number:,} with {_shown(answers[number])} "
        f"instead of {_shown(wanted[number])}"
    )


def _shown(answer: object) -> str:
    text = repr(answer)
    return text if len(text) <= 60 else f"{text[:57]}..."


def get_all(get: Callable[[str], object]) -> Callable[[Sequence[str]], None]:
    """Return a loop that gets keys. The loop is part of the timing."""

    def work(keys: Sequence[str]) -> None:
        for key in keys:
            get(key)

    return work
