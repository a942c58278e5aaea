"""The oracle catches systems that give wrong answers, lose entries, hang or block others."""

from __future__ import annotations

import dataclasses
import fcntl
import itertools
import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.hosts.python.contract import Store
from lab.peers import opener
from reliability.peers import board, comparing, damage, kills, stops, tables
from reliability.peers.board import verdict
from reliability.peers.found import Found
from reliability.peers.systems import PEERS, Peer
from rig import kept

_HONEST = PEERS["tuckbox"]
opener(_HONEST.row)  # As in a trial, imported before anything is forked.

Change = Callable[[Store], Store]


def _peer(change: Change, peer: Peer = _HONEST) -> Peer:
    return dataclasses.replace(peer, open=lambda folder: change(peer.open(folder)))


def _killed(peer: Peer, tmp_path: Path, kills_: int = 25) -> Found:
    folder = tmp_path / "files"
    folder.mkdir()
    return kills.run(peer, folder, tmp_path / "errors", 1, kills_)


def test_an_honest_one_passes(tmp_path: Path) -> None:
    found = _killed(_HONEST, tmp_path)
    assert found.is_clean, found
    assert not found.errors
    assert found.figures["hits"] > 100


def _always_misses(store: Store) -> Store:
    return dataclasses.replace(store, get=lambda _key: None)


def _forgets(store: Store) -> Store:
    numbers = itertools.count()
    return dataclasses.replace(
        store, get=lambda key: None if next(numbers) % 50 == 49 else store.get(key)
    )


def _drops_writes(store: Store) -> Store:
    numbers = itertools.count()

    def set_(key: str, value: bytes) -> object:
        # The canaries are stored.
        return None if next(numbers) % 5 == 4 and "own" in key else store.set(key, value)

    return dataclasses.replace(store, set=set_)


def _answers_another_key(store: Store) -> Store:
    numbers = itertools.count()
    other = board.canary_of(0)
    return dataclasses.replace(
        store, get=lambda key: store.get(other if next(numbers) % 50 == 49 else key)
    )


def _tears(store: Store) -> Store:
    numbers = itertools.count()

    def get(key: str) -> object:
        value = store.get(key)
        if next(numbers) % 50 == 49 and isinstance(value, bytes):
            return value[:40] + bytes(20) + value[60:]
        return value

    return dataclasses.replace(store, get=get)


def _keeps_what_was_removed(store: Store) -> Store:
    return dataclasses.replace(store, delete=lambda _key: True)


@pytest.mark.parametrize(
    ("lie", "caught_as"),
    [
        (_always_misses, "lost"),
        (_forgets, "lost"),
        (_drops_writes, "wrong"),
        (_answers_another_key, "wrong"),
        (_tears, "wrong"),
        (_keeps_what_was_removed, "wrong"),
    ],
)
def test_one_that_lies_is_caught(tmp_path: Path, lie: Change, caught_as: str) -> None:
    found = _killed(_peer(lie), tmp_path)
    assert getattr(found, caught_as) > 0, found
    assert not found.is_clean


def test_one_that_crashes_is_caught(tmp_path: Path) -> None:
    def crashes(store: Store) -> Store:
        def get(key: str) -> object:
            if key == "own:0:7":
                signal.raise_signal(signal.SIGUSR1)
            return store.get(key)

        return dataclasses.replace(store, get=get)

    assert "SIGUSR1" in _killed(_peer(crashes), tmp_path).died


def test_one_that_hangs_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reliability.peers.players.HANG_SECONDS", 0.5)
    monkeypatch.setattr(kills, "_AUDIT_SECONDS_MAX", 2.0)

    def hangs(store: Store) -> Store:
        def get(key: str) -> object:
            if key == "own:0:7":
                time.sleep(60)
            return store.get(key)

        return dataclasses.replace(store, get=get)

    assert _killed(_peer(hangs), tmp_path).hung > 0


def test_one_with_a_lock_over_everything_is_held_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "lock"
    lock.touch()

    def locks(store: Store) -> Store:
        file = lock.open("rb")

        def set_(key: str, value: bytes) -> object:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                time.sleep(0.005)
                return store.set(key, value)
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)

        return dataclasses.replace(store, set=set_)

    for name, peer in (("honest", _HONEST), ("locks", _peer(locks))):
        # An honest write to the stopped process's shard may wait for its timeout of a second.
        monkeypatch.setattr(stops, "ANSWER_SECONDS", 5.0 if name == "honest" else 0.5)
        folder = tmp_path / name
        folder.mkdir()
        found = stops.run(peer, folder, tmp_path / "errors", 1, 6)
        assert (found.wrong, found.lost, found.hung) == (0, 0, 0)
        assert (found.held_up["writes"] > 0) == (name == "locks"), found


@pytest.mark.parametrize(("name", "runs"), [("tuckbox", False), ("filebased", True)])
def test_a_planted_pickle_runs_where_values_are_unpickled(
    tmp_path: Path, name: str, runs: bool
) -> None:
    opener(PEERS[name].row)
    folder = tmp_path / "files"
    folder.mkdir()
    found = damage.run(PEERS[name], folder, tmp_path / "errors", 1, 3)
    assert found.code_ran is runs
    assert found.is_clean is not runs


def test_what_a_read_may_find() -> None:
    key = "own:0:0"
    kept = [number for number in range(1, 40) if not board.removes(key, number)]
    removed = next(number for number in range(1, 40) if board.removes(key, number))
    first, second = kept[0], kept[1]
    assert verdict(key, 0, 0, None) is None
    assert verdict(key, first, first, first) is None
    assert verdict(key, first, first, None) == "lost"
    assert verdict(key, first, second, second) is None
    assert verdict(key, second, second, first) == "stale"
    assert verdict(key, first, first, second) == "never stored"
    assert verdict(key, removed, removed, removed) == "never stored"
    assert verdict(key, removed, removed, None) is None


def test_the_tables_say_what_was_counted() -> None:
    found = Found(10, "kills", died={"SIGBUS": 2}, hung=1, wrong=3, lost=4, errors={"OSError": 5})
    texts = tables.cells(found)
    assert texts == ["10 kills", "2 SIGBUS", "1", "3", "4", "0", "errors: OSError"]
    assert len(texts) == len(tables.COLUMNS)
    skipped = tables.cells(Found(0, "full disks", not_run="no namespaces"))
    assert skipped[0] == "not run"
    assert len(skipped) == len(tables.COLUMNS)


def test_a_record_of_the_comparison_comes_back(tmp_path: Path) -> None:
    made = comparing.compare(["tuckbox"], [], 1, lambda _family, _peer: None)
    kept.write(tmp_path / "peers.json", made)
    assert comparing.read(tmp_path / "peers.json") == made
    assert json.loads((tmp_path / "peers.json").read_text())["versions"]["Tuckbox"]
    assert comparing.read(tmp_path / "none.json") is None
