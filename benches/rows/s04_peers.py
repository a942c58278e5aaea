"""S4: gets and sets, compared with other shared caches and stores.

Each peer holds the same 20,000 entries as Tuckbox and takes turns with it. The lab's adapters drive
the peers. Servers and this process share one core, where a round trip is cheapest. A slow peer has
2,000 operations in a pass, on randomly drawn keys. Tuckbox goes through all keys in every pass, so
that its entries do not stay in the CPU cache.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benches.contender import Contender, drawn_same
from benches.data import ENTRIES, keys, values
from benches.languages import measure_gets
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import take_turns
from lab.peers import PeerMissingError, on_one_core, opened

FEW = 2_000
# More than enough for all entries, with every peer.
BYTES_MAX = 256 << 20
LANGUAGES = ("php_apcu:limited", "perl_fastmmap:sized")


@dataclass(frozen=True)
class PeerGoals:
    """A peer, by its row in the lab. `slow` peers take microseconds for an operation."""

    row: str
    place: Literal["tmpfs", "disk"]
    get_at_least: float | None
    set_at_least: float
    slow: bool


PEERS = (
    PeerGoals("lmdb", "tmpfs", 6, 4, slow=False),
    PeerGoals("diskcache", "tmpfs", 60, 110, slow=True),
    PeerGoals("diskcache", "disk", None, 150, slow=True),
    PeerGoals("pylibmc:socket", "tmpfs", 100, 35, slow=True),
    PeerGoals("redis:socket", "tmpfs", 100, 80, slow=True),
)


def measure(conditions: Conditions) -> list[Figure]:
    """Measure gets and sets with each peer, and gets with peers in other languages."""
    figures: list[Figure] = []
    for number, peer_goals in enumerate(PEERS):
        parent = conditions.tmpfs if peer_goals.place == "tmpfs" else conditions.disk
        folder = parent / f"{number}"
        folder.mkdir(0o700)
        figures += _measure(conditions, peer_goals, folder)
    conditions.progress("APCu from PHP, Cache::FastMmap from Perl")
    folder = conditions.tmpfs / "languages"
    folder.mkdir(0o700)
    try:
        figures += measure_gets(LANGUAGES, conditions.rounds, folder)
    except PeerMissingError as error:
        conditions.not_measured(str(error))
    return figures


def _measure(conditions: Conditions, peer_goals: PeerGoals, folder: Path) -> list[Figure]:
    figures = []
    with ExitStack() as stack:
        stack.enter_context(on_one_core())
        peer = stack.enter_context(opened(peer_goals.row, folder, BYTES_MAX))
        own = folder / "tuckbox"
        own.mkdir(0o700)
        tuckbox = stack.enter_context(opened("tuckbox", own))
        where = " on disk" if peer_goals.place == "disk" else ""
        conditions.progress(f"{peer.title}{where}")
        stored = dict(zip(keys(ENTRIES), values(ENTRIES), strict=True))
        operations = FEW if peer_goals.slow else ENTRIES
        theirs = Contender(peer.title, peer.store, stored, operations, draw=drawn_same)
        ours = Contender("Tuckbox", tuckbox.store, stored, ENTRIES, draw=drawn_same)
        if peer_goals.get_at_least is not None:
            samples = take_turns(conditions, [ours.get(), theirs.get()])
            figures.append(_figure(f"get{where}", peer.title, samples, peer_goals.get_at_least))
        samples = take_turns(conditions, [ours.overwrite(), theirs.overwrite()])
        figures.append(_figure(f"set{where}", peer.title, samples, peer_goals.set_at_least))
    return figures


def _figure(what: str, peer: str, samples: list[tuple[float, ...]], at_least: float) -> Figure:
    ours, theirs = samples
    goal = Goal("at least", at_least)
    return Figure(what, "ns", ours, peer, theirs, "theirs / ours", goal)


ROW = Row(
    id="S4",
    title="Shared caches and stores",
    text="servers use a unix socket on the same core; LMDB does not sync; APCu is called from PHP, "
    "Cache::FastMmap from Perl",
    measure=measure,
)
