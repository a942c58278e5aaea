"""S8: how the cost of operations grows with a cache.

Gets draw their keys at random among all, so that a large cache is not measured by the few entries
in the CPU cache. The dict holds the same keys and values, an object for each. One pass over all
entries comes first. The stripped program is S1's.

Sets store new keys into full caches: caches of several sizes, and a cache that was filled ten times
over, compared with one that was just filled.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tuckbox import Cache

from benches import limits
from benches.data import VALUE_BYTES, fresh, get_all, keys, require, values
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns
from rig.stamps import WrongAnswerError

COUNTS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
_COUNT_MAX_QUICK = 100_000
_COUNT_MAX_FULL_CACHE = 1_000_000
_ASKED = 20_000
_STORED = 2_000
_SIZE_MIN = 1 << 26
# Bounds of the bytes of an entry, with its share of the index and of metadata.
_ENTRY_BYTES_MAX = 256
_ENTRY_BYTES_MIN = 225
_FILLINGS_YOUNG, _FILLINGS_OLD = 1.5, 10

#: The two curves of a get.
SAME, FRESH = "get, same keys", "get, fresh keys"


def measure(conditions: Conditions) -> list[Figure]:
    """Measure gets and sets in caches of up to ten million entries."""
    counts = [one for one in COUNTS if not conditions.is_quick or one <= _COUNT_MAX_QUICK]
    figures: list[Figure] = []
    # The fewest first, so that no larger data is in memory meanwhile.
    for number in counts:
        conditions.progress(f"making {number:,} keys and values")
        names, stored = keys(number), values_of(number)
        conditions.progress(f"gets among {number:,} entries")
        figures += _figures(gets(conditions, names, stored), number)
        del names, stored
    full = [one for one in counts if one <= _COUNT_MAX_FULL_CACHE]
    conditions.progress("sets into full caches")
    return [*figures, *_sets_by_size(conditions, full), _sets_by_age(conditions, full[-1])]


@dataclass(frozen=True)
class Gets:
    """Samples of gets: by Tuckbox, a dict, and the stripped program."""

    same: tuple[float, ...]
    same_dict: tuple[float, ...]
    same_stripped: tuple[float, ...]
    fresh: tuple[float, ...]
    fresh_dict: tuple[float, ...]
    fresh_stripped: tuple[float, ...]
    same_verified: tuple[float, ...] = ()
    """By the stripped program that compares the key and verifies the record, if asked for."""


def values_of(number: int) -> list[bytes]:
    """Return values of random bytes, cut from a pool: drawing each would take minutes."""
    dice = random.Random(number)
    (pool,) = values(1, 1 << 20)
    starts = len(pool) - VALUE_BYTES
    begin = (int(dice.random() * starts) for _ in range(number))
    return [pool[start : start + VALUE_BYTES] for start in begin]


def gets(
    conditions: Conditions, names: list[str], stored: list[bytes], *, verified: bool = False
) -> Gets:
    """Measure gets of random keys. Raises WrongAnswerError.

    Args:
        conditions: The conditions.
        names: The keys.
        stored: Their values.
        verified: Whether to measure `Gets.same_verified`.
    """
    table = dict(zip(names, stored, strict=True))
    stripped = limits.reader(table)
    dice = random.Random(1)
    path = conditions.tmpfs / "cache.tuck"

    def drawn() -> list[str]:
        return dice.choices(names, k=_ASKED)

    def drawn_fresh() -> list[str]:
        return fresh(drawn())

    with Cache(path, size=max(len(names) * _ENTRY_BYTES_MAX, _SIZE_MIN)) as cache:
        for name, value in table.items():
            cache.set(name, value)
        for name, value in table.items():
            if cache.get(name) != value:
                raise WrongAnswerError(f"Tuckbox with {len(names):,} entries does not have {name}")

        def turn(who: str, get: Callable[[str], object], asked: Callable[[], list[str]]) -> Turn:
            def check(given: Sequence[str]) -> None:
                require(who, map(get, given), [table[name] for name in given])

            return Turn(_ASKED, get_all(get), asked, check)

        turns = [
            turn("Tuckbox", cache.get, drawn),
            turn("dict", table.get, drawn),
            turn("the stripped program", stripped.get, drawn),
            turn("Tuckbox", cache.get, drawn_fresh),
            turn("dict", table.get, drawn_fresh),
            turn("the stripped program", stripped.get, drawn_fresh),
        ]
        # In the order of the fields of `Gets`.
        if verified:
            turns.append(turn("the verifying program", limits.verifier(table).get, drawn))
        found = take_turns(conditions, turns)
    path.unlink()
    return Gets(*found)


def _figures(found: Gets, entries: int) -> list[Figure]:
    return [
        Figure(
            what,
            "ns",
            ours,
            "dict",
            theirs,
            "ours / theirs",
            Goal("at most", bound),
            at=entries,
            limit=limit,
            limited_by="hash the key, find its slot, copy the value",
        )
        for what, ours, theirs, limit, bound in (
            (SAME, found.same, found.same_dict, found.same_stripped, 2.5),
            (FRESH, found.fresh, found.fresh_dict, found.fresh_stripped, 1.6),
        )
    ]


class _Full:
    """A cache of about `entries`, filled with `fillings` times as many keys."""

    def __init__(self, path: Path, entries: int, fillings: float) -> None:
        self.cache = Cache(path, size=max(entries * _ENTRY_BYTES_MIN, 1 << 16))
        self._numbers = count()
        (self._value,) = values(1)
        while next(self._numbers) * _STORED < entries * fillings:
            self._set_all(self._new())

    def turn(self) -> Turn:
        """Return the turn that stores new keys."""
        return Turn(_STORED, self._set_all, self._new, self._check)

    def _new(self) -> list[str]:
        return keys(_STORED, first=next(self._numbers) * _STORED)

    def _set_all(self, names: list[str]) -> None:
        store, value = self.cache.set, self._value
        for name in names:
            store(name, value)

    def _check(self, names: list[str]) -> None:
        found = [self.cache.get(name) for name in names]
        there = [value for value in found if value is not None]
        if not there or any(value != self._value for value in there):
            raise WrongAnswerError(
                f"a full Tuckbox of {len(self.cache):,} entries has {len(there):,} of the "
                f"{len(names):,} latest, or a wrong value"
            )


def _sets_by_size(conditions: Conditions, counts: list[int]) -> list[Figure]:
    with ExitStack() as stack:
        full = [
            _Full(conditions.tmpfs / f"{number}.tuck", number, _FILLINGS_YOUNG) for number in counts
        ]
        for one in full:
            stack.enter_context(one.cache)
        samples = take_turns(conditions, [one.turn() for one in full])
    return [
        Figure("set of a new key, cache full", "ns", taken, at=number)
        for number, taken in zip(counts, samples, strict=True)
    ]


def _sets_by_age(conditions: Conditions, entries: int) -> Figure:
    young = _Full(conditions.tmpfs / "young.tuck", entries, _FILLINGS_YOUNG)
    old = _Full(conditions.tmpfs / "old.tuck", entries, _FILLINGS_OLD)
    with young.cache, old.cache:
        theirs, ours = take_turns(conditions, [young.turn(), old.turn()])
    return Figure(
        f"set of a new key, {entries:,} entries, after {_FILLINGS_OLD} fillings",
        "ns",
        ours,
        f"after {_FILLINGS_YOUNG:g} fillings",
        theirs,
        "ours / theirs",
        Goal("at most", 1.1),
    )


ROW = Row(
    id="S8",
    title="Growth from 1,000 to 10 million entries",
    text="random keys, after one warm-up pass",
    measure=measure,
)
