"""What only the store in memory does: limits, eviction, copies of handles, forks, interruptions."""

from __future__ import annotations

import copy
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tuckbox import Cache, _engine, memory
from tuckbox.errors import (
    CacheLost,
    CacheReadOnly,
    FileMissing,
    InvalidArgument,
    InvalidFavour,
    InvalidGroup,
    InvalidPath,
    InvalidSize,
    NoSharedFiles,
    ValueTooLarge,
)
from tuckbox.memory import codec, keys, store
from tuckbox.objects import Objects

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def name() -> Iterator[str]:
    """A name of a cache, which is forgotten after the test."""
    yield "of-this-test"
    memory.cache._named.pop("of-this-test", None)


class TestOpening:
    def test_handles_with_a_name_share_what_outlives_them(self, name: str) -> None:
        with memory.Cache(name) as one, memory.Cache(name) as other:
            one["k"] = [1]
            assert other["k"] == [1]
            assert repr(one) == f"<Cache '{name}' in this process>"
            assert one.path is None
            assert one.id == other.id
        assert memory.Cache(name)["k"] == [1]
        assert "k" not in memory.Cache()

    @pytest.mark.parametrize("path", ["/tmp/x.tuck", "./x", "~/x", Path("x"), b"x"], ids=repr)
    def test_a_path_is_refused(self, path: Any) -> None:
        with pytest.raises(NoSharedFiles, match=r"is a path, and this cache is in one process"):
            memory.Cache(path)

    @pytest.mark.parametrize("path", ["", ":memory:", "redis://x", "has space", "-x"])
    def test_what_is_no_name_is_refused_as_for_a_file(self, path: str) -> None:
        messages = []
        for kind in (Cache, memory.Cache):
            with pytest.raises(InvalidPath) as caught:
                kind(path)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            ({"size": 1000}, InvalidSize),
            ({"size": "9 TiB"}, InvalidSize),
            ({"favour": "all"}, InvalidFavour),
            ({"group": 1}, InvalidGroup),
            ({"read_only": 1}, InvalidArgument),
            ({"read_only": True}, InvalidArgument),
            ({"max_entries": 0}, InvalidArgument),
            ({"lock_timeout": -1}, InvalidArgument),
            ({"expire": 60}, TypeError),
        ],
        ids=repr,
    )
    def test_bad_arguments(self, arguments: dict[str, Any], error: type[Exception]) -> None:
        with pytest.raises(error):
            memory.Cache(**arguments)

    def test_opening_twice_is_refused(self, name: str) -> None:
        cache = memory.Cache()
        with pytest.raises(RuntimeError, match="already open"):
            cache.__init__(name)  # type: ignore[misc]
        assert repr(cache) == "<Cache private>"

    def test_a_read_only_handle_only_reads(self, name: str) -> None:
        with pytest.raises(FileMissing, match="read_only does not create it"):
            memory.Cache(name, read_only=True)
        memory.Cache(name)["k"] = 1
        reader = memory.Cache(name, read_only=True)
        assert (reader["k"], reader.get_entry("k").value, list(reader)) == (1, 1, ["k"])
        assert reader._begin("k", False)[0] == 0
        for write in (
            lambda: reader.set("k", 2),
            lambda: reader.delete("k"),
            lambda: reader.incr("k"),
            lambda: reader.touch("k"),
            lambda: reader.evict(tag="t"),
            lambda: reader._begin("k", True),
            lambda: reader._begin("other", False),
            reader.clear,
            reader.popitem,
            reader.expire,
            reader.check,
        ):
            with pytest.raises(CacheReadOnly):
                write()
        assert reader["k"] == 1

    def test_a_handle_gives_an_existing_cache_its_limits(self, name: str) -> None:
        first = memory.Cache(name, size="1 MiB")
        first.set_many({number: number for number in range(100)})
        again = memory.Cache(name, max_entries=10)
        assert (first.size, first.max_entries, len(first)) == (1 << 20, 10, 10)
        again.resize("2 MiB", max_entries=None, favour="hits")
        assert (first.size, first.max_entries, again.favour) == (2 << 20, None, "hits")


