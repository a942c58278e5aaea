"""`Driver`: what a place must do to hold the entries of a cache.

A driver stores opaque bytes under bytes keys. Everything else is above it: objects, tags,
namespaces, leases, stale entries and tiers live in the bytes that it stores, and in the two things
that it must do atomically, `add` and `swap`.

**Keys** are 1 to 65,551 bytes, any bytes. A driver whose place takes fewer maps longer keys, or
other characters, to a digest: the bytes that it stores contain the key, and the reader compares it.
So two keys may share a place, but rarely.

**Values** are bytes, from none to ``capabilities.value_bytes_max``.

**A miss is always allowed**, of any key at any moment: a place may evict. A driver never returns
bytes that were not stored under the key or the place that it shares, never returns part of a value,
and never returns a value after its ttl and the tolerance of its place (``ttl_tolerance_s``).

**A ttl** is a positive number of seconds, counted by the place's own clock; None is without end.

**A version** tells one stored value of a key from the next. It is of use only as an argument to the
driver that returned it.

**Errors.** A place that cannot be reached, or answers wrongly, raises `Unreachable`; one that
refuses (rights, read-only, full) raises `Refused`; a value that is too long raises ValueTooLarge
before anything is sent. After `Unreachable`, a write may have been done or not.

A driver may be used by several threads at once. After a fork, the child's calls must not disturb
those of the parent: a driver opens connections of its own there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Callable, NamedTuple, Optional, Protocol, TypeVar, runtime_checkable

__all__ = [
    "KEY_BYTES_MAX",
    "Capabilities",
    "Changed",
    "Driver",
    "Found",
    "Version",
    "Watch",
    "Watchable",
]

KEY_BYTES_MAX = 65_551
"""A key of `tuckbox.Cache` has at most 64 KiB, and a prefix of 15 bytes may come before it."""

Version = object
"""What tells one stored value of a key from the next."""


class Found(NamedTuple):
    """A value that a driver returned."""

    value: bytes
    """The bytes that were stored."""
    version: Version
    """For `Driver.swap` and `Driver.delete`."""
    ttl_s: Optional[float] = None
    """How many seconds the place keeps it, if ``tells_ttl``; None if that is unknown or endless."""


class Capabilities(NamedTuple):
    """What a place can do, besides what every driver must."""

    between_processes: bool
    """Whether other processes of this machine see the entries."""
    between_machines: bool
    """Whether other machines see them."""
    persists: bool
    """Whether entries survive a restart of the place."""
    scans: bool
    """Whether `Driver.scan` and `Driver.clear` work."""
    tells_ttl: bool = False
    """Whether `Found.ttl_s` is known."""
    ttl_tolerance_s: float = 0.0
    """How long after its ttl a value may still be returned."""
    value_bytes_max: Optional[int] = None
    """The longest value; None if there is no such limit."""
    tells_changes: bool = False
    """Whether the driver is a `Watchable`."""
    may_evict: bool = False
    """Whether entries may be missing before their ttl ends, with no setting that prevents it."""


@runtime_checkable
class Driver(Protocol):
    """The operations of a driver. See the module for keys, values, versions and errors.

    Example:
        >>> from tuckbox.drivers.memory import Memory
        >>> driver = Memory()
        >>> driver.add(b"k", b"1", None), driver.add(b"k", b"2", None)
        (True, False)
        >>> found = driver.get(b"k")
        >>> driver.swap(b"k", b"3", None, found.version), driver.get(b"k").value
        (True, b'3')
    """

    @property
    def capabilities(self) -> Capabilities:
        """What the place can do. Does not change, and needs no connection."""

    @property
    def title(self) -> str:
        """How messages name the place, such as ``redis at 10.0.0.1:6379``. Without passwords."""

    def get(self, key: bytes) -> Optional[Found]:
        """Return what is stored under a key, or None."""

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Found]:
        """Return what is stored under several keys, in one round trip if the place allows that."""

    def set(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> None:
        """Store a value, whatever the key had."""

    def set_many(self, items: Iterable[tuple[bytes, bytes, Optional[float]]]) -> None:
        """Store several values with their ttl, in one round trip if the place allows that.

        Not atomic: after an error, some may be stored.
        """

    def add(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> bool:
        """Store a value if the key has none. Atomic: of several callers, one gets True."""

    def swap(self, key: bytes, value: bytes, ttl_s: Optional[float], version: Version) -> bool:
        """Store a value if the key still has the one with this version. Atomic.

        Returns:
            Whether it was stored. False if the value was replaced, deleted, evicted or has expired.
        """

    def delete(self, key: bytes, version: Optional[Version] = None) -> bool:
        """Delete a value, or only the one with this version. Return whether there was one."""

    def delete_many(self, keys: Iterable[bytes]) -> int:
        """Delete several values. Return how many there were."""

    def touch(self, key: bytes, ttl_s: Optional[float]) -> bool:
        """Give a value another ttl, from now. Return whether there was one.

        The value keeps its version, or gets another one.
        """

    def scan(self, prefix: bytes) -> Iterator[bytes]:
        """Iterate over the keys that begin with a prefix; each that is there throughout, once.

        Raises:
            Unsupported: ``capabilities.scans`` is false.
        """

    def clear(self, prefix: bytes) -> None:
        """Delete all keys that begin with a prefix. Those stored meanwhile may be kept.

        Raises:
            Unsupported: ``capabilities.scans`` is false.
        """

    def ping(self) -> None:
        """Check that the place answers. Raises `Unreachable` or `Refused`."""

    def close(self) -> None:
        """Close all connections. Closing twice does nothing; other calls then raise CacheClosed."""


Changed = Callable[[Optional[Sequence[bytes]]], None]
"""Gets the keys that changed; None if any may have."""


_Watch = TypeVar("_Watch", bound="Watch")


class Watch(Protocol):
    """A connection on which a place tells what changes. Of one thread; a context manager.

    Every change since the watch began is told, whoever made it: values that were stored, deleted,
    evicted or have expired. If that cannot be kept, all methods raise `Unreachable` from then on.
    """

    def wait(self, seconds: float) -> None:
        """Wait, and tell what changes meanwhile."""

    def confirm(self) -> None:
        """Return when every change is told that the place made before this call."""

    def close(self) -> None:
        """End the watch, from any thread; a `wait` in another thread raises `Unreachable`."""

    def __enter__(self: _Watch) -> _Watch:  # noqa: PYI019 - Self is not in Python 3.9.
        """Return the watch."""

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        """End the watch."""


@runtime_checkable
class Watchable(Driver, Protocol):
    """A driver whose place tells what changes (``capabilities.tells_changes``)."""

    def watch(self, prefix: bytes, changed: Changed) -> Watch:
        """Begin to watch the keys with a prefix, on a connection of its own.

        Args:
            prefix: The beginning of the keys.
            changed: Called for each message, by the watch's `Watch.wait` and `Watch.confirm`. What
                it raises ends these.

        Returns:
            The watch. It has begun: each change after this is told.

        Raises:
            Unreachable, Refused: The place does not answer, or cannot tell what changes.
        """
