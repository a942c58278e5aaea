"""Each test runs on the real DiskCache, which shows that the test is fair, and on the drop-in."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType


@pytest.fixture(params=["diskcache", "tuckbox.compat.diskcache"])
def dc(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


@pytest.fixture
def cache(dc: ModuleType, tmp_path: Path) -> Iterator[Any]:
    """A cache that is sound when the test is over."""
    with dc.Cache(str(tmp_path / "cache")) as cache:
        yield cache
        assert [str(found.message) for found in cache.check()] == []


class Clock:
    """The time of `time.time`, which a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        # Two calls never return the same, so that what was stored first is the oldest.
        self.now += 0.001
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.time", clock)
    return clock
