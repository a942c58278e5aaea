"""The file of a cache is copied; the copy is a cache of its own with the same entries."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from tuckbox import Cache, memory
from tuckbox.errors import (
    CacheReadOnly,
    DirectoryMissing,
    FileExists,
    InvalidArgument,
    InvalidPath,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_a_copy_has_the_entries_and_the_settings(tmp_path: Path) -> None:
    options: dict[str, Any] = {"pickle": "signed", "secret": "s"}
    settings: dict[str, Any] = {"size": "4 MB", "max_entries": 500, "favour": "hits"}
    path = tmp_path / "copy.tuck"
    with Cache(tmp_path / "a.tuck", after_power_cut="discard", **settings, **options) as cache:
        cache.set_many({number: str(number) for number in range(300)})
        cache.set("object", range(3), ttl=1000, tags=["t"])
        cache.set("large", bytes(500_000))
        cache.namespace("n")["k"] = 1
        cache.set("gone", 1, ttl=0)
        stats = cache.stats()
        cache.copy_to(path)
        assert path.stat().st_mode & 0o777 == 0o600
        with Cache(path, **options) as copy:
            assert dict(copy) == dict(cache)
            assert len(copy) == 303
            assert copy.namespace("n")["k"] == 1
            assert (copy.id, copy.size, copy.max_entries) == (cache.id, 4_000_000, 500)
            assert (copy.favour, copy.after_power_cut) == ("hits", "discard")
            assert copy.stats().sets == stats.sets
            assert abs(copy.get_entry("object").expiry - cache.get_entry("object").expiry) < 5
            # They are two caches.
            cache["k"] = "original"
            copy["k"] = "copy"
            copy.evict(tag="t")
            assert (cache["k"], copy["k"]) == ("original", "copy")
            assert ("object" in cache, "object" in copy) == (True, False)
            assert copy.check().is_sound
        assert cache.check().is_sound
        assert sorted(os.listdir(tmp_path)) == ["a.tuck", "copy.tuck"]


def test_a_private_cache_and_a_namespace_can_be_copied(tmp_path: Path) -> None:
    with Cache(size="1 MB") as cache:
        cache["k"], cache.namespace("n")["k"] = 1, 2
        cache.namespace("n").copy_to(tmp_path / "copy.tuck")
    with Cache(tmp_path / "copy.tuck") as copy:
        assert (copy["k"], copy.namespace("n")["k"]) == (1, 2)


def test_a_copy_can_have_a_name(memory: Path) -> None:
    with Cache("a") as cache:
        cache["k"] = 1
        cache.copy_to("b")
    with Cache("b") as copy:
        assert copy["k"] == 1


def test_no_file_is_replaced(tmp_path: Path) -> None:
    with Cache(tmp_path / "a.tuck") as cache:
        cache["k"] = 1
        (tmp_path / "text").write_text("kept")
        (tmp_path / "link").symlink_to("missing")
        for name in ("a.tuck", "text", "link"):
            with pytest.raises(FileExists, match="exists, and a copy replaces no file"):
                cache.copy_to(tmp_path / name)
        assert (tmp_path / "text").read_text() == "kept"
        assert cache["k"] == 1
        with pytest.raises(DirectoryMissing):
            cache.copy_to(tmp_path / "missing" / "copy")
        with pytest.raises(InvalidPath):
            cache.copy_to("")
    with Cache(tmp_path / "a.tuck", read_only=True) as reader, pytest.raises(CacheReadOnly):
        reader.copy_to(tmp_path / "copy")
    assert sorted(os.listdir(tmp_path)) == ["a.tuck", "link", "text"]


def copy_for_ever(path: Path, folder: Path) -> None:
    """Copy a cache to one new path after the other."""
    with Cache(path, lock_timeout=30) as cache:
        for number in count():
            cache.copy_to(folder / f"{number}.tuck")


def test_a_killed_copy_leaves_whole_files_and_a_cache_that_works(tmp_path: Path) -> None:
    path, generator = tmp_path / "a.tuck", random.Random(20_261_124)
    expected = {number: bytes(500) for number in range(2000)}
    with Cache(path, size="4 MB", lock_timeout=30) as cache:
        cache.set_many(expected)
        for attempt in range(20):
            folder = tmp_path / str(attempt)
            folder.mkdir(mode=0o700)
            pid = os.fork()
            if pid == 0:
                with suppress(BaseException):
                    copy_for_ever(path, folder)
                os._exit(1)
            time.sleep(generator.uniform(0, 0.1))
            os.kill(pid, signal.SIGKILL)
            assert os.waitpid(pid, 0)[1] == signal.SIGKILL
            for name in folder.glob("*.tuck"):
                with Cache(name) as copy:
                    assert dict(copy) == expected
            cache["k"] = attempt
            assert cache.pop("k") == attempt
        assert cache.check().is_sound
        assert dict(cache) == expected


def test_a_cache_without_a_file_says_what_to_do(tmp_path: Path) -> None:
    with memory.Cache("x") as cache, pytest.raises(InvalidArgument, match="use dump"):
        cache.copy_to(tmp_path / "copy")


def test_a_held_lock_is_held_in_the_copy(tmp_path: Path) -> None:
    with Cache(tmp_path / "a.tuck", size="1 MiB") as cache, cache.lock("a", ttl=1000):
        cache.copy_to(tmp_path / "b.tuck")
    with Cache(tmp_path / "b.tuck") as copy:
        assert not copy.lock("a").acquire(timeout=0)
