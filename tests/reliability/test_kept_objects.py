"""T-I3: a handle that keeps the objects it has returned (``local``) returns none that a get of the
shared entry would not return at that moment."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from reliability.changes import (
    READERS,
    WRITERS,
    Board,
    Reader,
    Writer,
    create_all,
    groups,
    open_all,
)
from reliability.crowds import HANG_S
from tuckbox import Cache

if TYPE_CHECKING:
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-I3"), pytest.mark.timeout(300)]

KEPT_MIN = 0.2
"""The share of gets that return the very object of the get before, at least."""
CONTROL_GETS = 400_000

_fork = multiprocessing.get_context("fork")


class Stale(AssertionError):
    """A get returned what was not there at that moment."""


def play(
    folder: Path,
    gets: int,
    seed: int,
    *,
    kills: int = 0,
    sizes: tuple[str, ...] = (),
    readers: type[Cache] = Cache,
    **local: str,
) -> Board:
    """Read so often while writers change everything, some are killed, and a file is resized."""
    dice = random.Random(seed)
    caches = create_all(str(folder))
    board = Board(sum(len(group.keys) for group in groups()))

    def write(number: int, seed: float) -> None:
        Writer(open_all(Cache, str(folder)), board, number, seed).play()

    def read(number: int, seed: float) -> None:
        reader = Reader(open_all(readers, str(folder), **local), board, number, seed)
        reader.play(gets // READERS // 2)
        # The child has a copy of the kept objects.
        child = os.fork()
        if child == 0:
            status = 1
            try:
                reader.play()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0, "the child failed"

    def start(work: Any, number: int) -> Any:
        process = _fork.Process(target=work, args=(number, dice.random()))
        process.start()
        return process

    writers = [start(write, number) for number in range(WRITERS)]
    running = [start(read, number) for number in range(READERS)]
    moments = [(dice.randrange(gets), "kill") for _ in range(kills)]
    moments += [(dice.randrange(gets), size) for size in sizes]
    try:
        for moment, what in [*sorted(moments), (gets, "")]:
            _wait_for(board, moment, [*writers, *running])
            if what == "kill":
                number = dice.randrange(WRITERS)
                writers[number].kill()
                writers[number].join()
                writers[number] = start(write, number)
            elif what:
                caches[0].resize(what)
    finally:
        board.stop()
        for process in [*writers, *running]:
            process.join(HANG_S)
            hangs = process.is_alive()
            process.kill()
            process.join()
        for cache in caches:
            cache.check()
            assert cache.check().is_sound
            cache.close()
    assert not hangs, "a process does not end"
    assert {process.exitcode for process in [*writers, *running]} == {0}, "a process failed"
    if board.total(Board.STALE):
        raise Stale(f"{board.total(Board.STALE)} stale values of {board.total(Board.GETS)}")
    return board


def _wait_for(board: Board, gets: int, processes: list[Any]) -> None:
    before, changed_s = -1, time.monotonic()
    while (now := board.total(Board.GETS)) < gets:
        if now != before:
            before, changed_s = now, time.monotonic()
        assert time.monotonic() - changed_s < HANG_S, "the readers hang"
        assert all(process.exitcode is None for process in processes), "a process failed"
        time.sleep(0.001)


def test_no_kept_object_is_returned_that_is_not_current(
    tmp_path: Path, trials: Trials, size: Any, seed: int
) -> None:
    gets, kills = size(5_000_000, 100_000_000), size(10, 400)
    sizes = ("30 MB", "24 MB") * size(1, 20)
    board = play(tmp_path, gets, seed, kills=kills, sizes=sizes, local="2 MB")
    assert board.total(Board.KEPT) > KEPT_MIN * board.total(Board.GETS), "few objects were kept"
    trials.add(board.total(Board.GETS), "gets")
    trials.figure("kept", board.total(Board.KEPT))
    trials.figure("changes", board.total(Board.CHANGES))
    trials.figure("kills", kills)


def test_nor_where_few_objects_have_room(
    tmp_path: Path, trials: Trials, size: Any, seed: int
) -> None:
    board = play(tmp_path, size(500_000, 10_000_000), seed, local="20 kB")
    trials.add(board.total(Board.GETS), "gets")


# Caches that must be caught.


class TrustsForAWhile(Cache):
    """Returns what it has read for a hundredth of a second."""

    def get(self, key: Any, default: Any = None) -> Any:
        kept = self.__dict__.setdefault("kept", {})
        until_s, value = kept.get(key, (0, None))
        if time.monotonic() > until_s:
            value = super().get(key)
            kept[key] = time.monotonic() + 0.01, value
        return default if value is None else value


class SharesContainers(Cache):
    """Returns the same container each time, and so what the program did to it."""

    def get(self, key: Any, default: Any = None) -> Any:
        kept = self.__dict__.setdefault("containers", {})
        value = super().get(key, default)
        if not isinstance(value, dict):
            return value
        return kept.setdefault(key, value)


@pytest.mark.parametrize("kind", [TrustsForAWhile, SharesContainers])
def test_a_cache_that_returns_stale_objects_is_caught(kind: type[Cache], tmp_path: Path) -> None:
    with pytest.raises(Stale):
        play(tmp_path, CONTROL_GETS, 1, readers=kind)
