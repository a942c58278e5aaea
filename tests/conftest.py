"""What all tests share: caches that are proved sound when a test is over, and a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

import pytest

from tuckbox import Cache, _engine, places, registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the reliability lane. Pytest takes options from this directory only; what they
    do is in `reliability/conftest.py`."""
    group = parser.getgroup("reliability")
    group.addoption("--records", metavar="FILE", help="append the record of each family, as JSON")
    group.addoption("--nightly", action="store_true", help="run the families in their large sizes")
    group.addoption("--seed", type=int, help="where the families' random numbers begin")


@pytest.fixture(autouse=True)
def registrations() -> Iterator[None]:
    """Undoes what a test registers."""
    kept = dict(registry.by_type), dict(registry.by_name)
    yield
    for mapping, own in zip((registry.by_type, registry.by_name), kept):
        mapping.clear()
        mapping.update(own)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A path at which there is no file yet."""
    return str(tmp_path / "cache.tuck")


@pytest.fixture
def memory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where named caches are during this test, instead of /dev/shm."""
    folder = tmp_path_factory.mktemp("memory")
    monkeypatch.setattr(places, "MEMORY", folder)
    return folder


@pytest.fixture
def opened() -> Iterator[Callable[..., Cache]]:
    """Opens caches as `Cache` does. Each is checked and closed after the test, so that every test
    of behaviour is a test of integrity as well."""
    caches: list[Cache] = []

    def open_cache(*args: object, **kwargs: object) -> Cache:
        cache = Cache(*args, **kwargs)  # type: ignore[arg-type]
        caches.append(cache)
        return cache

    yield open_cache
    for cache in caches:
        if not cache.closed:
            report = cache.check()
            assert report.is_sound, report
            cache.close()


@pytest.fixture
def cache(opened: Callable[..., Cache], path: str) -> Cache:
    """An empty cache in a file."""
    return opened(path, size="4 MiB")


@pytest.fixture
def clock() -> _engine.ManualClock:
    """The clock of `timed`."""
    return _engine.ManualClock()


@pytest.fixture
def timed(path: str, clock: _engine.ManualClock) -> Iterator[Cache]:
    """An empty cache whose time is told by `clock`."""
    cache = Cache.__new__(Cache)
    _engine.Core.__init__(cache, path, size_bytes=4 << 20, clock=clock)
    yield cache
    assert cache.check().is_sound
    cache.close()
