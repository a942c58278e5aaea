"""S1: the cost of a hit, compared with a dict.

Dict and cache hold the same 20,000 keys. `same keys` asks with the key objects of the dict, which
then finds their hash computed and only compares identities. `fresh keys` asks with equal new
objects, as programs do that build or read their keys.

There are two dicts. `dict` holds a value for each key, as the cache does, and has the goals. `dict
with one value` has the same object everywhere, which stays in the CPU cache; the reference counts
of the other's values come from memory. It has no goal. Entries with a ttl are in another cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tuckbox import Cache

from benches import limits
from benches.data import ENTRIES, fresh, get_all, keys, require, values
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns


def measure(conditions: Conditions) -> list[Figure]:
    """Measure hits. Returns the times of a get, and what a ttl adds."""
    names, stored = keys(ENTRIES), values(ENTRIES)
    table = dict(zip(names, stored, strict=True))
    one_value = dict.fromkeys(names, stored[0])
    stripped = limits.reader(table)
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
            "same, stripped": turn("the stripped program", stripped.get, stored),
            "fresh": turn("Tuckbox", plain.get, stored, is_fresh=True),
            "fresh, dict": turn("dict", table.get, stored, is_fresh=True),
            "fresh, one": turn(
                "dict with one value", one_value.get, stored[:1] * ENTRIES, is_fresh=True
            ),
            "fresh, stripped": turn("the stripped program", stripped.get, stored, is_fresh=True),
            "ttl": turn("Tuckbox with a ttl", timed.get, stored),
            "ttl, stripped": turn("stripped, with a clock", stripped.get_by_the_clock, stored),
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
            limit=taken[f"{keys}, stripped"],
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
            limit=_added(taken["ttl, stripped"], taken["same, stripped"]),
            limited_by="read the clock",
        ),
    ]


def _added(more: tuple[float, ...], less: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(one - other for one, other in zip(more, less, strict=True))


ROW = Row(
    id="S1",
    title="Get, hit",
    text="a dict with one value has the same object under every key",
    measure=measure,
)
