"""The players of a trial: what its processes do with a cache, and who takes a dead one's place.

Owns what they do. A player checks every answer by the board; the supervisor never has the cache
open itself, so that no handle crosses a fork.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from lab.hosts.python.contract import Store
from reliability.peers.board import (
    CANARIES,
    KEYS_EACH,
    SEATS,
    Board,
    Count,
    canary_of,
    key_of,
    now_us,
    removes,
    verdict,
)
from reliability.peers.found import Found
from reliability.peers.systems import Peer
from rig import stamps
from rig.crew import CrewError, Worker, call
from rig.stamps import Stamp, WrongAnswerError

T = TypeVar("T")

# An operation without an answer for so long has hung. Others may have all processors meanwhile.
HANG_SECONDS = 10.0
# A cache that was not made by then never will be. The disk may be writing back what others wrote.
_MAKE_SECONDS_MAX = 60.0
_ERRORS_TOLD_MAX = 20
# A program that gets nothing but errors opens its cache again.
_ERRORS_BEFORE_REOPENING = 20
_VALUE_BYTES = 332


def canary_value(index: int) -> bytes:
    """Return the value of a canary."""
    return stamps.make(canary_of(index), _VALUE_BYTES)


def tell(errors: Path, error: BaseException) -> None:
    """Add an error to the file of errors: its class and the first line of what it says."""
    said = (str(error).splitlines() or [""])[0]
    line = json.dumps([type(error).__name__, said])
    with errors.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def told(errors: Path) -> dict[str, int]:
    """Return how often each class of error was told."""
    if not errors.exists():
        return {}
    lines = errors.read_text("utf-8").splitlines()
    return dict(Counter(json.loads(line)[0] for line in lines).most_common())


def answer(
    work: Callable[[], T], errors: Path, seconds_max: float
) -> tuple[T, None] | tuple[None, str]:
    """Return what `work` returned in a process, or what the process came to.

    That is "hung", "died of SIGNAL", or "raised", with its error in the file.
    """
    try:
        return call(partial(telling, work, errors), seconds_max), None
    except CrewError as error:
        return None, error.came_to


def started(work: Callable[[], object], errors: Path) -> Worker:
    """Have a forked process work by itself. What it raises goes to the file of errors."""
    return Worker(telling, work, errors, forked=True, name="a player")


def telling(work: Callable[[], T], errors: Path) -> T:
    """Return what `work` returns; what it raises is told in the file of errors first."""
    try:
        return work()
    except Exception as error:
        tell(errors, error)
        raise


class Player:
    """What one seat does with the cache, in its process."""

    def __init__(
        self, open_: Callable[[], Store], board: Board, seat: int, errors: Path, seed: int
    ) -> None:
        self._open = open_
        self._store = open_()
        self._board = board
        self._seat = seat
        self._errors = errors
        self._random = random.Random(seed)
        self._told = 0

    def run(self) -> None:
        """Work until the board says stop."""
        while not self._board.stopped:
            self._board.put(self._seat, Count.STARTED_US, now_us())
            try:
                in_a_row = self._board.at(self._seat, Count.ERRORS_IN_A_ROW)
                if in_a_row and in_a_row % _ERRORS_BEFORE_REOPENING == 0:
                    self._store.close()
                    self._store = self._open()
                self._step()
                self._board.put(self._seat, Count.ERRORS_IN_A_ROW, 0)
            except Exception as error:
                self._board.add(self._seat, Count.ERRORS)
                self._board.add(self._seat, Count.ERRORS_IN_A_ROW)
                self._told += 1
                if self._told <= _ERRORS_TOLD_MAX:
                    tell(self._errors, error)
            self._board.put(self._seat, Count.STARTED_US, 0)
            self._board.add(self._seat, Count.OPERATIONS)

    def _step(self) -> None:
        dice = self._random.random()
        if dice < 0.2:
            self._change(self._random.randrange(KEYS_EACH))
        elif dice < 0.8:
            seat, index = self._random.randrange(SEATS), self._random.randrange(KEYS_EACH)
            self.check(seat, index)
        else:
            index = self._random.randrange(CANARIES)
            key = canary_of(index)
            found = self._store.get(key)
            self._count(found, foreign(key, found, missing="lost"))

    def _change(self, index: int) -> None:
        key = key_of(self._seat, index)
        sequence = self._board.begin(self._seat, index)
        if removes(key, sequence):
            self._store.delete(key)
        else:
            size = self._random.choice((132, 332, 2032, 9032))
            self._store.set(key, stamps.make(key, size, Stamp(sequence, self._seat)))
        self._board.done(self._seat, index, sequence)

    def check(self, seat: int, index: int) -> None:
        """Read a key and judge the answer."""
        key = key_of(seat, index)
        before, _ = self._board.known(seat, index)
        found = self._store.get(key)
        _, after = self._board.known(seat, index)
        self._count(found, judged(key, found, before, after))

    def _count(self, found: object, wrong: str | None) -> None:
        if wrong is not None:
            count = {"lost": Count.LOST, "stale": Count.STALE}.get(wrong, Count.WRONG)
            self._board.add(self._seat, count)
        elif found is not None:
            self._board.add(self._seat, Count.HITS)


def judged(key: str, found: object, before: int, after: int) -> str | None:
    """Return why what was found is wrong, by the changes that were known; None if it is right."""
    if found is None:
        return verdict(key, before, after, None)
    try:
        return verdict(key, before, after, stamps.read(key, found).sequence)
    except WrongAnswerError as error:
        return str(error)


def foreign(key: str, found: object, missing: str | None = None) -> str | None:
    """Return why what was found is none of the key's values; None if it is one."""
    if found is None:
        return missing
    try:
        stamps.read(key, found)
    except WrongAnswerError as error:
        return str(error)
    return None


