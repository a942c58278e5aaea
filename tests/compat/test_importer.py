"""Directories of the real DiskCache, imported into the drop-in."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import diskcache as real
import pytest

from compat.filling import PLAIN, assert_equal, bytes_for_each, fill, same
from tuckbox.compat import diskcache as dc
from tuckbox.compat.diskcache.importing import PICKLED, TWICE, ImportFailed, import_diskcache


@pytest.fixture
def source(tmp_path: Path) -> str:
    return str(tmp_path / "source")


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "target")


def command(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "tuckbox", "import-diskcache", *arguments],
        capture_output=True, text=True, timeout=50, check=False, **options,
    )  # fmt: skip


def test_plain_keys_and_values_are_the_same(source, target):
    cache = real.Cache(source)
    for key, value in PLAIN.items():
        cache.set(
            key, value, tag="tag" if key == "int" else None, expire=(key == "empty" and 900) or None
        )
    [done] = import_diskcache(source, target)
    assert (done.copied, done.present, done.left_out, done.different) == (len(PLAIN), 0, {}, 0)
    imported = dc.Cache(target)
    assert list(imported) == list(PLAIN)
    for key, value in PLAIN.items():
        assert same(imported[key], value), key
    assert imported.check() == []
    assert imported.get("int", tag=True) == (1, "tag")
    assert imported.get("empty", expire_time=True)[1] == pytest.approx(time.time() + 900, abs=60)


def test_random_entries_are_the_same(source, target):
    cache = real.Cache(source)
    expected = fill(cache, 150, random.Random("entries"))
    [done] = import_diskcache(source, target)
    assert (done.copied, done.left_out) == (len(expected), {})
    assert_equal(dc.Cache(target), cache)


def test_settings_are_kept(source, target):
    real.Cache(
        source, size_limit=10**7, eviction_policy="least-recently-used", cull_limit=3, statistics=1,
        disk_min_file_size=100, disk_pickle_protocol=3,
    ).set("key", "x" * 500)  # fmt: skip
    import_diskcache(source, target)
    cache = dc.Cache(target)
    assert (cache.size_limit, cache.eviction_policy) == (10**7, "least-recently-used")
    assert (cache.cull_limit, cache.statistics) == (3, 1)
    assert (cache.disk_min_file_size, cache.disk_pickle_protocol) == (100, 3)
    assert cache.stats() == (0, 0)


def test_keys_pickled_by_another_protocol_are_found(source, target):
    with real.Cache(source, disk_pickle_protocol=2) as cache:
        cache["a", 1] = "value"
    import_diskcache(source, target)
    assert dc.Cache(target)["a", 1] == "value"


def test_a_deque_keeps_its_order(source, target):
    deque = real.Deque("abcd", source)
    deque.appendleft([0])
    deque.rotate(2)
    import_diskcache(source, target)
    imported = dc.Deque(directory=target)
    assert imported == deque
    imported.append("last")
    imported.appendleft("first")
    assert list(imported) == ["first", *deque, "last"]


def test_an_index_keeps_its_order(source, target):
    index = real.Index(source, [("b", 1), ("a", {"x": 2}), (3, None)])
    index.push("job", prefix="jobs")
    import_diskcache(source, target)
    imported = dc.Index(target)
    assert list(imported.items()) == list(index.items())
    assert imported.push("next", prefix="jobs") == "jobs-500000000000001"
    assert imported.pull("jobs") == ("jobs-500000000000000", "job")


def test_a_fanout_cache_with_caches_in_it(source, target):
    fanout = real.FanoutCache(source, shards=3, size_limit=3 * 10**7)
    expected = fill(fanout, 60, random.Random("fanout"))
    fanout[1000.0] = "float"
    fanout.cache("users/new")["key"] = "in a cache"
    fanout.deque("jobs").extend("abc")
    fanout.index("names")["b"] = 1
    done = import_diskcache(source, target)
    assert [cache.copied for cache in done] == [len(fanout), 1, 3, 1]
    imported = dc.FanoutCache(target, shards=3)
    assert len(imported) == len(fanout)
    assert imported.size_limit
    for key, value in {**expected, 1000.0: "float"}.items():
        assert same(imported[key], value), key
    assert imported.cache("users/new")["key"] == "in a cache"
    assert imported.deque("jobs") == "abc"
    assert imported.index("names") == {"b": 1}


def test_of_a_float_and_an_int_in_two_shards_the_int_is_copied(source, target):
    fanout = real.FanoutCache(source, shards=4)
    keys = [kind(number) for number in range(20) for kind in (float, int)]
    for key in keys:
        fanout[key] = repr(key)
    apart = [number for number in range(20) if fanout[number] != fanout[float(number)]]
    assert len(apart) > 0
    for copied, present in ((20, 0), (0, 20)):
        [done] = import_diskcache(source, target)
        assert (done.copied, done.present, done.different) == (copied, present, 0)
        assert done.left_out == {TWICE: len(apart)}
    imported = dc.FanoutCache(target, shards=4)
    assert [imported[number] for number in range(20)] == [repr(number) for number in range(20)]


def test_what_json_disk_stored(source, target):
    with real.Cache(source, disk=real.JSONDisk, disk_compress_level=6) as cache:
        cache["a"] = {"b": [1, None]}
        cache["large"] = [f"{number}" for number in range(50_000)]
        cache[7] = 7.5
    import_diskcache(source, target)
    imported = dc.Cache(target, disk=dc.JSONDisk, disk_compress_level=6)
    assert dict(zip(imported, map(imported.get, imported))) == {
        "a": {"b": [1, None]}, "large": [f"{number}" for number in range(50_000)], 7: 7.5,
    }  # fmt: skip


class Trap:
    """Runs code when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)

    __hash__ = object.__hash__


