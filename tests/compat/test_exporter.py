"""Directories of the drop-in, and plain Tuckbox files, exported to the real DiskCache."""

from __future__ import annotations

import fcntl
import json
import math
import os
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

import tuckbox
from compat.filling import PLAIN, assert_equal, bytes_for_each, fill, same
from tuckbox.compat import diskcache as dc
from tuckbox.compat.diskcache.exporting import ExportFailed, export_diskcache
from tuckbox.compat.diskcache.importing import import_diskcache
from tuckbox.errors import CacheOpenError, UnsafeFile


@pytest.fixture
def source(tmp_path: Path) -> str:
    return str(tmp_path / "source")


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "target")


def command(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "tuckbox", "export-diskcache", *arguments],
        capture_output=True, text=True, timeout=50, check=False, **options,
    )  # fmt: skip


def store_one(source: str) -> None:
    with dc.Cache(source) as cache:
        cache["key"] = 1


def contents(*folders: str) -> dict:
    paths = [path for folder in folders for path in Path(folder).rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in paths}


def rows(directory: str) -> list[tuple]:
    """What DiskCache has stored, in order, but for the numbers of rows and the names of files."""
    with sqlite3.connect(os.path.join(directory, "cache.db")) as database:
        return database.execute(
            "SELECT key, raw, expire_time, tag, size, mode, filename IS NULL, value FROM Cache"
            " ORDER BY rowid"
        ).fetchall()


# --- There and back ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_there_and_back(source, target, tmp_path, seed):
    between = str(tmp_path / "between")
    with real.Cache(source, disk_min_file_size=500, size_limit=10**8) as cache:
        expected = fill(cache, 200, random.Random(f"back {seed}"))
        for key, value in PLAIN.items():
            cache[key] = value
        cache["date"] = date(2024, 1, 1)
        for key in list(cache)[::7]:
            del cache[key]
            expected.pop(key, None)
    import_diskcache(source, between, trust_pickles=True)
    [done] = export_diskcache(between, target)
    with real.Cache(source) as cache, real.Cache(target) as again:
        assert (done.copied, done.present) == (len(cache), 0)
        assert (done.left_out, done.different) == ({}, 0)
        assert_equal(again, cache)
        assert again.check() == []
        assert again.volume() > 0
        assert (again.size_limit, again.disk_min_file_size) == (10**8, 500)
        again["new"] = 1
        assert list(again)[-1] == "new"
    stored, copied = rows(source), rows(target)[:-1]
    assert [row[:2] + row[3:] for row in copied] == [row[:2] + row[3:] for row in stored]
    assert os.stat(target).st_mode & 0o777 == 0o700
    assert not os.path.exists(target + ".exporting")


@pytest.mark.parametrize("policy", dc.EVICTION_POLICY)
@pytest.mark.parametrize("tag_index", [0, 1])
def test_the_database_is_like_that_of_diskcache(source, target, tmp_path, policy, tag_index):
    settings = {"eviction_policy": policy, "tag_index": tag_index, "statistics": 1}
    for cache in (dc.Cache(source, **settings), real.Cache(tmp_path / "real", **settings)):
        with cache:
            cache["key"], cache["large"] = 1, b"x" * 50_000
            cache.get("key")
            cache.get("none")
    export_diskcache(source, target)
    facts = []
    for directory in (target, tmp_path / "real"):
        with sqlite3.connect(os.path.join(directory, "cache.db")) as database:
            schema = database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
            found = [sorted(map(str, schema.fetchall()))]
            found += [sorted(database.execute("SELECT key, value FROM Settings"))]
            for pragma in ("auto_vacuum", "journal_mode", "page_size"):
                found += database.execute(f"PRAGMA {pragma}").fetchall()
            facts.append(found)
    assert facts[0] == facts[1]


