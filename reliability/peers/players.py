"""The players of a trial: what its processes do with a cache, and how dead ones are replaced.

Owns what they do. A player checks every answer against the board. The supervisor never opens the
cache, so that no handle crosses a fork.
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
    PLAYERS,
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

# An operation without an answer for this long has hung. The machine may be busy.
HANG_SECONDS = 10.0
# The time limit for creating a cache. The disk may be busy with writeback.
_MAKE_SECONDS_MAX = 60.0
_ERRORS_WRITTEN_MAX = 20
# After this many errors in a row, a program reopens its cache.
_ERRORS_BEFORE_REOPENING = 20
_VALUE_BYTES = 332


def canary_value(index: int) -> bytes:
    """Return the value of a canary."""
    return stamps.make(canary_of(index), _VALUE_BYTES)


def write_error(errors: Path, error: BaseException) -> None:
    """Append the class and the first line of an error to the file of errors."""
    said = (str(error).splitlines() or [""])[0]
    line = json.dumps([type(error).__name__, said])
    with errors.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def error_counts(errors: Path) -> dict[str, int]:
    """Return how often each class of error is in the file."""
    if not errors.exists():
        return {}
    lines = errors.read_text("utf-8").splitlines()
    return dict(Counter(json.loads(line)[0] for line in lines).most_common())


def answer(
    work: Callable[[], T], errors: Path, seconds_max: float
) -> tuple[T, None] | tuple[None, str]:
    """Return what `work` returned in a process, or how the process ended.

    That is "hung", "died of SIGNAL", or "raised", with its error in the file.
    """
    try:
        return call(partial(writing_errors, work, errors), seconds_max), None
    except CrewError as error:
        return None, error.came_to


def started(work: Callable[[], object], errors: Path) -> Worker:
    """Start `work` in a forked process. Its exceptions go to the file of errors."""
    return Worker(writing_errors, work, errors, forked=True, name="a player")


def writing_errors(work: Callable[[], T], errors: Path) -> T:
    """Return what `work` returns. Writes what it raises to the file of errors."""
    try:
        return work()
    except Exception as error:
        write_error(errors, error)
        raise


class Player:
    """The work of a process with the cache."""

    def __init__(
        self, open_: Callable[[], Store], board: Board, player: int, errors: Path, seed: int
    ) -> None:
        self._open = open_
        self._store = open_()
        self._board = board
        self._player = player
        self._errors = errors
        self._random = random.Random(seed)
        self._written = 0

    def run(self) -> None:
        """Work until the board says stop."""
        while not self._board.stopped:
            self._board.put(self._player, Count.STARTED_US, now_us())
            try:
                in_a_row = self._board.at(self._player, Count.ERRORS_IN_A_ROW)
                if in_a_row and in_a_row % _ERRORS_BEFORE_REOPENING == 0:
                    self._store.close()
                    self._store = self._open()
                self._step()
                self._board.put(self._player, Count.ERRORS_IN_A_ROW, 0)
            except Exception as error:
                self._board.add(self._player, Count.ERRORS)
                self._board.add(self._player, Count.ERRORS_IN_A_ROW)
                self._written += 1
                if self._written <= _ERRORS_WRITTEN_MAX:
                    write_error(self._errors, error)
            self._board.put(self._player, Count.STARTED_US, 0)
            self._board.add(self._player, Count.OPERATIONS)

    def _step(self) -> None:
        dice = self._random.random()
        if dice < 0.2:
            self._change(self._random.randrange(KEYS_EACH))
        elif dice < 0.8:
            player, index = self._random.randrange(PLAYERS), self._random.randrange(KEYS_EACH)
            self.check(player, index)
        else:
            index = self._random.randrange(CANARIES)
            key = canary_of(index)
            found = self._store.get(key)
            self._count(found, foreign(key, found, missing="lost"))

    def _change(self, index: int) -> None:
        key = key_of(self._player, index)
        sequence = self._board.begin(self._player, index)
        if removes(key, sequence):
            self._store.delete(key)
        else:
            size = self._random.choice((132, 332, 2032, 9032))
            self._store.set(key, stamps.make(key, size, Stamp(sequence, self._player)))
        self._board.done(self._player, index, sequence)

    def check(self, player: int, index: int) -> None:
        """Read a key and judge the answer."""
        key = key_of(player, index)
        before, _ = self._board.known(player, index)
        found = self._store.get(key)
        _, after = self._board.known(player, index)
        self._count(found, judged(key, found, before, after))

    def _count(self, found: object, wrong: str | None) -> None:
        if wrong is not None:
            count = {"lost": Count.LOST, "stale": Count.STALE}.get(wrong, Count.WRONG)
            self._board.add(self._player, count)
        elif found is not None:
            self._board.add(self._player, Count.HITS)


def judged(key: str, found: object, before: int, after: int) -> str | None:
    """Return what is wrong with an answer, given the known changes; None if it is right."""
    if found is None:
        return verdict(key, before, after, None)
    try:
        return verdict(key, before, after, stamps.read(key, found).sequence)
    except WrongAnswerError as error:
        return str(error)


def foreign(key: str, found: object, missing: str | None = None) -> str | None:
    """Return why an answer is no value of the key; None if it is one."""
    if found is None:
        return missing
    try:
        stamps.read(key, found)
    except WrongAnswerError as error:
        return str(error)
    return None


class MadeError(Exception):
    """The cache could not be created, so the trial shows nothing."""


def make(peer: Peer, folder: Path, errors: Path) -> None:
    """Create the cache with its canaries, in a child process. Raises MadeError."""

    def work() -> None:
        store = peer.open(folder)
        for index in range(CANARIES):
            store.set(canary_of(index), canary_value(index))
        store.close()

    _, came_to = answer(work, errors, _MAKE_SECONDS_MAX)
    if came_to is not None:
        raise MadeError(f"{peer.name}: the process that created the cache {came_to}")


def audit(peer: Peer, folder: Path, board: Board | None = None) -> dict[str, int]:
    """Read everything with a new handle, while nobody changes anything. Call it in a child.

    `there` and `lost` count canaries. Without a board, other keys are judged only by their stamps.
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
    for player in range(PLAYERS):
        for index in range(KEYS_EACH):
            key = key_of(player, index)
            try:
                value = store.get(key)
            except Exception:
                found["errors"] += 1
                continue
            if board is not None:
                wrong = judged(key, value, *board.known(player, index))
            else:
                wrong = foreign(key, value)
            if wrong is not None:
                found["own_lost" if wrong == "lost" else "wrong"] += 1
    return found


