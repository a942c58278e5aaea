"""After close, and before open."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import TYPE_CHECKING, Any, Callable

import pytest

from tuckbox import Cache, memory
from tuckbox.errors import CacheClosed

if TYPE_CHECKING:
    from pathlib import Path

RUNS_ON = ("shared", "memory")

OPERATIONS: dict[str, Callable[[Cache], object]] = {
    "get": lambda cache: cache.get("k"),
    "get_entry": lambda cache: cache.get_entry("k"),
    "set": lambda cache: cache.set("k", 1),
    "set container": lambda cache: cache.set("k", [1]),
    "set long": lambda cache: cache.set("k", b"x" * 200_000),
    "add": lambda cache: cache.add("k", 1),
    "replace": lambda cache: cache.replace("k", 1),
    "cas": lambda cache: cache.cas("k", 1, 1),
    "delete": lambda cache: cache.delete("k"),
    "pop": lambda cache: cache.pop("k", None),
    "popitem": lambda cache: cache.popitem(),
    "setdefault": lambda cache: cache.setdefault("k", 1),
    "update": lambda cache: cache.update(k=1),
    "touch": lambda cache: cache.touch("k"),
    "incr": lambda cache: cache.incr("k", default=1),
    "decr": lambda cache: cache.decr("k", default=1),
    "get_many": lambda cache: cache.get_many(["k"]),
    "set_many": lambda cache: cache.set_many({"k": 1}),
    "delete_many": lambda cache: cache.delete_many(["k"]),
    "[]": lambda cache: cache["k"],
    "[]=": lambda cache: cache.__setitem__("k", 1),
    "del": lambda cache: cache.__delitem__("k"),
    "in": lambda cache: "k" in cache,
    "len": len,
    "iter": list,
    "keys": lambda cache: cache.keys(),
    "values": lambda cache: cache.values(),
    "items": lambda cache: cache.items(),
    "clear": lambda cache: cache.clear(),
    "expire": lambda cache: cache.expire(),
    "stats": lambda cache: cache.stats(),
    "check": lambda cache: cache.check(),
    "with": lambda cache: cache.__enter__(),
    "pickle": pickle.dumps,
    "copy": copy.copy,
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("where", ["file", "private", "name in memory", "memory"])
def test_every_operation_is_refused(
    path: str, operation: Callable[[Any], object], where: str
) -> None:
    open_cache, place, name = {
        "file": (Cache, path, path),
        "private": (Cache, None, "."),
        "name in memory": (memory.Cache, "closing", "'closing'"),
        "memory": (memory.Cache, None, "."),
    }[where]
    cache = open_cache(place)
    cache["k"] = 1
    cache.close()
    with pytest.raises(CacheClosed, match=f"{name}.*open it again"):
        operation(cache)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("kind", [Cache, memory.Cache], ids=["shared", "memory"])
def test_a_cache_that_was_never_opened_is_refused(
    kind: Any, operation: Callable[[Any], object]
) -> None:
    with pytest.raises(CacheClosed, match=r"never opened"):
        operation(kind.__new__(kind))


def test_what_describes_it_still_works(path: str) -> None:
    cache = Cache(path, size="1 MiB", max_entries=7, lock_timeout=0.5)
    assert not cache.closed
    cache.close()
    cache.close()
    assert cache.closed
    assert cache.path == path
    assert (cache.size, cache.max_entries, cache.lock_timeout) == (1 << 20, 7, 0.5)
    assert repr(cache) == f"<Cache {path!r} closed>"


@pytest.mark.parametrize("kind", [Cache, memory.Cache], ids=["shared", "memory"])
def test_repr(kind: Any) -> None:
    with kind() as cache:
        assert repr(cache) == "<Cache private>"
    assert repr(cache) == "<Cache private closed>"
    assert repr(kind.__new__(kind)) == "<Cache never opened>"
    assert kind.__new__(kind).closed


def test_with_closes_also_after_an_error(path: str) -> None:
    with pytest.raises(ZeroDivisionError), Cache(path) as cache:
        cache["k"] = 1 / 0
    assert cache.closed


def test_other_handles_stay_open(opened: Any, path: str) -> None:
    one, other = opened(path), opened(path)
    one["k"] = 1
    one.close()
    assert other["k"] == 1
    assert opened(path)["k"] == 1


def test_a_walk_ends_with_its_cache(path: str) -> None:
    cache = Cache(path)
    cache.set_many({number: number for number in range(100)})
    walk = iter(cache)
    next(walk)
    cache.close()
    with pytest.raises(CacheClosed):
        next(walk)


@pytest.mark.shared_file
def test_opening_twice_is_refused(opened: Any, path: str, tmp_path: Path) -> None:
    cache = opened(path)
    cache["k"] = 1
    with pytest.raises(RuntimeError, match="already open"):
        cache.__init__(tmp_path / "other.tuck")
    assert cache.path == path
    assert cache["k"] == 1


def test_a_forgotten_cache_is_freed(path: str) -> None:
    cache = Cache(path)
    cache.me = cache  # type: ignore[attr-defined]
    cache.walk = iter(cache)  # type: ignore[attr-defined]
    gone = weakref.ref(cache)
    del cache
    gc.collect()
    assert gone() is None


def test_subclasses_may_have_arguments_of_their_own(opened: Any, tmp_path: Path) -> None:
    class Sessions(Cache):
        def __init__(self, name: str) -> None:
            super().__init__(tmp_path / name, size="1 MiB")
            self.name = name

    with Sessions("sessions.tuck") as cache:
        cache["k"] = 1
        assert cache["k"] == 1
        assert repr(cache).startswith("<Sessions '")
