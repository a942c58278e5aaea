"""`Cache`, the public class: a cache on the shared file.

Joins `Surface` and the extension's class, and adds what is about the file: its path, sizes as text,
warnings and pickling. Must not override ``get`` or ``set``: a Python frame would make them slower.
"""

from __future__ import annotations

import atexit
import grp
import os
import warnings
import weakref
from collections.abc import Iterable, MutableMapping
from typing import Any, ClassVar, Literal, Optional, SupportsIndex, Union

from tuckbox import _engine
from tuckbox.advice import explains_names
from tuckbox.choices import AfterPowerCut, Favour
from tuckbox.compression import Algorithm
from tuckbox.coordination.operations import Coordinating
from tuckbox.errors import (
    CacheClosed,
    InvalidArgument,
    InvalidGroup,
    SizeMismatchWarning,
)
from tuckbox.flights import AsyncLoading
from tuckbox.greenlets import cooperate
from tuckbox.limits import checked_choice, checked_lock_timeout, checked_max_entries
from tuckbox.loading import Loading
from tuckbox.logouts import warn_of_logout
from tuckbox.memoize import Memoizing
from tuckbox.namespaces import Namespace
from tuckbox.objects import Codec, Objects, Pickle
from tuckbox.organising import Organising
from tuckbox.places import Place, is_in_memory, place_of, prepare
from tuckbox.signing import SecretArgument
from tuckbox.sizes import parse_size
from tuckbox.surface import Surface
from tuckbox.volumes import warn_of_little_space, warn_of_separate_caches

__all__ = ["Cache"]

_GROUP_MAX = 2**32 - 1
"""To ``fchown``, this number means "do not change the group"."""


