"""`Surface`: what every cache has on top of the operations of its store.

The same for the shared file and for a store in this process. Must not know where the entries are.
Must not override ``get`` or ``set``: a Python frame would make them slower.
"""

from __future__ import annotations

import copy
from collections.abc import ItemsView, KeysView, ValuesView
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Final, Optional, SupportsIndex, TypeVar, Union

from typing_extensions import Self

from tuckbox.advice import explains_names
from tuckbox.aio import Asynchronous
from tuckbox.errors import CacheClosed
from tuckbox.keys import Key
from tuckbox.results import CheckReport, Loss, Stats
from tuckbox.views import Items, Keys, Values

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

    # Entries have no order. Without this, `reversed` would use `len` and the keys 0, 1, ...
    __reversed__ = None

    def keys(self) -> KeysView[Key]:
        """Return a view of all keys, in no particular order.

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

    def _copied(
        self,
        taken: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> Self:
        reopen, arguments, *attributes = self.__reduce__()
        copied: Self = reopen(*arguments)
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
