"""Django, set up once for all of these tests, and backends whose files go when a test is over."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from integrations.django import project, workers
from tuckbox import Cache
from tuckbox.errors import LockTimeout

project.configure()
# These tests are about caches in files. In a worker of pytest-xdist, backends have private caches.
os.environ.pop("PYTEST_XDIST_WORKER", None)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tuckbox.integrations.django import TuckboxCache


@pytest.fixture
def location(tmp_path: Path) -> str:
    """A path at which there is no file yet."""
    return str(tmp_path / "django.tuck")


@pytest.fixture
def opened(location: str) -> Iterator[Callable[..., TuckboxCache]]:
    """Opens backends with the settings given, all in one file, which is proved when all is over."""
    from tuckbox.integrations.django import TuckboxCache

    backends = []

    def open_backend(**params: Any) -> TuckboxCache:
        kind = params.pop("kind", TuckboxCache)
        backend = kind(params.pop("LOCATION", location), params)
        backends.append(backend)
        return backend

    yield open_backend
    used = [backend._cache for backend in backends if isinstance(backend._cache, Cache)]
    for cache in used:
        if not cache.closed:
            assert cache.check().is_sound
    for cache in used:
        cache.close()


@pytest.fixture
def backend(opened: Callable[..., TuckboxCache]) -> TuckboxCache:
    """An empty cache as Django makes it from settings that say little."""
    return opened()


@pytest.fixture
def raw(backend: TuckboxCache, location: str) -> Iterator[Cache]:
    """The file of `backend`, as somebody sees it who is not Django."""
    with Cache(location) as cache:
        yield cache


@pytest.fixture
def held(location: str, opened: Callable[..., TuckboxCache]) -> Iterator[int]:
    """A process that was stopped while it held the lock of the only shard; it ends before the file
    is proved."""
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    process = context.Process(target=workers.write_for_ever, args=(location, begun), daemon=True)
    process.start()
    assert process.pid is not None
    assert begun.wait(30)
    impatient = workers.backend_at(location, lock_timeout=0.01, on_error="raise")
    for _ in range(1000):
        os.kill(process.pid, signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        try:
            impatient.set("probe", 1)
        except LockTimeout:
            break
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(random.uniform(0, 0.001))
    else:
        pytest.fail("the process never held the lock when it was stopped")
    yield process.pid
    process.kill()
    process.join()
    impatient._cache.close()
