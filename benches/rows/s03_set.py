"""S3: what overwriting an entry costs, beside a dictionary's.

Each pass stores a value of its own, of the same size as the one before. The floor is what no cache
can do without that keeps bytes elsewhere: to hash the key, to find a place, to take a lock, and to
copy the value in. See `benches/limits`.
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
    """Measure overwrites by a value of the same size. Returns times of a set."""
    names = keys(ENTRIES)
    table = dict(zip(names, values(ENTRIES), strict=True))
    floor = limits.writer(table)
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
        of_floor = check("the floor", floor.get)
        same, new = given(lambda: names), given(lambda: fresh(names))
        conditions.progress("overwrites")
        dict_same, ours_same, floor_same, dict_new, ours_new, floor_new = take_turns(
            conditions,
            [
                Turn(ENTRIES, dict_work, same, of_dict),
                Turn(ENTRIES, work(cache.set), same, of_cache),
                Turn(ENTRIES, work(floor.set), same, of_floor),
                Turn(ENTRIES, dict_work, new, of_dict),
                Turn(ENTRIES, work(cache.set), new, of_cache),
                Turn(ENTRIES, work(floor.set), new, of_floor),
            ],
        )
    return [
        _figure("same keys", ours_same, dict_same, Goal("at most", 5), floor_same),
        _figure("fresh keys", ours_new, dict_new, None, floor_new),
    ]


def _figure(
    what: str,
    ours: tuple[float, ...],
    theirs: tuple[float, ...],
    goal: Goal | None,
    floor: tuple[float, ...],
) -> Figure:
    return Figure(
        what,
        "ns",
        ours,
        "dict",
        theirs,
        "ours / theirs",
        goal,
        limit=floor,
        limited_by="hash the key, take a free lock, copy the value",
    )


ROW = Row(
    id="S3",
    title="Set, overwrite",
    goal_text="at most 5 x `d[key] = value`",
    measure=measure,
)
