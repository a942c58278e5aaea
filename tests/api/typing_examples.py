"""How a program in a strictly typed project uses the cache. Checked by mypy, not run."""

from __future__ import annotations

from collections.abc import Iterator, KeysView, MutableMapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from typing_extensions import assert_type

from tuckbox import Cache, CheckReport, Entry, Key, Result, Stats, memory
from tuckbox.namespaces import Namespace

if TYPE_CHECKING:
    from tuckbox.contract import Store


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


def loading(cache: memory.Cache) -> None:
    assert_type(cache.get_or_set("k", lambda: 1, 60), int)
    assert_type(cache.get_or_set("k", lambda: Result("a", ttl=5), stale="1h", tags=["t"]), str)
    assert_type(cache.get_or_set("k", list[int], ttl=len), "list[int]")
    assert_type(cache.get_or_set("k", lambda: 1, cached_only=True), Any)

    def make_many(names: list[str]) -> dict[str, float]:
        return dict.fromkeys(names, 1.5)

    assert_type(cache.get_or_set_many(["a"], make_many, timeout=5), "dict[str, Any]")


def memoizing(cache: memory.Cache) -> None:
    @cache.memoize(ttl=60, tags=lambda day, full: [f"day:{day}"])
    def report(day: int, full: bool = False) -> str:
        return ""

    @cache.memoize("5m", ignore=("self",))
    def found(name: str) -> Result[Optional[int]]:
        return Result(None, ttl=5)

    @cache.memoize(timeout=5)
    async def fetched(url: str) -> bytes:
        return b""

    class Shop:
        @cache.memoize()
        def price(self, item: str) -> int:
            return 7

        @cache.memoize()
        async def stock(self, item: str) -> int:
            return 7

    assert_type(report(7), str)
    assert_type(report.peek(7, full=True), Optional[str])
    assert_type(report.refresh(day=7), str)
    assert_type(report.invalidate(7), bool)
    assert_type(report.key(7), Key)
    assert_type(found("x"), Optional[int])
    assert_type(Shop().price("tea"), int)
    assert_type(Shop().price.peek(item="tea"), Optional[int])
    assert_type(Shop.price(Shop(), "tea"), int)

    async def waiting() -> None:
        assert_type(await fetched("/"), bytes)
        assert_type(await fetched.peek("/"), Optional[bytes])
        assert_type(await Shop().stock("tea"), int)
        await fetched(7)  # type: ignore[arg-type]

    assert_type(Shop().stock.key("tea"), Key)
    report("7")  # type: ignore[arg-type]
    report.peek(8, True, 10)  # type: ignore[call-arg]
    Shop().price(7)  # type: ignore[arg-type]


def organised(cache: Cache) -> None:
    store: Store = cache
    store = cache.namespace("blog")
    assert_type(store._era("blog"), int)
    blog = cache.namespace("blog")
    assert_type(blog, Namespace)
    assert_type(blog.namespace("en").get_entry("k"), Optional[Entry])
    assert_type(blog.get_or_set("k", lambda: 5, tags=["t"]), int)
    blog.set("k", 1, ttl="5m", tags={"t"}, stale=60, keep_ttl=True)
    assert_type(blog.ttl("k"), Optional[float])
    assert_type(blog.delete("k", version=3), bool)
    assert_type(cache.scan(tag="t", prefix=("user", 7)), Iterator[Key])
    assert_type(cache.delete_prefix(b"x"), int)
    cache.evict(tag="t", soft=True)

    @blog.memoize(ttl=60)
    def report(day: int) -> str:
        return ""

    assert_type(report(7), str)
    cache.set("k", 1, tags=[7])  # type: ignore[list-item]
    cache.evict("t")  # type: ignore[call-arg]
    cache.delete_prefix(7)  # type: ignore[arg-type]
    cache.namespace(7)  # type: ignore[arg-type]


def refused(cache: Cache) -> None:
    cache.get(1.5)  # type: ignore[call-overload]
    cache.set(None, 1)  # type: ignore[arg-type]
    cache.set("k", 1, ttl=[5])  # type: ignore[arg-type]
    cache.incr("n", 1.5)  # type: ignore[arg-type]
    Cache(favor="hits")  # type: ignore[call-arg]
    Cache(size=b"1 MB")  # type: ignore[arg-type]
