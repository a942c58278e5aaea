"""T-R6, lite: a process is stopped while it writes; another one reads and writes meanwhile.

Owns the stopping, and how long an answer may take. The writer stores large values, so that a stop
at a random moment often finds it inside.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import time
from contextlib import suppress
from pathlib import Path

from reliability.peers import crew, stamps
from reliability.peers.adapters import Peer
from reliability.peers.board import CANARIES, canary_of
from reliability.peers.found import Found
from reliability.peers.stamps import Stamp

# Without an answer for so long, an operation is held up by the stopped process.
ANSWER_SECONDS = 2.0
_VALUE_BYTES = 20_000
_WRITTEN_KEYS = 16
_LOOKS = 16
_SECONDS_BEFORE_STOP_MAX = 0.03
_END_SECONDS = 75.0


def run(peer: Peer, folder: Path, errors: Path, seed: int, stops: int) -> Found:
    """Stop a writer so often, each time while a prober reads and writes."""
    dice = random.Random(seed)
    found = Found(stops, "stops", held_up={"reads": 0, "writes": 0})
    crew.make(peer, folder, errors)
    writer = crew.fork(lambda: _write(peer, folder, seed), errors)
    prober = _Prober(peer, folder, errors)
    try:
        for _ in range(stops):
            time.sleep(dice.random() * _SECONDS_BEFORE_STOP_MAX)
            os.kill(writer, signal.SIGSTOP)
            os.waitpid(writer, os.WUNTRACED)
            held_up = prober.held_up()
            os.kill(writer, signal.SIGCONT)
            if held_up is None:
                continue
            found.held_up[held_up] += 1
            if not prober.goes_on():
                found.hung += 1
                break
    finally:
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        found.add_deaths(prober.end())
    found.wrong = prober.wrong
    found.lost = prober.lost
    found.figures["writes that were refused in time"] = prober.refused
    found.errors = crew.told(errors)
    return found


def _write(peer: Peer, folder: Path, seed: int) -> None:
    store = peer.open(folder)
    dice = random.Random(seed)
    sequence = 0
    while True:
        key = f"large:{dice.randrange(_WRITTEN_KEYS)}"
        sequence += 1
        store.set(key, stamps.make(key, Stamp(1, sequence), _VALUE_BYTES))


class _Prober:
    """A process that has the cache open, and reads and writes when it is asked to."""

    def __init__(self, peer: Peer, folder: Path, errors: Path) -> None:
        self.wrong = 0
        self.lost = 0
        self.refused = 0
        self._due: list[str] = []
        self._asked, asked = os.pipe()
        answers, self._answers = os.pipe()
        self._ask, self._answer = asked, answers
        self._text = b""
        self._pid = crew.fork(lambda: self._serve(peer, folder, errors), errors)

    def held_up(self) -> str | None:
        """Ask for reads and a write; return which had no answer in time, None if both had."""
        os.write(self._ask, b"?")
        self._due = ["reads", "writes"]
        for what in ("reads", "writes"):
            if not self._take(ANSWER_SECONDS):
                return what
        return None

    def goes_on(self) -> bool:
        """Say whether the answers come, now that nobody is stopped any more."""
        while self._due:
            if not self._take(_END_SECONDS):
                return False
        return True

    def _take(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while b"\n" not in self._text:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._answer], [], [], left)[0]:
                return False
            part = os.read(self._answer, 4096)
            if not part:
                return False
            self._text += part
        line, _, self._text = self._text.partition(b"\n")
        said = json.loads(line)
        self.wrong += said["wrong"]
        self.lost += said["lost"]
        self.refused += said["refused"]
        self._due.pop(0)
        return True

    def _serve(self, peer: Peer, folder: Path, errors: Path) -> None:
        store = peer.open(folder)
        dice = random.Random(1)
        # Its own copy of the other end is closed, so that the supervisor's end is the last one.
        os.close(self._ask)
        while os.read(self._asked, 1):
            counts = {"wrong": 0, "lost": 0, "refused": 0}
            for _ in range(_LOOKS):
                index = dice.randrange(CANARIES)
                value = store.get(canary_of(index))
                counts["lost"] += value is None
                counts["wrong"] += value not in (None, crew.canary_value(index))
            os.write(self._answers, json.dumps(counts).encode() + b"\n")
            counts = {"wrong": 0, "lost": 0, "refused": 0}
            key = f"large:{dice.randrange(_WRITTEN_KEYS)}"
            try:
                store.set(key, stamps.make(key, Stamp(2, 1), _VALUE_BYTES))
            except Exception as error:
                crew.tell(errors, error)
                counts["refused"] = 1
            os.write(self._answers, json.dumps(counts).encode() + b"\n")

    def end(self) -> list[str]:
        """End it, and return what it came to if that is not well."""
        os.close(self._ask)
        came_to = crew.end_of(self._pid, 5.0)
        for descriptor in (self._asked, self._answers, self._answer):
            with suppress(OSError):
                os.close(descriptor)
        return [came_to] if came_to and came_to.startswith("died") else []
