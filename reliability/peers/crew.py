"""Workers on a peer: forked, counted, stopped, killed, and their deaths told apart.

Owns the processes of a trial and what they do with a cache. A worker checks every answer by the
board; the supervisor never has the cache open itself, so that no handle crosses a fork.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from reliability.peers import stamps
from reliability.peers.adapters import Peer, Store
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
from reliability.peers.stamps import ForgedError, Stamp

# An operation without an answer for so long has hung. Others may have all processors meanwhile.
HANG_SECONDS = 10.0
# A cache that was not made by then never will be. The disk may be writing back what others wrote.
_MAKE_SECONDS_MAX = 60.0
_ERRORS_TOLD_MAX = 20
# A program that gets nothing but errors opens its cache again.
_ERRORS_BEFORE_REOPENING = 20
_VALUE_BYTES = 300


def canary_value(index: int) -> bytes:
    """Return the value of a canary."""
    return stamps.make(canary_of(index), Stamp(0, index), _VALUE_BYTES)


def fork(work: Callable[[], None], errors: Path) -> int:
    """Run `work` in a child, which ends with status 0, or 1 with its error in the file."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        # Only the supervisor knows what to do on these.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        work()
        status = 0
    except BaseException as error:
        tell(errors, error)
    finally:
        sys.stdout.flush()
        os._exit(status)


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


def answer(work: Callable[[], Any], errors: Path, seconds_max: float) -> tuple[Any, str | None]:
    """Return what `work` returned in a child, or None and what the child came to.

    That is "hung", "died of SIGNAL" or "raised".
    """
    reader, writer = os.pipe()

    def child() -> None:
        os.close(reader)
        os.write(writer, json.dumps(work()).encode())

    pid = fork(child, errors)
    os.close(writer)
    came_to = end_of(pid, seconds_max)
    data = b""
    while part := os.read(reader, 65536):
        data += part
    os.close(reader)
    return (json.loads(data), None) if came_to is None else (None, came_to)


def end_of(pid: int, seconds_max: float) -> str | None:
    """Wait for a child; None if it ended well, else "hung" (and killed), "died ..." or "raised"."""
    descriptor = os.pidfd_open(pid)
    ended = bool(select.select([descriptor], [], [], seconds_max)[0])
    os.close(descriptor)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if not ended:
        return "hung"
    return _came_to(status)


def _came_to(status: int) -> str | None:
    if os.WIFSIGNALED(status):
        return f"died of {signal.Signals(os.WTERMSIG(status)).name}"
    return "raised" if os.WEXITSTATUS(status) else None


class Worker:
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
            self._count(*_look(self._store, canary_of(index), 0, 0, canary=True))

    def _change(self, index: int) -> None:
        key = key_of(self._seat, index)
        sequence = self._board.begin(self._seat, index)
        if removes(key, sequence):
            self._store.delete(key)
        else:
            size = self._random.choice((100, 300, 2000, 9000))
            self._store.set(key, stamps.make(key, Stamp(self._seat, sequence), size))
        self._board.done(self._seat, index, sequence)

    def check(self, seat: int, index: int) -> None:
        """Read a key and judge the answer."""
        key = key_of(seat, index)
        before, _ = self._board.known(seat, index)
        found = self._store.get(key)
        _, after = self._board.known(seat, index)
        self._count(*judged(key, found, before, after))

    def _count(self, hit: bool, wrong: str | None) -> None:
        if wrong is not None:
            count = {"lost": Count.LOST, "stale": Count.STALE}.get(wrong, Count.WRONG)
            self._board.add(self._seat, count)
        elif hit:
            self._board.add(self._seat, Count.HITS)


def judged(key: str, found: object, before: int, after: int) -> tuple[bool, str | None]:
    """Return whether something was found, and why it is wrong; None if it is right."""
    if found is None:
        return False, verdict(key, before, after, None)
    try:
        stamp = stamps.read(key, found)
    except ForgedError as error:
        return True, str(error)
    return True, verdict(key, before, after, stamp.sequence)


def _look(
    store: Store, key: str, before: int, after: int, *, canary: bool
) -> tuple[bool, str | None]:
    found = store.get(key)
    if not canary:
        return judged(key, found, before, after)
    if found is None:
        return False, "lost"
    try:
        stamps.read(key, found)
    except ForgedError as error:
        return True, str(error)
    return True, None


class MadeError(Exception):
    """A cache could not even be made: the trial shows nothing."""


def make(peer: Peer, folder: Path, errors: Path) -> None:
    """Make the cache, with the entries that nobody touches, in a child. Raises MadeError."""

    def work() -> None:
        store = peer.open(folder)
        for index in range(CANARIES):
            store.set(canary_of(index), canary_value(index))
        store.close()

    came_to = end_of(fork(work, errors), _MAKE_SECONDS_MAX)
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
            _, wrong = _look(store, canary_of(index), 0, 0, canary=True)
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
                _, wrong = judged(key, value, *board.known(seat, index))
            else:
                wrong = _forged(key, value)
            if wrong is not None:
                found["own_lost" if wrong == "lost" else "wrong"] += 1
    return found


def _forged(key: str, value: object) -> str | None:
    if value is None:
        return None
    try:
        stamps.read(key, value)
    except ForgedError as error:
        return str(error)
    return None


class Crew:
    """Four workers on one cache, replaced when they die."""

    def __init__(self, peer: Peer, folder: Path, board: Board, errors: Path, seed: int) -> None:
        self.deaths: list[str] = []
        self.refused = 0
        self.hung = 0
        self._peer = peer
        self._folder = folder
        self._board = board
        self._errors = errors
        self._random = random.Random(seed)
        self.pids = [self._start(seat) for seat in range(SEATS)]

    def _start(self, seat: int) -> int:
        seed = self._random.getrandbits(64)

        def work() -> None:
            open_ = partial(self._peer.open, self._folder)
            Worker(open_, self._board, seat, self._errors, seed).run()

        return fork(work, self._errors)

    def kill(self, seat: int) -> None:
        """Kill the worker of a seat and start another one."""
        os.kill(self.pids[seat], signal.SIGKILL)
        _, status = os.waitpid(self.pids[seat], 0)
        self._note(status)
        self._replace(seat)

    def look_after(self, *, replace: bool) -> None:
        """Note who died by itself, and who hangs; put others in their place if `replace`."""
        for seat in self._board.overdue(HANG_SECONDS):
            self.hung += 1
            os.kill(self.pids[seat], signal.SIGKILL)
        for seat, pid in enumerate(self.pids):
            if pid == 0:
                continue
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self._note(status)
                self.pids[seat] = 0
                self._board.put(seat, Count.STARTED_US, 0)
                if replace:
                    self._replace(seat)

    def _note(self, status: int) -> None:
        came_to = _came_to(status)
        if came_to == "raised":
            self.refused += 1
        elif came_to is not None and came_to != "died of SIGKILL":
            # Only the supervisor kills.
            self.deaths.append(came_to)

    def _replace(self, seat: int) -> None:
        self._board.put(seat, Count.STARTED_US, 0)
        self.pids[seat] = self._start(seat)

    def end(self) -> None:
        """Let all workers end, and kill those that do not."""
        self._board.stopped = True
        for seat, pid in enumerate(self.pids):
            if pid:
                came_to = end_of(pid, HANG_SECONDS)
                if came_to == "hung":
                    self.hung += 1
                elif came_to == "raised":
                    self.refused += 1
                elif came_to is not None:
                    self.deaths.append(came_to)
                self.pids[seat] = 0