class Players:
    """Four workers on one cache, replaced when they die."""

    def __init__(
        self, peer: Peer, folder: Path, board: Board, errors: Path, seed: int, found: Found
    ) -> None:
        self.refused = 0
        self._open = partial(peer.open, folder)
        self._board = board
        self._errors = errors
        self._found = found
        self._random = random.Random(seed)
        self._workers = {player: self._start(player) for player in range(PLAYERS)}

    def _start(self, player: int) -> Worker:
        self._board.put(player, Count.STARTED_US, 0)
        seed = self._random.getrandbits(64)
        return started(
            lambda: Player(self._open, self._board, player, self._errors, seed).run(), self._errors
        )

    def kill(self, player: int) -> None:
        """Kill a worker and start another in its place."""
        self._note(self._workers[player].kill())
        self._workers[player] = self._start(player)

    def look_after(self, *, replace: bool) -> None:
        """Note workers that died by themselves or hang. Replace the dead ones if `replace`."""
        for player in self._board.overdue(HANG_SECONDS):
            self._found.hung += 1
            self._workers[player].kill()
        for player, worker in list(self._workers.items()):
            if worker.has_ended:
                self._note(worker.leave())
                del self._workers[player]
                self._board.put(player, Count.STARTED_US, 0)
                if replace:
                    self._workers[player] = self._start(player)

    def end(self) -> None:
        """Tell all workers to end, and kill those that do not."""
        self._board.stopped = True
        for worker in self._workers.values():
            self._note(worker.leave(HANG_SECONDS))

    def _note(self, came_to: str | None) -> None:
        self.refused += came_to == "raised"
        # Only the supervisor kills.
        if came_to != "died of SIGKILL":
            self._found.note(came_to)
