"""Each operation for event loops has the parameters of the other form."""

from __future__ import annotations

import inspect

import pytest

from tuckbox import Cache, memory
from tuckbox.aio import Asynchronous
from tuckbox.flights import AsyncLoading

NAMES = [
    name for kind in (Asynchronous, AsyncLoading) for name in vars(kind) if not name.startswith("_")
]
# They cannot block, or are for iteration, or take functions of both kinds, or return objects with
# both forms.
NEVER_BLOCK = {
    *("stats", "keys", "values", "items", "scan", "namespace", "memoize"),
    *("lock", "rlock", "semaphore", "rate_limit", "throttle", "one_at_a_time", "queue"),
    *("transaction", "transact"),
}


def parameters(function: object) -> list[tuple[str, object, bool]]:
    """Name, kind, and default of each parameter, without `self` and what is refused."""
    _, *given = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return [(one.name, one.kind, one.default) for one in given if one.name != "others"]


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_equal(name: str) -> None:
    operation = getattr(memory.Cache, name)
    assert inspect.iscoroutinefunction(operation)
    other = name.removeprefix("a")
    if other == "has_key":
        assert [one[0] for one in parameters(operation)] == ["key"]
    elif other == "pop":
        # Its default has no value that Python can show.
        plain = parameters(memory.Cache.pop)
        assert [one[:2] for one in parameters(operation)] == [one[:2] for one in plain]
    else:
        assert parameters(operation) == parameters(getattr(memory.Cache, other))


@pytest.mark.parametrize("kind", [Cache, memory.Cache])
def test_each_operation_has_a_form_for_event_loops(kind: type) -> None:
    operations = {
        name
        for name in dir(kind)
        if not name.startswith("_")
        and callable(getattr(kind, name))
        and not inspect.iscoroutinefunction(getattr(kind, name))
    }
    assert {f"a{name}" for name in operations - NEVER_BLOCK} | {"ahas_key"} <= set(NAMES)
