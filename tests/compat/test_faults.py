"""What must not go wrong: a full disk, lost counters, and others that remove files in a check."""

from __future__ import annotations

import errno
import os

import pytest

from tuckbox import Cache as File
from tuckbox.compat.diskcache import Cache
from tuckbox.compat.diskcache.entries import FILE_NAME, LOCK_NAME, Entries

LARGE = "x" * 40_000


def test_a_journal_that_has_no_room_undoes_the_transaction(tmp_path, monkeypatch):
    with Cache(tmp_path) as cache:
        cache["a"], cache["b"] = 1, LARGE
        write = os.write
        room = [400]

        def full(fd, content):
            written = write(fd, content[: room[0]])
            room[0] -= written
            return written

        def change():
            with cache.transact():
                for number in range(100):
                    cache["a"] = number
                    cache[f"new {number}"] = LARGE
                    del cache["b"]
                    cache["b"] = number

        with monkeypatch.context() as patched:
            patched.setattr(os, "write", full)
            with pytest.raises(OSError, match=r"No space .*cache\.lock") as raised:
                change()
        assert raised.value.errno == errno.ENOSPC
        assert {key: cache[key] for key in cache} == {"a": 1, "b": LARGE}
        assert os.path.getsize(tmp_path / LOCK_NAME) == 0
        assert cache.check() == []


def test_a_check_while_others_remove_directories(tmp_path, monkeypatch):
    with Cache(tmp_path) as cache:
        path = tmp_path / "aa" / "bb"
        path.mkdir(parents=True)
        (path / "unknown").write_text("")
        walk = os.walk

        def walking(*args, **kwargs):
            found = list(walk(*args, **kwargs))
            if path.exists():
                (path / "unknown").unlink()
                path.rmdir()
            return iter(found)

        monkeypatch.setattr(os, "walk", walking)
        messages = [str(one.message) for one in cache.check(fix=True)]
        assert messages == [f"unknown file: {path}/unknown", f"empty directory: {tmp_path}/aa"]
        assert cache.check() == []


def test_a_setting_of_a_transaction_that_fails(tmp_path):
    def change():
        with cache.transact():
            cache.reset("cull_limit", 5)
            cache["a"] = LARGE
            raise ZeroDivisionError

    with Cache(tmp_path) as cache:
        with pytest.raises(ZeroDivisionError):
            change()
        assert cache.reset("cull_limit") == 10
        assert list(cache) == []
        assert cache.check() == []


@pytest.mark.parametrize("lost", ["state", "hits", "misses"])
def test_what_the_file_has_lost_is_counted_again(tmp_path, lost):
    # Tuckbox drops an entry whose writer is killed while it overwrites it.
    with Cache(tmp_path) as cache, Cache(tmp_path) as other:
        for number in range(10):
            cache.push(LARGE, prefix="queue")
            cache.set(number, number, expire=100 + number)
        volume, order = cache.volume(), list(cache)
        with File(tmp_path / FILE_NAME) as file:
            del file[lost,]
        for handle in (cache, other):
            assert (len(handle), handle.volume(), list(handle)) == (20, volume, order)
        other["new"] = 1
        cache["newer"] = LARGE
        with Cache(tmp_path) as opened:
            for handle in (cache, other, opened):
                assert list(handle) == [*order, "new", "newer"]
                assert handle.peekitem()[0] == "newer"
                assert handle.check() == []
                assert handle.stats() == (0, 0)


def test_a_cache_that_is_opened_while_another_one_stores(tmp_path, monkeypatch):
    with Cache(tmp_path) as cache:
        replace = Entries._replace
        opened = []

        def opening(entries, key, entry, delta):
            # Between the counters and the entry.
            if key == "a" and not opened:
                opened.append(None)
                opened.append(Cache(tmp_path))
            return replace(entries, key, entry, delta)

        with monkeypatch.context() as patched:
            patched.setattr(Entries, "_replace", opening)
            cache.set("a", 1, expire=100)
        opened[1]["b"] = 2
        for handle in (cache, opened[1]):
            assert (handle.check(), len(handle)) == ([], 2)
