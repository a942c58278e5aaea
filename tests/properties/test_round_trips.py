"""Every key and value comes back as it was, and different keys stay different."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import strategies
from tuckbox import Cache, memory
from tuckbox.results import Loaded

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", params=[Cache, memory.Cache], ids=["shared", "memory"])
def shared(request: pytest.FixtureRequest) -> Iterator[Cache]:
    with request.param(size="8 MiB") as cache:
        yield cache
        assert cache.check().is_sound


def canonical(value: Any) -> Any:
    """A form whose `==` sees what `==` of the value itself overlooks: types, NaN, -0.0, zones."""
    kind = type(value).__name__
    if isinstance(value, (list, tuple)):
        return kind, [canonical(item) for item in value]
    if isinstance(value, dict):
        return kind, [(canonical(key), canonical(item)) for key, item in value.items()]
    if isinstance(value, (set, frozenset)):
        return kind, sorted(repr(canonical(item)) for item in value)
    if hasattr(value, "fold"):
        return kind, repr(value), value.fold
    if hasattr(value, "is_safe"):
        return kind, repr(value), value.is_safe
    return kind, repr(value)


@settings(deadline=None, max_examples=500)
@given(value=strategies.values)
def test_values_come_back(shared: Cache, value: Any) -> None:
    shared["k"] = value
    assert canonical(shared["k"]) == canonical(value)
    assert canonical(shared.pop("k")) == canonical(value)


@settings(deadline=None, max_examples=500)
@given(key=strategies.keys)
def test_keys_come_back(shared: Cache, key: Any) -> None:
    shared.clear()
    shared[key] = 1
    (found,) = shared
    assert canonical(found) == canonical(key)
    assert shared[key] == 1


@settings(deadline=None, max_examples=500)
@given(one=strategies.keys, other=strategies.keys)
def test_different_keys_are_different(shared: Cache, one: Any, other: Any) -> None:
    shared.clear()
    shared[one] = "one"
    assert (other in shared) == (one == other)


@settings(deadline=None, max_examples=30)
@given(entries=st.dictionaries(strategies.keys, strategies.values, max_size=50))
def test_a_cache_holds_what_a_dict_holds(shared: Cache, entries: dict[Any, Any]) -> None:
    shared.clear()
    shared.set_many(entries)
    assert len(shared) == len(entries)
    expected = {repr(key): canonical(value) for key, value in entries.items()}
    assert {repr(key): canonical(value) for key, value in shared.items()} == expected
    found = shared.get_many(entries)
    assert {repr(key): canonical(value) for key, value in found.items()} == expected


@settings(deadline=None, max_examples=60)
@given(entries=st.dictionaries(strategies.keys, strategies.values, max_size=20))
def test_a_dump_holds_what_a_cache_holds(
    shared: Cache, entries: dict[Any, Any], tmp_path_factory: Any
) -> None:
    file = tmp_path_factory.getbasetemp() / "app.dump"
    shared.clear()
    shared.set_many(entries)
    expected = {repr(key): canonical(value) for key, value in entries.items()}
    for kind in (Cache, memory.Cache):
        assert shared.dump(file) == len(entries)
        with kind(size="8 MiB") as other:
            assert other.load(file) == Loaded(len(entries), 0, 0, 0)
            assert {repr(key): canonical(value) for key, value in other.items()} == expected
            other.dump(file)
        shared.clear()
        assert shared.load(file).stored == len(entries)
        assert {repr(key): canonical(value) for key, value in shared.items()} == expected


READER = """
import pickle, sys
from tuckbox import Cache
cache = Cache(sys.argv[1])
keys = pickle.load(sys.stdin.buffer)
assert all(cache.get(key) == number for number, key in enumerate(keys))
for number, key in enumerate(keys):
    cache[key] = -number
"""


@settings(deadline=None, max_examples=1)
@given(data=st.data())
def test_keys_are_the_same_in_every_process(tmp_path_factory: Any, data: Any) -> None:
    """Whatever the hash seed, and whether the key is the same object or an equal one."""
    keys = data.draw(st.lists(strategies.keys, min_size=100, max_size=100, unique=True))
    path = str(tmp_path_factory.mktemp("keys") / "cache.tuck")
    with Cache(path) as cache:
        for seed in ("0", "1", "4294967295", "random"):
            for number, key in enumerate(keys):
                cache[key] = number
            subprocess.run(
                [sys.executable, "-c", READER, path],
                input=pickle.dumps(keys),
                env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
                check=True,
            )
            assert all(cache[key] == -number for number, key in enumerate(keys))
            assert len(cache) == len(keys)
