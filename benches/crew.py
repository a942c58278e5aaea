"""Processes that are asked to do the same thing at the same time.

Owns them: how they are started, asked and ended. Must not know what they do.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from benches.row import WrongAnswerError

_GOODBYE_SECONDS = 10.0


class CrewError(Exception):
    """A process of a crew failed or died; the message says in what, and how."""


@dataclass(frozen=True)
class _Answer:
    value: Any


@dataclass(frozen=True)
class _Failure:
    text: str
    is_wrong_answer: bool


class Crew:
    """Some processes, started anew and not forked, each with an object whose methods are called.

    A process that is asked several things does one after the other. Python's cycle collector is
    off in all of them.
    """

    def __init__(
        self,
        count: int,
        make: Callable[..., object],
        *arguments: object,
        cores: Sequence[int] = (),
    ) -> None:
        """Start the processes, and wait until each has its object.

        Args:
            count: How many.
            make: Called in each as `make(number, *arguments)`, with its number from 0; a class or
                function of a module, because it goes there by name.
            arguments: What else `make` is given.
            cores: The cores that they are pinned to, in turns; the scheduler decides without any.

        Raises:
            CrewError: One of them could not make its object.
        """
        context = multiprocessing.get_context("spawn")
        self._processes = []
        self._pipes: list[Connection] = []
        for number in range(count):
            ours, theirs = context.Pipe()
            core = cores[number % len(cores)] if cores else None
            process = context.Process(
                target=_serve, args=(theirs, number, core, make, arguments), daemon=True
            )
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)
        try:
            self.answers("its start")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return the crew."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the processes."""
        self.close()

    def ask(self, method: str, *arguments: object, count: int | None = None) -> list[Any]:
        """Have all, or the first `count`, call a method of their objects at the same time.

        Returns:
            Their answers, in order.

        Raises:
            CrewError: A process failed or died.
            WrongAnswerError: A process said so.
        """
        self.begin(method, *arguments, count=count)
        return self.answers(method, count=count)

    def begin(self, method: str, *arguments: object, count: int | None = None) -> None:
        """Ask, and do not wait. `answers` has to be called next, for as many."""
        for number in range(self._many(count)):
            try:
                self._pipes[number].send((method, arguments))
            except OSError as error:
                raise CrewError(f"process {number} had died before {method}: {error}") from error

    def answers(self, method: str, count: int | None = None) -> list[Any]:
        """Return what each answers to what it was asked last. Raises as `ask`."""
        return [self._answer(number, method) for number in range(self._many(count))]

    def close(self) -> None:
        """End the processes: those that wait leave at once, others are killed."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(_GOODBYE_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()

    def _many(self, count: int | None) -> int:
        return len(self._pipes) if count is None else count

    def _answer(self, number: int, method: str) -> object:
        try:
            answer: _Answer | _Failure = self._pipes[number].recv()
        except EOFError:
            self._processes[number].join()
            code = self._processes[number].exitcode
            raise CrewError(f"process {number} died in {method}: exit status {code}") from None
        if isinstance(answer, _Answer):
            return answer.value
        if answer.is_wrong_answer:
            raise WrongAnswerError(answer.text)
        raise CrewError(f"process {number} failed in {method}: {answer.text}")


def two_cores() -> tuple[int, int]:
    """Return two cores for two processes that shall not wait for each other.

    Raises CrewError where this process may use only one.
    """
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise CrewError("two processes at the same time need two cores, and there is one")
    return usable[0], usable[1]


def _serve(
    pipe: Connection,
    number: int,
    core: int | None,
    make: Callable[..., object],
    arguments: tuple[object, ...],
) -> None:
    gc.disable()
    try:
        if core is not None:
            os.sched_setaffinity(0, {core})
        served = make(number, *arguments)
    except Exception as error:
        pipe.send(_failure(error))
        return
    pipe.send(_Answer(None))
    while True:
        try:
            method, given = pipe.recv()
        except EOFError:
            return
        try:
            answer: _Answer | _Failure = _Answer(getattr(served, method)(*given))
        except Exception as error:
            answer = _failure(error)
        pipe.send(answer)


def _failure(error: Exception) -> _Failure:
    if isinstance(error, WrongAnswerError):
        return _Failure(str(error), is_wrong_answer=True)
    text = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    return _Failure(text, is_wrong_answer=False)
