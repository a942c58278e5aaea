"""`Behind`: the writes of a process that the far tier does not have yet.

Owns their order, the thread that sends them, and what happens to them in a fork, at `close` and at
exit. Must not know what a near tier is: a `Write` says what to do when it was sent.

Of each key only the newest write waits. One thread at a time sends, under a lock, and each write is
looked up again under it. So the far tier gets the writes of a key in their order.
"""

from __future__ import annotations

import atexit
import logging
import random
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Callable, NamedTuple, Optional

from tuckbox.brief import refuse_if_brief
from tuckbox.errors import DriverError, TuckboxError
from tuckbox.forks import renew_in_children
from tuckbox.memory import codec
from tuckbox.objects import Objects
from tuckbox.results import Entry

__all__ = ["CLOSE_S", "Behind", "Write", "now_s", "value_of"]

_BYTES_MAX = 16 << 20
_WRITE_BYTES = 256
"""About what Python needs for a write, besides its key and value."""
_AT_ONCE = 128
_PAUSE_S = 0.05
_PAUSE_MAX_S = 1.0
_IDLE_S = 10.0
"""After so long without a write, the thread ends."""
CLOSE_S = 5.0
"""How long `close` and the exit of the interpreter wait."""

_log = logging.getLogger("tuckbox.tiers")


class Write(NamedTuple):
    """A value that waits."""

    names: tuple[str, ...]
    """The namespace of the key, outermost first."""
    key: Any
    part: Any
    """The far tier's part for that namespace."""
    value: Callable[[], Any]
    """Returns the value, as a copy."""
    len_bytes: int
    ends_s: Optional[float]
    """When its ttl ends, by `now_s`; None is never."""
    ttl_s: Optional[float]
    terms: tuple[tuple[str, Any], ...]
    """Its tags and the like, for `set`."""
    keep: Callable[[], None]
    """Shows it to other processes for some time more."""
    sent: Callable[[], None]
    """Called when the far tier has it."""
    since: int = 0
    """The number of the first of the writes that wait for this to be sent."""

    @property
    def left_s(self) -> Optional[float]:
        """How long it is fresh; None is without end."""
        return None if self.ends_s is None else max(0.0, self.ends_s - now_s())

    def entry(self) -> Optional[Entry]:
        """Return it as an entry, without a version; None if its ttl has ended."""
        left_s = self.left_s
        if left_s is None:
            return Entry(self.value(), None, 0)
        return Entry(self.value(), time.time() + left_s, 0) if left_s else None


