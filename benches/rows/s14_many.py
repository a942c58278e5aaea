"""S14: gets and sets of a hundred keys at once, compared with a loop of single ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple, TypeVar

from tuckbox import Cache

from benches import limits
from benches.data import ENTRIES, keys, require, values
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns

_BATCH = 100
_Batch = TypeVar("_Batch")


def measure(conditions: Conditions) -> list[Figure]:
    """Measure batches of 100, of keys in two orders. Returns times per key."""
    names = keys(ENTRIES)
    shuffled = random.Random(0).sample(names, ENTRIES)
    entries = dict(zip(names, values(ENTRIES), strict=True))
    # Their records are in the order of storing, as Tuckbox's are.
    stripped = _Stripped(entries, limits.reader(entries), limits.keeper(entries))
    with Cache(conditions.tmpfs / "cache.tuck") as cache:
        cache.set_many(entries)
        return [
            figure
            for order, ordered in (("in the order of storing", names), ("random order", shuffled))
            for figure in _figures(conditions, cache, stripped, order, ordered)
        ]


class _Stripped(NamedTuple):
    """The stripped programs, and what the first of them holds."""

    entries: dict[str, bytes]
    reader: limits.Reader
    keeper: limits.Keeper


def _figures(
    conditions: Conditions, cache: Cache, stripped: _Stripped, order: str, names: list[str]
) -> Iterator[Figure]:
    entries, reader, keeper = stripped
    batches = [names[start : start + _BATCH] for start in range(0, ENTRIES, _BATCH)]
    seeds = count(1)

    def mappings() -> list[dict[str, bytes]]:
        drawn = iter(values(ENTRIES, seed=next(seeds)))
        return [dict(zip(batch, drawn, strict=False)) for batch in batches]

    def get_loop(given: list[list[str]]) -> None:
        get = cache.get
        for batch in given:
            _ = {key: get(key) for key in batch}

    def set_loop(given: list[dict[str, bytes]]) -> None:
        store = cache.set
        for mapping in given:
            for key, value in mapping.items():
                store(key, value)

    def check_set(given: list[dict[str, bytes]]) -> None:
        wanted = [mapping[key] for mapping in given for key in mapping]
        require("Tuckbox", map(cache.get, names), wanted)

    stored = [cache.get_many(batch) for batch in batches]
    held = [{key: entries[key] for key in batch} for batch in batches]

    def check_get_stripped(given: list[list[str]]) -> None:
        require("the stripped program", map(reader.get_many, given), held)

    def check_set_stripped(given: list[dict[str, bytes]]) -> None:
        wanted = [mapping[key] for mapping in given for key in mapping]
        require("the stripped program", map(keeper.get, names), wanted)

    def check_loop(given: list[list[str]]) -> None:
        require("Tuckbox", ({key: cache.get(key) for key in batch} for batch in given), stored)

    def check_many(given: list[list[str]]) -> None:
        require("Tuckbox, get_many", map(cache.get_many, given), stored)

    conditions.progress(f"get_many, {order}")
    loop_of_get, many_get, stripped_of_get = take_turns(
        conditions,
        [
            Turn(ENTRIES, get_loop, lambda: batches, check_loop),
            Turn(ENTRIES, _of_each(cache.get_many), lambda: batches, check_many),
            Turn(ENTRIES, _of_each(reader.get_many), lambda: batches, check_get_stripped),
        ],
    )
    yield _figure(
        f"get_many, {order}",
        many_get,
        "loop of get",
        loop_of_get,
        stripped_of_get,
        "hash the keys, find their slots, copy the values into a dict",
    )
    conditions.progress(f"set_many, {order}")
    loop_of_set, many_set, stripped_of_set = take_turns(
        conditions,
        [
            Turn(ENTRIES, set_loop, mappings, check_set),
            Turn(ENTRIES, _of_each(cache.set_many), mappings, check_set),
            Turn(ENTRIES, _of_each(keeper.set_many), mappings, check_set_stripped),
        ],
    )
    yield _figure(
        f"set_many, {order}",
        many_set,
        "loop of set",
        loop_of_set,
        stripped_of_set,
        "hash and compare the keys, take one free lock for all, copy records with checksums",
    )


def _of_each(call: Callable[[_Batch], object]) -> Callable[[Sequence[_Batch]], None]:
    def work(given: Sequence[_Batch]) -> None:
        for batch in given:
            _ = call(batch)

    return work


def _figure(
    what: str,
    ours: tuple[float, ...],
    peer: str,
    theirs: tuple[float, ...],
    stripped: tuple[float, ...],
    limited_by: str,
) -> Figure:
    return Figure(
        what,
        "ns",
        ours,
        peer,
        theirs,
        "ours / theirs",
        Goal("at most", 0.6),
        limit=stripped,
        limited_by=limited_by,
    )


ROW = Row(
    id="S14",
    title="Batches of 100",
    text="overwrites with other values of the same size; times are per key",
    measure=measure,
)
