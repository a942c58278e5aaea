"""T-D1, lite: the file system fills up before a cache is made, and while it grows.

Owns the small file systems. It must run in a mount namespace of its own, with the rights to mount;
then nothing of it is left when it ends, however it ends.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from reliability.peers import crew, stamps
from reliability.peers.adapters import Peer
from reliability.peers.board import CANARIES, canary_of
from reliability.peers.cuts import use
from reliability.peers.found import Found
from reliability.peers.stamps import Stamp

# A cache of each system fits the smallest of them while it is empty.
SIZES = ("4m", "8m", "16m")
_NEW_ENTRIES = 400
_VALUE_BYTES = 2000


def run(peer: Peer, folder: Path, errors: Path, _seed: int, rounds: int) -> Found:
    """Fill a file system of each size up, in both ways, so often."""
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
    found.errors = crew.told(errors)
    return found


def _note(found: Found, came_to: str | None) -> None:
    if came_to == "hung":
        found.hung += 1
    elif came_to is not None and came_to != "raised":
        found.add_deaths([came_to])


def _before(peer: Peer, folder: Path, errors: Path, found: Found) -> None:
    """It is full when the cache is made; when there is room again, the cache can be made."""
    cache = folder / "cache"
    cache.mkdir()
    filler = folder / "filler"
    _fill(filler)
    _, came_to = crew.answer(lambda: use(peer, cache), errors, 20.0)
    _note(found, came_to)
    filler.unlink()
    used, came_to = crew.answer(lambda: use(peer, cache), errors, 20.0)
    _note(found, came_to)
    found.unusable += not used


def _during(peer: Peer, folder: Path, errors: Path, found: Found) -> None:
    """It fills up under a cache in use, which keeps what it has."""
    cache = folder / "cache"
    cache.mkdir()
    filler = folder / "filler"

    def work() -> dict[str, int]:
        counts = dict.fromkeys(("lost", "wrong", "refused", "stored", "usable"), 0)
        store = peer.open(cache)
        for index in range(CANARIES):
            store.set(canary_of(index), crew.canary_value(index))
        kept = [
            index
            for index in range(CANARIES)
            if store.get(canary_of(index)) == crew.canary_value(index)
        ]
        evicted_before = store.evictions()
        _fill(filler)
        for index in range(_NEW_ENTRIES):
            key = f"more:{index}"
            try:
                store.set(key, stamps.make(key, Stamp(1, index), _VALUE_BYTES))
                counts["stored"] += 1
            except Exception as error:
                crew.tell(errors, error)
                counts["refused"] += 1
        for index in kept:
            value = store.get(canary_of(index))
            counts["lost"] += value is None
            counts["wrong"] += value not in (None, crew.canary_value(index))
        counts["evicted"] = store.evictions() - evicted_before
        filler.unlink()
        value = stamps.make("after", Stamp(1, 1), 100)
        try:
            store.set("after", value)
            counts["usable"] = int(store.get("after") == value)
        except Exception as error:
            crew.tell(errors, error)
        return counts

    counts, came_to = crew.answer(work, errors, 30.0)
    _note(found, came_to)
    if counts is not None:
        found.lost += counts["lost"]
        found.wrong += counts["wrong"]
        labels = {
            "stored": "entries stored while it was full",
            "refused": "entries refused while it was full",
            "evicted": "entries evicted to make room, by its own count",
        }
        for name, label in labels.items():
            found.figures[label] = found.figures.get(label, 0) + counts[name]
    filler.unlink(missing_ok=True)
    used, came_to = crew.answer(lambda: use(peer, cache), errors, 20.0)
    _note(found, came_to)
    found.unusable += not (used and counts is not None and counts["usable"])


def _fill(path: Path) -> None:
    """Take all room that is left."""
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
