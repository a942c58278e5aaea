"""`Cache`, the public class.

Adds to the extension's class: sizes as text, the context manager, pickling and named results. Must
not override ``get`` or ``set``: a Python frame would make them slower.
"""

from __future__ import annotations

import atexit
import grp
import math
import os
import warnings
import weakref
from typing import TYPE_CHECKING, Any

from tuckbox import _engine
from tuckbox.errors import (
    CacheClosed,
    InvalidArgument,
    InvalidGroup,
    InvalidLockTimeout,
    InvalidMaxEntries,
    LittleSpaceWarning,
    SeparateCacheWarning,
    SizeMismatchWarning,
)
from tuckbox.places import little_space, separate_users
from tuckbox.results import CheckReport, Loss, Stats
from tuckbox.sizes import parse_size

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from tuckbox.choices import AfterPowerCut, Favour

__all__ = ["Cache"]

_MAX_ENTRIES_MAX = 2**63 - 1
_GROUP_MAX = 2**32 - 1
"""To ``fchown``, this number means "do not change the group"."""


class Cache(_engine.Core):
    """A cache shared by every process that opens the same file.

    Example:
        >>> cache = Cache("app.tuck", size="256 MB")
        >>> cache.set("user:42", {"name": "Ada"}, ttl=300)
        >>> cache.get("user:42")
        {'name': 'Ada'}

    Any number of threads and processes may use a cache at once. A handle works in forked children,
    and can be pickled. A process may be killed at any moment without harm to the others.

    **Keys** are str, bytes, int of any size, and tuples of keys. As in a dict, keys that are ``==``
    are one key, in every process: ``True`` is the key 1, and an ``IntEnum`` member or a named tuple
    is the plain key that it equals. A subclass with its own ``__eq__`` or ``__hash__`` raises
    KeyTypeError. Iteration yields plain keys.

    **Values** are None, bool, int of any size, float, str, bytes, bytearray, list, tuple, dict,
    set, frozenset, datetime, date, time, timedelta, Decimal and UUID, nested up to 64 deep. A value
    comes back as the same type, so instances of subclasses raise ValueTypeError. Time zones must be
    ``datetime.timezone`` or ``zoneinfo.ZoneInfo`` objects. Tuckbox never pickles values, and
    reading a value never runs code that the file names.

    **ttl** is how long an entry lives: a number of seconds or a ``timedelta``. None (the default)
    and infinity never expire; 0 expires at once. An entry may be evicted before it expires.

    **A miss** is not an error: ``get`` returns its default. To tell a stored None from a miss, use
    another default, ``get_entry`` or ``in``.

    **Errors** are in ``tuckbox.errors``. An operation on one key that raises has changed nothing.

    - Every operation may raise CacheClosed and CacheLost.
    - Writes may raise LockTimeout, or CacheReadOnly with ``read_only``.
    - Operations with a key may raise KeyTypeError and KeyTooLong.
    - Operations that store may raise ValueTypeError, ValueTooLarge, CacheFull and InvalidTTL.
    - Operations that return a value may raise EntryCorrupt.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        size: int | str | None = None,
        max_entries: int | None = None,
        favour: Favour | None = None,
        after_power_cut: AfterPowerCut | None = None,
        lock_timeout: float = 1.0,
        read_only: bool = False,
        group: str | int | None = None,
    ) -> None:
        """Open the cache at ``path``, and create the file if it does not exist.

        Only the owner of the file can use it (mode 0600), unless ``group`` is given. A file that
        other users could have created, or can change or replace, raises UnsafeFile. Where they
        could replace a new file, it is in a folder of its own: see ``cache.path``.

        Args:
            path: Path of the file. Its directory must exist. Without a path the cache is private:
                only this process and the processes that inherit or unpickle the handle can use it,
                and it ends with them.
            size: Maximum length of the file in bytes: an int, or text such as "256 MB" (10^6
                bytes) or "64 MiB" (2^20 bytes). Includes the index and all metadata. The default
                is 64 MiB, or half of a smaller file system; the maximum is 8 TiB. Only used to
                create the file: an existing file keeps its size.
            max_entries: Maximum number of entries; None (the default) is no limit. Only used to
                create the file.
            favour: The goal of eviction if values differ in size. ``"hits"`` maximises the hit
                ratio and prefers small entries. ``"bytes"`` maximises the byte hit ratio and
                ignores sizes. ``"balanced"`` (the default) is in between. Only used to create the
                file.
            after_power_cut: What happens to the entries if the machine stopped while the cache was
                in use. ``"keep"`` (the default) keeps them: then entries that were deleted or
                overwritten shortly before can come back. ``"discard"`` empties the cache. Only
                used to create the file.
            lock_timeout: Seconds that a write waits for a lock before it raises LockTimeout.
            read_only: If true, map the file without write access. The file must exist. Only read
                operations are allowed; ``check`` and ``expire`` count as writes. Reads leave no
                trace: they are not counted, and do not keep an entry from being evicted.
            group: Name or number of a group that shares the file (mode 0660). Every process that
                opens the file must pass it. Members can read, change and delete all entries and
                delay writers, but cannot crash other processes or run code in them.

        Raises:
            CacheOpenError: The file cannot be opened or created; the subclasses say why.
            CacheFull: The file system has no room for the file.
            CacheLost: A private cache was unpickled after its process had ended.
            InvalidArgument: An argument is invalid, or ``read_only`` or ``group`` was given
                without a path.

        Warns:
            LittleSpaceWarning: The default size is reduced, because there is little space.
            SeparateCacheWarning: Another user has a cache of its own at the same path.
            SizeMismatchWarning: The file has another ``size``, ``max_entries``, ``favour`` or
                ``after_power_cut``.

        Example:
            >>> cache = Cache("app.tuck", size="256 MB", max_entries=100_000)
            >>> Cache("app.tuck", read_only=True).max_entries
            100000
        """
        size_bytes = None if size is None else parse_size(size)
        given = None if path is None else os.path.abspath(os.fsdecode(path))
        may_be_new = not read_only and (given is None or not os.path.lexists(given))
        super().__init__(
            given,
            size_bytes=size_bytes,
            max_entries=_checked_max_entries(max_entries),
            favour=favour,
            after_power_cut=after_power_cut,
            lock_timeout_s=_checked_lock_timeout(lock_timeout),
            read_only=_checked_read_only(path, read_only),
            group=_checked_group(path, group),
        )
        if may_be_new and size is None and (message := little_space(given, self.size)):
            warnings.warn(message, LittleSpaceWarning, stacklevel=2)
        if given is not None and self.path and (message := separate_users(given, self.path)):
            warnings.warn(message, SeparateCacheWarning, stacklevel=2)
        if size_bytes is not None and size_bytes != self.size:
            self._warn("size", f"{size_bytes:,} bytes", f"{self.size:,} bytes")
        if max_entries is not None and max_entries != self.max_entries:
            own = "none" if self.max_entries is None else f"{self.max_entries:,}"
            self._warn("max_entries", f"{max_entries:,}", own)
        if favour is not None and favour != self.favour:
            self._warn("favour", favour, self.favour)
        if after_power_cut is not None and after_power_cut != self.after_power_cut:
            self._warn("after_power_cut", after_power_cut, self.after_power_cut)
        _close_at_exit(self)

    def _warn(self, name: str, given: str, own: str) -> None:
        message = (
            f"{self.path} was created with {name} {own}; {given} was ignored: "
            f"omit {name}, or remove the file to create it again"
        )
        warnings.warn(message, SizeMismatchWarning, stacklevel=3)

    def stats(self) -> Stats:
        """Return statistics about the cache: hits, misses, entries, bytes and more.

        Returns:
            The statistics. Counts cover all processes since the file was created.

        Raises:
            CacheClosed: The cache is closed.

        Example:
            >>> cache.set("user:42", "Ada")
            >>> cache.stats().entries
            1
        """
        return Stats(**self._stats())

    def check(self) -> CheckReport:
        """Verify every entry and every segment, remove damaged entries, and correct counters.

        Reads the whole cache, without the GIL. Writers wait while their shard is being verified.

        Returns:
            A report of the damage found and repaired.

        Raises:
            CacheClosed: The cache is closed.
            CacheReadOnly: The cache was opened with ``read_only``.
            LockTimeout: A live process held a lock for longer than ``lock_timeout``.

        Example:
            >>> cache.check().is_sound
            True
        """
        report = self._check()
        report["losses"] = tuple(Loss(*loss) for loss in report["losses"])
        report["findings"] = tuple(report["findings"])
        return CheckReport(**report)

    def __enter__(self) -> Self:
        """Return the cache. The end of the ``with`` block closes it."""
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
        """Return the path and the state, such as ``<Cache '/tmp/app.tuck' closed>``."""
        name = type(self).__name__
        try:
            place = "private" if self.path is None else repr(self.path)
        except CacheClosed:
            return f"<{name} never opened>"
        return f"<{name} {place}{' closed' if self.closed else ''}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path and the options, not the entries.

        Raises:
            CacheClosed: The cache is closed.
        """
        if self.closed:
            raise CacheClosed(f"{self!r} cannot be pickled or copied; open it again first")
        limits = (self.size, self.max_entries, self.lock_timeout)
        choices = (self.favour, self.after_power_cut)
        arguments = (self.path, self._shown, *limits, self.read_only, self.group, *choices)
        return _reopen, (type(self), *arguments), self.__dict__ or None


