"""`Cache`, method by method."""

from __future__ import annotations

import io
import math
import os
import pickle
import random
import shutil

import pytest

from tuckbox.compat import diskcache as drop_in

VALUES = [
    None, True, 0, -(2**63), 2**63 - 1, 2**63, 1.5, math.inf, "", "text", "n\0ul", b"", b"\x00\xff",
    "x" * 40_000, b"x" * 40_000, "é" * 40_000, list(range(20_000)), (1, "a"), [1, [2]],
    {"a": {1, 2}}, 1 + 2j,
]  # fmt: skip
KEYS = [
    0, 1, -1, -(2**63), 2**63 - 1, 2**63, 1.5, math.inf, "", "a", "state", "1", b"", b"a", b"1",
    None, True, (), (1,), ("state",), ("a", 1), (b"a",), frozenset({1}), "x" * 100_000,
    b"x" * 100_000, ("x" * 100_000,),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_a_value_comes_back(cache, value):
    assert cache.set("key", value) is True
    assert cache["key"] == cache.get("key") == value
    assert type(cache["key"]) is type(value)
    assert cache.pop("key") == value
    assert "key" not in cache


def test_every_key_is_another_one_and_comes_back(cache):
    for number, key in enumerate(KEYS):
        assert cache.add(key, number) is True
    assert len(cache) == len(KEYS)
    for number, key in enumerate(KEYS):
        assert key in cache
        assert cache[key] == number
    assert list(cache) == KEYS
    assert [type(key) for key in cache] == [type(key) for key in KEYS]
    assert list(reversed(cache)) == KEYS[::-1]
    for key in KEYS:
        del cache[key]
    assert list(cache) == []


def test_an_equal_number_is_the_same_key_and_the_first_one_is_kept(cache):
    cache[1.0] = "float"
    cache[1] = "int"
    cache[-0.0] = "zero"
    assert cache[1.0] == "int"
    assert cache[0] == "zero"
    assert repr(list(cache)) == "[1.0, -0.0]"
    assert True not in cache


def test_keys_are_sorted_by_kind_and_value(cache):
    keys = [2, "b", b"b", 1.5, "a", b"a", -1, "é", 2**40]
    for key in keys:
        cache[key] = None
    ordered = [-1, 1.5, 2, 2**40, "a", "b", "é", b"a", b"b"]
    assert list(cache.iterkeys()) == ordered
    assert list(cache.iterkeys(reverse=True)) == ordered[::-1]


def test_what_is_missing(cache):
    assert cache.get("dne") is None
    assert cache.get("dne", 7) == 7
    assert cache.get("dne", 7, expire_time=True) == (7, None)
    assert cache.get("dne", 7, tag=True) == (7, None)
    assert cache.get("dne", 7, expire_time=True, tag=True) == (7, None, None)
    assert cache.pop("dne", 7, expire_time=True, tag=True) == (7, None, None)
    assert cache.delete("dne") is False
    assert cache.touch("dne") is False
    with pytest.raises(KeyError, match="dne"):
        cache["dne"]
    with pytest.raises(KeyError, match="dne"):
        del cache["dne"]
    with pytest.raises(KeyError, match="dne"):
        cache.read("dne")
    with pytest.raises(KeyError, match="dne"):
        cache.incr("dne", default=None)
    with pytest.raises(KeyError):
        cache.peekitem()


def test_expiry_and_tag_are_returned(cache, clock):
    cache.set("a", 1, expire=10, tag="red")
    until = cache.get("a", expire_time=True)[1]
    assert until == pytest.approx(clock.now + 10, abs=1)
    assert cache.get("a", tag=True) == (1, "red")
    assert cache.peekitem(expire_time=True, tag=True) == (("a", 1), until, "red")
    assert cache.pop("a", expire_time=True, tag=True) == (1, until, "red")


@pytest.mark.parametrize("tag", ["text", b"bytes", 7, 1.5])
def test_tags_of_other_types(cache, tag):
    cache.set("a", 1, tag=tag)
    cache.set("b", 1, tag="other")
    cache["c"] = 1
    assert cache.get("a", tag=True) == (1, tag)
    assert cache.evict(tag) == 1
    assert list(cache) == ["b", "c"]
    assert cache.evict(None) == 0


def test_an_expired_entry_is_counted_and_iterated_but_not_found(cache, clock):
    cache.reset("cull_limit", 0)
    cache.set("a", 1, expire=10)
    cache.set("b", 2)
    clock.now += 20
    assert (len(cache), list(cache)) == (2, ["a", "b"])
    assert "a" not in cache
    assert cache.get("a") is None
    assert cache.pop("a") is None
    assert cache.delete("a") is False
    assert cache.touch("a") is False
    assert cache.add("a", 3) is True
    assert list(cache) == ["a", "b"]
    assert cache.peekitem(last=False) == ("a", 3)


def test_peekitem_removes_what_has_expired(cache, clock):
    cache.reset("cull_limit", 0)
    for key, expire in (("a", 10), ("b", None), ("c", 30), ("d", 10)):
        cache.set(key, key, expire=expire)
    clock.now += 20
    assert cache.peekitem() == ("c", "c")
    assert cache.peekitem(last=False) == ("b", "b")
    assert list(cache) == ["b", "c"]


def test_touch_sets_and_removes_the_expiry(cache, clock):
    cache.set("a", 1, expire=10)
    assert cache.touch("a", expire=100) is True
    clock.now += 50
    assert cache["a"] == 1
    assert cache.touch("a") is True
    assert cache.get("a", expire_time=True) == (1, None)
    assert cache.touch("a", expire=0) is True
    assert "a" not in cache


def test_overwriting_keeps_the_place_and_replaces_the_rest(cache):
    cache.set("a", 1, expire=10, tag="red")
    cache["b"] = 2
    cache["a"] = "x" * 40_000
    assert list(cache) == ["a", "b"]
    assert cache.get("a", expire_time=True, tag=True) == ("x" * 40_000, None, None)
    cache["a"] = 3
    assert cache["a"] == 3


def test_incr_and_decr(cache, clock):
    assert cache.incr("a") == 1
    assert cache.incr("a", 5) == 6
    assert cache.decr("a", 10) == -4
    assert cache.decr("b", 2, default=10) == 8
    assert cache.incr("c", 1.5, default=0.25) == 1.75
    cache.set("d", 5, expire=10, tag="red")
    assert cache.incr("d") == 6
    assert cache.get("d", tag=True) == (6, "red")
    clock.now += 20
    assert cache.incr("d") == 1
    assert cache.get("d", expire_time=True, tag=True) == (1, None, None)
    cache["e"] = "text"
    with pytest.raises(TypeError):
        cache.incr("e")
    assert cache["e"] == "text"


def test_add_stores_only_what_is_missing(cache):
    assert cache.add("a", "x" * 40_000) is True
    assert cache.add("a", "y" * 40_000) is False
    assert cache["a"] == "x" * 40_000


def test_iteration_ends_with_the_last_entry_of_its_beginning(cache):
    cache["a"] = cache["b"] = 1
    iterator = iter(cache)
    assert [next(iterator), next(iterator)] == ["a", "b"]
    cache["c"] = 1
    assert list(iterator) == []


def test_a_large_value_is_a_file(cache):
    cache["small"] = b"x" * (2**15 - 1)
    cache["large"] = b"x" * 2**15
    assert cache.get("small", read=True) == b"x" * (2**15 - 1)
    with cache.read("large") as reader:
        assert reader.read() == b"x" * 2**15
        assert os.path.dirname(reader.name).startswith(cache.directory)
        assert os.path.getsize(reader.name) == 2**15
        path = reader.name
    cache["large"] = "replaced"
    assert not os.path.exists(path)


def test_a_stream_is_stored_as_it_is_read(cache):
    content = bytes(range(256)) * 40_000
    assert cache.set("a", io.BytesIO(content), read=True) is True
    with cache.get("a", read=True) as reader:
        assert reader.read() == content
    assert cache["a"] == content
    assert cache.add("a", io.BytesIO(b"other"), read=True) is False
    assert cache.push(io.BytesIO(b"pushed"), read=True) == 500_000_000_000_000
    assert cache.pull() == (500_000_000_000_000, b"pushed")


@pytest.mark.filterwarnings("always")
def test_a_stream_that_breaks_leaves_the_old_value_and_no_file(dc, cache):
    class Broken:
        def __init__(self):
            self.reads = 0

        def read(self, size):
            self.reads += 1
            if self.reads > 1:
                raise OSError("the network is down")
            return b"x" * size

    cache["a"] = "old"
    with pytest.raises(OSError, match="network"):
        cache.set("a", Broken(), read=True)
    assert cache["a"] == "old"
    # DiskCache leaves a part of the file.
    if dc.__name__ == "diskcache":
        for _ in range(3):
            cache.check(fix=True)


@pytest.mark.filterwarnings("always")
def test_a_missing_file_is_a_miss(cache):
    cache["a"] = b"x" * 40_000
    with cache.read("a") as reader:
        os.remove(reader.name)
    assert cache.get("a") is None
    with pytest.raises(KeyError):
        cache["a"]
    assert len(cache.check(fix=True)) >= 1
    # DiskCache finds the empty directory only when the file is no longer missed.
    cache.check(fix=True)
    cache.check(fix=True)
    assert cache.check() == []
    assert len(cache) == 0


@pytest.mark.filterwarnings("always")
def test_check_finds_and_removes_unknown_files_and_empty_directories(dc, cache):
    os.makedirs(os.path.join(cache.directory, "empty", "er"))
    with open(os.path.join(cache.directory, "unknown.val"), "wb") as writer:
        writer.write(b"x")
    found = {warning.category for warning in cache.check()}
    assert found == {dc.EmptyDirWarning, dc.UnknownFileWarning}
    cache.check(fix=True)
    # An emptied parent is found by the next one.
    cache.check(fix=True)
    assert cache.check() == []


def test_no_file_is_left(cache):
    before = sorted(os.listdir(cache.directory))
    for key in range(10):
        cache[key] = "x" * 40_000
    for key in range(3):
        cache[key] = key
    cache.pop(3)
    cache.delete(4)
    cache.set(5, "x" * 40_000, tag="red")
    cache.evict("red")
    cache.clear()
    assert sorted(os.listdir(cache.directory)) == before


def test_statistics(cache):
    cache["a"] = 1
    assert cache.stats() == (0, 0)
    cache.get("a")
    cache.get("b")
    cache.get("c", read=True)
    assert cache.stats(enable=False) == (1, 2)
    cache.get("a")
    assert cache.stats(reset=True) == (1, 2)
    assert cache.stats() == (0, 0)
    assert cache.reset("hits") == 0


def test_settings_are_attributes_and_are_stored(dc, tmp_path):
    with dc.Cache(str(tmp_path), size_limit=5000, eviction_policy="none") as cache:
        assert (cache.size_limit, cache.eviction_policy) == (5000, "none")
        assert cache.reset("cull_limit", 7) == cache.cull_limit == 7
        assert cache.reset("disk_min_file_size", 10) == cache.disk.min_file_size == 10
        with dc.Cache(str(tmp_path)) as other:
            assert (other.size_limit, other.eviction_policy) == (5000, "none")
            assert (other.cull_limit, other.disk.min_file_size) == (7, 10)
            cache.reset("cull_limit", 8)
            assert other.cull_limit == 7
            assert other.reset("cull_limit") == other.cull_limit == 8
            other.reset("cull_limit", 9, update=False)
            assert (other.cull_limit, cache.reset("cull_limit")) == (9, 8)
    for name, value in dc.DEFAULT_SETTINGS.items():
        if name not in {"size_limit", "eviction_policy", "cull_limit", "disk_min_file_size"}:
            assert getattr(cache, name) == value
    with pytest.raises(ValueError):  # noqa: PT011 - The messages differ.
        cache.reset("dne")


def test_tag_index(dc, tmp_path):
    with dc.Cache(str(tmp_path), tag_index=True) as cache:
        assert cache.tag_index == 1
        cache.drop_tag_index()
        assert cache.tag_index == 0
        cache.create_tag_index()
        assert cache.tag_index == 1


def test_a_closed_cache_opens_again(cache):
    cache["a"] = 1
    for _ in range(2):
        cache.close()
        cache.close()
        assert cache["a"] == 1
    cache.close()
    assert list(cache) == ["a"]
    cache.close()
    cache["b"] = 2
    cache.close()
    assert len(cache) == 2
    cache.close()
    assert cache.pop("b") == 2


def test_a_pickled_cache_opens_the_same_directory(cache):
    cache["a"] = "x" * 40_000
    other = pickle.loads(pickle.dumps(cache))
    assert other["a"] == "x" * 40_000
    assert (other.directory, other.timeout) == (cache.directory, cache.timeout)
    other.close()


def test_a_copied_directory_has_the_entries(dc, cache, tmp_path):
    cache["a"] = 1
    cache["b"] = "x" * 40_000
    cache.close()
    shutil.copytree(cache.directory, tmp_path / "copy")
    with dc.Cache(tmp_path / "copy") as copy:
        assert (copy["a"], copy["b"]) == (1, "x" * 40_000)
        copy["c"] = 3
        assert "c" not in cache
        assert copy.check() == []


def test_a_new_directory_is_temporary(dc):
    with dc.Cache() as cache:
        cache["a"] = 1
        assert os.path.isdir(cache.directory)
    shutil.rmtree(cache.directory)


def test_user_and_variables_are_expanded(dc, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PART", "deep")
    with dc.Cache("~/$PART/er") as cache:
        assert cache.directory == str(tmp_path / "deep" / "er")


@pytest.mark.parametrize("policy", ["least-recently-stored", "least-recently-used"])
def test_random_operations_do_what_they_do_on_a_dict(dc, tmp_path, policy):
    rng = random.Random(f"cache-{policy}")
    model: dict = {}
    caches = [dc.Cache(str(tmp_path), eviction_policy=policy) for _ in range(2)]
    for _ in range(600):
        cache = rng.choice(caches)
        key = rng.choice(["a", "b", b"a", 1, 2.0, 2, ("a", 1), None])
        value = rng.choice([1, None, "x", "x" * 33_000, {"a": 1}])
        operation = rng.randrange(8)
        if operation <= 2:
            cache[key] = model[key] = value
        elif operation == 3:
            assert cache.add(key, value) == (key not in model)
            model.setdefault(key, value)
        elif operation == 4:
            assert cache.pop(key, "dne") == model.pop(key, "dne")
        elif operation == 5:
            assert cache.delete(key) == (key in model)
            model.pop(key, None)
        elif operation == 6 and model:
            last = rng.random() < 0.5
            end = list(model.items())[-1 if last else 0]
            assert cache.peekitem(last=last) == end
        else:
            assert cache.get(key, "dne") == model.get(key, "dne")
        assert len(cache) == len(model)
    assert list(caches[0]) == list(model)
    assert caches[1].check() == []
    for cache in caches:
        cache.close()


def test_iteration_skips_what_was_deleted_long_ago(cache):
    for key in range(1000):
        cache[key] = key
    found = []
    for key in cache:
        found.append(key)
        if key == 10:
            for later in range(500, 700):
                del cache[later]
    assert found == [*range(500), *range(700, 1000)]


@pytest.mark.parametrize("kind", [drop_in.Cache, drop_in.FanoutCache])
def test_a_lone_surrogate_is_a_key_of_the_drop_in(tmp_path, kind):
    # DiskCache refuses it.
    with kind(tmp_path / "cache") as cache:
        keys = ["a", "\ud800", "\ud800" * 1000]
        for key in keys:
            cache[key] = key
        assert [cache[key] for key in keys] == keys
        assert sorted(cache) == keys
        if kind is drop_in.Cache:
            assert list(cache.iterkeys()) == keys
