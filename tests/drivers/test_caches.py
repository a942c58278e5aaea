"""A cache on real servers keeps the contract of all stores: versions, tags, stale entries, leases.

The tests are those of `tests/contract` and `tests/organising` that need no clock of their own.
"""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING, Any, Callable

import pytest

from conftest import PLACES
from contract import test_leases, test_states
from drivers.databases import PATIENT_S, url_of
from drivers.proxy import LOOPBACK
from organising import test_namespaces, test_terms
from organising.test_namespaces import blog  # noqa: F401 - A fixture.
from tuckbox import connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from drivers.servers import Server

RUNS_ON = PLACES
# Words of tests that visit all keys, and tests of which a parameter does.
LISTS = ("clear", "iter", "len(", "list(", "sorted(", "popitem", "expire", "delete_prefix")
LISTS_TOO = (
    "test_what_happened_meanwhile_refuses_the_value",
    "test_other_events_do_not",
    "test_wrong_tags_are_refused_wherever_they_are_given",
)

FILES = {"files": "file://{}/entries", "sqlite": "sqlite:///{}/app.db"}
URLS: dict[str, Callable[[Server], str]] = {
    "redis": lambda server: f"redis://{LOOPBACK}:{server.port}",
    "memcached": lambda server: f"memcached://{LOOPBACK}:{server.port}",
    "mongodb": lambda server: f"mongodb://{LOOPBACK}:{server.port}/app",
    "mariadb": url_of,
    "postgresql": url_of,
}


@pytest.fixture
def opened(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[..., Any]]:
    tiers, _, writes = store.partition(", ")
    *nearer, far = tiers.split(" before ")
    near = {"shared": f"shared://{tmp_path}/near.tuck", "memory": f"memory:{tmp_path.name}"}
    if far in FILES:
        url = FILES[far].format(tmp_path)
    elif far == "cluster":
        url = request.getfixturevalue("cluster").url
    else:
        server: Server = request.getfixturevalue(far)
        url = f"{URLS[far](server)}?timeout_s={PATIENT_S}"
    places = [near[one] for one in nearer]
    caches: list[Any] = []

    def open_cache(_path: object = None, **options: Any) -> Any:
        options.pop("size", None)
        if writes:
            options = {"writes": writes, **options}
        for cache in caches:
            if writes == "behind":
                cache.flush()  # Another handle asks the server.
        # At a server, each test has keys of its own.
        caches.append(connect(*places, url, prefix=str(tmp_path), **options))
        return caches[-1]

    yield open_cache
    for cache in caches:
        cache.close()


def store_tests() -> dict[str, Any]:
    """The tests of all stores that need no clock of their own, by name."""
    found: dict[str, Any] = {}
    for module in (test_leases, test_states, test_terms, test_namespaces):
        for name, test in vars(module).items():
            if not name.startswith("test_") or not inspect.isfunction(test):
                continue
            marks = {mark.name for mark in getattr(test, "pytestmark", [])}
            is_timed = "timed" in inspect.signature(test).parameters
            if not is_timed and not marks & {"one_machine", "shared_file", "whole_cache"}:
                found[f"{name}_in_{module.__name__.rpartition('.')[2]}"] = _copied(test)
    return found


def _copied(test: Any) -> Any:
    """The same test with marks of its own."""
    copy = types.FunctionType(
        test.__code__, test.__globals__, test.__name__, test.__defaults__, test.__closure__
    )
    copy.__kwdefaults__ = test.__kwdefaults__
    copy.pytestmark = list(getattr(test, "pytestmark", []))  # type: ignore[attr-defined]
    lists = any(word in inspect.getsource(test) for word in LISTS)
    lists = lists or test.__name__ in LISTS_TOO
    return pytest.mark.lists_keys(copy) if lists else copy


globals().update(store_tests())


def test_there_are_tests() -> None:
    assert len(store_tests()) > 20
