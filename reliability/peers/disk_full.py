"""T-D1, short form: the file system fills up before a cache is created, and while it grows.

Owns the small file systems. Must run in its own mount namespace, with the right to mount: then its
mounts disappear with it, however it ends.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from reliability.peers import players
from reliability.peers.board import CANARIES, canary_of
from reliability.peers.cuts import is_usable
from reliability.peers.found import Found
from reliability.peers.systems import Peer
from rig import stamps
from rig.stamps import Stamp

# An empty cache of each system fits into the smallest.
SIZES = ("4m", "8m", "16m")
_NEW_ENTRIES = 400
_VALUE_BYTES = 2032


def run(peer: Peer, folder: Path, errors: Path, _seed: int, rounds: int) -> Found:
    """Fill a file system of each size `rounds` times, before and during the cache's life."""
    found = Found(rounds * len(SIZES) * 2, "full disks", there_at_best=CANARIES)
    for _ in range(rounds):
        for size in SIZES:
            for trial in (_before, _during):
                mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tuckbox-peers"]
                umount = ["umount", "--lazy", str(folder)]
                subprocess.run([*mount, str(folder)], check=True)
                try:
                    trial(peer, folder, errors, found)
                finally:
                    subprocess.run(umount, check=True)
    found.errors = players.error_counts(errors)
    return found


def _before(peer: Peer, folder: Path, errors: Path, found: Found) -> None:
    """Create the cache on a full disk, and again once there is space."""
    cache = folder / "cache"
    cache.mkdir()
    filler = folder / "filler"
    _fill(filler)
    is_usable(peer, cache, errors, found)
    filler.unlink()
    found.unusable += not is_usable(peer, cache, errors, found)


def _during(peer: Peer, folder: Path, errors: Path, found: Found) -> None:
    """Fill the disk under a cache in use."""
    cache = folder / "cache"
    cache.mkdir()
    filler = folder / "filler"

    def work() -> dict[str, int]:
        counts = dict.fromkeys(("lost", "wrong", "refused", "stored", "usable"), 0)
        store = peer.open(cache)
        for index in range(CANARIES):
            store.set(canary_of(index), players.canary_value(index))
        kept = [
            index
            for index in range(CANARIES)
            if store.get(canary_of(index)) == players.canary_value(index)
        ]
        evicted_before = peer.evictions(cache)
        _fill(filler)
        for index in range(_NEW_ENTRIES):
            key = f"more:{index}"
            try:
                store.set(key, stamps.make(key, _VALUE_BYTES, Stamp(index)))
                counts["stored"] += 1
            except Exception as error:
                players.write_error(errors, error)
                counts["refused"] += 1
        for index in kept:
            value = store.get(canary_of(index))
            counts["lost"] += value is None
            counts["wrong"] += value not in (None, players.canary_value(index))
        counts["evicted"] = peer.evictions(cache) - evicted_before
        filler.unlink()
        value = stamps.make("after", 132)
        try:
            store.set("after", value)
            counts["usable"] = int(store.get("after") == value)
        except Exception as error:
            players.write_error(errors, error)
        return counts

    counts, came_to = players.answer(work, errors, 30.0)
    found.note(came_to)
    if counts is not None:
        found.lost += counts["lost"]
        found.wrong += counts["wrong"]
        labels = {
            "stored": "entries stored while it was full",
            "refused": "entries refused while it was full",
            "evicted": "entries evicted to make room, by its own count",
        }
        for name, label in labels.items():
            found.add(label, counts[name])
    filler.unlink(missing_ok=True)
    used = is_usable(peer, cache, errors, found)
    found.unusable += not (used and counts is not None and counts["usable"])


def _fill(path: Path) -> None:
    """Take all the space that is left."""
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
