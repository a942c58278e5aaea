"""Entries are copied between caches of all kinds, and no value of the target is lost."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any, Callable

import pytest

import tuckbox
from drivers.proxy import LOOPBACK, Proxy
from tuckbox import connect
from tuckbox.copying import Copied, copy_entries
from tuckbox.errors import DriverError, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from drivers.servers import Server

PLACES = ("shared", "memory", "redis", "files", "sqlite", "shared before redis")
PAIRS = [
    *itertools.product(("shared", "redis"), PLACES),
    *((place, "shared") for place in ("memory", "files", "sqlite", "shared before redis")),
    ("shared", "memcached"),
    ("shared before memcached, behind", "shared"),
]


class _StoppedError(Exception):
    pass


@pytest.fixture
def opened(tmp_path: Path, redis: Server, memcached: Server) -> Iterator[Callable[[str], Any]]:
    """Opens an empty cache at a place, which no other one of the test uses."""
    caches: list[Any] = []

    def open_cache(place: str) -> Any:
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
        caches.append(connect(*names, prefix=f"{tmp_path}{number}", max_stale=1.0, **how))
        return caches[-1]

    yield open_cache
    for cache in caches:
        cache.close()


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_entries_arrive(opened: Callable[[str], Any], source: str, target: str) -> None:
    old, new = opened(source), opened(target)
    if "memcached" in source:
        old.set("k", 1)
        with pytest.raises(Unsupported):
            copy_entries(old, new)
        return
    old.set_many({("user", number): {"number": number} for number in range(600)}, ttl=3600)
    old.set("no ttl", b"bytes", tags=["a", "b"])
    old.set("kept", "old")
    old.set("short", 1, ttl=0)
    new.set("kept", "new")
    seen: list[Copied] = []
    assert copy_entries(old, new, progress=seen.append) == Copied(601, 1, 0)
    assert len(seen) == 3
    assert seen[-1] == (601, 1, 0)
    assert new.get_many(old) == {**old.get_many(old), "kept": "new"}
    assert 3500 < new.ttl(("user", 7)) <= 3600
    entry = new.get_entry("no ttl")
    assert (entry.expiry, entry.tags) == (None, ("a", "b"))
    new.evict(tag="a")
    assert new.get("no ttl") is None
    # What is there is left alone; what is missing is copied again.
    assert copy_entries(old, new) == Copied(1, 601, 0)


def test_namespaces_are_copied_by_name(opened: Callable[[str], Any]) -> None:
    old, new = opened("shared"), opened("redis")
    old.set("k", 1)
    old.namespace("part").set("k", 2)
    assert copy_entries(old.namespace("part"), new.namespace("part")) == (1, 0, 0)
    assert (new.get("k"), new.namespace("part").get("k")) == (None, 2)


def test_it_can_be_stopped_and_called_again(opened: Callable[[str], Any]) -> None:
    old, new = opened("shared"), opened("redis")
    old.set_many({number: number for number in range(1000)})

    def stop(done: Copied) -> None:
        if done.copied > 500:
            raise _StoppedError

    with pytest.raises(_StoppedError):
        copy_entries(old, new, progress=stop)
    assert 500 < len(new) < 1000
    assert copy_entries(old, new) == Copied(1000 - 512, 512, 0)
    assert new.get_many(range(1000)) == {number: number for number in range(1000)}


def test_newer_values_are_kept(opened: Callable[[str], Any]) -> None:
    old, new = opened("redis"), opened("shared")
    old.set_many(dict.fromkeys(range(2000), "old"))
    written: set[int] = set()
    is_over = threading.Event()

    def write() -> None:
        for number in itertools.cycle(range(0, 2000, 7)):
            if is_over.is_set():
                return
            new.set(number, "new")
            written.add(number)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        copy_entries(old, new)
    finally:
        is_over.set()
        thread.join()
    assert written
    values = new.get_many(range(2000))
    assert all(values[number] == ("new" if number in written else "old") for number in range(2000))


def test_what_cannot_be_read_or_stored_is_skipped(opened: Callable[[str], Any]) -> None:
    class Thing:
        pass

    tuckbox.register(Thing, name="thing", encode=lambda _: 1, decode=lambda _: Thing())
    old, new = opened("redis"), opened("memcached")
    old.set_many({"thing": Thing(), "large": b"x" * (2 << 20), "k": 1})
    tuckbox.registry.by_name.pop("thing")
    assert copy_entries(old, new) == Copied(1, 0, 2)
    assert new.get("k") == 1


def test_a_server_that_does_not_answer_raises(
    opened: Callable[[str], Any], redis: Server, tmp_path: Path
) -> None:
    old = opened("shared")
    old.set("k", 1)
    with Proxy((LOOPBACK, redis.port)) as proxy:
        proxy.refuse()
        new = connect(f"redis://{LOOPBACK}:{proxy.port}", prefix=str(tmp_path))
        with new, pytest.raises(DriverError):
            copy_entries(old, new)


@pytest.mark.parametrize(
    ("target", "is_pinned"),
    [
        ("shared", True),
        ("memory", True),
        ("memory before shared", True),
        ("files", False),
        ("shared before files", False),
    ],
)
def test_pinned_entries_stay_pinned_where_the_place_can_pin(
    opened: Callable[[str], Any], target: str, is_pinned: bool
) -> None:
    old, new = opened("shared"), opened(target)
    old.set("pinned", 1, ttl=100, pinned=True)
    old.set("plain", 2)
    assert copy_entries(old, new) == Copied(2, 0, 0)
    assert new.get_entry("pinned").pinned is is_pinned
    assert not new.get_entry("plain").pinned
    assert new.get_many(old) == {"pinned": 1, "plain": 2}
