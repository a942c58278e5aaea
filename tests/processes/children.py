"""Forked children that each hold a process slot of a cache."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from tuckbox.errors import TooManyProcesses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tuckbox import Cache


class Child:
    """A child that stores a value and then waits to be killed. `answer` is "stored", or why not."""

    def __init__(self, cache: Cache) -> None:
        reads, answers = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                cache["child", os.getpid()] = 1
                os.write(answers, b"stored")
            except TooManyProcesses as error:
                os.write(answers, str(error).encode())
            finally:
                signal.pause()
                os._exit(0)
        os.close(answers)
        with open(reads, "rb", buffering=0) as pipe:
            self.answer = pipe.read(4096).decode()


@contextlib.contextmanager
def children(cache: Cache, count: int) -> Iterator[list[Child]]:
    """`count` children, all alive at once."""
    started: list[Child] = []
    try:
        started.extend(Child(cache) for _ in range(count))
        yield started
    finally:
        for child in started:
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
