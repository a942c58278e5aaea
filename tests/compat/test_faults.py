"""A full disk, and other processes that remove files during a check."""

from __future__ import annotations

import errno
import os

import pytest

from tuckbox.compat.diskcache import Cache
from tuckbox.compat.diskcache.entries import LOCK_NAME

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
