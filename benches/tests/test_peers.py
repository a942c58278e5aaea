"""Peers are opened by the lab's adapters, and their wrong answers are detected.

SQLite and a dict stand for all peers, because they need no installation.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benches import languages
from benches.languages import measure_gets
from benches.row import Conditions
from benches.rows import s04_peers
from benches.tests.conftest import TEST_CONTESTANTS
from lab import peers
from lab.hosts.python.contract import Store
from lab.peers import Peer, PeerMissingError, on_one_core, opened
from lab.runner.catalogue import Contestant, contestants
from rig.stamps import WrongAnswerError

SQLITE = s04_peers.PeerGoals("sqlite", "tmpfs", 2, 2, slow=True)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of one peer, and few entries."""
    monkeypatch.setattr(s04_peers, "PEERS", (SQLITE,))
    monkeypatch.setattr(s04_peers, "LANGUAGES", ())
    monkeypatch.setattr(s04_peers, "ENTRIES", 500)
    monkeypatch.setattr(s04_peers, "FEW", 100)


def test_an_adapter_of_the_lab_is_a_peer(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path) as peer:
        assert peer.title.startswith("SQLite")
        peer.store.set("key", b"value")
        assert peer.store.get("key") == b"value"
    with opened("sqlite", tmp_path) as peer:
        assert peer.store.get("key") == b"value"


def test_a_peer_that_is_not_installed_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lab.contestants.lmdb.adapter", None)
    says = pytest.raises(PeerMissingError, match="python -m lab install --contestant lmdb")
    with says, opened("lmdb", tmp_path):
        pass


def test_a_server_that_is_not_installed_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    says = pytest.raises(PeerMissingError, match="python -m lab install --contestant pylibmc")
    with says, opened("pylibmc:socket", tmp_path):
        pass


def test_client_and_server_share_one_core_and_only_meanwhile() -> None:
    before = os.sched_getaffinity(0)
    with on_one_core():
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


@pytest.mark.usefixtures("few")
def test_a_row_with_a_peer_has_figures_of_both(conditions: Conditions) -> None:
    get, set_ = s04_peers.measure(conditions)
    assert (get.what, set_.what) == ("get", "set")
    assert get.peer.startswith("SQLite")
    assert len(get.ours) == len(get.theirs) == conditions.rounds


def lying(store: Store) -> Store:
    def get(key: str) -> object:
        found = store.get(key)
        return found[:-1] + b"?" if isinstance(found, bytes) else found

    return dataclasses.replace(store, get=get)


def forgetting(store: Store) -> Store:
    return dataclasses.replace(store, set=lambda _key, _value: True)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("wrong", [lying, forgetting])
def test_a_wrong_answer_of_a_peer_fails_the_row(
    conditions: Conditions, monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Store], Store]
) -> None:
    @contextmanager
    def wrongly_opened(row: str, folder: Path, bytes_max: int = 0) -> Iterator[Peer]:
        with opened(row, folder, bytes_max) as peer:
            yield peer if row == "tuckbox" else Peer("a wrong peer", wrong(peer.store))

    monkeypatch.setattr(s04_peers, "opened", wrongly_opened)
    with pytest.raises(WrongAnswerError, match="a wrong peer"):
        s04_peers.measure(conditions)


def test_hosts_of_other_languages_answer_in_turns(tmp_path: Path) -> None:
    (figure,) = measure_gets(["dict:copied"], 2, tmp_path)
    assert figure.peer.startswith("Python dict")
    assert len(figure.ours) == len(figure.theirs) == 2


def test_a_host_whose_answers_are_wrong_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_liars() -> dict[str, Contestant]:
        return contestants() | contestants(TEST_CONTESTANTS)

    monkeypatch.setattr(languages, "contestants", with_liars)
    with pytest.raises(WrongAnswerError, match="were wrong"):
        measure_gets(["wrong_value"], 2, tmp_path)


def test_a_host_that_cannot_be_started_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        languages, "contestants", lambda: contestants() | contestants(TEST_CONTESTANTS)
    )
    with pytest.raises(PeerMissingError, match="missing is not installed"):
        measure_gets(["missing"], 2, tmp_path)


def test_the_word_for_a_missing_peer_names_its_folder() -> None:
    assert "--contestant redis" in str(peers.missing("redis:socket", "why"))
