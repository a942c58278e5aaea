"""`Memory`: a driver that keeps its values in a dictionary of this process."""

from __future__ import annotations

import itertools
import queue
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Callable, NamedTuple, Optional, TypeVar

from tuckbox.drivers.contract import Capabilities, Changed, Found, Version
from tuckbox.errors import CacheClosed, Unreachable

__all__ = ["Memory", "MemoryWatch"]


class _Kept(NamedTuple):
    value: bytes
    version: int
    ends_s: Optional[float]


class Memory:
    """Values in a dictionary. Keeps all of them: it is for tests and for small data.

    Args:
        now: What tells the time in seconds.

    Example:
        >>> driver = Memory()
        >>> driver.set(b"k", b"value", 60)
        >>> driver.get(b"k").value
        b'value'
    """

    capabilities = Capabilities(
        between_processes=False,
        between_machines=False,
        persists=False,
        scans=True,
        tells_ttl=True,
        tells_changes=True,
    )
    title = "the memory of this process"

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kept: dict[bytes, _Kept] = {}
        self._versions = itertools.count(1)
        self._lock = threading.Lock()
        self._watches: weakref.WeakSet[MemoryWatch] = weakref.WeakSet()
        self._is_open = True

    def _found(self, key: bytes) -> Optional[_Kept]:
        """The value of a key; removes one whose ttl has ended. The caller holds the lock."""
        if not self._is_open:
            raise CacheClosed("this driver is closed; open it again to use it")
        kept = self._kept.get(key)
        if kept is not None and kept.ends_s is not None and self._now() >= kept.ends_s:
            del self._kept[key]
            self._tell(key)
            return None
        return kept

    def _tell(self, key: bytes) -> None:
        for watch in self._watches:
            watch.told.put(key)

    def _keep(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> None:
        ends_s = None if ttl_s is None else self._now() + ttl_s
        self._kept[key] = _Kept(bytes(value), next(self._versions), ends_s)
        self._tell(key)

    def get(self, key: bytes) -> Optional[Found]:
        """See `Driver.get`."""
        with self._lock:
            kept = self._found(key)
            if kept is None:
                return None
            ttl_s = None if kept.ends_s is None else kept.ends_s - self._now()
            return Found(kept.value, kept.version, ttl_s)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Found]:
        """See `Driver.get_many`."""
        return {key: found for key in keys if (found := self.get(key)) is not None}

    def set(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> None:
        """See `Driver.set`."""
        with self._lock:
            self._found(key)
            self._keep(key, value, ttl_s)

    def set_many(self, items: Iterable[tuple[bytes, bytes, Optional[float]]]) -> None:
        """See `Driver.set_many`."""
        for key, value, ttl_s in items:
            self.set(key, value, ttl_s)

    def add(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> bool:
        """See `Driver.add`."""
        with self._lock:
            if self._found(key) is not None:
                return False
            self._keep(key, value, ttl_s)
            return True

    def swap(self, key: bytes, value: bytes, ttl_s: Optional[float], version: Version) -> bool:
        """See `Driver.swap`."""
        with self._lock:
            kept = self._found(key)
            if kept is None or kept.version != version:
                return False
            self._keep(key, value, ttl_s)
            return True

    def delete(self, key: bytes, version: Optional[Version] = None) -> bool:
        """See `Driver.delete`."""
        with self._lock:
            kept = self._found(key)
            if kept is None or (version is not None and kept.version != version):
                return False
            del self._kept[key]
            self._tell(key)
            return True

    def delete_many(self, keys: Iterable[bytes]) -> int:
        """See `Driver.delete_many`."""
        return sum(self.delete(key) for key in keys)

    def touch(self, key: bytes, ttl_s: Optional[float]) -> bool:
        """See `Driver.touch`."""
        with self._lock:
            kept = self._found(key)
            if kept is None:
                return False
            ends_s = None if ttl_s is None else self._now() + ttl_s
            self._kept[key] = kept._replace(ends_s=ends_s)
            self._tell(key)
            return True

    def scan(self, prefix: bytes) -> Iterator[bytes]:
        """See `Driver.scan`."""
        with self._lock:
            keys = [key for key in list(self._kept) if key.startswith(prefix) and self._found(key)]
        return iter(keys)

    def clear(self, prefix: bytes) -> None:
        """See `Driver.clear`."""
        self.delete_many(self.scan(prefix))

    def ping(self) -> None:
        """See `Driver.ping`."""
        with self._lock:
            self._found(b"")

    def watch(self, prefix: bytes, changed: Changed) -> MemoryWatch:
        """See `Watchable.watch`."""
        with self._lock:
            self._found(b"")
            watch = MemoryWatch(prefix, changed)
            self._watches.add(watch)
            return watch

    def close(self) -> None:
        """See `Driver.close`."""
        self._is_open = False


_Self = TypeVar("_Self", bound="MemoryWatch")


class MemoryWatch:
    """A `Watch` of a `Memory`."""

    def __init__(self, prefix: bytes, changed: Changed) -> None:
        self.told: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()
        """The keys that changed; None ends the watch."""
        self._prefix = prefix
        self._changed = changed

    def wait(self, seconds: float) -> None:
        """See `Watch.wait`."""
        ends_s = time.monotonic() + seconds
        with suppress(queue.Empty):
            while True:
                self._tell(self.told.get(timeout=max(0.0, ends_s - time.monotonic())))

    def confirm(self) -> None:
        """See `Watch.confirm`."""
        with suppress(queue.Empty):
            while True:
                self._tell(self.told.get_nowait())

    def _tell(self, key: Optional[bytes]) -> None:
        if key is None:
            raise Unreachable("the watch of the memory of this process has ended")
        if key.startswith(self._prefix):
            self._changed([key])

    def close(self) -> None:
        """See `Watch.close`."""
        self.told.put(None)

    def __enter__(self: _Self) -> _Self:  # noqa: PYI019 - Self is not in Python 3.9.
        """See `Watch`."""
        return self

    def __exit__(self, *_: object) -> None:
        """See `Watch`."""
