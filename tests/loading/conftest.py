"""Callers and makers for the tests of loading."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Callable

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


class Crew:
    """Threads whose results and errors are kept."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.results: list[Any] = []
        self.errors: list[BaseException] = []

    def start(self, work: Callable[[], Any], count: int = 1) -> None:
        def run() -> None:
            try:
                self.results.append(work())
            except BaseException as error:
                self.errors.append(error)

        for _ in range(count):
            thread = threading.Thread(target=run, daemon=True)
            self.threads.append(thread)
            thread.start()

    def join(self) -> Crew:
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive(), "a caller hangs"
        return self


@pytest.fixture
def crew() -> Iterator[Crew]:
    crew = Crew()
    yield crew
    crew.join()


class Maker:
    """A maker that can be held, and counts its calls.

    `opened` lets it return; without `held` it is open from the start.
    """

    def __init__(self, *results: Any, held: bool = False) -> None:
        self.results = list(results) or ["made"]
        self.calls = 0
        self.began = threading.Event()
        self.opened = threading.Event()
        if not held:
            self.opened.set()

    def __call__(self) -> Any:
        self.calls += 1
        self.began.set()
        assert self.opened.wait(30), "nobody opened the maker"
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, BaseException):
            raise result
        return result


def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    for _ in range(30_000):
        if condition():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it never came true")
