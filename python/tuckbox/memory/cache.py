"""`Cache`: a cache in this process, with or without a name.

Owns the names, and what a handle becomes when it is copied or pickled.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections.abc import Iterable, MutableMapping
from typing import Any, ClassVar, Literal, Optional, SupportsIndex, Union, cast

from tuckbox.advice import explains_names
from tuckbox.choices import AfterPowerCut, Favour
from tuckbox.compression import Algorithm
from tuckbox.coordination.operations import Coordinating
from tuckbox.errors import (
    CacheClosed,
    CacheLost,
    FileMissing,
    InvalidArgument,
    InvalidGroup,
    NoSharedFiles,
    SizeMismatchWarning,
)
from tuckbox.flights import AsyncLoading
from tuckbox.limits import checked_choice, checked_lock_timeout, checked_max_entries
from tuckbox.loading import Loading
from tuckbox.memoize import Memoizing
from tuckbox.memory.core import Core
from tuckbox.memory.store import Store
from tuckbox.namespaces import Namespace
from tuckbox.objects import Codec, Objects, Pickle
from tuckbox.organising import Organising
from tuckbox.places import name_of
from tuckbox.signing import SecretArgument
from tuckbox.sizes import parse_size
from tuckbox.surface import Surface

__all__ = ["Cache"]

_named: dict[str, Store] = {}
_private: weakref.WeakValueDictionary[bytes, Store] = weakref.WeakValueDictionary()
_opening = threading.RLock()


class Cache(Organising, Coordinating, Surface, Loading, AsyncLoading, Memoizing, Core):
    """A cache that the threads of one process share.

    Takes the keys, values and lengths of time that `tuckbox.Cache` takes, and has the same
    operations and errors.

    - ``Cache("pages")``: all handles of this process with this name share one cache, which lives
      as long as the process.
    - ``Cache()``: a cache that lives as long as its handles.

    A forked child has a copy of the caches of its parent, and the two share nothing after that.
    Another process that unpickles a handle gets the cache of that name in its own memory.

    Example:
        >>> from tuckbox import memory
        >>> with memory.Cache("pages", size="16 MB") as cache:
        ...     cache["user:42"] = "Ada"
        >>> memory.Cache("pages")["user:42"]
        'Ada'
    """

    # Whether a subclass refuses numbers of other libraries as values.
    _exact: ClassVar[bool] = False
    _name: Optional[str] = None

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
        """Open the cache with a name, or create one.

        Args:
            path: The name; None is a new cache without one. A path raises NoSharedFiles.
            size: Maximum of the memory for entries in bytes, by an estimate: a whole number, or
                text such as "256 MB". The default is 64 MiB. An existing cache is resized.
            max_entries: Maximum number of entries; None (the default) is no limit for a new cache,
                and keeps that of an existing one.
            favour: Has no effect.
            after_power_cut: Has no effect.
            evict: As for `tuckbox.Cache`. Only used to create the cache.
            ordered: As for `tuckbox.Cache`. Only used to create the cache.
            lock_timeout: Has no effect.
            read_only: If true, only read operations are allowed. The cache must exist.
            group: Raises InvalidGroup, for other users cannot share the cache.
            pickle: As for `tuckbox.Cache`.
            secret: As for `tuckbox.Cache`.
            codec: As for `tuckbox.Cache`.
            compress: As for `tuckbox.Cache`.
            compressor: As for `tuckbox.Cache`.
            local: Has no effect.

        Raises:
            NoSharedFiles: ``path`` is a path.
            FileMissing: ``read_only`` was given, and there is no cache of this name.
            InvalidArgument: An argument is invalid.
            TypeError: A parameter has another name here; the message says which.

        Warns:
            SizeMismatchWarning: The cache exists, and keeps another ``evict`` or ``ordered``.

        Example:
            >>> cache = Cache("pages", size="256 MB", max_entries=100_000)
            >>> cache.max_entries
            100000
        """
        name = None if path is None else name_of(path)
        if path is not None and name is None:
            raise NoSharedFiles(None, self._no_files(path), os.fsdecode(path))
        if not isinstance(read_only, bool):
            raise InvalidArgument(f"read_only must be True or False, not {read_only!r}")
        if read_only and path is None:
            raise InvalidArgument("read_only needs a name: a cache without one is new and empty")
        if group is not None:
            raise InvalidGroup("group needs the path of a file: this cache is in one process")
        if local is not None:
            parse_size(local, "local")
        objects = Objects(
            pickle=pickle, secret=secret, codec=codec, compress=compress, compressor=compressor
        )
        self._name = name if self._store is None else self._name
        with _opening:
            store = None if name is None else _named.get(name)
            if read_only and store is None:
                message = f"there is no cache {name!r} in this process, and read_only does not"
                raise FileMissing(None, f"{message} create it; open it without read_only first")
            super().__init__(
                store,
                size_bytes=None if size is None else parse_size(size),
                max_entries=checked_max_entries(max_entries),
                favour=favour,
                after_power_cut=after_power_cut,
                evict=checked_choice("evict", evict),
                ordered=checked_choice("ordered", ordered),
                lock_timeout_s=checked_lock_timeout(lock_timeout),
                read_only=read_only,
                exact=self._exact,
                objects=objects,
            )
            store = self._described()
            store.title = self._title()
            if name is None:
                _private[store.id] = store
            else:
                _named[name] = store
        for option, given, kept in (
            ("evict", evict, store.evicts),
            ("ordered", ordered, store.ordered),
        ):
            if given is not None and given != kept:
                message = f"{store.title} keeps {option} {kept}, not {given}: omit {option}"
                warnings.warn(message, SizeMismatchWarning, stacklevel=3)

    def _no_files(self, path: Union[str, os.PathLike[str]]) -> str:
        return (
            f"{os.fsdecode(path)!r} is a path, and this cache is in one process; give a name such "
            "as 'pages', omit it, or use tuckbox.Cache for a file"
        )

    def resize(
        self,
        size: Union[float, str, None] = None,
        *,
        max_entries: Union[int, Literal["keep"], None] = "keep",
        favour: Optional[Favour] = None,
    ) -> None:
        """Give the cache other limits. Entries that do not fit are evicted.

        Args:
            size: The maximum of the memory for entries, as for `Cache`; None keeps it.
            max_entries: The maximum number of entries; None is no limit, "keep" keeps it.
            favour: Has no effect.

        Raises:
            InvalidSize, InvalidMaxEntries, InvalidFavour: An argument is invalid.
            CacheReadOnly, CacheClosed: The cache cannot be written.

        Example:
            >>> cache = Cache("pages", size="64 MB")
            >>> cache.resize("128 MB", max_entries=100_000)
            >>> cache.size, cache.max_entries
            (128000000, 100000)
        """
        limit = None if max_entries == "keep" else checked_max_entries(max_entries) or 0
        self._resize(None if size is None else parse_size(size), limit, favour)

    def _title(self) -> str:
        return "this cache" if self._name is None else f"the cache {self._name!r}"

    def _place(self) -> str:
        self._described()
        return "private" if self._name is None else f"{self._name!r} in this process"

    def _within(self, name: str) -> Namespace:
        return _Namespace(self, name)  # type: ignore[arg-type] # As below.

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the name and the options, not the entries.

        Raises:
            CacheClosed: The cache is closed.
            TypeError: The handle has a secret, and the pickle is not for a child process.
        """
        self._described()
        if self.closed:
            raise CacheClosed(f"{self!r} cannot be pickled or copied; open it again first")
        limits = (self.size, self.max_entries, self.lock_timeout)
        choices = (self.read_only, self.favour, self.after_power_cut)
        own = (self._objects, self.evicts, self.ordered)
        state = {name: value for name, value in vars(self).items() if name not in _OWN}
        return _reopen, (type(self), self._name, self.id, *limits, *choices, *own), state or None


