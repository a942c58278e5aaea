"""Runs makers: notes which keys a context is making, and runs makers in threads.

Owns the threads. Must not know what a maker makes, or where the result goes.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import logging
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Callable, Generic, Optional, TypeVar

from tuckbox.keys import Key

__all__ = ["Job", "StillRunning", "is_making", "making"]

_T = TypeVar("_T")

_log = logging.getLogger("tuckbox.loading")


class _Making:
    """Keys that a maker makes now."""

    __slots__ = ("done", "keys", "outer", "place")

    def __init__(self, place: object, keys: frozenset[Key], outer: Optional[_Making]) -> None:
        self.place = place
        self.keys = keys
        self.outer = outer
        self.done = False


# A context, not a thread: threads and tasks that a maker starts with its context count as it.
_current: contextvars.ContextVar[Optional[_Making]] = contextvars.ContextVar(
    "tuckbox_making", default=None
)


@contextlib.contextmanager
def making(place: object, keys: Iterable[Key]) -> Iterator[None]:
    """Note, for `is_making`, that the code in this ``with`` block makes the values of some keys.

    Args:
        place: What tells one store from another; compared with ``==``.
        keys: The keys.

    Example:
        >>> with making("here", ["report"]):
        ...     is_making("here", "report"), is_making("there", "report")
        (True, False)
    """
    one = _Making(place, frozenset(keys), _current.get())
    token = _current.set(one)
    try:
        yield
    finally:
        # Tasks that outlive the maker keep a copy of its context.
        one.done = True
        # A coroutine that is destroyed with its event loop ends in another context.
        with contextlib.suppress(ValueError):
            _current.reset(token)


def is_making(place: object, key: Key) -> bool:
    """Return whether this code runs inside the maker of a key. See `making`.

    Args:
        place: What tells one store from another.
        key: The key.

    Example:
        >>> is_making("here", "report")
        False
    """
    one = _current.get()
    while one is not None:
        if not one.done and key in one.keys and one.place == place:
            return True
        one = one.outer
    return False


class StillRunning(Exception):  # noqa: N818 - It is no error.
    """A job runs for longer than its caller waits."""


class Job(Generic[_T]):
    """A maker that runs in a thread of its own, with the caller's context variables.

    The thread does not keep the process from exiting.

    Args:
        work: What to run. It is given a lock to hold while it uses the store: at exit the process
            waits for that lock, but not for the rest of the work.
        what: What it makes, for the log.

    Example:
        >>> Job(lambda lock: 6 * 7, "the answer").wait(10)
        42
    """

    def __init__(self, work: Callable[[AbstractContextManager[Any]], _T], what: str) -> None:
        self.storing = threading.Lock()
        self._work = work
        self._what = what
        self._ended = threading.Event()
        self._is_left = False
        self._value: Optional[_T] = None
        self._error: Optional[BaseException] = None
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run, args=(self._run,), name="tuckbox-maker", daemon=True
        )
        if _is_ending:
            self.storing.acquire()
        _jobs[id(self)] = self
        try:
            thread.start()
        except BaseException:
            del _jobs[id(self)]
            raise

    def _run(self) -> None:
        try:
            self._value = self._work(self.storing)
        except BaseException as error:
            self._error = error
        finally:
            _jobs.pop(id(self), None)
            self._ended.set()
        if self._is_left and self._error is not None:
            _log.warning(
                "the background maker of %s raised an error: nothing was stored",
                self._what,
                exc_info=self._error,
            )

    def leave(self) -> None:
        """Let the job run on: an error goes to the log.

        Example:
            >>> Job(lambda lock: 6 * 7, "the answer").leave()
        """
        self._is_left = True

    def wait(self, timeout_s: float) -> _T:
        """Return the result, or raise the error, of the work.

        Args:
            timeout_s: How many seconds to wait at most.

        Raises:
            StillRunning: The time is over. The job runs on, as after `leave`.

        Example:
            >>> Job(lambda lock: 6 * 7, "the answer").wait(10)
            42
        """
        try:
            self._ended.wait(min(timeout_s, threading.TIMEOUT_MAX))
        finally:
            self.leave()
        if not self._ended.is_set():
            raise StillRunning
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._value  # type: ignore[return-value]


_jobs: dict[int, Job[Any]] = {}
"""The jobs that run, by the number of their object."""
_is_ending = False


@atexit.register
def _end_jobs() -> None:
    """Let no thread be inside the store while the interpreter ends: that can crash."""
    global _is_ending  # noqa: PLW0603 - There is one interpreter.
    _is_ending = True
    for job in list(_jobs.values()):
        job.storing.acquire()


if hasattr(os, "register_at_fork"):
    # The threads of the jobs are the parent's.
    os.register_at_fork(after_in_child=_jobs.clear)
