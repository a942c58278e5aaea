"""Opening read-only, and sharing a file with a group."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
from pathlib import Path
from typing import Any, Callable

import pytest

from tuckbox import Cache
from tuckbox.errors import (
    CacheClosed,
    CacheFileError,
    CacheReadOnly,
    FileMissing,
    InvalidArgument,
    InvalidGroup,
    UnsafeFile,
)


@pytest.fixture
def filled(path: str) -> str:
    with Cache(path, size="1 MiB") as cache:
        cache.set_many({number: f"value {number}" for number in range(100)})
        cache.set("n", 1)
        cache.set("short", 1, ttl=0)
        cache.set("long", 1, ttl=3600)
    return path


class TestReadOnly:
    def test_every_way_of_reading_works(self, filled: str) -> None:
        with Cache(filled, read_only=True) as cache:
            assert cache.read_only
            assert cache[1] == "value 1"
            assert cache.get("none", 7) == 7
            assert cache.get_many([1, 2, "none"]) == {1: "value 1", 2: "value 2"}
            assert 1 in cache
            assert "none" not in cache
            assert "short" not in cache
            entry = cache.get_entry("long")
            assert entry is not None
            assert entry.expiry is not None
            assert len(list(cache)) == len(dict(cache.items())) == 102
            assert len(cache) == cache.stats().entries == 103
            assert cache.size == 1 << 20
            with pytest.raises(KeyError):
                cache["none"]

    CHANGES: tuple[tuple[str, Callable[[Cache], Any]], ...] = (
        ("set", lambda cache: cache.set(1, 2)),
        ("set with ttl", lambda cache: cache.set(1, 2, ttl=5)),
        ("set large", lambda cache: cache.set(1, b"x" * 200_000)),
        ("setitem", lambda cache: cache.__setitem__(1, 2)),
        ("delitem", lambda cache: cache.__delitem__(1)),
        ("add", lambda cache: cache.add("new", 2)),
        ("add what is there", lambda cache: cache.add(1, 2)),
        ("replace", lambda cache: cache.replace(1, 2)),
        ("replace nothing", lambda cache: cache.replace("none", 2)),
        ("cas", lambda cache: cache.cas(1, 2, 1)),
        ("delete", lambda cache: cache.delete(1)),
        ("delete nothing", lambda cache: cache.delete("none")),
        ("pop", lambda cache: cache.pop(1)),
        ("pop nothing", lambda cache: cache.pop("none", None)),
        ("touch", lambda cache: cache.touch(1, 5)),
        ("incr", lambda cache: cache.incr("n")),
        ("decr", lambda cache: cache.decr("n")),
        ("set_many", lambda cache: cache.set_many({1: 2})),
        ("delete_many", lambda cache: cache.delete_many([1])),
        ("clear", lambda cache: cache.clear()),
        ("expire", lambda cache: cache.expire()),
        ("check", lambda cache: cache.check()),
    )

    @pytest.mark.parametrize("change", [change for _, change in CHANGES], ids=dict(CHANGES))
    def test_whatever_changes_something_is_refused(
        self, filled: str, change: Callable[[Cache], Any]
    ) -> None:
        before = Path(filled).read_bytes()
        with Cache(filled, read_only=True) as cache:
            with pytest.raises(CacheReadOnly, match=r"was opened with read_only; nothing was"):
                change(cache)
            assert cache[1] == "value 1"
        assert Path(filled).read_bytes() == before

    def test_it_leaves_no_trace(self, filled: str) -> None:
        before, data = Path(filled).read_bytes(), os.stat(filled)
        for _ in range(3):
            with Cache(filled, read_only=True) as cache:
                assert sum(cache.get(number) is not None for number in range(200)) == 100
        assert Path(filled).read_bytes() == before
        assert os.stat(filled).st_mtime_ns == data.st_mtime_ns
        assert os.stat(filled).st_size == data.st_size

    def test_it_maps_what_cannot_be_written(self, filled: str) -> None:
        with Cache(filled, read_only=True):
            maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
            assert [line.split()[1] for line in maps if filled in line] == ["r--s"]

    def test_it_sees_what_others_store_meanwhile(self, opened: Any, path: str) -> None:
        writer = opened(path, size="8 MiB")
        reader = Cache(path, read_only=True)
        hits = 0
        for number in range(2000):
            writer[number] = b"x" * 1000
            hits += reader.get(number) == b"x" * 1000
        assert hits == 2000
        writer.clear()
        assert reader.get(1) is None
        reader.close()

    def test_a_forked_child_reads_on(self, filled: str) -> None:
        cache = Cache(filled, read_only=True)
        child = os.fork()
        if child == 0:
            os._exit(0 if cache.get(1) == "value 1" else 1)
        assert os.waitpid(child, 0)[1] == 0
        cache.close()

    def test_a_pickled_handle_stays_what_it_is(self, filled: str) -> None:
        with Cache(filled, read_only=True) as cache, pickle.loads(pickle.dumps(cache)) as again:
            assert again.read_only
            assert again[1] == "value 1"
            with pytest.raises(CacheReadOnly):
                again[1] = 2

    def test_a_missing_file_is_not_made(self, path: str) -> None:
        with pytest.raises(FileMissing, match="not exist, and read_only does not create") as caught:
            Cache(path, read_only=True)
        assert isinstance(caught.value, (CacheFileError, FileNotFoundError))
        assert (caught.value.errno, caught.value.filename) == (2, path)
        assert not Path(path).exists()

    def test_closed_is_closed(self, filled: str) -> None:
        cache = Cache(filled, read_only=True)
        cache.close()
        for use in (lambda: cache.get(1), lambda: cache.set(1, 2), lambda: len(cache)):
            with pytest.raises(CacheClosed):
                use()

    def test_it_needs_a_path_and_a_bool(self, path: str) -> None:
        with pytest.raises(InvalidArgument, match="read_only needs a path"):
            Cache(read_only=True)
        with pytest.raises(InvalidArgument, match="must be True or False"):
            Cache(path, read_only=1)  # type: ignore[arg-type]

    def test_a_file_that_may_only_be_read_can_be(self, filled: str) -> None:
        os.chmod(filled, 0o400)
        with Cache(filled, read_only=True) as cache:
            assert cache[1] == "value 1"


class TestGroup:
    def test_the_file_is_made_for_it(self, opened: Any, path: str) -> None:
        gid = os.getegid()
        cache = opened(path, group=gid)
        data = os.stat(path)
        assert (stat.S_IMODE(data.st_mode), data.st_gid) == (0o660, gid)
        assert cache.group == gid
        cache["k"] = "v"
        with Cache(path, group=gid, read_only=True) as reader:
            assert reader["k"] == "v"

    def test_it_may_be_named(self, path: str) -> None:
        grp = pytest.importorskip("grp")
        name = grp.getgrgid(os.getegid()).gr_name
        with Cache(path, group=name) as cache, pickle.loads(pickle.dumps(cache)) as again:
            assert cache.group == again.group == os.getegid()

    def test_everyone_has_to_give_it(self, path: str) -> None:
        Cache(path, group=os.getegid()).close()
        for read_only in (False, True):
            with pytest.raises(UnsafeFile, match=r"lets group \d+ write to it; run: chmod go-w"):
                Cache(path, read_only=read_only)

    def test_a_private_file_is_not_shared_by_asking(self, path: str) -> None:
        Cache(path).close()
        with pytest.raises(UnsafeFile, match=r"is not shared with group .*run: chgrp \d+ .* &&"):
            Cache(path, group=os.getegid())
        subprocess.run(f"chgrp {os.getegid()} {path} && chmod 660 {path}", shell=True, check=True)
        Cache(path, group=os.getegid()).close()

    @pytest.mark.parametrize("group", [True, 1.5, b"x", ["x"]], ids=repr)
    def test_of_a_wrong_type(self, path: str, group: Any) -> None:
        with pytest.raises(InvalidGroup, match="must be the name or number of a group, not"):
            Cache(path, group=group)

    @pytest.mark.parametrize("group", [-1, 2**32 - 1, 2**64])
    def test_out_of_range(self, path: str, group: int) -> None:
        with pytest.raises(InvalidGroup, match="between 0 and 4,294,967,294"):
            Cache(path, group=group)

    @pytest.mark.parametrize("group", ["no-such-group", "", "nul\0"])
    def test_unknown(self, path: str, group: str) -> None:
        with pytest.raises(InvalidGroup, match="does not exist on this machine"):
            Cache(path, group=group)

    def test_a_private_cache_has_none(self) -> None:
        with pytest.raises(InvalidGroup, match="group needs a path"):
            Cache(group=os.getegid())


def test_a_private_cache_is_its_users_alone() -> None:
    with Cache() as cache:
        assert stat.S_IMODE(os.stat(cache._shown).st_mode) == 0o600
        assert cache.group is None
        assert not cache.read_only
