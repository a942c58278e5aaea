"""The cache that people import.

Owns the conveniences around the extension's class: sizes in words, the context manager, pickling,
and answers with names. Must not override ``get`` or ``set``: no Python frame is on their way.
"""

from __future__ import annotations

import grp
import math
import os
import warnings
from typing import TYPE_CHECKING, Any

from tuckbox import _engine
from tuckbox.errors import (
    CacheClosed,
    InvalidArgument,
    InvalidGroup,
    InvalidLockTimeout,
    InvalidMaxEntries,
    SizeMismatchWarning,
)
from tuckbox.results import CheckReport, Loss, Stats
from tuckbox.sizes import parse_size

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from tuckbox.favour import Favour

__all__ = ["Cache"]

_MAX_ENTRIES_MAX = 2**63 - 1
_GROUP_MAX = 2**32 - 1
"""The number that tells the system to leave a group as it is."""


class Cache(_engine.Core):
    """A cache that all processes share which open the same file.

    ::

        cache = Cache("app.tuck", size="256 MB")
        cache.set("user:42", {"name": "Ada"}, ttl=300)
        cache.get("user:42")

    A cache may be used by any number of threads and processes at once, over ``fork`` and after
    pickling. A process may be killed at any moment; the others go on.

    **Keys** are str, bytes, int of any size, and tuples of keys. Keys that are ``==`` are one key,
    as in a dict, in every process: ``True`` is the key 1, and an instance of a subclass (an
    ``IntEnum`` member, a named tuple) is the plain key that it equals, unless the subclass has an
    ``__eq__`` or ``__hash__`` of its own. Iteration gives plain keys.

    **Values** are None, bool, int of any size, float, str, bytes, bytearray, list, tuple, dict,
    set, frozenset, datetime, date, time, timedelta, Decimal and UUID, in each other up to 64 deep.
    They come back with the same type. Instances of subclasses would not, and are refused. Time
    zones are those of ``datetime.timezone`` and ``zoneinfo``. Nothing is pickled, and reading runs
    no code that is named in the file.

    **ttl** is how long an entry lives: a number of seconds, a ``timedelta``, or None (the default)
    or infinity for no expiry. An entry that is stored with 0 is expired at once. An entry may be
    evicted earlier to make room.

    A miss is not an error: ``get`` returns its default. None is a value like others; ``get_entry``
    or another default tells it from a miss.

    All errors are in ``tuckbox.errors``, and whatever is refused has changed nothing. Every
    operation may raise CacheClosed, and each that changes something LockTimeout; operations with a
    key KeyTypeError and KeyTooLong; those that store a value ValueTypeError, ValueTooLarge and
    CacheFull; those with a ttl InvalidTTL; those that return a value EntryCorrupt. With
    ``read_only``, each that changes something raises CacheReadOnly.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        size: int | str | None = None,
        max_entries: int | None = None,
        favour: Favour | None = None,
        lock_timeout: float = 1.0,
        read_only: bool = False,
        group: str | int | None = None,
    ) -> None:
        """Open the cache at ``path``, or make it.

        The file is its owner's alone (mode 0600). One that others could have put there, can change
        or can replace is refused.

        Args:
            path: The file; its directory must exist. Without one the cache is private: it belongs
                to this process and those that inherit or unpickle it, and ends with them.
            size: Byte limit of the file, as an int or as in "256 MB" (10^6 bytes) or "64 MiB"
                (2^20); 64 MiB by default. The limit counts all bytes, not only those of values.
                Used when the file is made: an existing file keeps its own.
            max_entries: Limit of entries, none by default. Used as ``size`` is.
            favour: What stays where values are of many sizes: ``"balanced"`` (the default);
                ``"hits"``, so that as many reads as can be find their entry, which are small
                ones; or ``"bytes"``, so that as many bytes as can be need not be made again,
                which takes no account of sizes. Used as ``size`` is.
            lock_timeout: Seconds that an operation waits for a lock that another process holds.
            read_only: Only read: for other users, and for programs that look on. The file must be
                there; not a byte of it is changed, so reads count as neither hits nor misses and
                keep no entry from being evicted. Only operations that read can be used; ``check``
                and ``expire`` are none.
            group: The group, by name or number, whose members share the file (mode 0660). Each of
                them can read, change and delete everything in it and hold up writers, but cannot
                make another process crash or run code. Everyone who opens the file has to give it.

        Raises:
            CacheOpenError: The file cannot be opened or made; its subclasses say why.
            CacheFull: The file system has no room for the file.
            CacheLost: A private cache was unpickled after its process had ended.
            InvalidArgument: A size, limit, favour or group is not one, or a private cache was to be
                opened with ``read_only`` or ``group``.

        Warns:
            SizeMismatchWarning: The file has another size, limit or favour than the one given.
        """
        size_bytes = None if size is None else parse_size(size)
        super().__init__(
            None if path is None else os.path.abspath(os.fsdecode(path)),
            size_bytes=size_bytes,
            max_entries=_checked_max_entries(max_entries),
            favour=favour,
            lock_timeout_s=_checked_lock_timeout(lock_timeout),
            read_only=_checked_read_only(path, read_only),
            group=_checked_group(path, group),
        )
        if size_bytes is not None and size_bytes != self.size:
            self._warn("size", f"{size_bytes:,} bytes", f"{self.size:,} bytes")
        if max_entries is not None and max_entries != self.max_entries:
            own = "none" if self.max_entries is None else f"{self.max_entries:,}"
            self._warn("max_entries", f"{max_entries:,}", own)
        if favour is not None and favour != self.favour:
            self._warn("favour", favour, self.favour)

    def _warn(self, name: str, given: str, own: str) -> None:
        message = (
            f"{self.path} was made with {name} {own}, and keeps it; {given} was ignored: "
            f"leave {name} out, or remove the file to make it anew"
        )
        warnings.warn(message, SizeMismatchWarning, stacklevel=3)

    def stats(self) -> Stats:
        """Return numbers about the cache.

        Raises:
            CacheClosed: The cache was closed.
        """
        return Stats(**self._stats())

    def check(self) -> CheckReport:
        """Prove every entry and every segment, and mend what can be mended.

        It reads the whole cache and holds up writers meanwhile, one part after the other. Other
        Python threads run.

        Returns:
            What was found.

        Raises:
            CacheClosed: The cache was closed.
            LockTimeout: A live process held a lock for too long.
        """
        report = self._check()
        report["losses"] = tuple(Loss(*loss) for loss in report["losses"])
        report["findings"] = tuple(report["findings"])
        return CheckReport(**report)

    def __enter__(self) -> Self:
        """Return the cache itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the cache."""
        self.close()

    def __repr__(self) -> str:
        """Return the path, and whether the cache is closed."""
        name = type(self).__name__
        try:
            place = "private" if self.path is None else repr(self.path)
        except CacheClosed:
            return f"<{name} never opened>"
        return f"<{name} {place}{' closed' if self.closed else ''}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the way to the cache, not what is in it.

        Raises:
            CacheClosed: The cache was closed.
        """
        if self.closed:
            raise CacheClosed(f"{self!r} cannot be pickled or copied; open it again first")
        limits = (self.size, self.max_entries, self.lock_timeout)
        way = (self.path, self._shown, *limits, self.read_only, self.group, self.favour)
        return _reopen, (type(self), *way), self.__dict__ or None