class Behind:
    """Sends writes to the far tier, in a thread.

    Args:
        told: Gets the error of each attempt that failed, and None after one that did not.
    """

    def __init__(self, told: Callable[[Optional[DriverError]], None]) -> None:
        self._told = told
        self._is_closed = False
        self.dropped = 0
        """How many writes were given up."""
        self._confirmed = 0
        """What ``dropped`` was when `flush` was called last."""
        self._renew()
        renew_in_children(self)
        _open.add(self)

    def _renew(self) -> None:
        # The writes of the parent are the parent's to send.
        self._waiting: dict[tuple[tuple[str, ...], Any], Write] = {}
        self._number = 0
        self._len_bytes = 0
        self._at_once = _AT_ONCE
        # Reentrant: a signal handler may use the cache.
        self._changing = threading.RLock()
        self._sending = threading.RLock()
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def __len__(self) -> int:
        """Return how many writes wait."""
        return len(self._waiting)

    def get(self, names: tuple[str, ...], key: Any) -> Optional[Write]:
        """Return the write of a key that waits, if there is one."""
        if not self._waiting:
            return None
        try:
            return self._waiting.get((names, key))
        except TypeError:  # No key: it cannot be hashed.
            return None

    def put(self, writes: list[Write]) -> None:
        """Let writes wait, each in place of an older one of its key.

        Raises:
            DriverError: There is no room, and the far tier does not answer.
        """
        more_bytes = sum(_size(write) for write in writes)
        while self._waiting and self._len_bytes + more_bytes > _BYTES_MAX:
            self.send(limit=self._at_once)
        with self._changing:
            for write in writes:
                self._number += 1
                name = write.names, write.key
                former = self._waiting.get(name)
                since = self._number
                if former is not None:
                    since = former.since
                    self._len_bytes -= _size(former)
                self._waiting[name] = write._replace(since=since)
                self._len_bytes += _size(write)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(
                    target=self._run, name="tuckbox writes", daemon=True
                )
                self._thread.start()
        self._wake.set()
        if self._is_closed:
            self.send()

    # --- Sending -------------------------------------------------------------------------------

    def send(
        self,
        keys: Optional[Iterable[tuple[tuple[str, ...], Any]]] = None,
        *,
        limit: Optional[int] = None,
    ) -> None:
        """Send the writes of some keys, or all that wait now.

        Args:
            keys: The keys, each with the names of its namespace.
            limit: If given, send at most about so many.

        Raises:
            DriverError: The far tier does not answer. What was not sent still waits.
        """
        if not self._waiting:
            return
        with self._changing:
            if keys is None:
                chosen = list(islice(self._waiting.values(), limit))
            else:
                chosen = [write for key in keys if (write := self.get(*key)) is not None]
        if chosen:
            refuse_if_brief()
        for group in _grouped(chosen):
            at = 0
            while at < len(group):
                with self._sending:
                    some = group[at : at + self._at_once]
                    at += len(some)
                    self._send([write for write in some if self._still_waits(write)])

    def _still_waits(self, write: Write) -> bool:
        return self._waiting.get((write.names, write.key)) is write

    def _send(self, group: list[Write]) -> None:
        """Send writes that `_grouped` has put together. The caller has the lock."""
        if not group:
            return
        try:
            _store(group)
        except DriverError:
            # One at a time from now on: it may be about a certain write, which others pass then.
            self._at_once = 1
            if len(group) == 1:
                self._put_last(group[0])
            raise
        except Exception as error:
            if len(group) > 1:
                for write in group:
                    self._send([write])
                return
            _log.warning("a write was given up: the far tier cannot store it", exc_info=error)
            self.dropped += 1
        else:
            self._told(None)
            self._at_once = min(2 * self._at_once, _AT_ONCE)
        for write in group:
            # First: until then, reads of this process get the value from here.
            write.sent()
            with self._changing:
                if self._still_waits(write):
                    del self._waiting[write.names, write.key]
                    self._len_bytes -= _size(write)

    def _put_last(self, write: Write) -> None:
        with self._changing:
            if self._still_waits(write):
                del self._waiting[write.names, write.key]
                self._waiting[write.names, write.key] = write

    def _run(self) -> None:
        pause_s = _PAUSE_S
        while True:
            is_woken = self._wake.wait(_IDLE_S)
            with self._changing:
                if self._is_closed or not (is_woken or self._waiting):
                    self._thread = None
                    return
            self._wake.clear()
            try:
                self.send()
            except DriverError as error:
                self._told(error)
            except Exception:  # Nobody else would tell.
                _log.exception("sending writes failed; it is tried again")
            else:
                pause_s = _PAUSE_S
                continue
            for write in list(self._waiting.values()):
                write.keep()
            self._ended.wait(pause_s * random.uniform(0.5, 1.5))  # noqa: S311 - No secret.
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
            self._wake.set()

    # --- Waiting -------------------------------------------------------------------------------

    def flush(self, timeout_s: Optional[float]) -> bool:
        """Wait until the far tier has all writes from before this call. See `Tiering.flush`."""
        refuse_if_brief()
        ends_s = None if timeout_s is None else time.monotonic() + timeout_s
        number = self._number
        while any(write.since <= number for write in list(self._waiting.values())):
            try:
                self.send(limit=self._at_once)
                pause_s = 0.0
            except TuckboxError as error:
                if isinstance(error, DriverError):
                    self._told(error)
                pause_s = _PAUSE_S
            if ends_s is not None:
                left_s = ends_s - time.monotonic()
                if left_s <= 0:
                    return False
                pause_s = min(pause_s, left_s)
            time.sleep(pause_s)
        is_whole = self.dropped == self._confirmed
        self._confirmed = self.dropped
        return is_whole

    def close(self) -> None:
        """Send what waits, for `CLOSE_S` at most, and give up the rest. End the thread."""
        if self._is_closed:
            return
        self.flush(CLOSE_S)
        self._is_closed = True
        self._ended.set()
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_S)
        with self._changing:
            lost = len(self._waiting)
            self._waiting.clear()
        if lost:
            self.dropped += lost
            _log.warning("%d writes were given up: the far tier does not answer", lost)


def value_of(kept: codec.Kept, encoded_key: bytes, objects: Objects) -> Any:
    """Return a copy of a value that waits."""
    if type(kept) is codec.Encoded:
        return codec.decode(kept, encoded_key, objects, b"")
    return kept


def now_s() -> float:
    """Return the time in seconds, by a clock that goes on while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _size(write: Write) -> int:
    return write.len_bytes + _WRITE_BYTES


def _grouped(writes: list[Write]) -> Iterator[list[Write]]:
    """Writes that `set_many` can store together."""
    groups: dict[Any, list[Write]] = {}
    for write in writes:
        # The first to end sets the ttl of all: at most a hundredth of it is lost.
        hundredths = None
        if write.ends_s is not None and write.ttl_s:
            hundredths = int(write.ends_s / write.ttl_s * 100)
        group = write.names, write.ttl_s, hundredths, write.terms
        groups.setdefault(group, []).append(write)
    return iter(groups.values())


def _store(group: list[Write]) -> None:
    first = min(group, key=lambda write: write.ends_s or 0.0)
    if len(group) == 1:
        first.part.set(first.key, first.value(), first.left_s, **dict(first.terms))
    else:
        values = {write.key: write.value() for write in group}
        first.part.set_many(values, first.left_s, **dict(first.terms))


_open: weakref.WeakSet[Behind] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for behind in list(_open):
        behind.close()
