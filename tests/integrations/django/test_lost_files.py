"""A project goes on when its cache file is cut short, removed or replaced under it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tuckbox import Cache

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuckbox.integrations.django import TuckboxCache

    Opened = Callable[..., TuckboxCache]

# Writes and misses look for their file once in a second.
NOTICED_S = 1.1


def remove(path: Path) -> None:
    path.unlink()
    time.sleep(NOTICED_S)


def replace(path: Path) -> None:
    other = path.with_suffix(".other")
    Cache(other).close()
    other.rename(path)
    time.sleep(NOTICED_S)


def cut(path: Path) -> None:
    # The mapping ends here; what a person does who finds a damaged file comes next.
    with path.open("r+b") as file:
        file.truncate(0)
    path.unlink()


@pytest.mark.parametrize(
    ("deed", "operation"),
    [
        (remove, lambda cache: cache.set("key", 1)),
        (replace, lambda cache: asyncio.run(cache.aset("key", 1))),
        (cut, lambda cache: cache.set("key", 1)),
        (cut, lambda cache: cache.add("key", 1)),
        (cut, lambda cache: cache.set_many({"key": 1})),
        (cut, lambda cache: (cache.delete("key"), cache.set("key", 1))),
        (cut, lambda cache: (cache.clear(), cache.set("key", 1))),
        (cut, lambda cache: asyncio.run(cache.aset("key", 1))),
    ],
)
def test_a_lost_file_is_created_again(
    opened: Opened,
    location: str,
    deed: Callable[[Path], None],
    operation: Any,
) -> None:
    one, other = opened(), opened()
    one.set("before", 1)
    asyncio.run(one.aset("loop", 1))
    deed(Path(location))
    operation(one)
    assert one.get("key") == 1
    assert one.get("before") is None
    # Another thread's backend, and another program, use the file that is there now.
    other.set("other", 2)
    assert other._cache is one._cache
    with Cache(location) as cache:
        assert len(cache) == 2
    asyncio.run(one.aset("loop", 3))
    assert asyncio.run(one.aget("loop")) == 3


def test_reading_a_file_that_was_cut_reads_the_new_one(opened: Opened, location: str) -> None:
    backend = opened()
    backend.set("key", 1)
    cut(Path(location))
    assert backend.get("key", "default") == "default"
    assert backend.get_many(["key"]) == {}
    assert not backend.has_key("key")
    assert asyncio.run(backend.aget("key")) is None
    backend.set("key", 2)
    assert backend.get("key") == 2


@pytest.mark.parametrize("deed", [remove, replace, cut])
def test_the_first_object_in_the_new_file_can_be_read(
    opened: Opened, location: str, deed: Callable[[Path], None]
) -> None:
    one = opened()
    one.set("before", 1)
    for store in (one.set, one.add):
        deed(Path(location))
        assert store("object", 3 + 4j) is not False
        assert one.get("object") == 3 + 4j


def test_objects_outlive_a_resize(opened: Opened, location: str) -> None:
    one = opened(OPTIONS={"size": "8 MiB"})
    one.set("object", 3 + 4j)
    with Cache(location) as other:
        other.resize("16 MiB")
    assert one.get("object") == 3 + 4j
