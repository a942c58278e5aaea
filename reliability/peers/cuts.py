"""T-T1, short form: the files are cut, zeroed, replaced and removed under live workers.

Owns the cuts. A cut is applied to each data file of a system.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from reliability.peers import players
from reliability.peers.board import PLAYERS, Board, Count
from reliability.peers.found import Found
from reliability.peers.systems import Peer
from rig import stamps
from rig.stamps import Stamp

_SECONDS_BEFORE = 0.15
_SECONDS_AFTER = 0.5
_USE_SECONDS_MAX = 20.0
_PAGE = 4096


def _truncate(part: float) -> Callable[[Path, random.Random], None]:
    def cut(path: Path, _dice: random.Random) -> None:
        with path.open("r+b") as file:
            file.truncate(int(path.stat().st_size * part))

    return cut


def _truncate_anywhere(path: Path, dice: random.Random) -> None:
    with path.open("r+b") as file:
        file.truncate(dice.randrange(path.stat().st_size // _PAGE + 1) * _PAGE)


def _zero(path: Path, dice: random.Random) -> None:
    """Overwrite a part with zeros, which is how a hole reads."""
    size = path.stat().st_size
    begin = dice.randrange(size // _PAGE + 1) * _PAGE
    with path.open("r+b") as file:
        file.seek(begin)
        file.write(bytes(min(16 * _PAGE, max(size - begin, 0))))


def _unlink(path: Path, _dice: random.Random) -> None:
    path.unlink()


def _replace_by_copy(path: Path, _dice: random.Random) -> None:
    copy = path.with_name("replacement")
    shutil.copyfile(path, copy)
    copy.replace(path)


def _replace_by_nothing(path: Path, _dice: random.Random) -> None:
    copy = path.with_name("replacement")
    copy.touch()
    copy.replace(path)


CUTS: dict[str, Callable[[Path, random.Random], None]] = {
    "cut to nothing": _truncate(0),
    "cut to a half": _truncate(0.5),
    "cut anywhere": _truncate_anywhere,
    "zeroed in part": _zero,
    "removed": _unlink,
    "replaced by a copy": _replace_by_copy,
    "replaced by an empty file": _replace_by_nothing,
}


def run(peer: Peer, folder: Path, errors: Path, seed: int, rounds: int) -> Found:
    """Make each cut `rounds` times, each on a new cache with four workers."""
    dice = random.Random(seed)
    found = Found(rounds * len(CUTS), "cuts")
    for number in range(rounds):
        for name, cut in CUTS.items():
            place = folder / f"{number}-{name.replace(' ', '-')}"
            place.mkdir()
            _one(peer, place, errors, dice, cut, found)
            shutil.rmtree(place, ignore_errors=True)
    found.errors = players.error_counts(errors)
    return found


def _one(
    peer: Peer,
    folder: Path,
    errors: Path,
    dice: random.Random,
    cut: Callable[[Path, random.Random], None],
    found: Found,
) -> None:
    players.make(peer, folder, errors)
    board = Board()
    workers = players.Players(peer, folder, board, errors, dice.getrandbits(64), found)
    time.sleep(_SECONDS_BEFORE)
    for path in peer.files(folder):
        try:
            cut(path, dice)
        except FileNotFoundError:
            continue  # A worker has just removed the file.
    time.sleep(_SECONDS_AFTER)
    workers.look_after(replace=False)
    stuck = [player for player in range(PLAYERS) if board.at(player, Count.ERRORS_IN_A_ROW) > 0]
    workers.end()
    # After a cut, entries may be lost or older, but each value must be its key's.
    found.wrong += board.sum(Count.WRONG)
    if stuck:
        found.add("workers that went on raising errors, though they opened it again", len(stuck))
    found.unusable += not is_usable(peer, folder, errors, found)


def is_usable(peer: Peer, folder: Path, errors: Path, found: Found) -> bool:
    """Return whether a new process can store and read; note how it ended."""
    used, came_to = players.answer(lambda: _use(peer, folder), errors, _USE_SECONDS_MAX)
    found.note(came_to)
    return bool(used)


def _use(peer: Peer, folder: Path) -> bool:
    store = peer.open(folder)
    for index in range(50):
        key = f"new:{index}"
        value = stamps.make(key, 232, Stamp(index))
        store.set(key, value)
        if store.get(key) != value:
            return False
    return True