class TestCopies:
    def test_copies_and_pickles_in_the_process_share_the_entries(self, name: str) -> None:
        for cache in (memory.Cache(), memory.Cache(name)):
            for other in (copy.copy(cache), pickle.loads(pickle.dumps(cache))):
                other["k"] = 1
                assert cache.pop("k") == 1
                other.close()
            assert not cache.closed

    def test_of_a_cache_that_is_gone(self) -> None:
        pickled = pickle.dumps(memory.Cache())
        with pytest.raises(CacheLost, match="give it a name"):
            pickle.loads(pickled)

    def test_another_process_has_its_own_cache_of_the_name(self, name: str) -> None:
        cache = memory.Cache(name, size="1 MiB", max_entries=5)
        cache["k"] = 1
        program = (
            "import pickle, sys; c = pickle.load(sys.stdin.buffer); "
            "print(len(c), c.size, c.max_entries)"
        )
        shown = subprocess.run(
            [sys.executable, "-c", program],
            input=pickle.dumps(cache),
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        assert shown.split() == [b"0", b"1048576", b"5"]


class TestLimits:
    def test_the_number_of_entries(self) -> None:
        cache = memory.Cache(max_entries=100)
        for number in range(1000):
            cache[number] = number
            assert cache[number] == number
            assert len(cache) <= 100
        assert len(cache) == 100
        assert cache.stats().evictions == 900
        assert cache.check().is_sound

    def test_one_entry(self) -> None:
        cache = memory.Cache(max_entries=1)
        for number in range(10):
            cache[number % 3] = number
            assert dict(cache) == {number % 3: number}

    def test_the_bytes(self) -> None:
        cache = memory.Cache(size="1 MiB")
        source = random.Random(1)
        for number in range(5000):
            key = number % 700
            cache[key] = value = source.randbytes(source.randrange(10_000))
            assert cache[key] == value
            assert cache.stats().entry_bytes <= 1 << 20
        assert cache.check().is_sound
        assert cache.stats().entry_bytes > 0.9 * (1 << 20)

    def test_the_estimate_is_near_what_the_process_uses(self) -> None:
        import tracemalloc

        cache = memory.Cache(size="1 GiB")
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for number in range(20_000):
                cache[f"key {number}"] = {"number": number, "text": "x" * 50}
            used = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert 0.5 < cache.stats().entry_bytes / used < 2

    def test_an_entry_that_never_fits(self) -> None:
        cache = memory.Cache(size="64 KiB")
        cache["k"] = "old"
        for key, value in (("k", b"x" * 60_000), ("y" * 60_000, b"x" * 10_000)):
            with pytest.raises(ValueTooLarge, match="resize the cache"):
                cache[key] = value
        assert dict(cache) == {"k": "old"}

    def test_a_scan_does_not_evict_what_is_read_often(self) -> None:
        cache = memory.Cache(max_entries=1000)
        hot = range(500)
        cache.set_many({number: number for number in hot})
        for _ in range(3):
            cache.get_many(hot)
        for number in range(100_000):
            cache["scan", number] = number
        assert len(cache.get_many(hot)) == 500

    def test_an_entry_that_comes_back_is_kept(self) -> None:
        cache = memory.Cache(max_entries=1000)
        for number in range(950):
            cache["hot", number] = number
            cache.get_many([("hot", number)] * 3)
        for number in range(300):
            cache[number] = number
        evicted = next(number for number in range(299, 0, -1) if number not in cache)
        cache[evicted] = "again"
        for number in range(500):
            cache["scan", number] = number
        assert cache.get(evicted) == "again"

    def test_too_many_evicted_tags_invalidate_too_much(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(store, "_ROWS_MAX", 10)
        cache = memory.Cache()
        cache.set("tagged", 1, tags=["kept"])
        cache.set("plain", 1)
        for number in range(11):
            cache.set(number, 1, tags=[f"t{number}"])
            cache.evict(tag=f"t{number}")
        assert dict(cache) == {"plain": 1}
        cache.set("tagged", 2, tags=["kept", "t3"])
        assert cache["tagged"] == 2
        eras = {name: cache._era(name) for name in "abc"}
        for number in range(12):
            cache._advance_era(f"n{number}")
        assert all(cache._era(name) not in eras.values() for name in eras)


class TestForks:
    def test_a_child_has_a_copy(self) -> None:
        cache = memory.Cache()
        cache["k"] = "before"
        token = cache._begin("made", False)[2]
        child = os.fork()
        if child == 0:
            is_right = (
                cache["k"] == "before"
                # The leases are the parent's.
                and cache._wait_made("made", 0)
                and not cache._finish(token, "made", 1, None, None, (), None)
            )
            cache["k"] = "of the child"
            os._exit(0 if is_right and cache["k"] == "of the child" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert cache["k"] == "before"
        assert cache._finish(token, "made", 1, None, None, (), None)

    def test_while_other_threads_write(self) -> None:
        cache = memory.Cache(max_entries=50)
        stop = threading.Event()

        def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                cache[number % 100] = [number]
                cache.delete((number * 7) % 100)

        threads = [threading.Thread(target=write) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(40):
                child = os.fork()
                if child == 0:
                    is_sound = cache.check().is_sound
                    cache["child"] = 1
                    os._exit(0 if is_sound and cache["child"] == 1 else 1)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert cache.check().is_sound


def test_a_signal_handler_may_use_the_cache_in_the_middle_of_an_operation() -> None:
    cache = memory.Cache(max_entries=20)
    calls = 0

    def handler(number: int, frame: object) -> None:
        nonlocal calls
        calls += 1
        cache[calls % 30] = calls
        cache.delete(calls % 7)
        cache.get_many(range(30))

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        while calls < 300:
            for number in range(30):
                cache[number] = number
                cache.pop(number // 2, None)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    cache.check()  # A count may be wrong, and is corrected.
    assert cache.check().is_sound
    cache["last"] = 1
    assert len(list(cache)) == len(cache) <= 20


class TestCheck:
    def test_finds_and_corrects_a_wrong_count(self) -> None:
        cache = memory.Cache()
        cache["k"] = 1
        cache._store.bytes += 5
        report = cache.check()
        assert (report.is_sound, report.wrong_counts, report.entries) == (False, 1, 1)
        assert "were counted" in report.findings[0]
        assert cache.check().is_sound


VALUES = [
    [None, True, False, 0, 63, 64, -1, 2**63 - 1, -(2**63), 2**63, -(10**50), 1.5, -0.0],
    ["", "x" * 63, "x" * 64, "ü" * 40, "\ud800", b"", b"x" * 300, bytearray(b"abc")],
    {"a": (1, {2: [3]}), ("b", 1): {4}, None: frozenset([5])},
]


@pytest.mark.skipif(not hasattr(_engine, "_plant"), reason="wheels have no functions for tests")
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_the_bytes_are_those_of_the_extension(tmp_path: Path, value: Any) -> None:
    """Each reads what the other wrote."""
    kept, _ = codec.encode(value, "k", b"k", codec.Rules(Objects(), b"id", 1 << 20))
    assert type(kept) is codec.Encoded
    key = keys.encode(("a", (1, b"c", -(2**70)), "\ud800"))
    with Cache(tmp_path / "cache.tuck", size="1 MiB") as cache:
        _engine._plant(cache, key, kept[0], kept[1:])
        assert list(cache.items()) == [(keys.decode(key), value)]
        cache.clear()
        cache[keys.decode(key)] = value
    written = (tmp_path / "cache.tuck").read_bytes()
    assert kept[1:] in written
    assert key in written
