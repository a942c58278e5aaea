"""Checks one thing of a `DjangoCache`: ``django_program.py MODULE DIRECTORY NAME``."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager

import django
from django.conf import settings
from django.core.cache import cache, caches

_, MODULE, DIRECTORY, NAME = sys.argv
_PLACE = {"BACKEND": f"{MODULE}.DjangoCache", "LOCATION": DIRECTORY}
settings.configure(
    CACHES={
        "default": _PLACE,
        "short": {**_PLACE, "TIMEOUT": 0},
        "endless": {**_PLACE, "TIMEOUT": None},
        "versions": {**_PLACE, "VERSION": 2, "KEY_PREFIX": "blog"},
        "options": {
            **_PLACE,
            "LOCATION": f"{DIRECTORY}/options",
            "SHARDS": 3,
            "DATABASE_TIMEOUT": 0.5,
            "OPTIONS": {"size_limit": 2**20, "eviction_policy": "none"},
        },
    }
)
django.setup()


@contextmanager
def raises(error: type[BaseException], text: str = ""):
    try:
        yield
    except error as raised:
        assert text in str(raised), raised
    else:
        raise AssertionError(f"no {error.__name__}")


def check_values() -> None:
    assert cache.set("key", {"a": [1, b"2", None]}) is True
    assert cache.get("key") == {"a": [1, b"2", None]}
    assert cache.get("other") is None
    assert cache.get("other", 5) == 5
    assert cache.add("key", 1) is False
    assert cache.add("new", None) is True
    assert cache.get("new", "default") is None
    assert cache.has_key("new")
    assert "new" in cache
    assert cache.delete("new") is True
    assert cache.delete("new") is False
    assert "new" not in cache
    cache.set("key with spaces " * 100, 1)
    assert cache.get("key with spaces " * 100) == 1


def check_several() -> None:
    assert cache.set_many({"a": 1, "b": 2}) == []
    assert cache.get_many(["a", "b", "c"]) == {"a": 1, "b": 2}
    cache.delete_many(["a", "c"])
    assert cache.get_or_set("b", 5) == 2
    assert cache.get_or_set("d", lambda: 6) == 6
    assert cache.clear() == 2
    assert cache.get("b") is None


def check_timeouts() -> None:
    cache.set("zero", 1, timeout=0)
    cache.set("past", 1, timeout=-1)
    assert cache.get_many(["zero", "past"]) == {}
    for alias, expected in (("default", False), ("endless", True)):
        caches[alias].set("key", 1)
        assert (caches[alias].get("key", expire_time=True)[1] is None) is expected
    caches["short"].set("key", 1)
    assert cache.get("key") is None
    cache.set("key", 1)
    assert cache.touch("key", None) is True
    assert cache.get("key", expire_time=True) == (1, None)
    assert cache.touch("key", 0) is True
    assert cache.get("key") is None
    assert cache.touch("missing") is False
    assert [cache.get_backend_timeout(given) for given in (0, None, 5, -2)] == [-1, None, 5, -2]
    assert cache.get_backend_timeout() == 300


def check_versions() -> None:
    cache.set("key", 1)
    caches["versions"].set("key", 2)
    assert cache.get("key") == 1
    assert cache.get("key", version=2) is None
    assert caches["versions"].get("key") == 2
    assert caches["versions"].get("key", version=1) is None
    blog = caches["versions"]
    assert blog.has_key("key", version=2)
    assert not blog.has_key("key", version=3)
    assert blog.add("key", 5, version=3) is True
    assert blog.touch("key", None, version=3) is True
    assert blog.get("key", version=3, expire_time=True) == (5, None)
    assert blog.incr("key", version=3) == 6
    assert blog.decr("key", 2, version=3) == 4
    assert blog.delete("key", version=4) is False
    assert blog.pop("key", version=3) == 4
    blog.set("file", b"x" * 50_000, version=3)
    with blog.read("file", version=3) as file:
        assert len(file.read()) == 50_000
    assert blog.get("key") == 2
    assert cache.incr_version("key") == 2
    assert cache.get("key", version=2) == 1


def check_numbers() -> None:
    with raises(ValueError, "Key ':1:number' not found"):
        cache.incr("number")
    assert cache.incr("number", default=4) == 5
    assert cache.incr("number", 10) == 15
    assert cache.decr("number", 6) == 9
    assert cache.decr("other", default=0) == -1
    with raises(ValueError, "not found"):
        cache.decr("missing")


def check_files() -> None:
    value = b"abcd" * 2**18
    assert cache.set("key", value) is True
    with cache.read("key") as file:
        assert file.read() == value
        assert os.path.exists(file.name)
    with raises(KeyError):
        cache.read("missing")
    with open(__file__, "rb") as file:
        cache.set("source", file, read=True)
    with open(__file__, "rb") as file:
        assert cache.get("source") == file.read()


def check_pop() -> None:
    for number in range(4):
        cache.set(number, number, timeout=None, tag="tag")
    assert cache.pop(0) == 0
    assert cache.pop(0) is None
    assert cache.pop(0, default=7) == 7
    assert cache.pop(1, expire_time=True) == (1, None)
    assert cache.pop(2, tag=True) == (2, "tag")
    assert cache.pop(3, expire_time=True, tag=True) == (3, None, "tag")


def check_tags() -> None:
    for number in range(12):
        cache.set(number, number, tag=number % 3)
    assert cache.get(4, tag=True) == (4, 1)
    assert cache.evict(1) == 4
    cache.create_tag_index()
    assert cache.evict(2) == 4
    cache.drop_tag_index()
    assert cache.get_many(range(12)) == {number: number for number in range(0, 12, 3)}


def check_maintenance() -> None:
    cache.set("old", 1, timeout=-5)
    cache.set("key", 1)
    cache.set("key", 2)
    cache.expire()
    assert cache.cull() == 0
    cache.stats(enable=True, reset=True)
    cache.get("key")
    cache.get("missing")
    assert cache.stats() == (1, 1)
    cache.close()
    assert cache.get("key") == 2


def check_collections() -> None:
    subcache, deque, index = cache.cache("a"), cache.deque("b", maxlen=2), cache.index("c")
    places = (subcache.directory, deque.directory, index.directory)
    assert places == tuple(
        os.path.join(cache.directory, kind, name)
        for kind, name in (("cache", "a"), ("deque", "b"), ("index", "c"))
    )
    subcache["key"] = 1
    deque.extend("abc")
    index["key"] = 2
    assert cache.get("key") is None
    assert cache.cache("a")["key"] == 1
    assert list(cache.deque("b")) == ["b", "c"]
    assert cache.index("c") == {"key": 2}


def check_memoize() -> None:
    calls = []

    @cache.memoize(name="double", version=3, tag="results", ignore={"log"})
    def double(number, log=None):
        calls.append(number)
        return 2 * number

    assert [double(1), double(1, log=1), double(2)] == [2, 2, 4]
    assert calls == [1, 2]
    key = double.__cache_key__(2)
    assert cache.get(key, version=3, tag=True) == (4, "results")
    with raises(TypeError):
        cache.memoize(double)

    @cache.memoize(timeout=0)
    def now():
        calls.append(0)

    now()
    now()
    assert calls == [1, 2, 0, 0]


def check_settings() -> None:
    options = caches["options"]._cache
    assert options.size_limit * 3 in range(2**20 - 3, 2**20 + 4) or options.size_limit == 2**20
    assert options.eviction_policy == "none"
    assert len([name for name in os.listdir(f"{DIRECTORY}/options") if name.isdigit()]) == 3


globals()[NAME]()