def _reopen(  # noqa: PLR0917 - Pickle passes positional arguments.
    kind: type[Cache],
    path: str | None,
    shown: str | None,
    size_bytes: int,
    max_entries: int | None,
    lock_timeout_s: float,
    read_only: bool = False,
    group: int | None = None,
    favour: Favour | None = None,
    after_power_cut: AfterPowerCut | None = None,
) -> Cache:
    cache = kind.__new__(kind)
    _engine.Core.__init__(
        cache,
        path,
        shown=shown,
        size_bytes=size_bytes,
        max_entries=max_entries,
        favour=favour,
        after_power_cut=after_power_cut,
        lock_timeout_s=lock_timeout_s,
        read_only=read_only,
        group=group,
    )
    _close_at_exit(cache)
    return cache


_open_at_exit: weakref.WeakValueDictionary[int, Cache] = weakref.WeakValueDictionary()


def _close_at_exit(cache: Cache) -> None:
    # The last process to close such a cache marks it as closed, so that it is kept.
    if cache.after_power_cut == "discard":
        _open_at_exit[id(cache)] = cache


@atexit.register
def _close_all() -> None:
    for cache in list(_open_at_exit.values()):
        cache.close()


def _checked_read_only(path: object, read_only: bool) -> bool:
    if not isinstance(read_only, bool):
        raise InvalidArgument(f"read_only must be True or False, not {read_only!r}")
    if read_only and path is None:
        raise InvalidArgument("read_only needs a path: a cache without a path is new and empty")
    return read_only


