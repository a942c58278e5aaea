"""Django, set up once for all of these tests, and backends whose files go when a test is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from integrations.django import project
from tuckbox import Cache

project.configure()

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
    for backend in backends:
        if not backend._cache.closed:
            assert backend._cache.check().is_sound
    for backend in backends:
        backend._cache.close()


@pytest.fixture
def backend(opened: Callable[..., TuckboxCache]) -> TuckboxCache:
    """An empty cache as Django makes it from settings that say little."""
    return opened()


@pytest.fixture
def raw(backend: TuckboxCache, location: str) -> Iterator[Cache]:
    """The file of `backend`, as somebody sees it who is not Django."""
    with Cache(location) as cache:
        yield cache
