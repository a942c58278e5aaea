"""`Coverage`: keeps the near tiers of a process as fresh as the place behind them is known to be.

Owns the thread that listens to the place, and the moment until which a near tier serves. Must not
know what a server is: it uses `tuckbox.drivers.contract.Watchable`.

**Confirmations.** The thread applies each change that the place tells to the near tiers. Once per
interval it has the place confirm that all changes before a moment *c* have been told, so a near
entry is at most as old as *c*. The tier serves until *c* plus ``max_stale``, and then asks behind.

**Several processes share a file**, and each listens for itself. So *c* is in the file too: what one
process has applied, all have. A process that starts, or has lost its connection, begins to listen
at a moment *b*. If the file then shows a *c* after *b*, another process has applied every change in
between. If not, changes may have been missed, and the thread clears the tier: the *gap detector*.

**A value that is on its way**, read behind before a change and stored in the near tier after it:
whoever fills holds a lease of the near tier from before the read, which the change ends.
"""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Callable, Optional, Protocol

from tuckbox.drivers.contract import Watch
from tuckbox.errors import CacheClosed, TuckboxError

__all__ = ["Coverage", "Side"]

_PAUSE_S = 0.05
_PAUSE_MAX_S = 1.0
_GONE_INTERVALS = 2.5
"""How many intervals without a confirmation show that no process listens."""

_log = logging.getLogger("tuckbox.tiers")


class Side(Protocol):
    """A near tier, as seen by the coverage of its process."""

    def now_us(self) -> int:
        """Return the time in microseconds, by a clock that all who share the tier have."""

    def covered_us(self) -> Optional[int]:
        """Return up to when every change was applied by anyone; None if that is unknown."""

    def cover(self, time_us: int) -> None:
        """Note that every change up to a moment was applied, and serve for ``max_stale`` more."""

    def apply(self, keys: Optional[Sequence[bytes]]) -> None:
        """Forget what changed at the place; None is everything."""


class Coverage:
    """Listens to a place in a thread, and applies what it tells to near tiers.

    Args:
        watch: Begins to watch the place, with the function that gets the changed keys.
        interval_s: How often to confirm.

    Example:
        >>> from tuckbox.drivers.memory import Memory
        >>> driver = Memory()
        >>> coverage = Coverage(lambda changed: driver.watch(b"", changed), interval_s=1.0)
        >>> coverage.is_listening
        False
    """

    def __init__(
        self,
        watch: Callable[[Callable[[Optional[Sequence[bytes]]], None]], Watch],
        interval_s: float,
    ) -> None:
        self._watch = watch
        self._interval_s = interval_s
        self._interval_us = round(interval_s * 1e6)
        self._sides: list[Side] = []
        self._starting = threading.Lock()
        self._thread: Optional[threading.Thread] = None
        self._pid = 0
        self._listening_on: Optional[Watch] = None
        self._ended = threading.Event()
        self.is_listening = False
        """Whether the place tells this process its changes now."""
        self.gaps = 0
        """How often changes may have been missed, and the near tiers were cleared."""
        self.changes = 0
        """How many messages about changes were applied."""
        self.error: Optional[str] = None
        """Why it does not listen, if it failed."""

    @property
    def is_listening_here(self) -> bool:
        """Whether it listens, and this is the process that does: not a forked child."""
        return self.is_listening and self._pid == os.getpid()

    def add(self, side: Side) -> None:
        """Apply changes to a tier, after those that were added before it: nearer ones come last."""
        self._sides.append(side)

    def start(self) -> None:
        """Start listening, unless the thread runs in this process already."""
        if self._pid == os.getpid() or self._ended.is_set():
            return
        with _held(self._starting, self._pid):
            if self._pid == os.getpid():
                return
            self._pid = os.getpid()
            self.is_listening = False
            self._thread = threading.Thread(target=self._run, name="tuckbox tiers", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop listening, for good."""
        self._ended.set()
        if self._thread is not None and self._pid == os.getpid():
            watch = self._listening_on
            if watch is not None:
                watch.close()
            self._thread.join(2 * self._interval_s)

    def _run(self) -> None:
        pause_s = _PAUSE_S
        while not self._ended.is_set():
            try:
                with self._watch(self._changed) as watch:
                    self._listening_on = watch
                    self._resume(watch)
                    pause_s = _PAUSE_S
                    while not self._ended.is_set():
                        self._confirm(watch)
                        watch.wait(self._interval_s)
            except CacheClosed:
                return
            except TuckboxError as error:
                self.error = str(error)
            except Exception as error:  # Nobody else would tell.
                _log.exception("listening for changes failed; it is tried again")
                self.error = repr(error)
            self.is_listening, self._listening_on = False, None
            self._ended.wait(pause_s * random.uniform(0.5, 1.5))  # noqa: S311 - No secret.
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _resume(self, watch: Watch) -> None:
        """Close the gap between the last confirmation of anyone and the beginning of a watch."""
        for side in self._sides:
            began_us = side.now_us()
            while (covered_us := side.covered_us()) is None or covered_us < began_us:
                gone_us = _GONE_INTERVALS * self._interval_us
                if covered_us is None or side.now_us() - covered_us > gone_us:
                    side.apply(None)
                    self.gaps += 1
                    break
                # Another process may be about to confirm.
                watch.wait(self._interval_s / 4)
                if self._ended.is_set():
                    return
        self.is_listening = True
        self.error = None

    def _confirm(self, watch: Watch) -> None:
        moments = [side.now_us() for side in self._sides]
        watch.confirm()
        for side, moment_us in zip(self._sides, moments):
            side.cover(moment_us)

    def _changed(self, keys: Optional[Sequence[bytes]]) -> None:
        self.changes += 1
        for side in self._sides:
            side.apply(keys)


@contextmanager
def _held(lock: threading.Lock, pid: int) -> Iterator[None]:
    """Hold a lock. In a forked child, the thread that held it may not exist: do without."""
    is_locked = lock.acquire(timeout=1.0 if pid in {0, os.getpid()} else 0.1)
    try:
        yield
    finally:
        if is_locked:
            lock.release()
