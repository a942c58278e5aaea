"""Runs operations that consist of several operations of a store, in threads and on event loops.

Such an operation is a generator. It yields each operation of the store that it needs, as a function
without arguments, and gets its result; or it yields seconds to sleep. So it is written once. Must
not know what the operations do.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Generator, Iterator
from typing import Any, Callable, Optional, TypeVar, Union

from tuckbox.calls import call
from tuckbox.errors import InvalidArgument
from tuckbox.loops import sleep

__all__ = ["Steps", "checked_timeout", "pauses", "run", "run_on_loop"]

_T = TypeVar("_T")

Step = Union[Callable[[], Any], float]
Steps = Generator[Step, Any, _T]
"""An operation that returns ``_T``."""

_FIRST_PAUSE_S = 0.001
_PAUSE_MAX_S = 0.05
# Forked children share the state of the module's own generator, and would wait in step.
_random = random.SystemRandom()


def run(steps: Steps[_T]) -> _T:
    """Run an operation in this thread.

    Example:
        >>> def doubled():
        ...     value = yield lambda: 21
        ...     yield 0.001
        ...     return value * 2
        >>> run(doubled())
        42
    """
    proceed: Callable[[], Step] = lambda: next(steps)  # noqa: E731 - It is replaced below.
    while True:
        try:
            step = proceed()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            answer = None
            if isinstance(step, float):
                time.sleep(step)
            else:
                answer = step()
        except BaseException as error:
            proceed = _raising(steps, error)
        else:
            proceed = _sending(steps, answer)


async def run_on_loop(store: object, steps: Steps[_T]) -> _T:
    """Run an operation in this task, without blocking the event loop.

    Args:
        store: The store, whose ``lock_timeout`` limits the wait of each of its operations.
        steps: The operation.

    Example:
        >>> def doubled():
        ...     value = yield lambda: 21
        ...     return value * 2
        >>> asyncio.run(run_on_loop(cache, doubled()))
        42
    """
    proceed: Callable[[], Step] = lambda: next(steps)  # noqa: E731 - It is replaced below.
    while True:
        try:
            step = proceed()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            answer = await (sleep(step) if isinstance(step, float) else call(store, step))
        except BaseException as error:
            proceed = _raising(steps, error)
        else:
            proceed = _sending(steps, answer)


def _sending(steps: Steps[_T], answer: object) -> Callable[[], Step]:
    return lambda: steps.send(answer)


def _raising(steps: Steps[_T], error: BaseException) -> Callable[[], Step]:
    return lambda: steps.throw(error)


def checked_timeout(timeout: object) -> Optional[float]:
    """Return a timeout in seconds; None is without end.

    Raises:
        InvalidArgument: It is neither None nor a number of at least 0.

    Example:
        >>> checked_timeout(2)
        2.0
    """
    if timeout is None or timeout == math.inf:
        return None
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if not is_number or not timeout >= 0:  # type: ignore[operator]
        raise InvalidArgument(
            f"timeout must be a number of seconds from 0 on, or None for no limit, not {timeout!r}"
        )
    return float(timeout)  # type: ignore[arg-type]


def pauses(timeout_s: Optional[float]) -> Iterator[float]:
    """Yield how many seconds to wait before each further attempt, until the time is over.

    The pauses grow up to 50 ms. They are random, so that waiters do not try at the same moments.

    Args:
        timeout_s: The time; None is without end.

    Example:
        >>> list(pauses(0.0))
        []
    """
    end_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
    pause_s = _FIRST_PAUSE_S
    while True:
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            return
        yield min(pause_s * _random.uniform(0.5, 1.0), left_s)
        pause_s = min(pause_s * 1.5, _PAUSE_MAX_S)
