"""S1: what a hit costs, beside a dictionary's.

Dictionary and cache hold the same 20,000 keys. `same keys` asks with the very objects that the
dictionary has as its keys, so that it finds their hash computed and compares identities; `fresh
keys` asks with equal objects, as programs do that build or read their keys. Entries with a ttl are
in a cache of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tuckbox import Cache

from benches.data import ENTRIES, fresh, get_all, keys, require, values
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns


def measure(conditions: Conditions) -> list[Figure]:
    """Measure hits. Returns times of a get, and what a ttl adds."""
    names, stored = keys(ENTRIES), values(ENTRIES)
    table = dict(zip(names, stored, strict=True))
    with (
        Cache(conditions.tmpfs / "plain.tuck") as plain,
        Cache(conditions.tmpfs / "timed.tuck") as timed,
    ):
        for name, value in table.items():
            plain.set(name, value)
            timed.set(name, value, ttl=3600)

        def turn(who: str, get: Callable[[str], object], asked: Callable[[], list[str]]) -> Turn:
            def check(given: Sequence[str]) -> None:
                require(who, map(get, given), stored)

            return Turn(ENTRIES, get_all(get), asked, check)

        conditions.progress("same keys, fresh keys, with a ttl")
        dict_same, same, dict_fresh, new, with_ttl = take_turns(
            conditions,
            [
                turn("dict", table.get, lambda: names),
                turn("Tuckbox", plain.get, lambda: names),
                turn("dict", table.get, lambda: fresh(names)),
                turn("Tuckbox", plain.get, lambda: fresh(names)),
                turn("Tuckbox with a ttl", timed.get, lambda: names),
            ],
        )
    added = tuple(more - less for more, less in zip(with_ttl, same, strict=True))
    return [
        Figure("same keys", "ns", same, "dict", dict_same, "ours / theirs", Goal("at most", 2.5)),
        Figure("fresh keys", "ns", new, "dict", dict_fresh, "ours / theirs", Goal("at most", 1.6)),
        Figure("what a ttl adds", "ns", added, "", (), "ours", Goal("at most", 5)),
    ]


ROW = Row(
    id="S1",
    title="A get that hits",
    goal_text="at most 2.5 x dict.get with the same key objects and 1.6 x with fresh ones; "
    "a ttl adds at most 5 ns",
    measure=measure,
)
