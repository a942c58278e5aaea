"""The examples in the docstrings of loading do what they show, on every store."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from documents import run_session
from tuckbox import arguments, flights, loading, loads, makers, memoize

if TYPE_CHECKING:
    from tuckbox import Cache

RUNS_ON = ("shared", "memory")
MODULES = (arguments, flights, loading, loads, makers, memoize)


def documented() -> dict[str, tuple[str, dict[str, Any]]]:
    found = {}
    for module in MODULES:
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) != module.__name__:
                continue
            parts = {name: value}
            if inspect.isclass(value):
                parts |= {f"{name}.{part}": one for part, one in vars(value).items()}
            for part, one in parts.items():
                text = inspect.isroutine(one) or inspect.isclass(one) or isinstance(one, property)
                if text and ">>>" in (one.__doc__ or ""):
                    found[f"{module.__name__}.{part}"] = (one.__doc__, vars(module))
    return found


EXAMPLES = documented()


def test_each_module_has_examples() -> None:
    assert {name.split(".")[1] for name in EXAMPLES} == {
        module.__name__.split(".")[1] for module in MODULES
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_loading_does_what_it_shows(name: str, cache: Cache) -> None:
    text, names = EXAMPLES[name]
    run_session(text, {**names, "cache": cache}, name, 0)
