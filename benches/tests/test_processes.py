"""The rows of several processes detect wrong answers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tuckbox import Cache

from benches.data import keys
from benches.rows import cold_disk, many_processes, s09_sharing, s11_tails, s15b_python
from rig.stamps import WrongAnswerError, make

LOAD = s11_tails.Load(1, 1_000, 2_000, 4, 2, 1 << 16, 100, "wall")


def filled(path: Path, count: int) -> Cache:
    cache = Cache(path)
    for key in keys(count):
        cache.set(key, make(key, 160))
    return cache


@pytest.mark.parametrize("module", [s09_sharing, many_processes])
@pytest.mark.parametrize("found", [None, make(keys(6)[5], 160), make(keys(4)[3], 160)[:-1]])
def test_a_reader_refuses_what_a_key_never_had(
    tmp_path: Path, module: object, found: bytes | None
) -> None:
    path = tmp_path / "shared.tuck"
    with filled(path, 20_000) as cache:
        party = module.Party(0, str(path))  # type: ignore[attr-defined]
        party.verify()
        key = keys(4)[3]
        if found is None:
            cache.delete(key)
        else:
            cache.set(key, found)
        with pytest.raises(WrongAnswerError, match=key):
            party.verify()


def test_readers_and_writers_make_what_they_say(tmp_path: Path) -> None:
    path = tmp_path / "shared.tuck"
    with filled(path, 20_000) as cache:
        party = s09_sharing.Party(0, str(path))
        hits = cache.stats().hits
        nanoseconds, gets = party.read("cache", 0.01)
        assert nanoseconds > 0
        assert gets >= 20_000
        assert cache.stats().hits - hits == gets
        party.read("dict", 0.01)
        assert cache.stats().hits - hits == gets
        assert party.write(0.01) > 0
        assert party.write_paced(0.05, 2_000) > 0
        party.verify()
        member = many_processes.Party(0, str(path))
        before = cache.stats()
        shared, kept = member.share(0.01), member.keep(0.01)
        after = cache.stats()
        assert 0 < after.hits - before.hits < shared.operations
        assert after.hits - before.hits + after.sets - before.sets == shared.operations
        assert kept.operations >= 1_000
        assert shared.began_ns < shared.ended_ns <= kept.began_ns < kept.ended_ns
        assert min(shared.spent_ns, kept.spent_ns) > 0
        member.verify()


def test_a_writer_fills_the_cache_and_proves_it(tmp_path: Path) -> None:
    writer = s11_tails.Writer(0, str(tmp_path / "tails.tuck"), LOAD)
    writer.fill()
    roomy = dataclasses.replace(LOAD, room=1 << 24)
    idle = s11_tails.Writer(0, str(tmp_path / "roomy.tuck"), roomy)
    with pytest.raises(ValueError, match="never full"):
        idle.fill()
    assert len(writer.write(LOAD.sets)) == 8 * LOAD.sets
    assert 0 < writer.verify() < 1
    with Cache(tmp_path / "tails.tuck", size=LOAD.room) as cache:
        for key in keys(LOAD.keys):
            cache.set(key, make("another family", 16))
        with pytest.raises(WrongAnswerError, match="family"):
            writer.verify()
        cache.clear()
        assert writer.verify() == 0


def test_a_storer_finds_its_latest_entries(tmp_path: Path) -> None:
    path = tmp_path / "full.tuck"
    with Cache(path, size="1 MB") as cache:
        storer = s15b_python.Storer(3, str(path))
        storer.prepare()
        began, ended, spent = storer.store()
        assert ended > began
        assert spent > 0
        assert 0 < storer.verify() == len(cache) < s15b_python.STORED
        (key,) = list(cache)[:1]
        cache.set(key, make("another key", 160))
        with pytest.raises(WrongAnswerError, match=str(key)):
            storer.verify()
        cache.clear()
        assert storer.verify() == 0


def test_an_entry_that_the_disk_has_lost_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "cold.tuck"
    party = cold_disk.Party(0, str(path), 1 << 20)
    party.fill()
    assert party.get(0) > 0
    assert party.read(0) > 0
    with Cache(path) as cache:
        cache.clear()
    with pytest.raises(WrongAnswerError, match="never stored"):
        party.get(0)