@pytest.mark.parametrize("policy", ["least-recently-used", "least-frequently-used"])
def test_reads_are_kept(source, target, policy):
    with dc.Cache(source, eviction_policy=policy) as cache:
        cache["a"], cache["b"] = "x", "x"
        cache.get("a")
    export_diskcache(source, target)
    with real.Cache(target) as cache:
        # The victim is the one that was not read, not the older one.
        cache.reset("size_limit", cache.volume() - 1)
        cache.reset("cull_limit", 1)
        cache._cull(time.time(), cache._sql, lambda _: None)
        assert list(cache) == ["a"]


def test_a_deque_and_an_index_keep_their_order(source, target):
    deque = dc.Deque("abcd", os.path.join(source, "deque"))
    deque.appendleft([0])
    deque.rotate(2)
    index = dc.Index(os.path.join(source, "index"), [("b", 1), ("a", {"x": 2}), (3, None)])
    index.push("job", prefix="jobs")
    export_diskcache(source, target)
    exported = real.Deque(directory=os.path.join(target, "deque"))
    assert list(exported) == list(deque)
    exported.append("last")
    exported.appendleft("first")
    assert list(exported) == ["first", *deque, "last"]
    names = real.Index(os.path.join(target, "index"))
    assert list(names.items()) == list(index.items())
    assert names.push("next", prefix="jobs") == "jobs-500000000000001"
    assert names.pull("jobs") == ("jobs-500000000000000", "job")


@pytest.mark.parametrize("shards", [1, 3])
def test_a_fanout_cache_with_caches_in_it(source, target, shards):
    fanout = dc.FanoutCache(source, shards=shards, size_limit=3 * 10**7)
    expected = fill(fanout, 60, random.Random("fanout"))
    numbers = [kind(number) for number in range(1000, 1020) for kind in (float, int)][::3]
    fanout.cache("users/new")["key"] = "x" * 50_000
    for number in numbers:
        fanout[number] = repr(number)
    fanout.deque("jobs").extend("abc")
    fanout.index("names")["b"] = 1
    done = export_diskcache(source, target)
    assert [cache.copied for cache in done] == [len(fanout), 1, 3, 1]
    with real.FanoutCache(target, shards=shards) as exported:
        assert len(exported) == len(fanout)
        for key, value in expected.items():
            assert same(exported[key], value), key
        for number in numbers:
            # Also the floats, for which DiskCache looks in another shard.
            assert exported[number] == repr(number)
        assert exported.check() == []
        assert exported.cache("users/new")["key"] == "x" * 50_000
        assert list(exported.deque("jobs")) == list("abc")
        assert dict(exported.index("names")) == {"b": 1}


def test_what_json_disk_stored(source, target):
    values = {"a": {"b": [1, None]}, "large": [f"{number}" for number in range(50_000)], 7: 7.5}
    with dc.Cache(source, disk=dc.JSONDisk, disk_compress_level=6) as cache:
        for key, value in values.items():
            cache[key] = value
    export_diskcache(source, target)
    with real.Cache(target, disk=real.JSONDisk, disk_compress_level=6) as cache:
        assert {key: cache[key] for key in cache} == values


def test_numbers_that_sqlite_cannot_hold_are_pickled(source, target):
    with dc.Cache(source) as cache:
        cache["sum"] = 2**62
        cache.incr("sum", 2**64)
        cache["nan"] = math.nan
    export_diskcache(source, target)
    with real.Cache(target) as cache:
        assert cache["sum"] == 2**62 + 2**64
        assert math.isnan(cache["nan"])


