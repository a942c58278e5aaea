"""What all tests share: caches that are proved sound when a test is over, and a clock."""

from __future__ import annotations

import itertools
import signal
from typing import TYPE_CHECKING, Callable

import pytest

from tuckbox import Cache, _engine, places, registry
from tuckbox import memory as memory_store
from tuckbox.drivers.memory import Memory
from tuckbox.objects import Objects
from tuckbox.remote import cache as remote
from tuckbox.tiers.shared_first import SharedFirst

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So a shell starts jobs in the background. Tests send the signal to themselves and to children.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the reliability lane. Pytest takes options from this directory only; what they
    do is in `reliability/conftest.py`."""
    group = parser.getgroup("reliability")
    group.addoption("--records", metavar="FILE", help="append the record of each family, as JSON")
    group.addoption("--nightly", action="store_true", help="run everything in its large size")
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


PLACES = (
    "redis",
    "cluster",
    "memcached",
    "files",
    "sqlite",
    "shared before redis",
    "shared before cluster",
    "memory before redis",
    "shared before memcached",
    "shared before files",
    "memory before sqlite",
    "memory before shared before redis",
    "shared before redis, behind",
    "memory before shared before redis, behind",
    "shared before memcached, through",
)
"""Where `tests/drivers/test_caches.py` keeps the entries of caches."""

DATABASES = tuple(
    f"{near} before {far}"
    for near in ("shared", "memory")
    for far in ("mongodb", "mariadb", "postgresql")
)
"""Where `tests/drivers/test_caches_before_databases.py` does."""


KEEPING = {
    "shared": "shared, kept",
    "namespace": "namespace, kept",
    "tiers": "tiers, kept",
}
"""The same stores with ``local``."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on the stores that its module names in ``RUNS_ON``; else on the shared file.

    "namespace" is a namespace of a shared file, "remote" a cache on a driver, and "tiers" a shared
    file in front of that. Where a shared file is, there is also one whose handles keep objects in
    the process.
    """
    if "store" in metafunc.fixturenames:
        stores = getattr(metafunc.module, "RUNS_ON", ("shared",))
        assert {*stores} <= {"shared", "memory", "namespace", "remote", *PLACES, *DATABASES}
        if "remote" in stores and "timed" not in metafunc.fixturenames:
            stores += ("tiers",)
        if metafunc.definition.get_closest_marker("shared_file"):
            stores = ("shared",)
        if metafunc.definition.get_closest_marker("lists_keys"):
            stores = tuple(one for one in stores if "memcached" not in one)
        if metafunc.definition.get_closest_marker("one_machine"):
            stores = tuple(one for one in stores if one not in {"remote", "tiers"})
        if metafunc.definition.get_closest_marker("whole_cache"):
            stores = tuple(one for one in stores if one != "namespace")
        if metafunc.definition.get_closest_marker("keeps_nothing") is None:
            stores += tuple(KEEPING[one] for one in stores if one in KEEPING)
        metafunc.parametrize("store", stores, indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest) -> str:
    """Where the caches of a test are: "shared", "memory", "namespace", "remote" or "tiers"."""
    name: str = request.param
    return name.removesuffix(", kept")


@pytest.fixture
def local(request: pytest.FixtureRequest, store: str) -> dict[str, str]:
    """What makes the caches of a test keep objects in the process; empty if they keep none."""
    kept = request.node.callspec.params["store"] != store
    return {"local": "1 MB"} if kept else {}


@pytest.fixture
def opened(store: str, local: dict[str, str]) -> Iterator[Callable[..., Cache]]:
    """Opens caches as `Cache` does. Each is checked and closed after the test, so that every test
    of behaviour is a test of integrity as well. In memory, each path is a name."""
    caches: list[Cache] = []
    names: dict[str, str] = {}
    drivers: dict[object, Memory] = {}

    def open_cache(path: object = None, **kwargs: object) -> Cache:
        if store == "tiers":
            near = {"size": kwargs.pop("size", "4 MiB"), **local}
            behind = remote.Cache(drivers.setdefault(path, KeptOpen()), **kwargs)  # type: ignore[arg-type]
            cache = SharedFirst(behind, path, **near, **kwargs)  # type: ignore[arg-type]
        elif store == "remote":
            kwargs.pop("size", None)
            cache = remote.Cache(drivers.setdefault(path, KeptOpen()), **kwargs)  # type: ignore[arg-type]
        elif store == "memory":
            number = next(_numbers)
            name = None if path is None else names.setdefault(str(path), f"test-{number}")
            cache = memory_store.Cache(name, **kwargs)  # type: ignore[arg-type]
        else:
            cache = Cache(path, **{**local, **kwargs})  # type: ignore[arg-type]
        if store == "namespace":
            cache = cache.namespace("part")
        caches.append(cache)  # type: ignore[arg-type]
        return cache  # type: ignore[return-value]

    yield open_cache
    for cache in caches:
        if not cache.closed:
            if store != "remote":
                report = cache.check()
                assert report.is_sound, report
            cache.close()
    for name in names.values():
        # It would live as long as the process.
        forgotten = memory_store.cache._named.pop(name)
        assert not forgotten._leases


@pytest.fixture
def cache(opened: Callable[..., Cache], path: str) -> Cache:
    """An empty cache in a file or, by the name of it, in memory."""
    return opened(path, size="4 MiB")


@pytest.fixture
def clock() -> _engine.ManualClock:
    """The clock of `timed`."""
    return _engine.ManualClock()


@pytest.fixture
def timed(
    store: str, local: dict[str, str], path: str, clock: _engine.ManualClock
) -> Iterator[Cache]:
    """An empty cache whose time is told by `clock`."""
    cache = timed_cache(store, path, clock, local_bytes=1_000_000 if local else None)
    yield cache
    if store != "remote":
        assert cache.check().is_sound
    cache.close()


@pytest.fixture
def timed_ordered(store: str, path: str, clock: _engine.ManualClock) -> Iterator[Cache]:
    """As `timed`, with the order of insertion."""
    cache = timed_cache(store, path, clock, ordered=True)
    yield cache
    assert cache.check().is_sound
    cache.close()


class KeptOpen(Memory):
    """A place that several handles share."""

    capabilities = Memory.capabilities._replace(value_bytes_max=4 << 20)

    def close(self) -> None:
        pass


def timed_cache(
    store: str,
    path: str,
    clock: _engine.ManualClock,
    local_bytes: int | None = None,
    **options: bool,
) -> Cache:
    if store == "remote":
        timed = remote.Cache(KeptOpen(clock.now))
        timed._store._now = clock.now  # type: ignore[union-attr]
        return timed  # type: ignore[return-value]
    if store == "memory":
        private = memory_store.Cache.__new__(memory_store.Cache)
        memory_store.core.Core.__init__(private, size_bytes=4 << 20, clock=clock, **options)
        return private  # type: ignore[return-value]
    cache = Cache.__new__(Cache)
    _engine.Core.__init__(
        cache,
        path,
        size_bytes=4 << 20,
        clock=clock,
        local_bytes=local_bytes,
        objects=Objects(),
        **options,
    )
    return cache.namespace("part") if store == "namespace" else cache


_numbers = itertools.count()
