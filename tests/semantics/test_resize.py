"""A cache gets another size, limit of entries or goal of eviction, while programs use it."""

from __future__ import annotations

import os
import pickle
import resource
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from tuckbox import Cache
from tuckbox.errors import (
    CacheClosed,
    CacheFull,
    CacheLost,
    CacheReadOnly,
    FileMissing,
    InvalidArgument,
    InvalidMaxEntries,
    InvalidSize,
    SizeMismatchWarning,
    TooManyProcesses,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MB = 1_000_000


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "app.tuck"
    # Nothing else is ever left.
    assert os.listdir(tmp_path) in ([], ["app.tuck"])


ENTRIES: dict[Any, Any] = {
    "text": "value",
    b"bytes": b"value" * 20,
    7: {"a": [1, 2.5, None]},
    ("page", 3): 2**70,
    "number": 41,
    "large": bytes(range(256)) * 1500,
    "": "",
}


@pytest.mark.parametrize("size", ["2 MB", "64 MB", "1 GB"])
def test_resize_keeps_the_entries_and_their_expiry(path: Path, size: str) -> None:
    with Cache(path, size="8 MB") as cache:
        cache.set_many(ENTRIES)
        cache.set("soon", 1, ttl=0.5)
        cache.set("later", 2, ttl=1000)
        cache.set("gone", 3, ttl=0)
        before = cache.get_entry("later")
        cache.resize(size)
        assert cache.size == {"2 MB": 2, "64 MB": 64, "1 GB": 1000}[size] * MB
        assert {key: cache.get(key) for key in ENTRIES} == ENTRIES
        after = cache.get_entry("later")
        assert before is not None
        assert after is not None
        assert abs(after.expiry - before.expiry) < 0.1
        assert cache.incr("number") == 42
        assert "gone" not in cache
        assert len(cache) == len(ENTRIES) + 2
        time.sleep(0.6)
        assert cache.get("soon") is None
        assert cache.check().is_sound
    with Cache(path) as again:
        assert again.get("later") == 2


def test_a_smaller_cache_keeps_what_is_read(path: Path) -> None:
    with Cache(path, size="16 MB") as cache:
        for number in range(10_000):
            cache.set(number, bytes(1000))
            if number % 10 == 0:
                # Read often, as others are not.
                assert [cache.get(number) for _ in range(3)]
        assert len(cache) == 10_000
        cache.resize("4 MB")
        assert path.stat().st_size <= 4 * MB
        read = sum(number in cache for number in range(0, 10_000, 10))
        others = len(cache) - read
        assert read > 900
        assert 1000 < others < 4000
        assert cache.stats().evictions == 10_000 - len(cache)
        assert cache.check().is_sound


def test_the_limit_of_entries_and_the_favour_change_too(path: Path) -> None:
    with Cache(path, size="4 MB") as cache:
        cache.set_many({number: number for number in range(1000)})
        cache.resize(max_entries=100)
        assert (cache.max_entries, cache.size, cache.favour) == (100, 4 * MB, "balanced")
        assert 50 < len(cache) <= 100
        cache.resize(favour="bytes")
        assert (cache.max_entries, cache.favour) == (100, "bytes")
        cache.resize(max_entries=None)
        assert (cache.max_entries, cache.favour) == (None, "bytes")
        cache.set_many({number: number for number in range(1000)})
        assert len(cache) == 1000


def test_a_resize_to_the_present_settings_does_nothing(path: Path) -> None:
    with Cache(path, size="4 MB") as cache:
        before = cache.id
        cache.resize()
        cache.resize("4 MB", max_entries=None, favour="balanced")
        assert cache.id == before


def test_the_mode_and_the_group_of_the_file_are_kept(path: Path) -> None:
    with Cache(path, size="4 MB") as cache:
        path.chmod(0o644)
        if os.geteuid() == 0:
            os.chown(path, -1, 4321)
        before = path.stat()
        cache.resize("8 MB")
        after = path.stat()
        assert (after.st_mode, after.st_gid) == (before.st_mode, before.st_gid)
        assert after.st_ino != before.st_ino


def test_the_counts_go_on(path: Path) -> None:
    with Cache(path, size="4 MB", max_entries=5) as cache:
        cache.set_many({number: number for number in range(8)})
        assert [cache.get(7), cache.get("none")] == [7, None]
        cache.delete(7)
        before = cache.stats()
        cache.resize("8 MB")
        after = cache.stats()
        for name in ("entries", "hits", "misses", "sets", "deletes", "evictions"):
            assert getattr(after, name) == getattr(before, name), name
        assert after.size_bytes == 8 * MB


def test_a_compare_and_set_from_before_fails(path: Path) -> None:
    with Cache(path, size="4 MB") as cache:
        cache.set("key", 1)
        entry = cache.get_entry("key")
        assert entry is not None
        cache.resize("8 MB")
        assert not cache.cas("key", 2, entry.version)
        assert cache.get("key") == 1


def test_other_handles_follow_at_once(path: Path) -> None:
    one, other = Cache(path, size="4 MB"), Cache(path)
    reader = Cache(path, read_only=True)
    copy = pickle.loads(pickle.dumps(other))
    one.set("key", 1)
    assert reader.get("key") == 1
    one.resize("8 MB")
    one.set("key", 2)
    # Nobody sees the old value, or misses.
    assert reader.get("key") == 2
    assert other.get("key") == 2
    assert copy.incr("key") == 3
    assert one.get("key") == 3
    assert {cache.size for cache in (one, other, reader, copy)} == {8 * MB}
    assert [cache.stats().reopened for cache in (one, other, reader, copy)] == [0, 1, 1, 1]


def test_a_forked_child_follows(path: Path) -> None:
    cache = Cache(path, size="4 MB")
    cache.set("key", 1)
    go, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.read(go[0], 1)
        os._exit(0 if (cache.get("key"), cache.incr("key")) == (2, 3) else 1)
    cache.resize("8 MB")
    cache.set("key", 2)
    os.write(go[1], b"x")
    assert os.waitpid(child, 0)[1] == 0
    assert cache.get("key") == 3
    for number in (*go, *done):
        os.close(number)


def test_no_write_of_other_threads_and_processes_is_lost(path: Path) -> None:
    cache = Cache(path, size="1 MB", lock_timeout=20)
    over, problems = threading.Event(), []
    counts = [0, 0]

    def count(number: int) -> None:
        try:
            while not over.is_set():
                counts[number] += 1
                assert cache.incr(("counter", number), default=0) == counts[number]
                cache.set(("key", number), counts[number])
                assert cache.get(("key", number)) == counts[number]
        except BaseException as error:
            problems.append(error)

    child = os.fork()
    if child == 0:
        status = 1
        try:
            for number in range(1, 2001):
                assert cache.incr("child", default=0) == number
            status = 0
        finally:
            os._exit(status)
    threads = [threading.Thread(target=count, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for number in range(20):
        cache.resize((2, 1, 4)[number % 3] * MB)
    over.set()
    for thread in threads:
        thread.join()
    assert not problems
    assert os.waitpid(child, 0)[1] == 0
    assert cache.get("child") == 2000
    assert cache.check().is_sound


def test_opening_with_another_size_resizes(path: Path) -> None:
    with Cache(path, size="4 MB") as cache:
        cache.set("key", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Cache(path, size="8 MB", max_entries=10, favour="hits") as cache:
            assert (cache.size, cache.max_entries, cache.favour) == (8 * MB, 10, "hits")
            assert cache.get("key") == 1


def test_a_program_that_gives_no_size_keeps_the_files(path: Path) -> None:
    Cache(path, size="4 MB").close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Cache(path) as cache, Cache(path, size="8 MB") as other:
            other.set("key", 1)
            assert (cache.get("key"), cache.size) == (1, 8 * MB)
        with Cache(path) as cache:
            assert cache.size == 8 * MB


def test_two_programs_with_different_sizes_get_a_warning(path: Path) -> None:
    with Cache(path, size="4 MB") as one:
        with pytest.warns(
            SizeMismatchWarning, match="keeps size 4,000,000 bytes, not 8,0"
        ) as caught:
            other = Cache(path, size="8 MB")
        message = str(caught[0].message)
        assert "another program that has it open asks for other settings" in message
        assert (one.size, other.size) == (4 * MB, 4 * MB)
        # A call is no setting: it wins.
        other.resize("8 MB")
        one.set("key", 1)
        assert one.size == 8 * MB
        with pytest.warns(SizeMismatchWarning, match="keeps size 8,000,000 bytes, not 4,0"):
            Cache(path, size="4 MB").close()
        other.close()
    with Cache(path, size="4 MB") as cache:
        assert (cache.size, cache.get("key")) == (4 * MB, 1)


def test_a_read_only_handle_does_not_resize(path: Path) -> None:
    Cache(path, size="4 MB").close()
    with pytest.warns(SizeMismatchWarning, match="not 8,000,000 bytes: read_only cannot resize it"):
        reader = Cache(path, size="8 MB", read_only=True)
    with pytest.raises(CacheReadOnly):
        reader.resize("8 MB")
    reader.close()


def refused(resize: Callable[[], None], cache: Cache, error: type[Exception], match: str) -> None:
    before = (cache.id, cache.size, cache.max_entries, cache.favour)
    with pytest.raises(error, match=match):
        resize()
    assert (cache.id, cache.size, cache.max_entries, cache.favour) == before
    cache.set("after", 1)
    assert (cache.get("key"), cache.get("after")) == (1, 1)


def test_what_is_refused_changes_nothing(path: Path) -> None:
    with Cache(path, size="4 MB", lock_timeout=0.1) as cache:
        cache.set("key", 1)
        refused(lambda: cache.resize("1 kB"), cache, InvalidSize, "too small")
        refused(lambda: cache.resize("9000 TB"), cache, InvalidSize, "too large")
        refused(lambda: cache.resize("8 bananas"), cache, InvalidSize, "is not a size")
        wrong: Any = "many"
        refused(lambda: cache.resize(max_entries=wrong), cache, InvalidMaxEntries, "an int or None")
        refused(lambda: cache.resize(max_entries=0), cache, InvalidMaxEntries, "between 1 and")
        refused(lambda: cache.resize(favour=wrong), cache, InvalidArgument, "favour must be one of")
    with pytest.raises(CacheClosed):
        cache.resize("8 MB")
    with Cache() as private, pytest.raises(InvalidArgument, match="use a cache with a path"):
        private.resize("8 MB")


def test_without_room_for_both_files_nothing_changes(path: Path) -> None:
    with Cache(path, size="8 MB") as cache:
        cache.set("key", 1)
        cache.set_many({number: bytes(10_000) for number in range(300)})
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, limits[1]))
        try:
            refused(lambda: cache.resize("16 MB"), cache, CacheFull, "no space left")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert len(cache) == 302
        cache.resize("16 MB")
        assert len(cache) == 302


def test_a_removed_file_is_created_with_the_new_size(path: Path) -> None:
    with Cache(path, size="4 MB") as cache:
        cache.resize("8 MB")
        path.unlink()
        time.sleep(1.1)
        cache.set("key", 1)
        assert cache.size == 8 * MB


def test_an_iteration_ends_with_an_error(path: Path) -> None:
    with Cache(path, size="4 MB") as cache, Cache(path) as other:
        cache.set_many({number: number for number in range(100)})
        keys, others = iter(cache), iter(other)
        next(keys)
        next(others)
        cache.resize("8 MB")
        for iterator in (keys, others):
            with pytest.raises(CacheLost, match="start the iteration again"):
                list(iterator)
        assert len(list(other)) == 100


def test_a_moved_file_is_not_resized(path: Path) -> None:
    moved = path.with_suffix(".moved")
    with Cache(path) as cache:
        cache["key"] = "value"
        path.rename(moved)
        with pytest.raises(FileMissing, match="was moved"):
            cache.resize("8 MB")
        moved.rename(path)
        assert cache["key"] == "value"
        cache.resize("8 MB")
        assert cache["key"] == "value"


def test_a_size_with_too_few_process_slots_is_refused(path: Path) -> None:
    with Cache(path, size="8 MB") as cache:
        cache["key"] = "value"
        (wait, go), children = os.pipe(), []
        ready = os.pipe()
        try:
            for number in range(32):
                child = os.fork()
                if child == 0:
                    os.close(go)
                    cache[number] = number
                    os.write(ready[1], b"x")
                    os.read(wait, 1)
                    os._exit(0)
                children.append(child)
            for _ in children:
                os.read(ready[0], 1)
            with pytest.raises(TooManyProcesses, match="32 processes, the maximum for its size"):
                cache.resize("512 KiB")
            assert cache.size == 8 * MB
            assert cache["key"] == "value"
        finally:
            os.close(go)
            for child in children:
                os.waitpid(child, 0)
            for end in (wait, *ready):
                os.close(end)
        cache.resize("512 KiB")
        assert cache["key"] == "value"
