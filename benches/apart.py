"""Measures a row in its own process.

Owns that process. Must not know what is measured. So what one row leaves in memory does not affect
the next row, and the death of one does not end the others.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import FrameType

from benches.places import places
from benches.row import Conditions, Figure
from benches.rows import choose

# How long a process may take to remove its folders.
_END_SECONDS_MAX = 60.0


class RowError(Exception):
    """A row could not be measured; the message says why."""


@dataclass(frozen=True)
class Measured:
    """The result of a row: its figures, and what this machine cannot measure."""

    figures: list[Figure]
    not_measured: list[str]


@dataclass(frozen=True)
class _Progress:
    text: str


@dataclass(frozen=True)
class _Failure:
    text: str


_Message = _Progress | _Failure | Measured


def measure(row_id: str, rounds: int, is_quick: bool, progress: Callable[[str], None]) -> Measured:
    """Measure a row of the catalogue. Raises RowError and UnknownRowError."""
    choose([row_id])
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_measure, args=(theirs, row_id, rounds, is_quick))
    process.start()
    theirs.close()
    try:
        return _answer(ours, progress)
    except EOFError:
        process.join()
        raise RowError(f"its process ended without a result: {_ending(process.exitcode)}") from None
    except RowError:
        raise
    except BaseException:
        # On this signal the process removes its folders. A second signal has no effect.
        process.terminate()
        raise
    finally:
        ours.close()
        process.join(_END_SECONDS_MAX)
        if process.is_alive():
            process.kill()


def _answer(ours: Connection, progress: Callable[[str], None]) -> Measured:
    while True:
        message: _Message = ours.recv()
        if isinstance(message, Measured):
            return message
        if isinstance(message, _Failure):
            raise RowError(message.text)
        progress(message.text)


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"it died of {signal.Signals(-code).name}"
    return f"exit status {code}"


def leave_on_signals() -> None:
    """Unwind the process at the first SIGINT, SIGTERM or SIGHUP, so that it cleans up."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def leave(number: int, _frame: FrameType | None) -> None:
        for one in numbers:
            signal.signal(one, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in numbers:
        signal.signal(number, leave)


def _measure(theirs: Connection, row_id: str, rounds: int, is_quick: bool) -> None:
    leave_on_signals()
    (row,) = choose([row_id])

    def progress(text: str) -> None:
        theirs.send(_Progress(text))

    not_measured: list[str] = []
    try:
        with places() as found:
            figures = row.measure(
                Conditions(
                    rounds,
                    is_quick,
                    found.tmpfs,
                    found.disk,
                    progress=progress,
                    not_measured=not_measured.append,
                )
            )
    except Exception as error:
        theirs.send(_Failure(f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
    else:
        theirs.send(Measured(figures, not_measured))