def _checked_group(path: object, group: str | int | None) -> int | None:
    if group is None:
        return None
    if isinstance(group, bool) or not isinstance(group, (str, int)):
        kind = type(group).__name__
        raise InvalidGroup(f"group must be the name or number of a group, not {kind}")
    if path is None:
        raise InvalidGroup("group needs a path: a cache without a path is private to its user")
    if isinstance(group, int):
        if not 0 <= group < _GROUP_MAX:
            raise InvalidGroup(f"group must be a name, or between 0 and {_GROUP_MAX - 1:,}")
        return group
    try:
        return grp.getgrnam(group).gr_gid
    except (KeyError, ValueError):
        raise InvalidGroup(
            f"group {group!r} does not exist on this machine; to list the groups, run: getent group"
        ) from None


def _checked_max_entries(max_entries: int | None) -> int | None:
    if max_entries is None:
        return None
    if isinstance(max_entries, bool) or not isinstance(max_entries, int):
        kind = type(max_entries).__name__
        raise InvalidMaxEntries(f"max_entries must be an int or None, not {kind}")
    if not 0 < max_entries <= _MAX_ENTRIES_MAX:
        raise InvalidMaxEntries(
            f"max_entries must be between 1 and {_MAX_ENTRIES_MAX:,}; None means no limit"
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