class Trap:
    """Runs code when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)

    __hash__ = object.__hash__


def test_pickles_are_copied_and_not_run(source, target, tmp_path):
    sign = str(tmp_path / "sign")
    with dc.Cache(source) as cache:
        cache["value"] = Trap(sign)
        cache["large value"] = [Trap(sign), "x" * 50_000]
        cache["key of a trap", Trap(sign)] = 1
        cache.set("tag", 1, tag=Trap(sign))
    [done] = export_diskcache(source, target)
    reason = "objects, which this command does not decode"
    assert (done.copied, done.left_out) == (3, {reason: 1})
    assert not os.path.exists(sign)
    real.Cache(target)["value"]
    assert os.path.exists(sign)


def test_entries_that_cannot_be_copied_are_counted(source, target, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"s" * 50_000)
    cache = dc.Cache(source, cull_limit=0)
    for name in ("missing", "short", "outside", "absolute", "database", "winding", "link", "kept"):
        cache[name] = b"x" * 50_000
    cache.set("old", 1, expire=-1)
    cache.set("tuple", 1, tag=(1, 2))
    cache["\ud800"] = 1
    cache[math.nan] = 1
    entries = cache._entries
    paths = {name: os.path.join(source, entries.peek(name)[6]) for name in ("missing", "link")}
    os.truncate(os.path.join(source, entries.peek("short")[6]), 9)
    os.remove(paths["missing"])
    os.remove(paths["link"])
    os.symlink(secret, paths["link"])
    for name, filename in (
        ("outside", "../secret"), ("absolute", str(secret)), ("database", "cache.db-wal"),
        ("winding", "aa/../cache.tuck"),
    ):  # fmt: skip
        entry = list(entries.peek(name))
        entry[6] = filename
        entries.file[name] = tuple(entry)
    entries.file["strange"] = ("value", 1)
    entries.file["stranger"] = ("value", "1", 0.0)
    [done] = export_diskcache(source, target)
    assert done.copied == 1
    assert done.left_out == {
        "expired": 1,
        "file of the value is missing": 1,
        "file of the value has a wrong length": 1,
        "value is outside of the directory": 5,
        "stored in an unknown way": 2,
        "tag is a tuple that SQLite cannot hold": 1,
        "key is a str that SQLite cannot hold": 1,
        "key is a float that SQLite cannot hold": 1,
    }
    with real.Cache(target) as exported:
        assert list(exported) == ["kept"]
        assert exported.check() == []


# --- Plain files ---------------------------------------------------------------------------------


def test_a_plain_file(tmp_path, target):
    source = str(tmp_path / "plain.tuck")
    values = {
        "str": "text", b"bytes": b"\0\xff", 1: 2, 2**70: 2**70, ("a", 1, (b"x",)): 1.5,
        "none": None, "list": [1, (2, {"a": {3}})], "date": date(2024, 1, 1), "true": True,
        "large": "é" * 50_000,
        "large bytes": b"x" * 50_000, "large list": list(range(20_000)),
    }  # fmt: skip
    with tuckbox.Cache(source, size="16 MiB", pickle="private") as cache:
        for key, value in values.items():
            cache.set(key, value, tags=["tag"] if key == 1 else [])
        cache.set("soon", 1, ttl=900)
        cache.set("two tags", 1, tags=["a", "b"])
        cache.set("old", 1, ttl=0)
        cache.set("object", Trap(str(tmp_path / "sign")))
        cache.namespace("other")["key"] = 1
    [done] = export_diskcache(source, target)
    assert (done.copied, done.different) == (len(values) + 1, 0)
    assert done.left_out == {
        "with several tags: DiskCache has one": 1,
        "objects, which this command does not decode": 1,
        "in namespaces, locks or queues; expired; or damaged": 2,
    }
    with real.Cache(target) as exported:
        assert {key for key in exported if key != "soon"} == set(values)
        for key, value in values.items():
            assert same(exported[key], value), key
        assert exported.get(1, tag=True) == (2, "tag")
        assert exported.get("soon", expire_time=True)[1] == pytest.approx(time.time() + 900, abs=60)
        assert exported.check() == []
    assert not os.path.exists(tmp_path / "sign")


def test_the_file_of_a_drop_in_is_not_a_plain_one(source, target):
    dc.Cache(source).close()
    with pytest.raises(ExportFailed, match="is of the drop-in; give its directory"):
        export_diskcache(os.path.join(source, "cache.tuck"), target)


# --- Interruptions -------------------------------------------------------------------------------


KILLED = """
import os, signal, sys
from tuckbox.compat.diskcache import database
from tuckbox.compat.diskcache.exporting import export_diskcache
database._BATCH_ROWS = 7
stop = lambda done, _: done == int(sys.argv[3]) and os.kill(os.getpid(), signal.SIGKILL)
export_diskcache(*sys.argv[1:3], progress=stop)
"""


def kill(source: str, target: str, after: int) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, source, target, str(after)], check=False, timeout=50
    )
    assert killed.returncode == -signal.SIGKILL
    assert not os.path.exists(target)


@pytest.mark.parametrize("seed", range(4))
def test_an_export_that_is_killed_continues(source, target, tmp_path, seed):
    rng = random.Random(f"killed {seed}")
    with real.Cache(str(tmp_path / "real")) as original:
        expected = fill(original, 150, rng)
        import_diskcache(original.directory, source)
        # In the copy or in the comparison.
        for _ in range(2):
            kill(source, target, rng.randrange(len(expected) + 20, 3 * len(expected)))
        [done] = export_diskcache(source, target)
        assert done.present > 0
        assert (done.present + done.copied, done.different) == (len(expected), 0)
        with real.Cache(target) as exported:
            assert_equal(exported, original)
            assert exported.check() == []


@pytest.mark.parametrize("after", [160, 230])
def test_what_changed_between_two_runs_is_copied(source, target, after):
    cache = dc.Cache(source)
    for number in range(100):
        value = b"%d" % number * (20_000 if number % 3 else 1)
        cache.set(number, value, expire=500 if number % 30 == 6 else None)
    kill(source, target, after)
    for number in range(0, 100, 10):
        del cache[number]
    for number in range(1, 100, 10):
        cache[number] = "changed"
    for number in range(3, 100, 30):
        cache[number] = b"same type"
        cache.touch(number + 3, 900)
    for number in range(2, 100, 10):
        del cache[number]
        cache[number] = b"later" * 20_000
    cache["new"] = 1
    [done] = export_diskcache(source, target)
    assert (done.copied + done.present, done.different) == (91, 0)
    with real.Cache(target) as exported:
        assert_equal(exported, cache)
        assert exported.check() == []


def test_a_file_that_a_kill_or_a_power_cut_damaged_is_written_again(source, target):
    with dc.Cache(source) as cache:
        for number in range(3):
            cache[number] = b"%d" % number * 50_000
    kill(source, target, 8)
    first, second, _ = sorted(Path(target + ".exporting", "data").rglob("*.val"))
    first.write_bytes(b"x" * 50_000)
    os.truncate(second, 100)
    [done] = export_diskcache(source, target)
    assert (done.copied, done.present, done.different) == (2, 1, 0)
    with real.Cache(target) as exported:
        assert [exported[number] for number in range(3)] == [b"%d" % n * 50_000 for n in range(3)]
        assert exported.check() == []


@pytest.mark.parametrize("change", ["set", "add", "delete"])
def test_a_change_during_the_export_is_found(source, target, change):
    cache = dc.Cache(source)
    for number in range(20):
        cache[number] = number

    def progress(done: int, total: int) -> None:
        # At the first entry that is compared, change the last one.
        if done == total // 3 * 2 + 1:
            if change == "set":
                cache[19] = "changed"
            elif change == "delete":
                del cache[19]
            else:
                cache["new"] = 1

    [done] = export_diskcache(source, target, progress=progress)
    # One that is added later is in no export.
    assert done.different == (change != "add")
    assert os.path.exists(target) is (change == "add")
    if change != "add":
        [done] = export_diskcache(source, target)
        assert done.different == 0
        with real.Cache(target) as exported:
            assert_equal(exported, cache)


def test_an_export_may_be_killed_before_it_tidies_up(source, target):
    store_one(source)
    export_diskcache(source, target)
    unfinished = Path(target + ".exporting")
    unfinished.mkdir(0o700)
    (unfinished / "export.json").write_text(json.dumps({"source": source}))
    with pytest.raises(ExportFailed, match="not an empty directory"):
        export_diskcache(source, target)
    assert not unfinished.exists()
    assert real.Cache(target)["key"] == 1


def test_progress_counts_what_is_listed_copied_and_compared(source, target):
    with dc.Cache(source) as cache:
        for number in range(5):
            cache[number] = number
    steps = []
    export_diskcache(source, target, progress=lambda *step: steps.append(step))
    assert [done for done, _ in steps] == list(range(1, 16))
    # While entries are listed, the number of steps is not known.
    assert {total for _, total in steps[5:]} == {15}


def test_memory_does_not_grow_with_the_number_of_entries(tmp_path):
    def copied(count: int):
        source = tmp_path / f"source {len(os.listdir(tmp_path))}"
        with dc.Cache(str(source)) as cache:
            for number in range(count):
                cache[number] = "value"
        return lambda: export_diskcache(source, f"{source} target")

    assert bytes_for_each(copied) < 2


# --- What is refused -----------------------------------------------------------------------------


def test_the_target_is_empty_or_missing(source, target, tmp_path):
    store_one(source)
    os.mkdir(target)
    Path(target, "file").touch()
    before = contents(str(tmp_path))
    with pytest.raises(ExportFailed, match=r"target is there and is not an empty directory"):
        export_diskcache(source, target)
    with pytest.raises(ExportFailed, match="not an empty directory"):
        export_diskcache(source, os.path.join(target, "file"))
    assert contents(str(tmp_path)) == before
    os.remove(os.path.join(target, "file"))
    export_diskcache(source, target)
    assert real.Cache(target)["key"] == 1


def test_source_and_target_are_separate(source):
    dc.Cache(source).close()
    for place in (source, os.path.join(source, "below"), os.path.dirname(source)):
        with pytest.raises(ExportFailed, match="must be separate"):
            export_diskcache(source, place)


def test_a_target_in_use_is_refused(source, target):
    store_one(source)
    kill(source, target, 2)
    with open(os.path.join(target + ".exporting", "export.json")) as note:
        fcntl.flock(note, fcntl.LOCK_EX)
        with pytest.raises(ExportFailed, match=r"another process is writing to .*target.exporting"):
            export_diskcache(source, target)
    [done] = export_diskcache(source, target)
    assert done.copied + done.present == 1


@pytest.mark.parametrize("what", ["another source", "a file", "other files", "mode", "link"])
def test_another_unfinished_directory_is_refused(source, target, tmp_path, what):
    store_one(source)
    unfinished = Path(target + ".exporting")
    if what == "another source":
        unfinished.mkdir(0o700)
        (unfinished / "export.json").write_text(json.dumps({"source": "/other"}))
    elif what == "a file":
        unfinished.touch()
    elif what == "link":
        (tmp_path / "real").mkdir(0o700)
        unfinished.symlink_to(tmp_path / "real")
    else:
        kill(source, target, 2)
        if what == "mode":
            unfinished.chmod(0o777)
        else:
            (unfinished / "export.json").rename(unfinished / "other")
    before = contents(str(tmp_path))
    with pytest.raises((ExportFailed, OSError), match=r"is not an unfinished export of|xists"):
        export_diskcache(source, target)
    assert contents(str(tmp_path)) == before


def test_a_damaged_unfinished_database_is_refused(source, target):
    with dc.Cache(source) as cache:
        for number in range(100):
            cache[number] = "x" * 200
    kill(source, target, 190)
    data = Path(target + ".exporting", "data")
    (data / "cache.db").write_bytes(b"no database" * 1000)
    (data / "cache.db-wal").unlink()
    with pytest.raises(ExportFailed, match=r"file is not a database.*remove the directory"):
        export_diskcache(source, target)


def test_a_source_without_a_cache_is_refused(source, target):
    with pytest.raises(ExportFailed, match=r"no cache\.tuck in .*source"):
        export_diskcache(source, target)
    os.mkdir(source)
    real.Cache(source).close()
    with pytest.raises(ExportFailed, match=r"no cache\.tuck in .*source"):
        export_diskcache(source, target)
    assert os.listdir(os.path.dirname(source)) == ["source"]


@pytest.mark.parametrize("what", ["no cache", "header", "short", "plain"])
def test_a_damaged_source_is_refused(source, target, what):
    store_one(source)
    path = Path(source, "cache.tuck")
    if what == "no cache":
        path.write_bytes(b"no cache" * 1000)
    elif what == "header":
        content = bytearray(path.read_bytes())
        content[8:200] = random.Random("damage").randbytes(192)
        path.write_bytes(content)
    elif what == "short":
        os.truncate(path, 5000)
    else:
        path.unlink()
        tuckbox.Cache(path)["key"] = 1
    with pytest.raises((CacheOpenError, ExportFailed), match=r"source"):
        export_diskcache(source, target)
    assert os.listdir(os.path.dirname(source)) == ["source"]


def test_damaged_entries_are_counted(source, target):
    with dc.Cache(source) as cache:
        for number in range(50):
            cache[f"key {number}"] = f"value {number:02} " * 20
    path = Path(source, "cache.tuck")
    content = bytearray(path.read_bytes())
    places = [content.index(b"value %02d " % number) for number in (7, 20)]
    for place in places:
        content[place + 50] ^= 1
    path.write_bytes(content)
    [done] = export_diskcache(source, target)
    assert (done.copied, done.left_out) == (48, {"deleted meanwhile, or damaged": 2})


def test_a_directory_of_others_is_refused(source, target):
    store_one(source)
    os.chmod(source, 0o777)
    with pytest.raises(UnsafeFile, match="lets every user replace it"):
        export_diskcache(source, target)
    assert not os.path.exists(target + ".exporting")


DIES = """
import os, signal, sys
from tuckbox.compat import diskcache
cache = diskcache.Cache(sys.argv[1])
with cache.transact():
    cache["key"] = "not to be seen"
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_transaction_of_a_dead_process_must_be_undone(source, target):
    with dc.Cache(source) as cache:
        cache["key"] = 1
    subprocess.run([sys.executable, "-c", DIES, source], check=False, timeout=50)
    before = contents(source)
    with pytest.raises(ExportFailed, match=r"a program died in a transaction .* undo it"):
        export_diskcache(source, target)
    assert contents(source) == before
    with dc.Cache(source) as cache, cache.transact():
        pass
    export_diskcache(source, target)
    assert real.Cache(target)["key"] == 1


