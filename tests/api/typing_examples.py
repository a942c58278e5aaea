"""How a program in a strictly typed project uses the cache. Checked by mypy, not run."""

from __future__ import annotations

from collections.abc import KeysView, MutableMapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Optional

from typing_extensions import assert_type

from tuckbox import Cache, CheckReport, Entry, Key, Stats


def opening() -> None:
    Cache()
    Cache("pages", size="256 MB")
    Cache("./app.tuck", size=1.5e9)
    Cache(Path("app.tuck"), size=1 << 20, max_entries=1000, lock_timeout=0.5)
    Cache("./app.tuck", read_only=True)
    Cache("/srv/app.tuck", group="www-data").close()
    with Cache() as cache:
        assert_type(cache, Cache)
    assert_type(cache.path, "str | None")
    assert_type(cache.size, int)
    assert_type(cache.max_entries, "int | None")
    assert_type(cache.read_only, bool)
    assert_type(cache.group, "int | None")


def reading(cache: Cache) -> None:
    assert_type(cache.get("k"), "Any | None")
    assert_type(cache.get("k", 0), "Any | int")
    assert_type(cache["k"], Any)
    assert_type("k" in cache, bool)
    entry = cache.get_entry(("k", 1, b"x"))
    assert_type(entry, Optional[Entry])
    if entry is not None:
        assert_type(entry.expiry, "float | None")
        assert_type(entry.version, int)


def writing(cache: Cache) -> None:
    cache.set("k", [1, 2], ttl=60)
    cache.set("k", [1, 2], ttl="5m")
    cache.set(("a", ("b", 1)), None, ttl=timedelta(minutes=5))
    cache["k"] = {"a": 1}
    del cache["k"]
    assert_type(cache.add("k", 1, ttl=0.5), bool)
    assert_type(cache.cas("k", 1, 7), bool)
    assert_type(cache.delete("k"), bool)
    assert_type(cache.pop("k"), Any)
    assert_type(cache.pop("k", ""), "Any | str")
    assert_type(cache.incr("n", 2, default=0), int)
    assert_type(cache.touch("k"), bool)


def many(cache: Cache) -> None:
    names: list[str] = ["a", "b"]
    assert_type(cache.get_many(names), "dict[str, Any]")
    prices: dict[str, float] = {"a": 1.5}
    cache.set_many(prices, ttl=10)
    assert_type(cache.delete_many(name for name in names), int)


def as_a_mapping(cache: Cache) -> MutableMapping[Key, Any]:
    assert_type(cache.keys(), KeysView[Key])
    assert_type(cache.popitem(), tuple[Key, Any])
    assert_type(cache.setdefault("k", 1, ttl="5m"), Any)
    cache.update({"a": 1}, b=2)
    cache.update([("a", 1)])
    assert_type(hash(cache), int)
    return cache


def walking(cache: Cache) -> None:
    for key in cache:
        assert_type(key, Key)
    assert_type(list(cache.items()), "list[tuple[Key, Any]]")
    assert_type(len(cache), int)


def looking_after(cache: Cache) -> None:
    assert_type(cache.stats(), Stats)
    assert_type(cache.check(), CheckReport)
    assert_type(cache.stats().hit_ratio, float)
    assert_type(cache.clear(), int)
    assert_type(cache.expire(), int)


def refused(cache: Cache) -> None:
    cache.get(1.5)  # type: ignore[call-overload]
    cache.set(None, 1)  # type: ignore[arg-type]
    cache.set("k", 1, ttl=[5])  # type: ignore[arg-type]
    cache.incr("n", 1.5)  # type: ignore[arg-type]
    Cache(favor="hits")  # type: ignore[call-arg]
    Cache(size=b"1 MB")  # type: ignore[arg-type]
