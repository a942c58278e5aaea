"""S2: the cost of a miss, compared with a dict.

The missing keys look like the present ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tuckbox import Cache

from benches.data import ENTRIES, fresh, get_all, keys, require, values
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns


def measure(conditions: Conditions) -> list[Figure]:
    """Measure misses. Returns the times of a get."""
    names, absent = keys(ENTRIES), keys(ENTRIES, first=ENTRIES)
    table = dict(zip(names, values(ENTRIES), strict=True))
    nothing = [None] * ENTRIES
    with Cache(conditions.tmpfs / "cache.tuck") as cache:
        for name, value in table.items():
            cache.set(name, value)

        def turn(who: str, get: Callable[[str], object], asked: Callable[[], list[str]]) -> Turn:
            def check(given: Sequence[str]) -> None:
                require(who, map(get, given), nothing)

            return Turn(ENTRIES, get_all(get), asked, check)

        conditions.progress("misses")
        dict_same, same, dict_fresh, new = take_turns(
            conditions,
            [
                turn("dict", table.get, lambda: absent),
                turn("Tuckbox", cache.get, lambda: absent),
                turn("dict", table.get, lambda: fresh(absent)),
                turn("Tuckbox", cache.get, lambda: fresh(absent)),
            ],
        )
    return [
        Figure("same keys", "ns", same, "dict", dict_same, "ours / theirs", Goal("at most", 2)),
        Figure("fresh keys", "ns", new, "dict", dict_fresh, "ours / theirs", None),
    ]


ROW = Row(
    id="S2",
    title="Get, miss",
    text="",
    measure=measure,
)
