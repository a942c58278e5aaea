"""The public surface is one list."""

from __future__ import annotations

import inspect
import re
import types

import pytest

import tuckbox
import tuckbox.errors
from tuckbox import _engine


def test_all_is_sorted_and_complete() -> None:
    public = {
        name
        for name, value in vars(tuckbox).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert tuckbox.__all__ == sorted(public | {"__version__"}, key=str)


def test_the_package_has_what_people_type_and_errors_have_a_module_of_their_own() -> None:
    exported = {name for name in tuckbox.__all__ if hasattr(tuckbox.errors, name)}
    # What programs catch though nothing is wrong.
    in_time = {"AcquireTimeout", "CacheFull", "LoadTimeout", "QueueFull"}
    assert exported == {"TuckboxError", *in_time}
    assert len(tuckbox.__all__) <= 14


def test_the_tests_run_on_a_build_with_functions_for_tests() -> None:
    # Tests that need them skip themselves where wheels are tried, and must not here.
    assert hasattr(_engine, "_plant")
    assert hasattr(_engine, "_encoded")


def test_version_is_that_of_the_package() -> None:
    assert tuckbox.__version__ == "0.1.0"


def test_everything_public_says_what_it_is() -> None:
    for name in tuckbox.__all__:
        value = getattr(tuckbox, name)
        if inspect.isclass(value):
            assert value.__doc__, name
            for method, function in vars(value).items():
                if not method.startswith("_") and callable(function):
                    assert function.__doc__, f"{name}.{method}"


def test_operations_of_the_extension_say_what_they_do() -> None:
    for name in dir(tuckbox.Cache):
        if not name.startswith("_"):
            assert getattr(tuckbox.Cache, name).__doc__, name


_RETURN_NOTHING = {"close", "copy_to", "evict", "resize", "set", "set_many", "update"}


@pytest.mark.parametrize("name", [name for name in dir(tuckbox.Cache) if name[0] != "_"])
def test_help_shows_parameters_results_errors_and_an_example(name: str) -> None:
    operation = getattr(tuckbox.Cache, name)
    if not callable(operation):
        return
    text = operation.__doc__
    for parameter in set(inspect.signature(operation).parameters) - {"self"}:
        assert re.search(
            rf"^    (.*, )?\**{parameter}(, .*)?: ", inspect.cleandoc(text), re.MULTILINE
        )
    form = name.removeprefix("a") if inspect.iscoroutinefunction(operation) else name
    returns_something = form not in _RETURN_NOTHING
    assert ("Returns:" in text) is returns_something
    assert ("Raises:" in text) is (form != "close")
    assert ">>> " in text.partition("Example:")[2]


def test_get_and_set_pass_through_no_python_frame() -> None:
    for name in ("get", "set", "__getitem__", "__setitem__", "delete", "__contains__"):
        assert name not in vars(tuckbox.Cache)
        assert not inspect.isfunction(getattr(tuckbox.Cache, name))
