"""T-C1, short form: bytes and pages of the files are changed, and a pickle is planted.

Owns the damage. Each case is a damaged copy of one cache, read by a new process.
"""

from __future__ import annotations

import pickle
import random
import shutil
from pathlib import Path

from reliability.peers import players
from reliability.peers.board import CANARIES
from reliability.peers.cuts import is_usable
from reliability.peers.found import Found
from reliability.peers.systems import Peer

_PAGE = 4096
_PAGES_ONE_IN = 3
_SECONDS_MAX = 20.0


class _Payload:
    """A pickle that creates a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self._path), "w")


def run(peer: Peer, folder: Path, errors: Path, seed: int, cases: int) -> Found:
    """Damage `cases` copies of a cache, each in one byte or one page, and read them."""
    dice = random.Random(seed)
    found = Found(cases, "damaged files", there_at_best=CANARIES)
    whole = folder / "whole"
    whole.mkdir()
    players.make(peer, whole, errors)
    fewest = {False: CANARIES, True: CANARIES}
    refused = 0
    for number in range(cases):
        copy = folder / "copy"
        shutil.copytree(whole, copy)
        page = number % _PAGES_ONE_IN == 0
        _damage(peer.files(copy), dice, page=page)
        read, came_to = players.answer(lambda: players.audit(peer, copy), errors, _SECONDS_MAX)  # noqa: B023
        found.note(came_to)
        refused += came_to == "raised"
        if read is not None:
            found.wrong += read["wrong"]
            fewest[page] = min(fewest[page], read["there"])
        found.unusable += not is_usable(peer, copy, errors, found)
        shutil.rmtree(copy)
    found.figures["fewest entries found after a damaged byte, where it opened"] = fewest[False]
    found.figures["fewest entries found after a damaged page, where it opened"] = fewest[True]
    found.figures["files that could not be opened or read"] = refused
    found.code_ran = _planted(peer, folder, errors)
    found.errors = players.error_counts(errors)
    return found


def _damage(files: list[Path], dice: random.Random, *, page: bool) -> None:
    path = dice.choices(files, weights=[file.stat().st_size for file in files])[0]
    size = path.stat().st_size
    with path.open("r+b") as file:
        if page:
            file.seek(dice.randrange((size + _PAGE - 1) // _PAGE) * _PAGE)
            file.write(dice.choice((bytes(_PAGE), dice.randbytes(_PAGE))))
            file.truncate(size)
        else:
            place = dice.randrange(size)
            file.seek(place)
            old = file.read(1)[0]
            file.seek(place)
            file.write(bytes([old ^ dice.randrange(1, 256)]))


def _planted(peer: Peer, folder: Path, errors: Path) -> bool:
    """Return whether reading a planted value runs the code in it."""
    place = folder / "planted"
    place.mkdir()
    sign = folder / "the-code-ran"
    payload = pickle.dumps(_Payload(sign))

    def read() -> None:
        store = peer.open(place)
        for key in ("planted", "planted:raw"):
            try:
                store.get(key)
            except Exception as error:
                players.write_error(errors, error)

    players.answer(lambda: peer.plant(place, "planted", payload), errors, _SECONDS_MAX)
    players.answer(read, errors, _SECONDS_MAX)
    return sign.exists()
