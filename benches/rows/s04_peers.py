"""S4: gets and sets beside the caches and stores that programs share today.

Each peer holds the same 20,000 entries, and takes turns with a Tuckbox that does. Peers are driven
by the lab's adapters. Servers and this process share one core, where a round trip costs least. A
pass of a peer that needs microseconds is 2,000 operations on keys drawn anew; Tuckbox goes through
all of its keys in every pass, so that its entries are not nearer to the processor.
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
# Room for all entries and more, with every peer.
BYTES_MAX = 256 << 20
LANGUAGES = ("php_apcu:limited", "perl_fastmmap:sized")


@dataclass(frozen=True)
class Beside:
    """A peer, by its row in the lab. `slow` ones need microseconds for an operation."""

    row: str
    place: Literal["tmpfs", "disk"]
    get_at_least: float | None
    set_at_least: float
    slow: bool


PEERS = (
    Beside("lmdb", "tmpfs", 6, 4, slow=False),
    Beside("diskcache", "tmpfs", 60, 110, slow=True),
    Beside("diskcache", "disk", None, 150, slow=True),
    Beside("pylibmc:socket", "tmpfs", 100, 35, slow=True),
    Beside("redis:socket", "tmpfs", 100, 80, slow=True),
)


def measure(conditions: Conditions) -> list[Figure]:
    """Measure gets and sets beside each peer, and gets beside peers in other languages."""
    figures: list[Figure] = []
    for number, beside in enumerate(PEERS):
        parent = conditions.tmpfs if beside.place == "tmpfs" else conditions.disk
        folder = parent / f"{number}"
        folder.mkdir(0o700)
        figures += _measure(conditions, beside, folder)
    conditions.progress("APCu from PHP, Cache::FastMmap from Perl")
    folder = conditions.tmpfs / "languages"
    folder.mkdir(0o700)
    try:
        figures += measure_gets(LANGUAGES, conditions.rounds, folder)
    except PeerMissingError as error:
        conditions.not_measured(str(error))
    return figures


def _measure(conditions: Conditions, beside: Beside, folder: Path) -> list[Figure]:
    figures = []
    with ExitStack() as stack:
        stack.enter_context(on_one_core())
        peer = stack.enter_context(opened(beside.row, folder, BYTES_MAX))
        own = folder / "tuckbox"
        own.mkdir(0o700)
        tuckbox = stack.enter_context(opened("tuckbox", own))
        where = " on disk" if beside.place == "disk" else ""
        conditions.progress(f"{peer.title}{where}")
        stored = dict(zip(keys(ENTRIES), values(ENTRIES), strict=True))
        operations = FEW if beside.slow else ENTRIES
        theirs = Contender(peer.title, peer.store, stored, operations, draw=drawn_same)
        ours = Contender("Tuckbox", tuckbox.store, stored, ENTRIES, draw=drawn_same)
        if beside.get_at_least is not None:
            samples = take_turns(conditions, [ours.get(), theirs.get()])
            figures.append(_figure(f"get{where}", peer.title, samples, beside.get_at_least))
        samples = take_turns(conditions, [ours.overwrite(), theirs.overwrite()])
        figures.append(_figure(f"set{where}", peer.title, samples, beside.set_at_least))
    return figures


def _figure(what: str, peer: str, samples: list[tuple[float, ...]], at_least: float) -> Figure:
    ours, theirs = samples
    goal = Goal("at least", at_least)
    return Figure(what, "ns", ours, peer, theirs, "theirs / ours", goal)


ROW = Row(
    id="S4",
    title="Shared caches and stores",
    goal_text="get: 60 x as fast as DiskCache, 6 x LMDB, 100 x memcached and Redis over a unix "
    "socket on one core, and faster than APCu from PHP and Cache::FastMmap from Perl; set: 110 x "
    "DiskCache on tmpfs and 150 x on disk, 4 x LMDB without sync, 35 x memcached, 80 x Redis",
    measure=measure,
)