class MadeError(Exception):
    """A cache could not even be made: the trial shows nothing."""


def make(peer: Peer, folder: Path, errors: Path) -> None:
    """Make the cache, with the entries that nobody touches, in a child. Raises MadeError."""

    def work() -> None:
        store = peer.open(folder)
        for index in range(CANARIES):
            store.set(canary_of(index), canary_value(index))
        store.close()

    _, came_to = answer(work, errors, _MAKE_SECONDS_MAX)
    if came_to is not None:
        raise MadeError(f"{peer.name}: the process that made the cache {came_to}")


def audit(peer: Peer, folder: Path, board: Board | None = None) -> dict[str, int]:
    """Read everything with a new handle, when nobody changes anything. For a child.

    `there` and `lost` count canaries; without a board own keys are judged by their stamps alone.
    """
    found = {"there": 0, "lost": 0, "wrong": 0, "own_lost": 0, "errors": 0}
    store = peer.open(folder)
    for index in range(CANARIES):
        try:
            wrong = foreign(canary_of(index), store.get(canary_of(index)), missing="lost")
        except Exception:
            found["errors"] += 1
            continue
        name = "there" if wrong is None else "lost" if wrong == "lost" else "wrong"
        found[name] += 1
    for seat in range(SEATS):
        for index in range(KEYS_EACH):
            key = key_of(seat, index)
            try:
                value = store.get(key)
            except Exception:
                found["errors"] += 1
                continue
            if board is not None:
                wrong = judged(key, value, *board.known(seat, index))
            else:
                wrong = foreign(key, value)
            if wrong is not None:
                found["own_lost" if wrong == "lost" else "wrong"] += 1
    return found


class Players:
    """Four players on one cache, replaced when they die."""

    def __init__(
        self, peer: Peer, folder: Path, board: Board, errors: Path, seed: int, found: Found
    ) -> None:
        self.refused = 0
        self._open = partial(peer.open, folder)
        self._board = board
        self._errors = errors
        self._found = found
        self._random = random.Random(seed)
        self._workers = {seat: self._start(seat) for seat in range(SEATS)}

    def _start(self, seat: int) -> Worker:
        self._board.put(seat, Count.STARTED_US, 0)
        seed = self._random.getrandbits(64)
        return started(
            lambda: Player(self._open, self._board, seat, self._errors, seed).run(), self._errors
        )

    def kill(self, seat: int) -> None:
        """Kill the player of a seat and start another one."""
        self._note(self._workers[seat].kill())
        self._workers[seat] = self._start(seat)

    def look_after(self, *, replace: bool) -> None:
        """Note who died by itself, and who hangs; put others in their place if `replace`."""
        for seat in self._board.overdue(HANG_SECONDS):
            self._found.hung += 1
            self._workers[seat].kill()
        for seat, worker in list(self._workers.items()):
            if worker.has_ended:
                self._note(worker.leave())
                del self._workers[seat]
                self._board.put(seat, Count.STARTED_US, 0)
                if replace:
                    self._workers[seat] = self._start(seat)

    def end(self) -> None:
        """Let all players end, and kill those that do not."""
        self._board.stopped = True
        for worker in self._workers.values():
            self._note(worker.leave(HANG_SECONDS))

    def _note(self, came_to: str | None) -> None:
        self.refused += came_to == "raised"
        # Only the supervisor kills.
        if came_to != "died of SIGKILL":
            self._found.note(came_to)
