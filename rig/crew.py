"""Worker processes. Each has an object, and calls its methods on request.

Owns how they are started, called, awaited and ended, and how each ended. Must not know what they
do.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any, Self, TypeVar

from rig.stamps import WrongAnswerError

T = TypeVar("T")

GOODBYE_SECONDS = 10.0

_START = "its start"
_DONE = "its end"


class CrewError(Exception):
    """A process raised, died or hung; the message says where, and how.

    `came_to` is "raised", "hung", or "died of" and the signal.
    """

    def __init__(self, message: str, came_to: str = "raised") -> None:
        super().__init__(message)
        self.came_to = came_to


class HungError(CrewError):
    """A process did not answer in time. The answer may still come."""


@dataclass(frozen=True)
class _Answer:
    value: Any


@dataclass(frozen=True)
class _Failure:
    text: str
    is_wrong_answer: bool


class Worker:
    """A process with an object, whose methods it calls one after the other.

    Python's cycle collector is off in it.
    """

    def __init__(
        self,
        make: Callable[..., object],
        *arguments: object,
        forked: bool = False,
        core: int | None = None,
        name: str = "the process",
    ) -> None:
        """Start the process without waiting for it.

        Args:
            make: Called in the process as `make(*arguments)`, returns its object. Unless `forked`,
                it must be a class or function of a module, which is passed by name.
            arguments: The arguments of `make`.
            forked: Fork the process. Otherwise it is spawned.
            core: Pin the process to this core.
            name: The name of the process in messages.
        """
        context: Any = multiprocessing.get_context("fork" if forked else "spawn")
        pipe, theirs = context.Pipe()
        self._pipe: Connection = pipe
        self._name = name
        self._due: deque[str] = deque()
        inherited = pipe if forked else None
        self._process = context.Process(
            target=_serve, args=(theirs, inherited, core, make, arguments), daemon=True
        )
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return int(self._process.pid)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended, by itself or killed."""
        return not self._process.is_alive()

    @property
    def is_due(self) -> bool:
        """Whether a request has no answer yet."""
        return bool(self._due)

    @property
    def came_to(self) -> str | None:
        """How the process failed: "raised", or "died of" and the signal. None if it did not."""
        code = self._process.exitcode
        if not code:
            return None
        return f"died of {signal.Signals(-code).name}" if code < 0 else "raised"

    def begin(self, method: str, *arguments: object) -> None:
        """Request a method call, without waiting for the answer."""
        # If the process is dead, `answer` raises.
        with suppress(OSError):
            self._pipe.send((method, arguments))
        self._due.append(method)

    def answer(self, seconds_max: float | None = None) -> Any:  # noqa: ANN401 (its methods' own)
        """Return the next answer.

        Raises:
            CrewError: The method raised, or the process died.
            HungError: There was no answer in time.
            WrongAnswerError: The method raised it.
        """
        method = self._due[0]
        try:
            if not self._pipe.poll(seconds_max):
                raise HungError(f"{self._name} hangs in {method}", "hung")
            answer: _Answer | _Failure = self._pipe.recv()
        except (EOFError, OSError):
            raise self._died(method) from None
        self._due.popleft()
        if isinstance(answer, _Answer):
            return answer.value
        if answer.is_wrong_answer:
            raise WrongAnswerError(answer.text)
        raise CrewError(f"{self._name} failed in {method}: {answer.text}")

    def kill(self) -> str | None:
        """Kill the process, wait for its end, and return how it ended."""
        self._process.kill()
        return self.leave()

    def dismiss(self) -> None:
        """Tell the process to end after its pending requests, without waiting."""
        with suppress(OSError):
            self._pipe.send((_DONE, ()))

    def leave(self, seconds_max: float = GOODBYE_SECONDS) -> str | None:
        """End the process after its pending requests. Return how it failed, None if it did not.

        After `seconds_max` the process is killed, and the result is "hung".
        """
        self.dismiss()
        self._process.join(seconds_max)
        has_hung = not self.has_ended
        if has_hung:
            self._process.kill()
            self._process.join()
        self._pipe.close()
        return "hung" if has_hung else self.came_to

    def _died(self, method: str) -> CrewError:
        self._process.join()
        came_to = self.came_to or "raised"
        how = f"exit status {self._process.exitcode}" if came_to == "raised" else came_to
        return CrewError(f"{self._name} died in {method}: {how}", came_to)