_OWN = frozenset(
    ("_store", "_is_open", "_name", "_favour", "_after_power_cut", "_lock_timeout_s", "_read_only",
     "_is_exact", "_objects")
)  # fmt: skip
"""The attributes of a handle that `__init__` sets."""

MutableMapping.register(Cache)


class _Namespace(Namespace, Cache):  # type: ignore[misc] # For types, one of `tuckbox.Cache`.
    """A namespace of a cache in this process."""


def _reopen(  # noqa: PLR0917 - Pickle passes positional arguments.
    kind: type[Cache],
    name: Optional[str],
    id_: bytes,
    size_bytes: int,
    max_entries: Optional[int],
    lock_timeout_s: float,
    read_only: bool,
    favour: Favour,
    after_power_cut: AfterPowerCut,
    objects: Objects,
    evicts: bool = True,
    ordered: bool = False,
) -> Cache:
    cache = kind.__new__(kind)
    with _opening:
        store = _private.get(id_) if name is None else _named.get(name)
        if store is None and name is None:
            raise CacheLost(
                None,
                "a cache without a name can only be unpickled in its own process, while a handle "
                "of it is in use; give it a name",
            )
        if store is None:
            store = Store(size_bytes, max_entries, evicts=evicts, ordered=ordered)
            _named[cast("str", name)] = store
        cache._name = name
        Core.__init__(
            cache,
            store,
            favour=favour,
            after_power_cut=after_power_cut,
            lock_timeout_s=lock_timeout_s,
            read_only=read_only,
            exact=kind._exact,
            objects=objects,
        )
    return cache


def _after_in_child() -> None:
    # A thread of the parent that held the lock does not exist in the child.
    global _opening  # noqa: PLW0603 - A lock cannot be reset in place.
    _opening = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_in_child)
