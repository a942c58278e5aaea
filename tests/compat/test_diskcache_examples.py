"""The examples in DiskCache's docstrings do here what they show, as on DiskCache itself.

The examples are read from the installed DiskCache. A process of their own runs them all: once with
DiskCache, which shows that they are run as they are meant, and once with the drop-in.
"""

from __future__ import annotations

import doctest
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import pytest

from tuckbox.compat import diskcache as dc

MODULES = ["core", "fanout", "persistent", "recipes"]
ALIAS = os.path.join(os.path.dirname(dc.__file__), "..", "alias")
PROGRAM = os.path.join(os.path.dirname(__file__), "example_program.py")

OTHER_MESSAGES = {
    (
        "core.Cache.memoize",
        6,
    ): "TypeError: name must be a str: write @cache.memoize() with parentheses",
    (
        "persistent.Index.memoize",
        6,
    ): "TypeError: name must be a str: write @cache.memoize() with parentheses",
    ("persistent.Index.popitem", 5): "KeyError: 'the cache is empty'",
    (
        "recipes.BoundedSemaphore",
        8,
    ): "AssertionError: cannot release the semaphore 'max-cons': not acquired",
    ("recipes.RLock", 8): "AssertionError: cannot release the lock 'user-123': not acquired here",
}
"""By docstring and place, the examples that cannot pass. Each shows an error, which has the same
type here; its message is another, because it names what is wrong or what to write."""


def examples() -> dict[str, tuple[str, list[tuple[str, str, Any]]]]:
    """Return the examples of each docstring, and the module whose names they use."""
    tests = [
        (f"diskcache.{module}", test)
        for module in MODULES
        for test in doctest.DocTestFinder().find(importlib.import_module(f"diskcache.{module}"))
    ]
    return {
        test.name.removeprefix("diskcache."): (
            module,
            [(one.source, one.want, one.exc_msg) for one in test.examples],
        )
        for module, test in tests
        if test.examples
    }


EXAMPLES = examples()


@functools.cache
def failures_with(package: str) -> dict[str, dict[int, str]]:
    """Run all examples, and return what those printed that failed, by docstring and place."""
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "TMPDIR": directory}
        if package == "tuckbox":
            environment["PYTHONPATH"] = ALIAS
        done = subprocess.run(
            [sys.executable, PROGRAM], input=json.dumps(EXAMPLES), capture_output=True, text=True,
            timeout=100, check=False, cwd=directory, env=environment,
        )  # fmt: skip
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    assert answer["package"].split(".")[0] == package
    return {
        name: {int(place): got for place, got in failed.items()}
        for name, failed in answer["failures"].items()
    }


def test_every_example_is_found() -> None:
    counts = [
        sum(module == f"diskcache.{one}" for module, _ in EXAMPLES.values()) for one in MODULES
    ]
    assert counts == [7, 4, 40, 7]


@pytest.mark.parametrize("package", ["diskcache", "tuckbox"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_does_what_it_shows(name: str, package: str) -> None:
    expected = {
        place: message
        for (where, place), message in OTHER_MESSAGES.items()
        if package == "tuckbox" and where == name
    }
    assert failures_with(package)[name] == expected


def test_the_errors_that_differ_have_the_same_type() -> None:
    for (name, place), message in OTHER_MESSAGES.items():
        shown = EXAMPLES[name][1][place][2]
        assert shown.split(":")[0] == message.split(":")[0]
