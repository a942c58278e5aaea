"""S10: the engine without Python, compared with Rust caches, in one thread.

Owns which figures of the native program are compared, and how.
"""

from __future__ import annotations

from benches import native
from benches.row import Conditions, Figure, Goal, Row

_GOALS = {
    "moka": Goal("at least", 1.0),
    "quick_cache": Goal("at least", 0.7),
}
_COMPARED = ("get", "get, in the order of the sets")
_OURS = "tuckbox"


def measure(conditions: Conditions) -> list[Figure]:
    """Have the native program measure gets and sets."""
    conditions.progress("building the native program")
    native.build()
    conditions.progress("gets and sets, natively")
    samples: dict[str, dict[str, list[float]]] = native.run(
        "speed",
        conditions.tmpfs,
        "--rounds",
        str(conditions.rounds),
        "--round-ms",
        "10" if conditions.is_quick else "60",
    )
    peers = {name: f"{name} {native.version(name)}" for name in _GOALS} | {"HashMap": "HashMap"}
    found = []
    for what, of_cache in samples.items():
        for name, peer in peers.items():
            goal = _GOALS.get(name) if what in _COMPARED else None
            found.append(_figure(what, of_cache[_OURS], peer, of_cache[name], goal))
    return found


def _figure(
    what: str, ours: list[float], peer: str, theirs: list[float], goal: Goal | None
) -> Figure:
    return Figure(what, "ns", tuple(ours), peer, tuple(theirs), "theirs / ours", goal)


ROW = Row(
    id="S10",
    title="Native, one thread",
    text="36-byte keys, copies of 160-byte values; the peers neither share nor persist",
    measure=measure,
)