class Cache(Organising, Coordinating, Surface, Loading, AsyncLoading, Memoizing, _engine.Core):
    """A cache shared by every process that opens the same file.

    Example:
        >>> cache = Cache("pages", size="256 MB")
        >>> cache.set("user:42", {"name": "Ada"}, ttl=300)
        >>> cache.get("user:42")
        {'name': 'Ada'}

    **Where it is** depends on the first argument:

    - ``Cache("pages")``: a str without a slash is a name. All processes of this user share that
      cache in memory; its file is in the user's private folder, ``/dev/shm/tuckbox-UID``.
    - ``Cache("/var/cache/app.tuck")``, ``Cache("./app.tuck")`` or ``Cache(Path("app.tuck"))``: a
      path is a file. All processes that may open the file share it, and it survives a reboot if it
      is on a disk.
    - ``Cache()``: a cache in memory of this process and its children. It ends with them, or with
      the last process that unpickled the handle.

    Any number of threads and processes may use a cache at once. A handle works in forked children,
    and can be pickled. A process may be killed at any moment without harm to the others.

    **Keys** are str, bytes, int of any size, and tuples of keys. As in a dict, keys that are ``==``
    are one key, in every process: ``True`` is the key 1, and an ``IntEnum`` member or a named tuple
    is the plain key that it equals. A subclass with its own ``__eq__`` or ``__hash__`` raises
    KeyTypeError. Iteration yields plain keys.

    Only these types can be stored as keys. To look up another object works as in a dict: ``1.0``
    finds the key 1, any other hashable object, such as None, is a miss, and an unhashable one
    raises KeyTypeError.

    **Values** are None, bool, int of any size, float, str, bytes, bytearray, list, tuple, dict,
    set, frozenset, datetime, date, time, timedelta, Decimal and UUID, nested up to 64 deep. A value
    comes back as the same type, so instances of subclasses raise ValueTypeError. Time zones must be
    ``datetime.timezone`` or ``zoneinfo.ZoneInfo`` objects.

    **Objects** of other types need one of these; see the guide *Storing objects*:

    - `tuckbox.register` for their types: dataclasses, enums, arrays, and any class with functions.
    - ``pickle="signed"`` with ``secret``, or ``pickle="private"``, for whatever pickle can store.
    - ``codec`` for functions of your own.

    A registered type comes first, then the pickle or the codec. Without ``pickle``, reading a value
    never runs code that the file names.

    **Numbers of other libraries** become plain ones: an object with ``__index__``, such as a NumPy
    integer, is an int wherever an int can be used; NumPy's bool, float16, float32, float64, str and
    bytes scalars are stored as bool, float, str and bytes. Arrays are refused.

    **ttl** is how long an entry lives: a number of seconds, a ``timedelta``, or text such as
    ``"90s"``, ``"5m"`` or ``"1h30m"`` with the units s, m (minutes), h, d and w. None (the default)
    and infinity never expire; 0 and less expire at once. An entry may be evicted before it expires.

    **A miss** is not an error: ``get`` returns its default. To tell a stored None from a miss, use
    another default, ``get_entry`` or ``in``.

    **Errors** are in ``tuckbox.errors``. An operation on one key that raises has changed nothing.

    - Every operation may raise CacheClosed and CacheLost.
    - Writes may raise LockTimeout, or CacheReadOnly with ``read_only``.
    - Operations with a key may raise KeyTypeError and KeyTooLong.
    - Operations that store may raise ValueTypeError, ValueTooLarge, CacheFull and InvalidTTL.
    - Operations that return a value may raise EntryCorrupt.
    """

    file_format: ClassVar[str] = _engine.Core.file_format
    """The name of this release's file format, such as ``"1-0123456789abcdef"``. A release with
    another format raises VersionMismatch when it opens the file."""

    # Whether a subclass refuses numbers of other libraries as values.
    _exact: ClassVar[bool] = False
    # What a subclass does about values that are not plain.
    _objects_class: ClassVar[type[Objects]] = Objects

    @explains_names
    def __init__(
        self,
        path: Union[str, os.PathLike[str], None] = None,
        *,
        size: Union[float, str, SupportsIndex, None] = None,
        max_entries: Optional[int] = None,
        favour: Optional[Favour] = None,
        after_power_cut: Optional[AfterPowerCut] = None,
        evict: Optional[bool] = None,
        ordered: Optional[bool] = None,
        lock_timeout: float = 1.0,
        read_only: bool = False,
        group: Union[str, int, None] = None,
        pickle: Pickle = "never",
        secret: Optional[SecretArgument] = None,
        codec: Union[Codec, Iterable[Codec], None] = None,
        compress: Union[float, str, SupportsIndex, None] = None,
        compressor: Algorithm = "zstd",
        local: Union[float, str, SupportsIndex, None] = None,
    ) -> None:
        """Open the cache at ``path``, and create the file if it does not exist.

        Only the owner of the file can use it (mode 0600), unless ``group`` is given. A file that
        other users could have created, or can change or replace, raises UnsafeFile. Where they
        could replace a new file, it is in a private folder there: see ``cache.path``.

        Args:
            path: Where the cache is; see above. ``~`` is expanded, and a relative path begins in
                the working directory. The directory of a file must exist.
            size: Maximum length of the file in bytes: a whole number, or text such as "256 MB"
                (10^6 bytes) or "64 MiB" or "64M" (2^20 bytes). Includes the index and all metadata.
                The default is 64 MiB, or half of the file system or memory if that is less; the
                maximum is 8 TiB. If it is given, an existing file is resized, as by `resize`,
                unless another open handle was given another size.
            max_entries: Maximum number of entries; None (the default) is no limit for a new file,
                and keeps that of an existing one. Otherwise as ``size``.
            favour: The goal of eviction if values differ in size. ``"hits"`` maximises the hit
                ratio and prefers small entries. ``"bytes"`` maximises the byte hit ratio and
                ignores sizes. ``"balanced"`` (the default) is in between. Otherwise as
                ``max_entries``.
            after_power_cut: What happens to the entries if the machine stopped while the cache was
                in use. ``"keep"`` (the default) keeps them: then entries that were deleted or
                overwritten shortly before can come back. ``"discard"`` empties the cache. Only
                used to create the file.
            evict: Whether a full cache evicts entries (the default). If false, a write that finds
                no room raises CacheFull and changes nothing. Only used to create the file.
            ordered: Whether the cache keeps the order in which keys were inserted: for iteration,
                `peekitem` and `popitem`. An entry takes about 30 bytes more, and iteration lists
                and sorts all keys first. Only used to create the file.
            lock_timeout: Seconds that a write waits for a lock before it raises LockTimeout.
            read_only: If true, map the file without write access. The file must exist. Only read
                operations are allowed; ``check`` and ``expire`` count as writes. Reads leave no
                trace: they are not counted, and do not keep an entry from being evicted.
            group: Name or number of a group that shares the file (mode 0660); not for a name. Every
                process that opens the file must pass it. Members can read, change and delete all
                entries and delay writers, but cannot crash other processes or run code in them.
            pickle: Whether values that are neither plain nor of a registered type are pickled.
                ``"never"`` (the default) refuses them. ``"signed"`` signs each pickle with
                ``secret``, and unpickles only what was signed for that entry. ``"private"``
                signs nothing; the file must be one that only this user can write.
            secret: A str or bytes, several of them with the newest first, or a function that
                returns them. Only for ``pickle="signed"``.
            codec: An object with ``name``, ``encode(value)`` and ``decode(bytes)``, or several,
                newest first. Encodes all values except 64-bit ints and those of registered types;
                ``encode`` may return NotImplemented to store a plain value as it is.
            compress: Compress values from this length on, as a size such as "4 kB"; None (the
                default) compresses nothing. Compressed values are always readable.
            compressor: ``"zstd"`` (the default) or ``"lz4"``, installed by ``tuckbox[zstd]`` and
                ``tuckbox[lz4]``.
            local: Keep objects of up to this size in this process, as a size such as "32 MB"; None
                (the default) keeps none. ``get`` and ``cache[key]`` return a kept object as long as
                the shared entry is the same, and never a stale one; see the guide *Keeping objects
                in the process*.

        Raises:
            CacheOpenError: The file cannot be opened or created; the subclasses say why.
            CacheFull: The file system has no room for the file.
            CacheLost: A private cache was unpickled after its process had ended.
            InvalidArgument: An argument is invalid, or ``read_only`` or ``group`` was given
                without a path.
            TypeError: A parameter has another name here; the message says which.

        Warns:
            SizeMismatchWarning: The file keeps another ``size``, ``max_entries``, ``favour``,
                ``after_power_cut``, ``evict`` or ``ordered``; the message says why.
            LogoutWarning: systemd removes the file when this user logs out.
            LittleSpaceWarning: There is less space than the default size needs.
            SeparateCacheWarning: Another user has a cache of its own at the same path.

        Example:
            >>> cache = Cache("./app.tuck", size="256 MB", max_entries=100_000)
            >>> Cache("./app.tuck", read_only=True).max_entries
            100000
        """
        cooperate(Cache)
        place = None if path is None else place_of(path)
        size_bytes = None if size is None else parse_size(size)
        local_bytes = None if local is None else parse_size(local, "local")
        if pickle == "private" and group is not None:
            raise InvalidArgument(
                'pickle="private" needs a file that only this user can write, and group shares it; '
                'pass pickle="signed" and a secret'
            )
        objects = self._objects_class(
            pickle=pickle, secret=secret, codec=codec, compress=compress, compressor=compressor
        )
        super().__init__(
            size_bytes=size_bytes,
            max_entries=checked_max_entries(max_entries),
            favour=favour,
            after_power_cut=after_power_cut,
            evict=checked_choice("evict", evict),
            ordered=checked_choice("ordered", ordered),
            lock_timeout_s=checked_lock_timeout(lock_timeout),
            read_only=_checked_read_only(path, read_only),
            group=_checked_group(place, group),
            exact=self._exact,
            objects=objects,
            only_mine=pickle == "private",
            resizes=True,
            creates_folder=place is not None and is_in_memory(place.path),
            local_bytes=local_bytes,
            # The last, because it creates a folder.
            path=None if place is None else prepare(place, read_only=read_only),
        )
        if size_bytes is None and not read_only:
            warn_of_little_space(self.path, self.size)
        why = "read_only cannot resize it" if read_only else self._refusal
        if size_bytes is not None and size_bytes != self.size:
            self._warn("size", f"{size_bytes:,} bytes", f"{self.size:,} bytes", why)
        if max_entries is not None and max_entries != self.max_entries:
            own = "none" if self.max_entries is None else f"{self.max_entries:,}"
            self._warn("max_entries", f"{max_entries:,}", own, why)
        if favour is not None and favour != self.favour:
            self._warn("favour", favour, self.favour, why)
        if after_power_cut is not None and after_power_cut != self.after_power_cut:
            why = "omit after_power_cut, or remove the file to create it again"
            self._warn("after_power_cut", after_power_cut, self.after_power_cut, why)
        if evict is not None and evict != self.evicts:
            why = "omit evict, or remove the file to create it again"
            self._warn("evict", str(evict), str(self.evicts), why)
        if ordered is not None and ordered != self.ordered:
            why = "omit ordered, or remove the file to create it again"
            self._warn("ordered", str(ordered), str(self.ordered), why)
        if place is not None:
            warn_of_logout(place.path)
            warn_of_separate_caches(place.path, self.path or place.path)
        _close_at_exit(self)

    def _warn(self, name: str, given: str, own: str, why: Optional[str]) -> None:
        why = why or "another program has resized it"
        message = f"{self.path} keeps {name} {own}, not {given}: {why}"
        warnings.warn(message, SizeMismatchWarning, stacklevel=4)

    def resize(
        self,
        size: Union[float, str, None] = None,
        *,
        max_entries: Union[int, Literal["keep"], None] = "keep",
        favour: Optional[Favour] = None,
    ) -> None:
        """Give the cache another size, limit of entries or goal of eviction. Keeps the entries.

        Copies the live entries into a new file, which replaces the old one; needs room for both.
        Entries that do not fit are evicted, and all get new versions. Other handles follow by
        themselves. Reads go on meanwhile, writes wait. If the process is killed, the file is
        either the old or the new one.

        Args:
            size: The maximum length of the file, as for `Cache`; None keeps it.
            max_entries: The maximum number of entries; None is no limit, "keep" keeps it.
            favour: The goal of eviction, as for `Cache`; None keeps it.

        Raises:
            InvalidSize, InvalidMaxEntries, InvalidFavour: An argument is invalid.
            InvalidArgument: The cache is private, so it has no file to replace.
            CacheFull: The file system has no room for both files.
            LockTimeout: A live process held a lock for longer than ``lock_timeout``.
            CacheOpenError: The new file cannot be created.
            CacheReadOnly, CacheClosed, CacheLost: The cache cannot be written.

        Whatever it raises, the file is unchanged.

        Example:
            >>> cache = Cache("./app.tuck", size="64 MB")
            >>> cache.set("user:42", "Ada")
            >>> cache.resize("128 MB", max_entries=100_000)
            >>> cache.size, cache.max_entries, cache.get("user:42")
            (128000000, 100000, 'Ada')
        """
        if self.path is None:
            raise InvalidArgument("a private cache cannot be resized: use a cache with a path")
        limit = None if max_entries == "keep" else checked_max_entries(max_entries) or 0
        self._resize(None if size is None else parse_size(size), limit, favour)

    def _copy_file(self, path: Union[str, os.PathLike[str]]) -> None:
        self._copy_to(prepare(place_of(path), read_only=False))

    def _within(self, name: str) -> Namespace:
        return _Namespace(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path and the options, not the entries.

        Raises:
            CacheClosed: The cache is closed.
            TypeError: The handle has a secret, and the pickle is not for a child process.
        """
        if self.closed:
            raise CacheClosed(f"{self!r} cannot be pickled or copied; open it again first")
        limits = (self.size, self.max_entries, self.lock_timeout)
        choices = (self.favour, self.after_power_cut, self.evicts, self.ordered)
        arguments = (self.path, self._shown, *limits, self.read_only, self.group, *choices)
        own = (self._objects, self._local_bytes)
        return _reopen, (type(self), *arguments, *own), self.__dict__ or None


MutableMapping.register(Cache)


class _Namespace(Namespace, Cache):
    """A namespace of a cache on the shared file."""


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
    evict: bool | None = None,
    ordered: bool | None = None,
    objects: Objects | None = None,
    local_bytes: int | None = None,
) -> Cache:
    cooperate(Cache)
    cache = kind.__new__(kind)
    _engine.Core.__init__(
        cache,
        path,
        shown=shown,
        size_bytes=size_bytes,
        max_entries=max_entries,
        favour=favour,
        after_power_cut=after_power_cut,
        evict=evict,
        ordered=ordered,
        lock_timeout_s=lock_timeout_s,
        read_only=read_only,
        group=group,
        creates_folder=path is not None and is_in_memory(path),
        exact=kind._exact,  # noqa: SLF001 - This module's own class.
        objects=objects,
        only_mine=objects is not None and objects.pickle == "private",
        local_bytes=local_bytes,
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


def _checked_group(place: Place | None, group: str | int | None) -> int | None:
    if group is None:
        return None
    if isinstance(group, bool) or not isinstance(group, (str, int)):
        kind = type(group).__name__
        raise InvalidGroup(f"group must be the name or number of a group, not {kind}")
    if place is None:
        raise InvalidGroup("group needs a path: a cache without a path is private to its user")
    if place.folder is not None:
        raise InvalidGroup(
            "group needs the path of a file: a name is in a folder that only this user can enter"
        )
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
