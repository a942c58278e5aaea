"""S14: what a get or a set costs among a hundred at once, beside a loop of single ones."""

from __future__ import annotations

from itertools import count

from tuckbox import Cache

from benches.data import ENTRIES, keys, require, values
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns

_BATCH = 100


def measure(conditions: Conditions) -> list[Figure]:
    """Measure batches of 100. Returns times of one key of a batch."""
    names = keys(ENTRIES)
    batches = [names[start : start + _BATCH] for start in range(0, ENTRIES, _BATCH)]
    seeds = count(1)
    with Cache(conditions.tmpfs / "cache.tuck") as cache:

        def mappings() -> list[dict[str, bytes]]:
            value = values(1, seed=next(seeds))[0]
            return [dict.fromkeys(batch, value) for batch in batches]

        def get_loop(given: list[list[str]]) -> None:
            get = cache.get
            for batch in given:
                _ = {key: get(key) for key in batch}

        def get_many(given: list[list[str]]) -> None:
            get = cache.get_many
            for batch in given:
                _ = get(batch)

        def set_loop(given: list[dict[str, bytes]]) -> None:
            store = cache.set
            for mapping in given:
                for key, value in mapping.items():
                    store(key, value)

        def set_many(given: list[dict[str, bytes]]) -> None:
            store = cache.set_many
            for mapping in given:
                store(mapping)

        def check_set(given: list[dict[str, bytes]]) -> None:
            wanted = [mapping[key] for mapping in given for key in mapping]
            require("Tuckbox", map(cache.get, names), wanted)

        stored = mappings()
        set_many(stored)

        def check_loop(given: list[list[str]]) -> None:
            require("Tuckbox", ({key: cache.get(key) for key in batch} for batch in given), stored)

        def check_many(given: list[list[str]]) -> None:
            require("Tuckbox, get_many", map(cache.get_many, given), stored)

        conditions.progress("get_many")
        loop_of_get, many_get = take_turns(
            conditions,
            [
                Turn(ENTRIES, get_loop, lambda: batches, check_loop),
                Turn(ENTRIES, get_many, lambda: batches, check_many),
            ],
        )
        conditions.progress("set_many")
        loop_of_set, many_set = take_turns(
            conditions,
            [
                Turn(ENTRIES, set_loop, mappings, check_set),
                Turn(ENTRIES, set_many, mappings, check_set),
            ],
        )
    goal = Goal("at most", 0.6)
    return [
        Figure("get_many", "ns", many_get, "a loop of get", loop_of_get, "ours / theirs", goal),
        Figure("set_many", "ns", many_set, "a loop of set", loop_of_set, "ours / theirs", goal),
    ]


ROW = Row(
    id="S14",
    title="A hundred at once",
    goal_text="get_many and set_many of 100 at most 0.6 x a loop of get into a dict, and of set",
    measure=measure,
)