def test_pickles_that_would_run_code_are_left_out(source, target, tmp_path):
    sign = str(tmp_path / "sign")
    with real.Cache(source) as cache:
        cache["value"] = Trap(sign)
        cache["large value"] = [Trap(sign), "x" * 50_000]
        cache["key of a trap", Trap(sign)] = 1
        cache["date"] = date(2024, 1, 1)
        cache["plain"] = [1]
    [done] = import_diskcache(source, target)
    assert (done.copied, done.left_out) == (1, {PICKLED: 4})
    assert list(dc.Cache(target)) == ["plain"]
    [done] = import_diskcache(source, target, trust_pickles=True)
    assert (done.copied, done.present, done.left_out) == (4, 1, {})
    assert not os.path.exists(sign)
    assert dc.Cache(target)["date"] == date(2024, 1, 1)
    dc.Cache(target)["value"]
    assert os.path.exists(sign)


def test_entries_that_cannot_be_copied_are_counted(source, target, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"s" * 50_000)
    cache = real.Cache(source, cull_limit=0)
    for name in ("missing", "short", "outside", "absolute", "link", "kept"):
        cache[name] = b"x" * 50_000
    cache.set("old", 1, expire=-1)
    cache["strange"] = 1
    files = dict(cache._sql("SELECT key, filename FROM Cache WHERE filename NOT NULL").fetchall())
    paths = {name: os.path.join(source, file) for name, file in files.items()}
    os.remove(paths["missing"])
    os.truncate(paths["short"], 9)
    os.remove(paths["link"])
    os.symlink(secret, paths["link"])
    cache._sql("UPDATE Cache SET filename = '../secret' WHERE key = 'outside'")
    cache._sql("UPDATE Cache SET filename = ? WHERE key = 'absolute'", (str(secret),))
    cache._sql("UPDATE Cache SET mode = 9 WHERE key = 'strange'")
    [done] = import_diskcache(source, target)
    assert done.copied == 1
    assert done.left_out == {
        "expired": 1,
        "file of the value is missing": 1,
        "file of the value has a wrong length": 1,
        "value is outside of the directory": 3,
        "stored in an unknown way": 1,
    }
    assert list(dc.Cache(target)) == ["kept"]


def test_what_is_there_is_not_written_again(source, target):
    cache = real.Cache(source)
    fill(cache, 40, random.Random("again"))
    import_diskcache(source, target)
    imported = dc.Cache(target)
    first, second, third, fourth = list(imported)[:4]
    imported[first] = "changed"
    imported.touch(second, 7)
    del imported[third]
    stored, expiry, _ = imported.get(fourth, expire_time=True, tag=True)
    imported.set(fourth, stored, expiry and expiry - time.time(), tag="changed")
    [done] = import_diskcache(source, target)
    assert (done.copied, done.present, done.different) == (4, 36, 0)
    assert sorted(map(repr, imported)) == sorted(map(repr, cache))
    assert all(same(imported[key], cache[key]) for key in cache)


