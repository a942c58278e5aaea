"""S10: the engine without Python, compared with Rust caches, in one thread.

Owns which figures of the native program are compared, and how.
"""

from __future__ import annotations

from collections import defaultdict

from benches import native
from benches.row import Conditions, Figure, Goal, Row

_GETS = ("get", "get, each value read", "get, in the order of the sets")
_COUNT_QUICK = 20_000
# How many entries there are, and the speeds of quick_cache that are goals.
_GOALS = {
    _COUNT_QUICK: dict.fromkeys(_GETS, Goal("at least", 0.7)),
    100_000: dict.fromkeys((*_GETS, "set"), Goal("at least", 1.0)),
    1_000_000: dict.fromkeys((*_GETS, "set"), Goal("at least", 1.0)),
}
_GOALS_OF_MOKA = dict.fromkeys(_GETS, Goal("at least", 1.0))
_OURS = "tuckbox"
_STRIPPED = "stripped"
_LIMITED_BY = "a stripped get in the program's own memory: index, key, checksum and copy"
# Where a process's memory lies makes a cache faster or slower by several per cent.
_ROUNDS_OF_A_PROCESS = 3


def measure(conditions: Conditions) -> list[Figure]:
    """Have the native program measure gets and sets."""
    conditions.progress("building the native program")
    native.build()
    counts = [_COUNT_QUICK] if conditions.is_quick else list(_GOALS)
    return [figure for count in counts for figure in _among(conditions, count)]


def _among(conditions: Conditions, count: int) -> list[Figure]:
    conditions.progress(f"gets and sets among {count:,} entries, natively")
    samples: defaultdict[str, defaultdict[str, list[float]]]
    samples = defaultdict(lambda: defaultdict(list))
    for rounds in _rounds_of_processes(conditions.rounds):
        measured: dict[str, dict[str, list[float]]] = native.run(
            "speed",
            conditions.tmpfs,
            "--entries",
            str(count),
            "--rounds",
            str(rounds),
            "--round-ms",
            "10" if conditions.is_quick else "60",
        )
        for what, of_cache in measured.items():
            for name, times in of_cache.items():
                samples[what][name] += times
    goals = {"moka": _GOALS_OF_MOKA, "quick_cache": _GOALS[count]}
    peers = {name: f"{name} {native.version(name)}" for name in goals} | {"HashMap": "HashMap"}
    found = []
    for what, of_cache in samples.items():
        for name, peer in peers.items():
            ours, theirs = of_cache[_OURS], of_cache[name]
            goal = goals[name].get(what) if name in goals else None
            limit = of_cache[_STRIPPED] if what in _GETS else []
            found.append(_figure(f"{what}, {count:,} entries", ours, peer, theirs, goal, limit))
    return found


def _rounds_of_processes(rounds: int) -> list[int]:
    whole, rest = divmod(rounds, _ROUNDS_OF_A_PROCESS)
    return [_ROUNDS_OF_A_PROCESS] * whole + ([rest] if rest else [])


def _figure(
    what: str,
    ours: list[float],
    peer: str,
    theirs: list[float],
    goal: Goal | None,
    limit: list[float],
) -> Figure:
    return Figure(
        what,
        "ns",
        tuple(ours),
        peer,
        tuple(theirs),
        "theirs / ours",
        goal,
        limit=tuple(limit),
        limited_by=_LIMITED_BY if limit else "",
    )


ROW = Row(
    id="S10",
    title="Native, one thread",
    text="36-byte keys, copies of 160-byte values, each read in one figure (by FNV-1a); the peers "
    "neither share nor persist; three rounds in each process",
    measure=measure,
)
