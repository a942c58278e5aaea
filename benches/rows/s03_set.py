"""S3: what overwriting an entry costs, beside a dictionary's.

Each pass stores a value of its own, of the same size as the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from tuckbox import Cache

from benches.data import ENTRIES, VALUE_BYTES, fresh, keys, require, values
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns

_Given = tuple[list[str], bytes]


def measure(conditions: Conditions) -> list[Figure]:
    """Measure overwrites by a value of the same size. Returns times of a set."""
    names = keys(ENTRIES)
    table = dict(zip(names, values(ENTRIES), strict=True))
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

        def work(given: _Given) -> None:
            names, value = given
            store = cache.set
            for name in names:
                store(name, value)

        def check(who: str, get: Callable[[str], object]) -> Callable[[_Given], None]:
            return lambda given: require(who, map(get, names), [given[1]] * ENTRIES)

        of_dict, of_cache = check("dict", table.get), check("Tuckbox", cache.get)
        same, new = given(lambda: names), given(lambda: fresh(names))
        conditions.progress("overwrites")
        dict_same, ours_same, dict_fresh, ours_fresh = take_turns(
            conditions,
            [
                Turn(ENTRIES, dict_work, same, of_dict),
                Turn(ENTRIES, work, same, of_cache),
                Turn(ENTRIES, dict_work, new, of_dict),
                Turn(ENTRIES, work, new, of_cache),
            ],
        )
    goal = Goal("at most", 5)
    return [
        Figure("same keys", "ns", ours_same, "dict", dict_same, "ours / theirs", goal),
        Figure("fresh keys", "ns", ours_fresh, "dict", dict_fresh, "ours / theirs", None),
    ]


ROW = Row(
    id="S3",
    title="A set that overwrites",
    goal_text="at most 5 x `d[key] = value`",
    measure=measure,
)
