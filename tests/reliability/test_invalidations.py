"""T-I2: what was stored before a tag was evicted, a namespace cleared or a key deleted is not
served afterwards, by any process; what has other names is."""

from __future__ import annotations

import multiprocessing
import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from reliability.crowds import HANG_S, Journal
from reliability.storms import FEW, MANY, PLAYERS, Board, Count, Names, Player, plant_canaries
from tuckbox import Cache, memory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-I2"), pytest.mark.timeout(120)]

HITS_MIN = 0.05
"""The share of reads that find something, at least. On a sound build, about half of them do."""

_fork = multiprocessing.get_context("fork")


class Wrong(AssertionError):
    """Something was served that had been evicted, or of another key."""


class Lost(AssertionError):
    """Entries are missing that nobody evicted."""


class Storm:
    """Players, of which some are killed, on a cache that is resized."""

    def __init__(self, folder: Path, names: Names, seed: int) -> None:
        self.board = Board()
        self.journal = Journal(folder / "journal")
        self.names = names
        self.dice = random.Random(seed)

    def judge(self) -> None:
        """Raise what went wrong."""
        told = [note.what for note in self.journal.notes()][:5]
        self.journal.close()
        total = self.board.total
        if total(Count.WRONG):
            raise Wrong(f"{total(Count.WRONG)} wrong values, such as {told}")
        if total(Count.LOST):
            raise Lost(f"{total(Count.LOST)} entries that nobody evicted were lost, such as {told}")
        if total(Count.HITS) < HITS_MIN * total(Count.READS):
            raise Lost(f"{total(Count.READS)} reads had {total(Count.HITS)} hits")

    def processes(
        self, kind: type, path: str, operations: int, kills: int, sizes: Sequence[str] = ()
    ) -> None:
        """Play so many operations in processes. Kills and resizes come at numbers of operations."""
        # Few names have room for all entries and a row for each name.
        size = "16 MiB" if self.names is FEW else "64 KiB"
        with kind(path, size=size, lock_timeout=HANG_S) as cache:
            if self.names is FEW:
                plant_canaries(cache)
            players = [self._process(kind, path, number) for number in range(PLAYERS)]
            moments = [(self.dice.randrange(operations), "kill") for _ in range(kills)]
            moments += [(self.dice.randrange(operations), size) for size in sizes]
            try:
                for moment, what in [*sorted(moments), (operations, "")]:
                    self._wait_for(moment, players)
                    if what == "kill":
                        number = self.dice.randrange(PLAYERS)
                        players[number].kill()
                        players[number].join()
                        players[number] = self._process(kind, path, number)
                    elif what:
                        cache.resize(what)
            finally:
                self.board.stop()
                for player in players:
                    player.join(HANG_S)
                    hangs = player.is_alive()
                    player.kill()
                    player.join()
            assert not hangs, "a player does not end"
            assert {player.exitcode for player in players} == {0}, "a player failed"
            cache.check()
            assert cache.check().is_sound
        self.judge()

    def _process(self, kind: type, path: str, number: int) -> Any:
        def play(seed: float) -> None:
            with kind(path, lock_timeout=HANG_S) as cache:
                Player(cache, self.board, self.journal, number, seed, self.names).play()

        process = _fork.Process(target=play, args=(self.dice.random(),), daemon=True)
        process.start()
        return process

    def _wait_for(self, operations: int, players: list[Any]) -> None:
        before, changed_s = -1, time.monotonic()
        while (now := self.board.total(Count.OPERATIONS)) < operations:
            if now != before:
                before, changed_s = now, time.monotonic()
            assert time.monotonic() - changed_s < HANG_S, "all players hang"
            assert all(player.exitcode is None for player in players), "a player failed"
            time.sleep(0.0005)

    def threads(self, cache: Any, operations: int) -> None:
        """Play so many operations in threads."""
        plant_canaries(cache)
        failures = []

        def play(number: int, seed: float) -> None:
            try:
                one = Player(cache, self.board, self.journal, number, seed, self.names)
                one.play(operations // PLAYERS)
            except BaseException as error:
                failures.append(error)
                raise

        threads = [
            threading.Thread(target=play, args=(number, self.dice.random()), daemon=True)
            for number in range(PLAYERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(600)
            assert not thread.is_alive(), "a thread hangs"
        assert not failures
        self.judge()


def storm(folder: Path, kind: type, operations: int = 6000) -> Storm:
    """A short storm, for controls."""
    one = Storm(folder, FEW, 1)
    one.processes(kind, str(folder / "cache.tuck"), operations, 3)
    return one


def tell(trials: Trials, board: Board) -> None:
    trials.add(board.total(Count.OPERATIONS), "operations")
    trials.figure("invalidations", board.total(Count.INVALIDATIONS))
    trials.figure("hits", board.total(Count.HITS))
    trials.figure("stale_hits", board.total(Count.STALE_HITS))
    trials.figure("made", board.total(Count.MADE))


def test_nothing_evicted_returns_and_nothing_else_is_lost(
    tmp_path: Path, path: str, trials: Trials, size: Any, seed: int
) -> None:
    one = Storm(tmp_path, FEW, seed)
    kills, sizes = size(40, 2000), ["32 MiB", "16 MiB", "24 MiB"] * size(2, 50)
    one.processes(Cache, path, size(60_000, 3_000_000), kills, sizes)
    assert one.board.total(Count.STALE_HITS), "no stale entry was found"
    assert one.board.total(Count.MADE), "nothing was made"
    tell(trials, one.board)
    trials.figure("kills", kills)
    trials.figure("resizes", len(sizes))


def test_nothing_evicted_returns_where_rows_are_shared(
    tmp_path: Path, path: str, trials: Trials, size: Any, seed: int
) -> None:
    """Four rows for 37 tags, and four for 23 namespaces: too much is evicted, never too little."""
    one = Storm(tmp_path, MANY, seed)
    one.processes(Cache, path, size(30_000, 1_000_000), size(20, 500))
    trials.add(one.board.total(Count.OPERATIONS), "operations")


def test_nothing_evicted_returns_in_memory(
    tmp_path: Path, trials: Trials, size: Any, seed: int
) -> None:
    one = Storm(tmp_path, FEW, seed)
    one.threads(memory.Cache(), size(8000, 200_000))
    trials.add(one.board.total(Count.OPERATIONS), "operations")


# Caches that must be caught.


class ForgetsEvictions(Cache):
    """One eviction of ten is not carried out."""

    def evict(self, *, tag: str, soft: bool = False) -> None:
        if random.random() > 0.1:
            super().evict(tag=tag, soft=soft)


class Remembers(Cache):
    """Keeps what it has read, and so does not hear of the evictions of others."""

    def get(self, key: Any, default: Any = None) -> Any:
        kept = self.__dict__.setdefault("kept", {})
        if kept.get(key) is None:
            kept[key] = super().get(key)
        return default if kept[key] is None else kept[key]


class StoresAnyway(Cache):
    """Stores what was made, whatever was evicted meanwhile."""

    def _finish(self, token: Any, key: Any, value: Any, *terms: Any) -> bool:
        ttl, stale, tags, _ = terms
        self._abandon(token)
        time.sleep(0.001)
        self.set(key, value, ttl, stale=stale, tags=tags)
        return True


class Misses(Cache):
    def get(self, key: Any, default: Any = None) -> Any:
        return default


class EvictsAll(Cache):
    def evict(self, *, tag: str, soft: bool = False) -> None:
        self.clear()


@pytest.mark.parametrize("kind", [ForgetsEvictions, Remembers, StoresAnyway])
def test_a_cache_that_serves_what_was_evicted_is_caught(kind: type, tmp_path: Path) -> None:
    with pytest.raises(Wrong):
        storm(tmp_path, kind)


@pytest.mark.parametrize("kind", [Misses, EvictsAll])
def test_a_cache_that_loses_other_entries_is_caught(kind: type, tmp_path: Path) -> None:
    with pytest.raises(Lost):
        storm(tmp_path, kind)
