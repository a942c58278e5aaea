"""Entries of servers and tiers are dumped, and dumps are loaded into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

import pytest

from drivers.proxy import LOOPBACK
from tuckbox import Cache, connect
from tuckbox.errors import InvalidArgument, Unsupported
from tuckbox.results import Loaded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from drivers.servers import Server

PLACES = (
    "redis",
    "files",
    "sqlite",
    "shared before redis",
    "shared before redis, behind",
    "memory before shared before files",
)


@pytest.fixture
def opened(tmp_path: Path, redis: Server, memcached: Server) -> Iterator[Callable[..., Any]]:
    """Opens an empty cache at a place, which no other one of the test uses."""
    caches: list[Any] = []

    def open_cache(place: str, **options: Any) -> Any:
        number = len(caches)
        urls = {
            "shared": f"shared://{tmp_path}/{number}.tuck?size=8MB",
            "memory": f"memory:{tmp_path.name}{number}",
            "redis": f"redis://{LOOPBACK}:{redis.port}",
            "memcached": f"memcached://{LOOPBACK}:{memcached.port}",
            "files": f"file://{tmp_path}/{number}",
            "sqlite": f"sqlite:///{tmp_path}/{number}.db",
        }
        places, _, writes = place.partition(", ")
        how: Any = {"writes": writes} if writes else {}
        names = [urls[one] for one in places.split(" before ")]
        caches.append(connect(*names, prefix=f"{tmp_path}{number}", max_stale=60, **how, **options))
        return caches[-1]

    yield open_cache
    for cache in caches:
        cache.close()


@pytest.mark.parametrize("place", PLACES)
def test_entries_leave_and_arrive(opened: Callable[..., Any], tmp_path: Path, place: str) -> None:
    file = tmp_path / "app.dump"
    signed: dict[str, Any] = {"pickle": "signed", "secret": "s"}
    old, new = opened(place, **signed), opened(place, **signed)
    old.set_many({("user", number): {"number": number} for number in range(600)}, ttl=3600)
    old.set("tagged", 7, ttl=1000, stale=50, tags=["b", "a"])
    old["object"] = range(3)
    part = old.namespace("part").namespace("inner")
    part["k"] = range(4)
    old.namespace("cleared")["k"] = 1
    old.namespace("cleared").clear()
    assert old.dump(file) == 603
    # Copies of what is replaced end.
    new["object"] = "former"
    assert new["object"] == "former"
    assert new.load(file) == Loaded(603, 0, 0, 0)
    assert new["object"] == range(3)
    assert new.get_many(old) == old.get_many(old)
    assert new.namespace("part").namespace("inner")["k"] == range(4)
    entry = new.get_entry("tagged")
    assert (entry.value, entry.tags) == (7, ("a", "b"))
    assert 900 < new.ttl("tagged") <= 1000
    assert new.incr("tagged") == 8
    new.evict(tag="a")
    assert "tagged" not in new
    assert new.load(file, replace=False) == Loaded(1, 602, 0, 0)
    # And into a file, from a namespace.
    assert part.dump(file) == 1
    with Cache(**signed) as shared:
        assert shared.namespace("x").load(file).stored == 1
        assert shared.namespace("x")["k"] == range(4)


@pytest.mark.parametrize("place", ["redis", "files", "memcached", "shared before redis"])
def test_a_place_that_cannot_pin_says_so(
    opened: Callable[..., Any], tmp_path: Path, place: str
) -> None:
    file = tmp_path / "app.dump"
    with Cache() as shared:
        shared.set("pinned", 1, pinned=True)
        shared.set("other", 2)
        shared.dump(file)
    new = opened(place)
    assert new.load(file) == Loaded(2, 0, 0, 0, unpinned=1)
    assert new.load(file, replace=False) == Loaded(0, 2, 0, 0)
    assert new.get_many(["pinned", "other"]) == {"pinned": 1, "other": 2}
    assert not new.get_entry("pinned").pinned


def test_memcached_cannot_list_its_keys_but_takes_a_dump(
    opened: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "app.dump"
    cache = opened("memcached")
    with pytest.raises(Unsupported):
        cache.dump(file)
    assert not file.exists()
    with Cache() as shared:
        shared["k"] = [1]
        shared.dump(file)
    assert cache.load(file).stored == 1
    assert cache["k"] == [1]


@pytest.mark.parametrize("place", ["redis", "shared before redis"])
def test_only_a_file_can_be_copied(opened: Callable[..., Any], tmp_path: Path, place: str) -> None:
    with pytest.raises(InvalidArgument, match="use dump"):
        opened(place).copy_to(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