def test_nothing_is_written_to_the_source(source, target):
    with dc.Cache(source) as cache:
        fill(cache, 30, random.Random("source"))
    before = contents(source)
    export_diskcache(source, target)
    assert contents(source) == before


def test_a_directory_in_use_can_be_exported(source, target):
    cache = dc.Cache(source)
    cache["before"] = 1
    export_diskcache(source, target)
    cache["after"] = 2
    assert list(real.Cache(target)) == ["before"]


# --- The command ---------------------------------------------------------------------------------


def test_the_command(source, target):
    with dc.Cache(source) as cache:
        cache["a"], cache["b"] = 1, date(2024, 1, 1)
        cache.set("c", 3, tag=(1, 2))
    done = command(source, target)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"{target}: entries copied: 2, already there: 0, all verified\n"
        "  left out: 1: tag is a tuple that SQLite cannot hold\n"
    )
    done = command(source, target)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"tuckbox: {target} is there and is not an empty directory")


def test_diskcache_need_not_be_installed(source, target):
    store_one(source)
    program = (
        "import sys; sys.modules['diskcache'] = None\n"
        "from tuckbox.__main__ import main\n"
        "sys.exit(main(['export-diskcache', *sys.argv[1:]]))\n"
    )
    subprocess.run([sys.executable, "-c", program, source, target], check=True, timeout=50)
    assert real.Cache(target)["key"] == 1


def test_a_full_disk_is_an_error_of_one_line(source, target):
    if shutil.which("prlimit") is None:
        pytest.skip("there is no prlimit")
    with dc.Cache(source) as cache:
        for number in range(3000):
            cache[number] = "x" * 1000
    done = subprocess.run(
        ["prlimit", "--fsize=1000000", sys.executable, "-m", "tuckbox", "export-diskcache",
         source, target],
        capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "cannot be written" in done.stderr
    [exported] = export_diskcache(source, target)
    assert (exported.copied + exported.present, exported.different) == (3000, 0)
