"""What a cache with tiers does with ``pinned=True``: the far tier pins, or refuses.

No server: the far tier is a shared file, which pins, or a directory of files, which does not.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Callable

import pytest

from tuckbox import Cache, connect
from tuckbox.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAYS: dict[str, Callable[[Any, str], object]] = {
    "set": lambda cache, key: cache.set(key, 1, ttl=1000, pinned=True),
    "add": lambda cache, key: cache.add(key, 1, pinned=True),
    "replace": lambda cache, key: cache.replace(key, 1, pinned=True),
    "cas": lambda cache, key: cache.cas(key, 1, cache.get_entry(key).version, pinned=True),
    "set_many": lambda cache, key: cache.set_many({key: 1}, pinned=True),
    "aset": lambda cache, key: asyncio.run(cache.aset(key, 1, pinned=True)),
    "aset_many": lambda cache, key: asyncio.run(cache.aset_many({key: 1}, pinned=True)),
}
NEW = {"set", "add", "set_many", "aset", "aset_many"}
"""Those that store an entry that is not there."""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens a near tier before a far one."""
    caches: list[Any] = []

    def open_tiers(near: str, far: str, **options: Any) -> Any:
        urls = {
            "memory": f"memory:{tmp_path.name}",
            "shared": f"shared://{tmp_path}/near.tuck?size=4MiB",
            "pins": f"shared://{tmp_path}/far.tuck?size=512KiB",
            "cannot": f"file://{tmp_path}/far",
        }
        caches.append(connect(urls[near], urls[far], max_stale=60, **options))
        return caches[-1]

    yield open_tiers
    for cache in caches:
        cache.close()


@pytest.mark.parametrize("writes", ["around", "through"])
@pytest.mark.parametrize("near", ["memory", "shared"])
def test_the_far_tier_pins(
    opened: Callable[..., Any], tmp_path: Path, near: str, writes: str
) -> None:
    cache = opened(near, "pins", writes=writes)
    with Cache(tmp_path / "far.tuck") as far:
        for way, pin in WAYS.items():
            if way not in NEW:
                cache.set(way, 0)
            pin(cache, way)
            assert far.get_entry(way).pinned, way  # type: ignore[union-attr]
        blog = cache.namespace("blog")
        blog.set("post", "Hello", pinned=True)
        assert far.namespace("blog").get_entry("post").pinned  # type: ignore[union-attr]
        for number in range(6_000):
            far.set(("flood", number), "x" * 200)
        assert far.stats().evictions > 0
        assert far.get_many(WAYS) == dict.fromkeys(WAYS, 1)
    # Also what a tier reads that has no copy.
    assert cache.get_many(WAYS) == dict.fromkeys(WAYS, 1)
    assert blog["post"] == "Hello"
    # A write without the pin ends it.
    cache.set("set", 2)
    with Cache(tmp_path / "far.tuck") as far:
        assert not far.get_entry("set").pinned  # type: ignore[union-attr]


@pytest.mark.parametrize("writes", ["around", "through", "behind"])
@pytest.mark.parametrize("near", ["memory", "shared"])
@pytest.mark.parametrize("way", WAYS)
def test_a_far_tier_that_cannot_pin_refuses(
    opened: Callable[..., Any], near: str, writes: str, way: str
) -> None:
    cache = opened(near, "cannot", writes=writes)
    if way != "add":
        cache.set(way, 0)
        assert cache.get(way) == 0
    with pytest.raises(Unsupported, match="can be pinned; nothing was changed"):
        WAYS[way](cache, way)
    assert cache.get(way) == (None if way == "add" else 0)
    assert cache._far.get(way, "missing") in ("missing", 0)
