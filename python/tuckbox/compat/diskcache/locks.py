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


class _Held:
    """What one process knows of the lock.

    A forked child starts with one of its own: the mutex and the open file, which has the kernel's
    lock, are its parent's. Handlers of signals may run between any two steps.
    """

    __slots__ = ("_files", "depth", "fd", "mutex", "owner", "waiting")

    def __init__(self) -> None:
        # At most one. Of a dict, because its methods are single steps.
        self._files: dict[str, tuple[int, os.stat_result]] = {}
        self.fd = -1
        """The descriptor of the open file; -1 if it is not open."""
        self.mutex = threading.RLock()
        self.depth = 0
        self.owner = 0
        """The thread that has the lock, or had it last."""
        self.waiting = 0
        """How many calls of the mutex's owner wait for the file: of a thread, and of the handlers
        of signals that came meanwhile. A handler leaves the file locked if there is one, because
        that call may have locked it already."""

    def open(self, path: str) -> int:
        """Open the file, if it is not open, and return its descriptor."""
        if self.fd < 0:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(path, flags, 0o600)
            # A handler may have opened it meanwhile.
            self.fd = self._files.setdefault("lock", (fd, os.fstat(fd)))[0]
            if self.fd != fd:
                os.close(fd)
        return self.fd

    def close(self) -> None:
        """Close the file."""
        found = self._files.pop("lock", None)
        self.fd = -1
        if found is not None:
            fd, file = found
            # A program may have closed all descriptors, as daemons do, and opened others.
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(fd), file):
                    os.close(fd)


class WriteLock:
    """The lock of one handle. Re-entrant in a thread.

    Example:
        >>> lock = WriteLock("/var/cache/app/cache.lock")
        >>> lock.acquire(timeout=60, retry=False)
        True
        >>> lock.release()
    """

    __slots__ = ("_by_process", "_path", "signatures")

    def __init__(self, path: str) -> None:
        """Open no file yet."""
        self.signatures: Optional[Signatures] = None
        """Sign the records of the journal, if there are any."""
        self._path = path
        self._by_process: dict[int, _Held] = {}

    def _own(self) -> _Held:
        """Return what this process knows of the lock. Several threads may call it at once."""
        process = os.getpid()
        held = self._by_process.get(process)
        if held is None:
            held = self._by_process.setdefault(process, _Held())
            self._forget_others(process)
        return held

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
        held, owner = self._own(), threading.get_ident()
        mutex = held.mutex
        if not mutex.acquire(blocking=False):
            while not mutex.acquire(timeout=max(timeout, 0.0)):
                if not retry:
                    raise Timeout
        if held.depth:
            held.depth += 1
            return False
        held.waiting += 1
        try:
            self._lock_file(held.open(self._path), timeout, retry)
        except BaseException:
            # A handler may have locked the file meanwhile, for this call.
            held.owner, held.depth, held.waiting = owner, 1, held.waiting - 1
            self.release()
            raise
        if held.fd < 0:
            # A handler has forked, and this is the child: the lock is its parent's.
            return self.acquire(timeout, retry)
        # In this order: without `depth`, a handler would unlock the file if nothing waits for it.
        held.owner, held.depth, held.waiting = owner, 1, held.waiting - 1
        return True

    @staticmethod
    def _lock_file(fd: int, timeout: float, retry: bool) -> None:
        for _ in range(_TRIES):
            # Usually the holder runs on another core, and needs less time than to sleep and wake.
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return
        if retry:
            # Without a limit for the wait.
            fcntl.flock(fd, fcntl.LOCK_EX)
            return
        wait_s = _FIRST_WAIT_S
        deadline_s = None
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
        """Release what `acquire` took. Does nothing in a thread that does not have the lock.

        Such is a child that was forked meanwhile.
        """
        held = self._by_process.get(os.getpid())
        if held is None or not held.depth or held.owner != threading.get_ident():
            return
        # No call before `try`: a handler may raise at each.
        held.depth -= 1
        try:
            if not held.depth and not held.waiting and held.fd >= 0:
                fcntl.flock(held.fd, fcntl.LOCK_UN)
        finally:
            held.mutex.release()

    @property
    def depth(self) -> int:
        """How often this thread has taken the lock."""
        held = self._by_process.get(os.getpid())
        if held is None or held.owner != threading.get_ident():
            return 0
        return held.depth

    def append(self, *record: Any) -> None:
        """Append to the journal. Before the change, so that a torn record needs no undoing.

        Raises:
            OSError: There is no room for the record.
        """
        content = pickle.dumps(record, pickle.HIGHEST_PROTOCOL)
        if self.signatures is not None:
            content = self.signatures.sign("journal", content)
        content = _LENGTH.pack(len(content)) + content
        fd = self._own().fd
        written = os.write(fd, content)
        if written < len(content):
            # Records after a torn one would not be found.
            os.ftruncate(fd, os.lseek(fd, 0, os.SEEK_END) - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)

    def has_journal(self) -> bool:
        """Whether the journal has records."""
        return os.lseek(self._own().fd, 0, os.SEEK_END) > 0

    def journal(self) -> list[Any]:
        """Return the whole records of the journal, in their order.

        Raises:
            EntryRefused: A record is not signed, and should be.
        """
        fd = self._own().fd
        content = os.pread(fd, os.lseek(fd, 0, os.SEEK_END), 0)
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
        os.ftruncate(self._own().fd, 0)

    def close(self, also: Callable[[], None]) -> None:
        """Close the file, unless a thread holds the lock. `acquire` opens it again.

        Args:
            also: Called while no other thread can take the lock.
        """
        held = self._own()
        if held.mutex.acquire(blocking=False):
            try:
                if not (held.depth or held.waiting):
                    held.close()
                    also()
            finally:
                held.mutex.release()

    def forget_as_child(self) -> None:
        """Close what was inherited, in a child that was forked off.

        Otherwise the parent's lock would outlive the parent.
        """
        self._forget_others(None)

    def _forget_others(self, process: Optional[int]) -> None:
        """Forget what all processes but one knew, and close the files that were inherited."""
        for other in list(self._by_process):
            if other != process:
                held = self._by_process.pop(other, None)
                # Only one thread gets it.
                if held is not None:
                    held.close()

    def __del__(self) -> None:
        """Close the file."""
        self._forget_others(None)
