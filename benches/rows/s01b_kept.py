"""S1b: the cost of a repeated get with `local`, compared with a dict and with a plain get.

Keys and dict are those of S1. The objects are kept before the first round. A get with a ttl is
compared with `dict.get` and one read of the clock, whose times of the same round are added. A dict
of five keys, of which each get makes a copy, is compared with a get that decodes it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from tuckbox import Cache

from benches import limits
from benches.data import ENTRIES, fresh, get_all, keys, require, values
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns

_LOCAL = "32 MB"


def measure(conditions: Conditions) -> list[Figure]:
    """Measure repeated hits."""
    names, stored = keys(ENTRIES), values(ENTRIES)
    table = dict(zip(names, stored, strict=True))
    dicts = [
        {"name": f"user {n}", "age": n % 90, "score": n / 7, "admin": n % 2 == 0, "id": name}
        for n, name in enumerate(names)
    ]
    held = limits.holder(table)
    with (
        Cache(conditions.tmpfs / "kept.tuck", local=_LOCAL) as kept,
        Cache(conditions.tmpfs / "timed.tuck", local=_LOCAL) as timed,
        Cache(conditions.tmpfs / "dicts.tuck", local=_LOCAL) as copied,
        Cache(conditions.tmpfs / "kept.tuck") as plain,
        Cache(conditions.tmpfs / "dicts.tuck") as decoded,
    ):
        for name, fields in zip(names, dicts, strict=True):
            kept.set(name, table[name])
            timed.set(name, table[name], ttl=3600)
            copied.set(name, fields)

        def turn(
            who: str,
            get: Callable[[str], object],
            wanted: Sequence[object],
            *,
            is_fresh: bool = False,
        ) -> Turn:
            def asked() -> list[str]:
                return fresh(names) if is_fresh else names

            def check(given: Sequence[str]) -> None:
                require(who, map(get, given), wanted)

            return Turn(ENTRIES, get_all(get), asked, check)

        conditions.progress("same keys, fresh keys, with a ttl, dicts")
        turns = {
            "dict": turn("dict", table.get, stored),
            "dict, fresh": turn("dict", table.get, stored, is_fresh=True),
            "get": turn("Tuckbox", plain.get, stored),
            "kept": turn("Tuckbox with local", kept.get, stored),
            "kept, fresh": turn("Tuckbox with local", kept.get, stored, is_fresh=True),
            "kept, ttl": turn("Tuckbox with local and a ttl", timed.get, stored),
            "clock": Turn(ENTRIES, lambda _: limits.read_clock(ENTRIES)),
            "held": turn("the stripped program that keeps objects", held.get, stored),
            "get, dicts": turn("Tuckbox", decoded.get, dicts),
            "kept, dicts": turn("Tuckbox with local", copied.get, dicts),
        }
        taken = dict(zip(turns, take_turns(conditions, list(turns.values())), strict=True))

    def figure(
        name: str, ours: str, peer: str, theirs: tuple[float, ...], goal: Goal | None
    ) -> Figure:
        return Figure(name, "ns", taken[ours], peer, theirs, "ours / theirs", goal)

    return [
        Figure(
            "same keys",
            "ns",
            taken["kept"],
            "dict",
            taken["dict"],
            "ours / theirs",
            Goal("at most", 1.3),
            limit=taken["held"],
            limited_by="find the object by its key, load a word of its slot and of its record",
        ),
        figure("same keys", "kept", "a plain get", taken["get"], None),
        figure("fresh keys", "kept, fresh", "dict", taken["dict, fresh"], None),
        figure(
            "same keys, with a ttl",
            "kept, ttl",
            "dict and a clock read",
            tuple(map(operator.add, taken["dict"], taken["clock"])),
            Goal("at most", 1.3),
        ),
        figure(
            "a dict of five keys",
            "kept, dicts",
            "a plain get",
            taken["get, dicts"],
            Goal("at most", 0.5),
        ),
    ]


ROW = Row(
    id="S1b",
    title="Get, kept in the process",
    text="repeated gets of a handle with `local`; see [the guide](../guide/kept-objects.md)",
    measure=measure,
)
