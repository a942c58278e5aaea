"""The tree in the docstring of `tuckbox.errors` is the tree of the classes."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from tuckbox import errors

TREE = re.compile(r"^    (?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: \((?P<other>\w+)\))?")
CLASSES = [value for value in vars(errors).values() if inspect.isclass(value)]


def drawn() -> dict[str, tuple[str | None, str | None]]:
    """Each class of the drawing with its parent and the built-in class in brackets."""
    tree: dict[str, tuple[str | None, str | None]] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = TREE.match(line)
        if match:
            depth = len(match["branch"]) // 4
            path[depth:] = [match["name"]]
            tree[match["name"]] = (path[depth - 1] if depth else None, match["other"])
    return tree


def test_drawing_and_classes_agree() -> None:
    tree = drawn()
    assert set(tree) == {value.__name__ for value in CLASSES}
    for value in CLASSES:
        parent, other = tree[value.__name__]
        bases = [base.__name__ for base in value.__bases__]
        expected = [name for name in (parent, other) if name is not None] or ["Exception"]
        assert bases == expected, value


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_errors_survive_pickling(kind: type[Exception]) -> None:
    if issubclass(kind, errors.CacheFileError):
        error: Exception = kind(2, "what happened", "/where/it/happened")
    else:
        error = kind("what happened")
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind
    assert str(back) == "what happened"
    assert vars(back) == vars(error)
    if isinstance(back, errors.CacheFileError):
        assert (back.errno, back.filename) == (2, "/where/it/happened")


def test_plain_handlers_catch_them() -> None:
    assert issubclass(errors.CacheOpenError, OSError)
    assert issubclass(errors.LockTimeout, TimeoutError)
    assert issubclass(errors.IntegerOverflow, ArithmeticError)
    assert issubclass(errors.SizeMismatchWarning, Warning)
    # A miss is KeyError; a bad key must never look like one.
    assert not issubclass(errors.KeyTypeError, KeyError)
