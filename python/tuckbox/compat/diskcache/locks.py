"""`WriteLock`: one writer at a time in all threads and processes, and its undo journal.

The lock is a ``flock`` on a file in the directory of the cache, so the kernel frees it when its
holder dies. The file's content is the journal: what the keys that the holder changes had before.
It is empty unless the holder is in a transaction, or died in one. Must not know what entries mean.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pickle
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Optional

from tuckbox.compat.diskcache.settings import Timeout
from tuckbox.compat.diskcache.signatures import Signatures

__all__ = ["WriteLock"]

_LENGTH: Final = struct.Struct("<I")
_TRIES: Final = 20
_FIRST_WAIT_S: Final = 20e-6
_LONGEST_WAIT_S: Final = 2e-3


class WriteLock:
    """The lock of one handle. Re-entrant in a thread.

    Example:
        >>> lock = WriteLock("/var/cache/app/cache.lock")
        >>> lock.acquire(timeout=60, retry=False)
        True
        >>> lock.release()
    """

    __slots__ = ("_fd", "_mutex", "_path", "_process", "depth", "signatures")

    def __init__(self, path: str) -> None:
        """Open no file yet."""
        self.signatures: Optional[Signatures] = None
        """Sign the records of the journal, if there are any."""
        self._path = path
        self._fd = -1
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._mutex = threading.RLock()
        self.depth = 0

    def acquire(self, timeout: float, retry: bool) -> bool:
        """Take the lock.

        Args:
            timeout: Seconds to wait.
            retry: Whether to wait for as long as it takes.

        Returns:
            True if the thread did not hold it already.

        Raises:
            Timeout: Another thread or process kept it for longer.
        """
        if self._process != os.getpid():
            # The mutex and the file's lock are the parent's.
            self.close_file()
            self._start()
        if not self._mutex.acquire(blocking=False):
            while not self._mutex.acquire(timeout=max(timeout, 0.0)):
                if not retry:
                    raise Timeout
        self.depth += 1
        if self.depth > 1:
            return False
        try:
            self._lock_file(timeout, retry)
        except BaseException:
            self.depth -= 1
            self._mutex.release()
            raise
        return True

    def _lock_file(self, timeout: float, retry: bool) -> None:
        if self._fd < 0:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(self._path, flags, 0o600)
        for _ in range(_TRIES):
            # Usually the holder runs on another core, and needs less time than to sleep and wake.
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return
        if retry:
            # Without a limit for the wait.
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            return
        wait_s = _FIRST_WAIT_S
        deadline_s = None
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                now_s = time.monotonic()
                if deadline_s is None:
                    deadline_s = now_s + timeout
                if now_s >= deadline_s:
                    raise Timeout from None
                time.sleep(wait_s)
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
            else:
                return

    def release(self) -> None:
        """Release what `acquire` took. In a child that was forked meanwhile, does nothing."""
        if self._process != os.getpid():
            return
        self.depth -= 1
        if not self.depth:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        self._mutex.release()

    @property
    def held(self) -> bool:
        """Whether this process has taken the lock, or inherited it from before a fork."""
        return self.depth > 0 and self._process == os.getpid()

    def append(self, *record: Any) -> None:
        """Append to the journal. Before the change, so that a torn record needs no undoing.

        Raises:
            OSError: There is no room for the record.
        """
        content = pickle.dumps(record, pickle.HIGHEST_PROTOCOL)
        if self.signatures is not None:
            content = self.signatures.sign("journal", content)
        content = _LENGTH.pack(len(content)) + content
        written = os.write(self._fd, content)
        if written < len(content):
            # Records after a torn one would not be found.
            os.ftruncate(self._fd, os.lseek(self._fd, 0, os.SEEK_END) - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)

    def has_journal(self) -> bool:
        """Whether the journal has records."""
        return os.lseek(self._fd, 0, os.SEEK_END) > 0

    def journal(self) -> list[Any]:
        """Return the whole records of the journal, in their order.

        Raises:
            EntryRefused: A record is not signed, and should be.
        """
        content = os.pread(self._fd, os.lseek(self._fd, 0, os.SEEK_END), 0)
        records = []
        while len(content) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(content)[0]
            if end > len(content):
                break
            pickled: Any = content[_LENGTH.size : end]
            if self.signatures is not None:
                pickled = self.signatures.verify("journal", pickled)
            # Only this user can write to the file, or a holder of the secret has signed it.
            records.append(pickle.loads(pickled))  # noqa: S301
            content = content[end:]
        return records

    def forget(self) -> None:
        """Empty the journal."""
        os.ftruncate(self._fd, 0)

    def close(self, also: Callable[[], None]) -> None:
        """Close the file, unless a thread holds the lock. `acquire` opens it again.

        Args:
            also: Called while no other thread can take the lock.
        """
        if self._process != os.getpid():
            self.close_file()
            also()
        elif self._mutex.acquire(blocking=False):
            try:
                if not self.depth:
                    self.close_file()
                    also()
            finally:
                self._mutex.release()

    def close_file(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def __del__(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self.close_file()
