"""T-R1, short form: workers are killed while they work.

Owns the kills. Afterwards a new process reads everything: unchanged entries must be present.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from reliability.peers import players
from reliability.peers.board import CANARIES, PLAYERS, Board, Count
from reliability.peers.found import Found
from reliability.peers.systems import Peer

_SECONDS_BETWEEN_KILLS_MAX = 0.025
_KILLS_BETWEEN_AUDITS = 50
_AUDIT_SECONDS_MAX = 20.0


def run(peer: Peer, folder: Path, errors: Path, seed: int, kills: int) -> Found:
    """Kill workers of `peer`, one after the other, `kills` times."""
    dice = random.Random(seed)
    board = Board()
    found = Found(kills, "kills", there_at_best=CANARIES)
    players.make(peer, folder, errors)
    workers = players.Players(peer, folder, board, errors, seed, found)
    for number in range(kills):
        time.sleep(dice.random() * _SECONDS_BETWEEN_KILLS_MAX)
        workers.look_after(replace=True)
        workers.kill(dice.randrange(PLAYERS))
        if number % _KILLS_BETWEEN_AUDITS == _KILLS_BETWEEN_AUDITS - 1:
            # While the others work, only entries that nobody changes can be judged.
            _audit(peer, folder, errors, None, found)
    workers.end()
    _audit(peer, folder, errors, board, found)
    found.wrong += board.sum(Count.WRONG) + board.sum(Count.STALE)
    found.lost += board.sum(Count.LOST)
    found.errors = players.error_counts(errors)
    found.figures["operations"] = board.sum(Count.OPERATIONS)
    found.figures["hits"] = board.sum(Count.HITS)
    found.figures["processes that could not open it"] = workers.refused
    return found


def _audit(peer: Peer, folder: Path, errors: Path, board: Board | None, found: Found) -> None:
    read, came_to = players.answer(
        lambda: players.audit(peer, folder, board), errors, _AUDIT_SECONDS_MAX
    )
    found.note(came_to)
    found.unusable += came_to == "raised"
    if read is not None:
        found.wrong += read["wrong"]
        found.lost += read["lost"] + (read["own_lost"] if board else 0)
        found.add("reads that raised", read["errors"])
