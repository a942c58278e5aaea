"""S13: how much memory entries take.

(a) The bytes that the file occupies after 100,000 inserts, divided by the payload: keys and values.
For peers, the bytes that their folder occupies; the lab's adapters fill it, one insert at a time.
(b) The entries that are kept with 1.15 times the payload as the limit, after ten times as many
overwrites of random keys with values of the same size. Each round has new keys and values, and
fills every peer again.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from tuckbox import Cache

from benches.data import VALUE_BYTES, keys, values
from benches.row import Conditions, Figure, Goal, Row
from lab.disk import bytes_occupied
from lab.hosts.python.contract import Store
from lab.peers import opened
from rig.stamps import WrongAnswerError

ENTRIES = 100_000
_OVERWRITES_PER_ENTRY = 10
_PAYLOAD_BYTES = 36 + VALUE_BYTES
_LIMIT = 1.15
PEERS = ("tokyocabinet:hash", "lmdb", "diskcache")
# A round takes seconds.
_ROUNDS_MAX = 6


def measure(conditions: Conditions) -> list[Figure]:
    """Measure the bytes of files, and the share of entries that are kept."""
    rounds = min(conditions.rounds, 2 if conditions.is_quick else _ROUNDS_MAX)
    conditions.progress("inserts")
    payload = (float(ENTRIES * _PAYLOAD_BYTES),) * rounds
    by_default = tuple(_filled(conditions.tmpfs, number) for number in range(rounds))
    conditions.progress("overwrites")
    kept = tuple(_kept(conditions.tmpfs, number) for number in range(rounds))
    figures = [
        _size(by_default, "payload", payload, Goal("at most", _LIMIT)),
        Figure("entries kept after the overwrites", "%", kept, goal=Goal("at least", 99)),
    ]
    # DiskCache takes longer than all others together.
    for row in PEERS[:2] if conditions.is_quick else PEERS:
        conditions.progress(row)
        title, occupied = _peer(conditions.tmpfs, row, rounds)
        figures.append(_size(by_default, title, occupied, None))
    return figures


def _size(
    ours: tuple[float, ...], peer: str, theirs: tuple[float, ...], goal: Goal | None
) -> Figure:
    return Figure("size after the inserts", "bytes", ours, peer, theirs, "ours / theirs", goal)


def _peer(folder: Path, row: str, rounds: int) -> tuple[str, tuple[float, ...]]:
    """Return a peer's title, and the bytes that its folder occupies in each round."""
    occupied = []
    for number in range(rounds):
        own = folder / "peer"
        own.mkdir(0o700)
        with opened(row, own) as peer:
            _fill(peer.title, peer.store, number)
            occupied.append(float(bytes_occupied(own)))
        shutil.rmtree(own)
    return peer.title, tuple(occupied)


def _filled(folder: Path, number: int) -> float:
    """Return the bytes that a file of the default size occupies after the inserts."""
    own = folder / f"filled-{number}"
    own.mkdir(0o700)
    with Cache(own / "cache.tuck") as cache:
        for name, value in _entries(number):
            cache.set(name, value)
        if len(cache) != ENTRIES:
            raise WrongAnswerError(f"Tuckbox has {len(cache):,} entries of {ENTRIES:,}")
        for name, value in _entries(number):
            if cache.get(name) != value:
                raise WrongAnswerError(f"Tuckbox answered {name} with another value")
    found = float(bytes_occupied(own))
    (own / "cache.tuck").unlink()
    return found


def _kept(folder: Path, number: int) -> float:
    """Return the percentage of entries that are kept after inserts and overwrites."""
    path = folder / f"kept-{number}.tuck"
    dice = random.Random(number)
    names, stored = keys(ENTRIES, first=number * ENTRIES), values(ENTRIES, seed=number)
    latest = dict(zip(names, stored, strict=True))
    with Cache(path, size=int(ENTRIES * _PAYLOAD_BYTES * _LIMIT)) as cache:
        for name, value in latest.items():
            cache.set(name, value)
        for _ in range(_OVERWRITES_PER_ENTRY * ENTRIES):
            name, value = dice.choice(names), dice.choice(stored)
            cache.set(name, value)
            latest[name] = value
        there = 0
        for name, value in latest.items():
            found = cache.get(name)
            if found is not None and found != value:
                raise WrongAnswerError(f"Tuckbox answered {name} with another value")
            there += found is not None
    path.unlink()
    return 100 * there / ENTRIES


def _fill(who: str, store: Store, number: int) -> None:
    for name, value in _entries(number):
        store.set(name, value)
    for name, value in _entries(number):
        if store.get(name) != value:
            raise WrongAnswerError(f"{who} answered {name} with another value")


def _entries(number: int) -> zip[tuple[str, bytes]]:
    first = number * ENTRIES
    return zip(keys(ENTRIES, first), values(ENTRIES, seed=number), strict=True)


ROW = Row(
    id="S13",
    title="Memory",
    text="100,000 entries of 36 + 160 bytes; then ten random overwrites per key, of the same size, "
    "with 1.15x the payload as the size limit",
    measure=measure,
)