def _reopen(  # noqa: PLR0917 - What is pickled is a tuple.
    kind: type[Cache],
    path: str | None,
    shown: str | None,
    size_bytes: int,
    max_entries: int | None,
    lock_timeout_s: float,
    read_only: bool = False,
    group: int | None = None,
    favour: Favour | None = None,
) -> Cache:
    cache = kind.__new__(kind)
    _engine.Core.__init__(
        cache,
        path,
        shown=shown,
        size_bytes=size_bytes,
        max_entries=max_entries,
        favour=favour,
        lock_timeout_s=lock_timeout_s,
        read_only=read_only,
        group=group,
    )
    return cache


def _checked_read_only(path: object, read_only: bool) -> bool:
    if not isinstance(read_only, bool):
        raise InvalidArgument(f"read_only must be True or False, not {read_only!r}")
    if read_only and path is None:
        raise InvalidArgument("a private cache is new and empty: read_only needs a path")
    return read_only


def _checked_group(path: object, group: str | int | None) -> int | None:
    if group is None:
        return None
    if isinstance(group, bool) or not isinstance(group, (str, int)):
        kind = type(group).__name__
        raise InvalidGroup(f"group must be the name or number of a group, not {kind}")
    if path is None:
        raise InvalidGroup("a private cache belongs to its user alone: give a path to share it")
    if isinstance(group, int):
        if not 0 <= group < _GROUP_MAX:
            raise InvalidGroup(f"the number of a group must lie between 0 and {_GROUP_MAX - 1:,}")
        return group
    try:
        return grp.getgrnam(group).gr_gid
    except (KeyError, ValueError):
        raise InvalidGroup(
            f"there is no group {group!r} on this machine; `getent group` lists them"
        ) from None


def _checked_max_entries(max_entries: int | None) -> int | None:
    if max_entries is None:
        return None
    if isinstance(max_entries, bool) or not isinstance(max_entries, int):
        kind = type(max_entries).__name__
        raise InvalidMaxEntries(f"max_entries must be an int or None, not {kind}")
    if not 0 < max_entries <= _MAX_ENTRIES_MAX:
        raise InvalidMaxEntries(
            f"max_entries must lie between 1 and {_MAX_ENTRIES_MAX:,}; None is no limit"
        )
    return max_entries


def _checked_lock_timeout(lock_timeout: float) -> float:
    if isinstance(lock_timeout, bool) or not isinstance(lock_timeout, (int, float)):
        kind = type(lock_timeout).__name__
        raise InvalidLockTimeout(f"lock_timeout must be a number of seconds, not {kind}")
    try:
        return float(lock_timeout)
    except OverflowError:
        return math.inf
