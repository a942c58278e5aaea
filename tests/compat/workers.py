"""What other processes do."""

from __future__ import annotations

import importlib


def append_numbers(module: str, directory: str, first: int, count: int) -> None:
    deque = importlib.import_module(module).Deque(directory=directory)
    for number in range(first, first + count):
        deque.append(number)


def pop_all(module: str, directory: str) -> list[int]:
    deque = importlib.import_module(module).Deque(directory=directory)
    popped = []
    while True:
        try:
            popped.append(deque.popleft())
        except IndexError:
            return popped


def add_to_average(module: str, directory: str, count: int) -> None:
    dc = importlib.import_module(module)
    average = dc.Averager(dc.Cache(directory), "average")
    for number in range(count):
        average.add(number)


def count_up(module: str, directory: str, kind: str, count: int) -> None:
    """Read a number and write the next, holding a lock of this kind."""
    dc = importlib.import_module(module)
    cache = dc.Cache(directory)
    lock = getattr(dc, kind)(cache, "lock")
    for _ in range(count):
        with lock:
            cache["number"] = cache.get("number", 0) + 1
