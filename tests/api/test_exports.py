"""The public surface is one list."""

from __future__ import annotations

import inspect
import types

import tuckbox
import tuckbox.errors


def test_all_is_sorted_and_complete() -> None:
    public = {
        name
        for name, value in vars(tuckbox).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert tuckbox.__all__ == sorted(public | {"__version__"}, key=str)


def test_every_error_is_exported() -> None:
    errors = {name for name, value in vars(tuckbox.errors).items() if inspect.isclass(value)}
    assert errors <= set(tuckbox.__all__)


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


def test_get_and_set_pass_through_no_python_frame() -> None:
    for name in ("get", "set", "__getitem__", "__setitem__", "delete", "__contains__"):
        assert name not in vars(tuckbox.Cache)
        assert not inspect.isfunction(getattr(tuckbox.Cache, name))
