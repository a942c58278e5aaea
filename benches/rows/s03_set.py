"""S3: the cost of overwriting an entry, compared with a dict.

Each pass stores a new value of the same size. The stripped program does what no cache that copies
can avoid: hash the key, find its slot, take a lock, copy the value. See `benches/limits`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from tuckbox import Cache

from benches import limits
from benches.data import ENTRIES, VALUE_BYTES, fresh, keys, require, values
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns

_Given = tuple[list[str], bytes]


def measure(conditions: Conditions) -> list[Figure]:
    """Measure overwrites by a value of the same size. Returns the times of a set."""
    names = keys(ENTRIES)
    table = dict(zip(names, values(ENTRIES), strict=True))
    stripped = limits.writer(table)
    seeds = count(1)

    def given(asked: Callable[[], list[str]]) -> Callable[[], _Given]:
        return lambda: (asked(), values(1, VALUE_BYTES, next(seeds))[0])

    with Cache(conditions.tmpfs / "cache.tuck") as cache:
        for name, value in table.items():
            cache.set(name, value)

        def dict_work(given: _Given) -> None:
            names, value = given
            for name in names:
                table[name] = value

        def work(store: Callable[[str, bytes], object]) -> Callable[[_Given], None]:
            def work(given: _Given) -> None:
                names, value = given
                for name in names:
                    store(name, value)

            return work

        def check(who: str, get: Callable[[str], object]) -> Callable[[_Given], None]:
            return lambda given: require(who, map(get, names), [given[1]] * ENTRIES)

        of_dict, of_cache = check("dict", table.get), check("Tuckbox", cache.get)
        of_stripped = check("the stripped program", stripped.get)
        same, new = given(lambda: names), given(lambda: fresh(names))
        conditions.progress("overwrites")
        dict_same, ours_same, stripped_same, dict_new, ours_new, stripped_new = take_turns(
            conditions,
            [
                Turn(ENTRIES, dict_work, same, of_dict),
                Turn(ENTRIES, work(cache.set), same, of_cache),
                Turn(ENTRIES, work(stripped.set), same, of_stripped),
                Turn(ENTRIES, dict_work, new, of_dict),
                Turn(ENTRIES, work(cache.set), new, of_cache),
                Turn(ENTRIES, work(stripped.set), new, of_stripped),
            ],
        )
    return [
        _figure("same keys", ours_same, dict_same, Goal("at most", 5), stripped_same),
        _figure("fresh keys", ours_new, dict_new, None, stripped_new),
    ]


def _figure(
    what: str,
    ours: tuple[float, ...],
    theirs: tuple[float, ...],
    goal: Goal | None,
    stripped: tuple[float, ...],
) -> Figure:
    return Figure(
        what,
        "ns",
        ours,
        "dict",
        theirs,
        "ours / theirs",
        goal,
        limit=stripped,
        limited_by="hash the key, take a free lock, copy the value",
    )


ROW = Row(
    id="S3",
    title="Set, overwrite",
    text="a new value of the same size: `d[key] = value`",
    measure=measure,
)
