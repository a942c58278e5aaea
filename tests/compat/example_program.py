"""Runs examples on the package that is imported as ``diskcache``.

Gets the examples as JSON, and prints as JSON which failed. The time is that of a clock that only
this program moves, so that no example depends on luck.
"""

from __future__ import annotations

import doctest
import json
import sys
import threading
import time
from importlib import import_module
from typing import Any

_STEP_S = 0.0001


class Clock:
    """The time and the sleeps of the program."""

    def __init__(self) -> None:
        self.now_s = 1_700_000_000.0
        self.mutex = threading.Lock()
        self.yield_to_others = time.sleep

    def time(self) -> float:
        with self.mutex:
            self.now_s += _STEP_S
            return self.now_s

    def sleep(self, seconds: float) -> None:
        with self.mutex:
            self.now_s += seconds
        self.yield_to_others(0.001)


def failures_of(module: str, name: str, examples: list[list[Any]]) -> dict[int, str]:
    """Return what each example printed that failed, by its place: the last line."""
    names = dict(vars(import_module("diskcache")))
    names.update(vars(import_module(module)))
    failures = {}
    whole = [
        doctest.Example(source, want, message, options={doctest.ELLIPSIS: True})
        for source, want, message in examples
    ]
    test = doctest.DocTest(whole, names, name, None, None, None)

    class Runner(doctest.DocTestRunner):
        def report_start(self, out: Any, test: Any, example: Any) -> None:
            """Print nothing."""

        def report_failure(self, out: Any, test: Any, example: Any, got: str) -> None:
            failures[whole.index(example)] = got.rstrip("\n").split("\n")[-1]

        def report_unexpected_exception(
            self, out: Any, test: Any, example: Any, error: Any
        ) -> None:
            failures[whole.index(example)] = f"{error[0].__name__}: {error[1]}"

    Runner(verbose=False).run(test)
    return failures


if __name__ == "__main__":
    clock = Clock()
    # Before `diskcache` is imported: its functions have these as default arguments.
    time.time, time.sleep = clock.time, clock.sleep
    found = {
        name: failures_of(module, name, examples)
        for name, (module, examples) in json.load(sys.stdin).items()
    }
    json.dump(
        {"package": import_module("diskcache").Cache.__module__, "failures": found}, sys.stdout
    )