def call(work: Callable[[], T], seconds_max: float) -> T:
    """Return the result of `work` in a forked process. Raises CrewError and HungError."""
    worker = Worker(partial(SimpleNamespace, work=work), forked=True)
    try:
        worker.begin("work")
        answer: T = worker.answer(seconds_max)
        came_to = worker.leave(seconds_max)
    except BaseException:
        worker.kill()
        raise
    if came_to is not None:
        raise CrewError(f"the process {came_to} after its work", came_to)
    return answer


class Crew:
    """Some spawned processes that do the same thing at the same time."""

    def __init__(
        self,
        count: int,
        make: Callable[..., object],
        *arguments: object,
        cores: Sequence[int] = (),
    ) -> None:
        """Start the processes, and wait until each has its object.

        Args:
            count: The number of processes.
            make: Called in each as `make(number, *arguments)`, with its number from 0.
            arguments: The other arguments of `make`.
            cores: Pin the processes to these cores, in rotation.

        Raises:
            CrewError: A process could not make its object.
        """
        self._workers = []
        try:
            for number in range(count):
                core = cores[number % len(cores)] if cores else None
                name = f"process {number}"
                self._workers.append(Worker(make, number, *arguments, core=core, name=name))
            self.ask(_START)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return the crew."""
        return self

    def __exit__(self, *_error: object) -> None:
        """End the processes."""
        self.close()

    def ask(self, method: str, *arguments: object, count: int | None = None) -> list[Any]:
        """Call a method in all processes, or in the first `count`, at the same time.

        Returns:
            The answers, in the order of the processes.

        Raises:
            CrewError: A method raised, or a process died.
            WrongAnswerError: A method raised it.
        """
        self.begin(method, *arguments, count=count)
        return self.answers(count=count)

    def begin(self, method: str, *arguments: object, count: int | None = None) -> None:
        """Request a method call without waiting. Call `answers` next, with the same count."""
        for worker in self._workers[:count]:
            worker.begin(method, *arguments)

    def answers(self, count: int | None = None) -> list[Any]:
        """Return the answers to the pending requests. Raises like `ask`."""
        return [worker.answer() for worker in self._workers[:count]]

    def close(self) -> None:
        """End the processes. Those that are still busy after ten seconds are killed."""
        for worker in self._workers:
            worker.dismiss()
        for worker in self._workers:
            worker.leave()


def _serve(
    pipe: Connection,
    inherited: Connection | None,
    core: int | None,
    make: Callable[..., object],
    arguments: tuple[object, ...],
) -> None:
    # The parent's handler is not meant for its children.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if inherited is not None:
        inherited.close()
    gc.disable()
    try:
        if core is not None:
            os.sched_setaffinity(0, {core})
        served = make(*arguments)
    except Exception as error:
        pipe.send(_failure(error))
        raise SystemExit(1) from None
    while True:
        try:
            method, given = pipe.recv()
        except EOFError:
            return
        if method == _DONE:
            return
        try:
            value = None if method == _START else getattr(served, method)(*given)
            answer: _Answer | _Failure = _Answer(value)
        except Exception as error:
            answer = _failure(error)
        pipe.send(answer)


def _failure(error: Exception) -> _Failure:
    if isinstance(error, WrongAnswerError):
        return _Failure(str(error), is_wrong_answer=True)
    text = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    return _Failure(text, is_wrong_answer=False)
