"""T-R6, short form: a process is stopped while it writes; another reads and writes meanwhile.

Owns the stops, and how long an answer may take. The writer stores large values, so that a random
stop often falls into a write.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from pathlib import Path

from reliability.peers import players
from reliability.peers.board import CANARIES, canary_of
from reliability.peers.found import Found
from reliability.peers.systems import Peer
from rig import stamps
from rig.crew import CrewError, HungError, Worker
from rig.stamps import Stamp

# An operation without an answer for this long is held up by the stopped process.
ANSWER_SECONDS = 2.0
_VALUE_BYTES = 20_032
_WRITTEN_KEYS = 16
_LOOKS = 16
_SECONDS_BEFORE_STOP_MAX = 0.03
_END_SECONDS = 75.0
_GOODBYE_SECONDS = 5.0


def run(peer: Peer, folder: Path, errors: Path, seed: int, stops: int) -> Found:
    """Stop a writer `stops` times, each time while a prober reads and writes."""
    dice = random.Random(seed)
    found = Found(stops, "stops", held_up={"reads": 0, "writes": 0})
    players.make(peer, folder, errors)
    writer = players.started(lambda: _write(peer, folder, seed), errors)
    prober = Worker(_Prober, peer, folder, errors, forked=True, name="the prober")
    try:
        for _ in range(stops):
            time.sleep(dice.random() * _SECONDS_BEFORE_STOP_MAX)
            os.kill(writer.pid, signal.SIGSTOP)
            os.waitpid(writer.pid, os.WUNTRACED)
            held_up = _held_up(prober, found)
            os.kill(writer.pid, signal.SIGCONT)
            if held_up is not None:
                found.held_up[held_up] += 1
            # Nobody is stopped, so all answers come.
            while prober.is_due:
                _take(prober, found, _END_SECONDS)
    except CrewError:
        found.hung += 1
    finally:
        writer.kill()
        came_to = prober.leave(_GOODBYE_SECONDS)
        found.note(came_to if came_to != "hung" else None)
    found.errors = players.error_counts(errors)
    return found


def _held_up(prober: Worker, found: Found) -> str | None:
    """Ask for reads and a write. Return which got no answer in time, None if both did."""
    prober.begin("reads")
    prober.begin("writes")
    for what in ("reads", "writes"):
        try:
            _take(prober, found, ANSWER_SECONDS)
        except HungError:
            return what
    return None


def _take(prober: Worker, found: Found, seconds_max: float) -> None:
    counts = prober.answer(seconds_max)
    found.wrong += counts["wrong"]
    found.lost += counts["lost"]
    found.add("writes that were refused in time", counts["refused"])


def _write(peer: Peer, folder: Path, seed: int) -> None:
    store = peer.open(folder)
    dice = random.Random(seed)
    for sequence in itertools.count(1):
        key = f"large:{dice.randrange(_WRITTEN_KEYS)}"
        store.set(key, stamps.make(key, _VALUE_BYTES, Stamp(sequence, 1)))


class _Prober:
    """A process that has the cache open, and reads and writes when asked."""

    def __init__(self, peer: Peer, folder: Path, errors: Path) -> None:
        self._store = peer.open(folder)
        self._errors = errors
        self._dice = random.Random(1)

    def reads(self) -> dict[str, int]:
        """Read some entries that nobody changes."""
        return players.writing_errors(self._looks, self._errors)

    def _looks(self) -> dict[str, int]:
        counts = {"wrong": 0, "lost": 0, "refused": 0}
        for _ in range(_LOOKS):
            index = self._dice.randrange(CANARIES)
            value = self._store.get(canary_of(index))
            counts["lost"] += value is None
            counts["wrong"] += value not in (None, players.canary_value(index))
        return counts

    def writes(self) -> dict[str, int]:
        """Write one of the keys that the writer writes."""
        counts = {"wrong": 0, "lost": 0, "refused": 0}
        key = f"large:{self._dice.randrange(_WRITTEN_KEYS)}"
        try:
            self._store.set(key, stamps.make(key, _VALUE_BYTES, Stamp(1, 2)))
        except Exception as error:
            players.write_error(self._errors, error)
            counts["refused"] = 1
        return counts