@pytest.mark.parametrize("seed", range(3))
def test_an_import_that_is_killed_continues(source, target, seed):
    rng = random.Random(f"killed {seed}")
    cache = real.Cache(source)
    expected = fill(cache, 300, rng)
    after = rng.randrange(5, 290)
    program = (
        "import os, signal, sys\n"
        "from tuckbox.compat.diskcache.importing import import_diskcache\n"
        f"stop = lambda done, _: done == {after} and os.kill(os.getpid(), signal.SIGKILL)\n"
        "import_diskcache(*sys.argv[1:], progress=stop)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, source, target], check=False)
    assert killed.returncode == -signal.SIGKILL
    [done] = import_diskcache(source, target)
    assert (done.present, done.copied) == (after - 1, len(expected) - after + 1)
    assert done.different == 0
    assert_equal(dc.Cache(target), cache)


def test_a_directory_in_use_can_be_imported(source, target):
    cache = real.Cache(source)
    cache["before"] = 1
    with cache.transact():
        cache["in a transaction"] = 2
        [done] = import_diskcache(source, target)
        assert done.copied == 1
    [done] = import_diskcache(source, target)
    assert (done.copied, done.present) == (1, 1)


def test_nothing_is_written_to_the_source(source, target):
    with real.Cache(source) as cache:
        fill(cache, 30, random.Random("source"))
    before = {path: path.read_bytes() for path in Path(source).rglob("*") if path.is_file()}
    import_diskcache(source, target)
    after = {path: path.read_bytes() for path in Path(source).rglob("*") if path.is_file()}
    assert {path: after[path] for path in before} == before


def test_a_table_of_an_older_version(source, target):
    """DiskCache 4 has the same table; its pickles of keys are not optimized in each release."""
    with real.Cache(source, disk_pickle_protocol=4) as cache:
        cache["key"] = "value"
        blob = pickle.dumps(("a", "b"), protocol=4)
        cache._sql(
            "INSERT INTO Cache(key, raw, store_time, mode, value) VALUES (?, 0, 0, 1, 5)", (blob,)
        )
    [done] = import_diskcache(source, target)
    assert done.copied == 2


def damaged(source: str) -> None:
    with real.Cache(source) as cache:
        for number in range(2000):
            cache[number] = "x" * 200
    path = Path(source, "cache.db")
    content = bytearray(path.read_bytes())
    # A page of the table, which counting the rows does not read: it reads a page of an index.
    page = content.index(b"x" * 200) // 4096 * 4096
    content[page : page + 100] = random.Random("damage").randbytes(100)
    path.write_bytes(content)


def test_a_damaged_database_is_refused(source, target):
    damaged(source)
    with pytest.raises(ImportFailed, match=r"(?s)cache\.db cannot be read: .*\.recover"):
        import_diskcache(source, target)
    assert not os.path.exists(target)
    Path(source, "cache.db").write_bytes(b"no database" * 1000)
    with pytest.raises(ImportFailed, match="file is not a database"):
        import_diskcache(source, target)


def test_a_locked_database_is_refused(source, target, monkeypatch):
    real.Cache(source, sqlite_journal_mode="delete").close()
    monkeypatch.setattr("tuckbox.compat.diskcache.importing._LOCK_S", 0.1)
    with sqlite3.connect(os.path.join(source, "cache.db"), isolation_level=None) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ImportFailed, match="database is locked"):
            import_diskcache(source, target)
    holder.close()


def test_a_directory_without_a_cache_is_refused(source, target):
    os.mkdir(source)
    with pytest.raises(ImportFailed, match="not a directory of DiskCache"):
        import_diskcache(source, target)


def test_the_target_is_another_directory(source):
    real.Cache(source).close()
    for place in (source, os.path.join(source, "below"), os.path.dirname(source)):
        with pytest.raises(ImportFailed, match="must be separate"):
            import_diskcache(source, place)


def test_the_command(source, target):
    with real.Cache(source) as cache:
        cache["a"], cache["b"], cache["c"] = 1, date(2024, 1, 1), 3
    done = command(source, target)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"{target}: entries copied: 2, already there: 0, all verified\n"
        f"  left out: 1: {PICKLED}\n"
    )  # fmt: skip
    done = command("--trust-pickles", source, target)
    assert done.stdout == f"{target}: entries copied: 1, already there: 2, all verified\n"


def test_the_command_fails_with_one_line(source, target):
    done = command(source, target)
    assert done.returncode == 1
    assert done.stderr == f"tuckbox: no cache.db in {source}: it is not a directory of DiskCache\n"
    shutil.rmtree(target, ignore_errors=True)
    damaged(source)
    done = command(source, target)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_progress_counts_what_is_copied_and_what_is_compared(source, target):
    with real.Cache(source) as cache:
        for number in range(5):
            cache[number] = number
    steps = []
    import_diskcache(source, target, progress=lambda *step: steps.append(step))
    assert steps == [(number + 1, 10) for number in range(10)]


def test_memory_does_not_grow_with_the_number_of_entries(tmp_path):
    def copied(count: int):
        source = tmp_path / f"source {len(os.listdir(tmp_path))}"
        with real.Cache(str(source)) as cache, cache.transact():
            for number in range(count):
                cache[number] = "value"
        return lambda: import_diskcache(source, f"{source} target")

    # A number of eight bytes for each, in an array that grows by an eighth.
    assert bytes_for_each(copied) < 20
