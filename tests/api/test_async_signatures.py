"""Each operation for event loops has the parameters of the other form."""

from __future__ import annotations

import inspect

import pytest

from tuckbox import Cache
from tuckbox.aio import Asynchronous

NAMES = [name for name in vars(Asynchronous) if not name.startswith("_")]
# They cannot block, or are for iteration.
NEVER_BLOCK = {"stats", "keys", "values", "items"}


def parameters(function: object) -> list[tuple[str, object, bool]]:
    """Name, kind, and default of each parameter, without `self`."""
    _, *given = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return [(one.name, one.kind, one.default) for one in given]


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_equal(name: str) -> None:
    operation = getattr(Cache, name)
    assert inspect.iscoroutinefunction(operation)
    other = name.removeprefix("a")
    if other == "has_key":
        assert [one[0] for one in parameters(operation)] == ["key"]
    elif other == "pop":
        # Its default has no value that Python can show.
        assert [one[:2] for one in parameters(operation)] == [
            one[:2] for one in parameters(Cache.pop)
        ]
    else:
        assert parameters(operation) == parameters(getattr(Cache, other))


def test_each_operation_has_a_form_for_event_loops() -> None:
    operations = {
        name
        for name in dir(Cache)
        if not name.startswith("_")
        and callable(getattr(Cache, name))
        and not inspect.iscoroutinefunction(getattr(Cache, name))
    }
    assert {f"a{name}" for name in operations - NEVER_BLOCK} | {"ahas_key"} == set(NAMES)
