"""S6: containers with the default codec, compared with a dict of pickles.

The dict stores pickled values, as caches that pickle do, so each get makes a new value, as in
Tuckbox. Both get the same key objects.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from itertools import count
from typing import Any

from tuckbox import Cache

from benches.data import ENTRIES, keys, require
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns


def _mapping(dice: random.Random) -> object:
    return {
        "id": dice.randrange(10**6),
        "name": f"user {dice.randrange(10**6)}",
        "email": f"{dice.randrange(10**9)}@example.org",
        "active": dice.random() < 0.5,
        "score": dice.random(),
    }


def _texts(dice: random.Random) -> object:
    return [f"word {dice.randrange(10**6)}" for _ in range(20)]


def measure(conditions: Conditions) -> list[Figure]:
    """Measure gets and sets of a dict of five keys and of a list of twenty strings."""
    shapes = (("5-key dict", _mapping), ("list of 20 strings", _texts))
    figures = []
    for number, (shape, make) in enumerate(shapes):
        conditions.progress(shape)
        with Cache(conditions.tmpfs / f"{number}.tuck") as cache:
            figures += _measure(conditions, shape, make, cache)
    return figures


def _measure(
    conditions: Conditions, shape: str, make: Callable[[random.Random], object], cache: Cache
) -> list[Figure]:
    keys_asked = keys(ENTRIES)
    first = [make(random.Random(number)) for number in range(ENTRIES)]
    pickles: dict[str, bytes] = {}
    seeds = count(ENTRIES)

    def get_pickles(names: list[str]) -> None:
        loads = pickle.loads
        for name in names:
            loads(pickles[name])

    def get_cache(names: list[str]) -> None:
        get = cache.get
        for name in names:
            get(name)

    def set_pickles(value: object) -> None:
        dumps = pickle.dumps
        for name in keys_asked:
            pickles[name] = dumps(value)

    def set_cache(value: object) -> None:
        store = cache.set
        for name in keys_asked:
            store(name, value)

    def unpickled(name: str) -> Any:  # noqa: ANN401 - It is what was pickled.
        return pickle.loads(pickles[name])  # noqa: S301 - Pickled a moment ago.

    def new() -> object:
        return make(random.Random(next(seeds)))

    def check_set(who: str, get: Callable[[str], object]) -> Callable[[object], None]:
        return lambda value: require(who, map(get, keys_asked), [value] * ENTRIES)

    for key, value in zip(keys_asked, first, strict=True):
        pickles[key] = pickle.dumps(value)
        cache.set(key, value)
    theirs, ours = take_turns(
        conditions,
        [
            Turn(
                ENTRIES,
                get_pickles,
                lambda: keys_asked,
                lambda names: require("pickle", map(unpickled, names), first),
            ),
            Turn(
                ENTRIES,
                get_cache,
                lambda: keys_asked,
                lambda names: require("Tuckbox", map(cache.get, names), first),
            ),
        ],
    )
    set_theirs, set_ours = take_turns(
        conditions,
        [
            Turn(ENTRIES, set_pickles, new, check_set("pickle", unpickled)),
            Turn(ENTRIES, set_cache, new, check_set("Tuckbox", cache.get)),
        ],
    )
    peer, goal = "dict of pickles", Goal("at most", 1)
    return [
        Figure(f"get, {shape}", "ns", ours, peer, theirs, "ours / theirs", goal),
        Figure(f"set, {shape}", "ns", set_ours, peer, set_theirs, "ours / theirs", goal),
    ]


ROW = Row(
    id="S6",
    title="Containers, default codec",
    text="the peer does `pickle.loads(d[key])` and `d[key] = pickle.dumps(value)`",
    measure=measure,
)
