"""S1: what a hit costs, beside a dictionary's.

Dictionary and cache hold the same 20,000 keys. `same keys` asks with the very objects that the
dictionary has as its keys, so that it finds their hash computed and compares identities; `fresh
keys` asks with equal objects, as programs do that build or read their keys.

There are two dictionaries. `dict` holds what the cache holds, a value of its own for each key, and
the goals are beside it. A `dict of one value` has the same object everywhere, which is always at
hand, while the values of the other must be fetched from memory to be counted as in use: no cache of
20,000 values is spared that, so this one is told without a goal. Entries with a ttl are in a cache
of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tuckbox import Cache

from benches import limits
from benches.data import ENTRIES, fresh, get_all, keys, require, values
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns


def measure(conditions: Conditions) -> list[Figure]:
    """Measure hits. Returns times of a get, and what a ttl adds."""
    names, stored = keys(ENTRIES), values(ENTRIES)
    table = dict(zip(names, stored, strict=True))
    one_value = dict.fromkeys(names, stored[0])
    floor = limits.reader(table)
    with (
        Cache(conditions.tmpfs / "plain.tuck") as plain,
        Cache(conditions.tmpfs / "timed.tuck") as timed,
    ):
        for name, value in table.items():
            plain.set(name, value)
            timed.set(name, value, ttl=3600)

        def turn(
            who: str,
            get: Callable[[str], object],
            wanted: Sequence[bytes],
            *,
            is_fresh: bool = False,
        ) -> Turn:
            def asked() -> list[str]:
                return fresh(names) if is_fresh else names

            def check(given: Sequence[str]) -> None:
                require(who, map(get, given), wanted)

            return Turn(ENTRIES, get_all(get), asked, check)

        conditions.progress("same keys, fresh keys, with a ttl")
        turns = {
            "same": turn("Tuckbox", plain.get, stored),
            "same, dict": turn("dict", table.get, stored),
            "same, one": turn("dict with one value", one_value.get, stored[:1] * ENTRIES),
            "same, floor": turn("the floor", floor.get, stored),
            "fresh": turn("Tuckbox", plain.get, stored, is_fresh=True),
            "fresh, dict": turn("dict", table.get, stored, is_fresh=True),
            "fresh, one": turn(
                "dict with one value", one_value.get, stored[:1] * ENTRIES, is_fresh=True
            ),
            "fresh, floor": turn("the floor", floor.get, stored, is_fresh=True),
            "ttl": turn("Tuckbox with a ttl", timed.get, stored),
            "ttl, floor": turn("the floor with a clock", floor.get_by_the_clock, stored),
        }
        taken = dict(zip(turns, take_turns(conditions, list(turns.values())), strict=True))

    def figure(keys: str, peer: str, theirs: str, goal: Goal | None) -> Figure:
        return Figure(
            f"{keys} keys",
            "ns",
            taken[keys],
            peer,
            taken[f"{keys}, {theirs}"],
            "ours / theirs",
            goal,
            limit=taken[f"{keys}, floor"],
            limited_by="hash the key, find its slot, copy the value",
        )

    return [
        figure("same", "dict", "dict", Goal("at most", 2.5)),
        figure("same", "dict with one value", "one", None),
        figure("fresh", "dict", "dict", Goal("at most", 1.6)),
        figure("fresh", "dict with one value", "one", None),
        Figure(
            "added by a ttl",
            "ns",
            _added(taken["ttl"], taken["same"]),
            goal=Goal("at most", 5),
            limit=_added(taken["ttl, floor"], taken["same, floor"]),
            limited_by="read the clock",
        ),
    ]


def _added(more: tuple[float, ...], less: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(one - other for one, other in zip(more, less, strict=True))


ROW = Row(
    id="S1",
    title="Get, hit",
    goal_text="at most 2.5 x dict.get with the same key objects, 1.6 x with fresh keys; "
    "a ttl adds at most 5 ns",
    measure=measure,
)
