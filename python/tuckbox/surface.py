"""`Surface`: what every cache has on top of the operations of its store.

The same for the shared file and for a store in this process. Must not know where the entries are.
Must not override ``get`` or ``set``: a Python frame would make them slower.
"""

from __future__ import annotations

import copy
import os
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Final, Optional, SupportsIndex, TypeVar, Union

from tuckbox.advice import explains_names
from tuckbox.aio import Asynchronous
from tuckbox.errors import CacheClosed, InvalidArgument, Unsupported
from tuckbox.keys import Key
from tuckbox.results import CheckReport, Loaded, Loss, Stats
from tuckbox.views import Items, Keys, Values, newest_first

if TYPE_CHECKING:
    # At run time a cache is one by registration: a metaclass would make each call slower.
    from collections.abc import MutableMapping

    _Mapping = MutableMapping[Key, Any]
else:
    _Mapping = object

__all__ = ["Surface"]

_Self = TypeVar("_Self", bound="Surface")

# None is a value.
_MISSING: Final = object()


class Surface(Asynchronous, _Mapping):
    """Views, shortcuts, named results and the context manager, for a class that is also a core."""

    if TYPE_CHECKING:
        # What it needs of the core, besides the operations of a mapping, ``add`` and ``set_many``.
        @property
        def closed(self) -> bool: ...  # noqa: D102
        @property
        def path(self) -> Optional[str]: ...  # noqa: D102
        def close(self) -> None: ...  # noqa: D102
        def __reduce__(self) -> tuple[Any, ...]: ...  # noqa: D105
        def _stats(self) -> dict[str, int]: ...
        def _check(self) -> dict[str, Any]: ...
        @property
        def ordered(self) -> bool: ...  # noqa: D102
        def _iter_keys(self, newest_first: bool = False) -> Iterator[Key]: ...
        def _peekitem(self, newest: bool) -> Optional[tuple[Key, Any]]: ...

    def __reversed__(self) -> Iterator[Key]:
        """Iterate over the keys of an ordered cache, the newest first.

        Raises:
            TypeError: The cache is not ordered.
        """
        return newest_first(self)._iter_keys(True)  # noqa: SLF001 - As of `self`.

    def peekitem(self, last: bool = True) -> tuple[Key, Any]:
        """Return the newest or the oldest entry of an ordered cache.

        Walks through the whole cache.

        Args:
            last: Whether to return the entry that was inserted last (the default), or first.

        Returns:
            A (key, value) tuple.

        Raises:
            KeyError: The cache has no entries.
            Unsupported: The cache is not ordered.
            EntryCorrupt: The key or the value cannot be decoded.
            CacheClosed: The cache is closed.

        Example:
            >>> from tuckbox import Cache
            >>> jobs = Cache(ordered=True)
            >>> jobs.set_many({"first": 1, "second": 2})
            >>> jobs.peekitem(), jobs.peekitem(last=False)
            (('second', 2), ('first', 1))
        """
        if not self.ordered:
            raise Unsupported(
                "peekitem needs an ordered cache: create it with ordered=True, or use popitem, "
                "which deletes any entry"
            )
        item = self._peekitem(last)
        if item is None:
            raise KeyError("peekitem(): the cache has no entries")
        return item

    def keys(self) -> KeysView[Key]:
        """Return a view of all keys: in the order of insertion if the cache is ordered.

        To iterate over it yields each key that exists during the whole iteration exactly once.
        Expired entries are skipped.

        Returns:
            A view, as of a dict. It shows the entries of the moment.

        Raises:
            EntryCorrupt: While iterating: a key cannot be decoded.
            CacheClosed: The cache is closed.

        Example:
            >>> cache.set_many({"a": 1, "b": 2})
            >>> sorted(cache.keys())
            ['a', 'b']
            >>> cache.keys() & {"b", "c"}
            {'b'}
        """
        return Keys(self._opened())

    def values(self) -> ValuesView[Any]:
        """Return a view of all values. See `keys`.

        Returns:
            A view, as of a dict. To search it compares each value.

        Raises:
            EntryCorrupt: While iterating: a key or value cannot be decoded.
            CacheClosed: The cache is closed.

        Example:
            >>> cache.set_many({"a": 1, "b": 2})
            >>> sum(cache.values())
            3
        """
        return Values(self._opened())

    def items(self) -> ItemsView[Key, Any]:
        """Return a view of all (key, value) tuples. See `keys`.

        Returns:
            A view, as of a dict.

        Raises:
            As `values`.

        Example:
            >>> cache.set_many({"a": 1, "b": 2})
            >>> sorted(cache.items())
            [('a', 1), ('b', 2)]
        """
        return Items(self._opened())

    def _opened(self: _Self) -> _Self:  # noqa: PYI019 - As `__enter__`.
        len(self)  # Raises CacheClosed.
        return self

    @explains_names
    def setdefault(
        self,
        key: Key,
        default: Any = None,
        ttl: Union[float, SupportsIndex, str, timedelta, None] = None,
    ) -> Any:
        """Return the value of ``key``; if it has none, store ``default`` and return that.

        Atomic over all processes: of several callers only one stores its default, and the others
        get that value.

        Args:
            key: A str, bytes, int, or a tuple of these.
            default: The value to store, of one of the types listed in `tuckbox.Cache`.
            ttl: Seconds, text such as "5m", or a timedelta, for ``default`` only.

        Returns:
            The value, or ``default``.

        Raises:
            As `get` and `set`.

        Example:
            >>> cache.setdefault("theme", "dark"), cache.setdefault("theme", "light")
            ('dark', 'dark')
        """
        while True:
            # Not `self.get`: that of a subclass may do something else on a miss.
            value = super().get(key, _MISSING)
            if value is not _MISSING:
                return value
            if super().add(key, default, ttl):  # type: ignore[misc]
                return default

    def update(self, other: Any = (), /, **values: Any) -> None:
        """Store the entries of a mapping, or of an iterable of pairs, as `set_many`.

        Args:
            other: A mapping, or an iterable of (key, value) pairs.
            **values: More values, with their keys as names.

        Raises:
            As `set_many`.

        Example:
            >>> cache.update({"a": 1}, b=2)
            >>> cache.update([(("user", 42), "Ada")])
            >>> len(cache)
            3
        """
        entries: dict[Key, Any] = dict(other.items() if hasattr(other, "items") else other)
        entries.update(values.items())
        self.set_many(entries)  # type: ignore[attr-defined]

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

    @explains_names
    def dump(self, path: Union[str, os.PathLike[str]]) -> int:
        """Write all fresh entries to a file, while others use the cache.

        Each entry is one that the cache had at some moment meanwhile. Every entry that exists
        during the whole dump is in it exactly once. The file has the entries of namespaces too; a
        namespace dumps its own, and those of the namespaces in it. Values are written as they are
        stored: none is decoded, and no signature is lost. Pins are kept. Leases of locks and
        semaphores are left out, because they mean nothing in another cache. The dump replaces a
        file at the path only when it is whole and on the disk; then only this user can read it
        (mode 0600).

        Args:
            path: The file to write, not the cache's own.

        Returns:
            How many entries were written.

        Raises:
            OSError: The file cannot be written, such as on a full disk or in a folder that does not
                exist. What was at the path is unchanged.
            Unsupported: The place cannot list its keys (memcached).
            CacheLost, CacheClosed: The cache cannot be read.

        Example:
            >>> cache.set("user:42", "Ada", ttl=300)
            >>> cache.dump("./app.dump")
            1
            >>> cache.clear(), cache.load("./app.dump").stored, cache.get("user:42")
            (1, 1, 'Ada')
        """
        from tuckbox.dumps import dump  # noqa: PLC0415 - So that importing Tuckbox is quick.

        with self._at_entries(is_writing=False) as place:
            return dump(place, path)

    @explains_names
    def load(self, path: Union[str, os.PathLike[str]], *, replace: bool = True) -> Loaded:
        """Store the entries of a file that `dump` has written. Any cache loads a dump of any other.

        Reads the whole file first, and stores nothing if it is damaged. No value is decoded. Each
        entry expires when it would have expired in the dumped cache; its tags count as given now.
        Pinned entries are pinned again; a cache on a server cannot pin, and the result says so. A
        dump of a namespace can be loaded into the whole cache or another namespace.

        Args:
            path: The file.
            replace: Whether to replace values that the cache has. If false, they are kept.

        Returns:
            How many entries were stored, and why others were not, as `Loaded`.

        Raises:
            DumpInvalid: The file is damaged, cut off or no dump. Nothing was changed.
            OSError: The file cannot be read. Nothing was changed.
            LockTimeout, CacheFull: The cache cannot be written. Some entries may be stored.
            CacheReadOnly, CacheClosed, CacheLost: The cache cannot be written.

        Example:
            >>> cache.set("a", 1)
            >>> cache.dump("./app.dump")
            1
            >>> cache.load("./app.dump", replace=False)
            Loaded(stored=0, present=1, expired=0, refused=0, unpinned=0, refusals=())
        """
        from tuckbox.dumps import load  # noqa: PLC0415 - As above.

        with self._at_entries(is_writing=True) as place:
            return load(place, path, replace=replace)

    @contextmanager
    def _at_entries(self, *, is_writing: bool) -> Iterator[Any]:  # noqa: ARG002 - For tiers.
        """Provide the cache that has the entries."""
        yield self

    @explains_names
    def copy_to(self, path: Union[str, os.PathLike[str]]) -> None:
        """Copy the file while others use the cache. The copy is a cache with the same entries.

        It has the entries of one moment, the same settings and the same ``id``, so signed pickles
        stay valid. Reads go on meanwhile, writes wait: to copy a large cache without that, `dump`
        it. The file gets its name only when it is whole and on the disk. Locks and semaphores that
        are held at that moment are held in the copy until their leases end; a dump leaves them out.

        Args:
            path: Where the copy is to be, as for `tuckbox.Cache`. No file may be there.

        Raises:
            FileExists: There is a file at the path. It was not changed.
            InvalidArgument: The cache has no file of its own: use `dump`.
            CacheFull, InvalidSize: The file system has no room for the copy, or never has.
            LockTimeout: A live process held a lock for longer than ``lock_timeout``.
            CacheOpenError: The new file cannot be created.
            CacheReadOnly, CacheClosed, CacheLost: The cache cannot be locked.

        Example:
            >>> cache = Cache("./app.tuck")
            >>> cache.set("user:42", "Ada")
            >>> cache.copy_to("./copy.tuck")
            >>> Cache("./copy.tuck").get("user:42")
            'Ada'
        """
        self._copy_file(path)

    def _copy_file(self, path: Union[str, os.PathLike[str]]) -> None:
        self._opened()
        raise InvalidArgument(
            f"{self!r} has no file of its own to copy to {os.fspath(path)!r}: use dump"
        )

    # Copying does not pickle, so that a handle with a secret can be copied.
    def __copy__(self: _Self) -> _Self:  # noqa: PYI019 - Self is not in Python 3.9.
        """Return another handle of the same cache.

        Raises:
            CacheClosed: The cache is closed.
        """
        return self._copied(lambda attributes: attributes)

    def __deepcopy__(self: _Self, memo: dict[int, Any]) -> _Self:  # noqa: PYI019 - As above.
        """Return another handle of the same cache, with copies of the attributes.

        Raises:
            CacheClosed: The cache is closed.
        """
        return self._copied(lambda attributes: copy.deepcopy(attributes, memo))

    def _copied(self: _Self, taken: Callable[[Any], Any]) -> _Self:  # noqa: PYI019 - As above.
        reopen, arguments, *attributes = self.__reduce__()
        copied: _Self = reopen(*arguments)
        vars(copied).update(taken(attributes[0] or {}) if attributes else {})
        return copied

    def __enter__(self: _Self) -> _Self:  # noqa: PYI019 - Self is not in Python 3.9.
        """Return the cache. The end of the ``with`` block closes it.

        Raises:
            CacheClosed: The cache is closed.
        """
        if self.closed:
            raise CacheClosed(f"{self!r} cannot be used in a with statement; open it again first")
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        """Close the cache."""
        self.close()

    def __repr__(self) -> str:
        """Return the place and the state, such as ``<Cache '/tmp/app.tuck' closed>``."""
        name = type(self).__name__
        try:
            place = self._place()
        except CacheClosed:
            return f"<{name} never opened>"
        return f"<{name} {place}{' closed' if self.closed else ''}>"

    def _place(self) -> str:
        return "private" if self.path is None else repr(self.path)
