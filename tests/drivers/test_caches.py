"""A cache on real servers keeps the contract of all stores: versions, tags, stale entries, leases.

The tests are those of `tests/contract` and `tests/organising` that need no clock of their own.
"""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING, Any

import pytest

from conftest import PLACES
from contract import test_leases, test_states
from drivers.servers import Server
from organising import test_namespaces, test_terms
from organising.test_namespaces import blog  # noqa: F401 - A fixture.
from tuckbox import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RUNS_ON = PLACES
# Words of tests that visit all keys, and tests of which a parameter does.
LISTS = ("clear", "iter", "len(", "list(", "sorted(", "popitem", "expire", "delete_prefix")
LISTS_TOO = (
    "test_what_happened_meanwhile_refuses_the_value",
    "test_other_events_do_not",
    "test_wrong_tags_are_refused_wherever_they_are_given",
)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    redis = Server("redis", tmp_path_factory.mktemp("redis"), ("--save", ""))
    memcached = Server("memcached", tmp_path_factory.mktemp("memcached"))
    with redis, memcached:
        yield {
            "redis": f"redis://127.0.0.1:{redis.port}",
            "memcached": f"memcached://127.0.0.1:{memcached.port}",
        }


@pytest.fixture
def opened(store: str, servers: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Any]]:
    files = {"files": f"file://{tmp_path}/entries", "sqlite": f"sqlite:///{tmp_path}/app.db"}
    urls = {**servers, **files}
    caches: list[Any] = []

    def open_cache(_path: object = None, **options: Any) -> Any:
        options.pop("size", None)
        *nearer, far = store.split(" before ")
        near = {"shared": f"shared://{tmp_path}/near.tuck", "memory": f"memory:{tmp_path.name}"}
        places = [near[one] for one in nearer]
        # At a server, each test has keys of its own.
        caches.append(connect(*places, urls[far], prefix=str(tmp_path), **options))
        return caches[-1]

    yield open_cache
    for cache in caches:
        cache.close()


def _tests() -> dict[str, Any]:
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


globals().update(_tests())


def test_there_are_tests() -> None:
    assert len(_tests()) > 20
