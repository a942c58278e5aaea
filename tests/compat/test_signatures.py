"""``secret=``: each pickle is signed, and no other one is unpickled."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import struct
import subprocess
import sys

import pytest

from tuckbox import Cache as File
from tuckbox.compat import diskcache as dc
from tuckbox.compat.diskcache import djangocache
from tuckbox.compat.diskcache.entries import FILE_NAME, LOCK_NAME
from tuckbox.compat.diskcache.exporting import export_diskcache
from tuckbox.compat.diskcache.importing import import_diskcache
from tuckbox.compat.diskcache.sources import ExportFailed
from tuckbox.errors import EntryRefused, InvalidArgument

SECRET = "from the settings"
VALUE = {"a": [1]}
LARGE = ["x" * 100] * 1000
SPAWN = multiprocessing.get_context("spawn")


class Trap:
    """Its pickle creates a file when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "x")


@pytest.fixture
def cache(tmp_path):
    with dc.Cache(tmp_path / "cache", secret=SECRET, disk_min_file_size=1000) as cache:
        yield cache


@pytest.fixture
def trap(tmp_path):
    """A pickle that must not be loaded."""
    yield pickle.dumps(Trap(tmp_path / "was run"))
    assert not (tmp_path / "was run").exists()


def plant(cache, place, entry):
    """Store an entry as somebody who can write to the directory could."""
    with File(os.path.join(cache.directory, FILE_NAME)) as file:
        file[place] = entry


def pickled_entry(pickled, key=None):
    return (pickled, 1, 0.0, None, None, 4, None, 0, 0.0, 0, key)


def test_all_kinds_of_values_and_keys_come_back(tmp_path, cache):
    values = {1: 1, "a": "text", b"b": b"x" * 5000, ("c", 1): VALUE, "d": LARGE, 2.5: None}
    values["long", "k" * 5000] = ("x",)
    for key, value in values.items():
        cache[key] = value
    cache.push(LARGE, prefix="queue")
    with cache.transact():
        cache["d"] = LARGE[::-1]
        cache[("c", 1)] = LARGE
    cache.close()
    with dc.Cache(cache.directory, secret=[b"newer", SECRET]) as again:
        values.update({"d": LARGE[::-1], ("c", 1): LARGE})
        found = {key: again.get(key) for key in again}
        assert found.pop("queue-500000000000000") == LARGE
        # A key that is pickled is another one with another first secret.
        assert set(found) == set(values)
        assert found["d"] == values["d"]
        assert again.pull(prefix="queue")[1] == LARGE
        assert again.check() == []
    with dc.Cache(cache.directory, secret="newer") as again:
        again["e"] = VALUE
        with pytest.raises(EntryRefused, match=r"a value is not signed .* clear the cache"):
            again["d"]


def test_the_secret_is_nowhere_in_the_directory(tmp_path, cache):
    cache["a"], cache["b", 1] = VALUE, LARGE
    with cache.transact():
        cache["a"] = LARGE
        for folder, _, names in os.walk(cache.directory):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    assert SECRET.encode() not in file.read()
    assert SECRET not in repr(vars(cache))


@pytest.mark.parametrize("read", [lambda c: c["a"], lambda c: c.pop("a"), lambda c: c.peekitem()])
def test_a_planted_value_is_not_unpickled(cache, trap, read):
    cache["a"] = VALUE
    plant(cache, "a", pickled_entry(trap))
    with pytest.raises(EntryRefused):
        read(cache)
    assert cache.clear() <= 1


def test_a_planted_file_is_not_unpickled(cache, trap):
    cache["a"] = LARGE
    [path] = [os.path.join(at, name) for at, _, names in os.walk(cache.directory)
              for name in names if name.endswith(".val")]  # fmt: skip
    with open(path, "wb") as file:
        file.write(trap)
    with pytest.raises(EntryRefused):
        cache["a"]


def test_a_planted_key_is_not_unpickled(cache, trap):
    cache["a"] = 1
    plant(cache, (trap,), (1, 0, 0.0))
    for read in (list, lambda c: list(c.iterkeys()), lambda c: c.peekitem(last=False)):
        with pytest.raises(EntryRefused, match="a key is not signed"):
            read(cache)
    cache.clear()
    assert list(cache) == []


def test_a_signed_key_is_no_value(cache, tmp_path):
    key = ("a", 1)
    cache[key] = 1
    plant(cache, "b", pickled_entry(cache.disk.put(key)[0]))
    with pytest.raises(EntryRefused):
        cache["b"]


def test_pickles_of_another_directory_are_refused(tmp_path, cache):
    with dc.Cache(tmp_path / "other", secret=SECRET) as other:
        plant(cache, "a", pickled_entry(other.disk.store(VALUE, False)[3]))
    with pytest.raises(EntryRefused):
        cache["a"]


def test_a_planted_journal_is_not_unpickled(cache, trap):
    cache["a"] = 1
    with open(os.path.join(cache.directory, LOCK_NAME), "wb") as file:
        file.write(struct.pack("<I", len(trap)) + trap)
    with pytest.raises(EntryRefused, match="a journal is not signed"):
        # A new handle looks for a journal when it takes the lock.
        dc.Cache(cache.directory, secret=SECRET).push(2)
    assert cache["a"] == 1


def test_planted_objects_of_tuckbox_are_not_unpickled(cache, tmp_path, trap):
    with File(os.path.join(cache.directory, FILE_NAME), pickle="private") as file:
        file["a"] = Trap(tmp_path / "was run")
        file["settings",] = Trap(tmp_path / "was run")
    with pytest.raises(EntryRefused):
        cache["a"]
    with pytest.raises(EntryRefused):
        dc.Cache(cache.directory, secret=SECRET)


def test_a_planted_name_of_a_file_reads_and_removes_nothing(cache, tmp_path):
    outside = tmp_path / "outside.val"
    outside.write_text("precious")
    os.symlink(tmp_path, os.path.join(cache.directory, "link"))
    for name in ("../outside.val", str(outside), "link/outside.val"):
        plant(cache, "a", (None, 1, 0.0, None, None, 3, name, 8, 0.0, 0, None))
        with pytest.raises(EntryRefused, match="outside of the directory"):
            cache["a"]
        cache.clear()
        assert outside.read_text() == "precious"


def test_a_directory_keeps_to_its_secret(tmp_path, cache):
    for secret in ("another", ["one", b"two"]):
        with pytest.raises(InvalidArgument, match="used with another secret; pass that one"):
            dc.Cache(cache.directory, secret=secret)
    with pytest.raises(InvalidArgument, match="is used with a secret; pass it as secret="):
        dc.Cache(cache.directory)
    dc.Cache(tmp_path / "plain").close()
    with pytest.raises(InvalidArgument, match="used without a secret"):
        dc.Cache(tmp_path / "plain", secret=SECRET)
    for secret in ("", [], 7):
        with pytest.raises(InvalidArgument, match="secret must be a str"):
            dc.Cache(tmp_path / "new", secret=secret)


def test_without_a_secret_pickles_are_those_of_diskcache(tmp_path):
    with dc.Cache(tmp_path / "plain") as cache:
        cache["a", 1] = VALUE
        [(place, entry)] = cache._entries.rows()
        assert pickle.loads(place[0]) == ("a", 1)
        assert pickle.loads(entry[0]) == VALUE
        assert cache.secret is None
        assert "signed" not in cache._entries.settings()


def read_of(opened):
    return opened[0]


def secret_of_the_program():
    return SECRET


@pytest.mark.parametrize("kind", ["Cache", "FanoutCache", "Deque", "Index"])
def test_handles_in_other_processes(tmp_path, kind):
    def opened(secret):
        if kind == "FanoutCache":
            return dc.FanoutCache(tmp_path / "cache", secret=secret)
        cache = dc.Cache(tmp_path / "cache", eviction_policy="none", secret=secret)
        return cache if kind == "Cache" else getattr(dc, kind).fromcache(cache)

    handle = opened(SECRET)
    if kind == "Deque":
        handle.append(LARGE)
    else:
        handle[0] = LARGE
    with pytest.raises(TypeError, match="the pickle contains the secret"):
        pickle.dumps(handle)
    process = SPAWN.Process(target=check_in_child, args=(handle,))
    process.start()
    process.join(50)
    assert process.exitcode == 0
    copy = pickle.loads(pickle.dumps(opened(secret_of_the_program)))
    assert read_of(copy) == VALUE


def check_in_child(handle):
    assert read_of(handle) == LARGE
    handle[0] = VALUE


def test_parts_of_a_fanout_cache_are_signed(tmp_path):
    with dc.FanoutCache(tmp_path / "cache", 2, secret=SECRET) as cache:
        cache["a", 1] = VALUE
        parts = cache.cache("c"), cache.deque("d").cache, cache.index("i").cache
        for part in (*parts, cache):
            with pytest.raises(EntryRefused):
                part.disk.fetch(4, None, pickle.dumps(VALUE), False)
        assert cache["a", 1] == VALUE


def test_django_has_the_secret_among_its_options(tmp_path):
    cache = djangocache.DjangoCache(str(tmp_path / "cache"), {"OPTIONS": {"secret": SECRET}})
    cache.set("a", VALUE)
    assert cache.get("a") == VALUE
    cache.close()
    with pytest.raises(InvalidArgument):
        djangocache.DjangoCache(str(tmp_path / "cache"), {}).get("a")


def test_json_needs_no_signature(tmp_path):
    with dc.Cache(tmp_path / "cache", disk=dc.JSONDisk, secret=SECRET) as cache:
        cache["a"] = VALUE
        assert cache["a"] == VALUE


def test_signed_directories_are_neither_exported_nor_imported_into(tmp_path, cache):
    with pytest.raises(ExportFailed, match="is used with a secret"):
        export_diskcache(cache.directory, tmp_path / "exported")
    program = f"import diskcache; diskcache.Cache({str(tmp_path / 'old')!r})['a'] = 1"
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(InvalidArgument, match="is used with a secret"):
        import_diskcache(tmp_path / "old", cache.directory)
