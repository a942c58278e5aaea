"""An ordered mapping in a directory, as DiskCache has it.

Owns the methods of a mapping. Storage, locking and the order of the entries belong to `Cache`, of
which this module uses only public methods.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import (
    Generator,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    ValuesView,
)
from contextlib import contextmanager
from typing import Any, Callable, Optional, TypeVar, Union

from tuckbox.compat.diskcache.core import Cache
from tuckbox.compat.diskcache.settings import ENOVAL

__all__ = ["Index"]

_F = TypeVar("_F", bound=Callable[..., Any])


class Index(MutableMapping):  # type: ignore[type-arg] # As DiskCache has it, without parameters.
    """A mapping that processes share through a directory, in the order of insertion.

    No entry is ever evicted, and none expires.

    Args:
        args: First the directory, which may be left out or None for a temporary directory. Then,
            as for `dict`, a mapping or pairs.
        kwargs: Further entries.

    Raises:
        OSError: The directory cannot be made or used.

    Example:
        >>> index = Index({"a": 1}, b=2)
        >>> index["c"] = 3
        >>> list(index.items())
        [('a', 1), ('b', 2), ('c', 3)]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        directory: Optional[str] = None
        if args and (args[0] is None or isinstance(args[0], (str, bytes))):
            directory, *others = args
        else:
            others = list(args)
        self._cache = Cache(directory, eviction_policy="none")
        self._update(*others, **kwargs)

    # What the class itself calls, so that a subclass may override `update`.
    _update = MutableMapping.update

    @classmethod
    def fromcache(cls, cache: Cache, *args: Any, **kwargs: Any) -> Index:
        """Return an index that stores its entries in an open cache.

        Args:
            cache: Where the entries are.
            args: A mapping or pairs, as for `dict`.
            kwargs: Further entries.

        Returns:
            The index, which shares ``cache``.

        Example:
            >>> cache = Cache()
            >>> Index.fromcache(cache, {"a": 1})["a"]
            1
        """
        self = cls.__new__(cls)
        self._cache = cache
        self._update(*args, **kwargs)
        return self

    @property
    def cache(self) -> Cache:
        """The cache that holds the entries."""
        return self._cache

    @property
    def directory(self) -> str:
        """The directory of the index."""
        return self._cache.directory

    def __getitem__(self, key: object) -> Any:
        return self._cache[key]

    def __setitem__(self, key: object, value: object) -> None:
        self._cache[key] = value

    def __delitem__(self, key: object) -> None:
        del self._cache[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cache)

    def __reversed__(self) -> Iterator[Any]:
        return reversed(self._cache)

    def __len__(self) -> int:
        return len(self._cache)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.directory!r})"

    def __getstate__(self) -> Union[str, Cache]:
        return self.directory if self._cache.secret is None else self._cache

    def __setstate__(self, state: Union[str, Cache]) -> None:
        # It is a cache if it has a secret.
        self._cache = state if isinstance(state, Cache) else Cache(state, eviction_policy="none")

    def __eq__(self, other: object) -> bool:
        """Compare with a mapping; with an `Index` or an `OrderedDict`, by the order, too."""
        if not isinstance(other, Mapping):
            return NotImplemented
        if len(self) != len(other):
            return False
        if isinstance(other, (Index, OrderedDict)):
            return all(mine == others for mine, others in zip(self.items(), other.items()))
        return all(other.get(key, ENOVAL) == value for key, value in self.items())

    __hash__ = None  # type: ignore[assignment] # Its entries change.

    def setdefault(self, key: object, default: object = None) -> Any:
        """Return the value of a key; store the default first if there is none.

        Args:
            key: The key.
            default: What to store if the key is missing.

        Returns:
            The value that is stored.
        """
        while True:
            try:
                return self._cache[key]
            except KeyError:
                self._cache.add(key, default, retry=True)

    def peekitem(self, last: bool = True) -> tuple[Any, Any]:
        """Return the entry that was inserted last, or first, and leave it there.

        Args:
            last: Whether to return the last entry.

        Returns:
            Key and value.

        Raises:
            KeyError: The index is empty.
        """
        item: tuple[Any, Any] = self._cache.peekitem(last, retry=True)
        return item

    def pop(self, key: object, default: Any = ENOVAL) -> Any:
        """Remove an entry.

        Args:
            key: The key.
            default: What to return if the key is missing.

        Returns:
            The value, or the default.

        Raises:
            KeyError: The key is missing, and there is no default.
        """
        value = self._cache.pop(key, default=default, retry=True)
        if value is ENOVAL:
            raise KeyError(key)
        return value

    def popitem(self, last: bool = True) -> tuple[Any, Any]:
        """Remove the entry that was inserted last, or first.

        Args:
            last: Whether to remove the last entry.

        Returns:
            Key and value.

        Raises:
            KeyError: The index is empty.
        """
        with self.transact():
            key, value = self.peekitem(last)
            del self._cache[key]
        return key, value

    def push(self, value: object, prefix: Optional[str] = None, side: str = "back") -> Any:
        """Add a value at an end of a queue, under a new key.

        Args:
            value: What to add.
            prefix: Which queue: keys are ``PREFIX-NUMBER``, or numbers if it is None.
            side: ``"back"`` or ``"front"``.

        Returns:
            The key.

        Example:
            >>> index = Index()
            >>> index.push("first"), index.push("second")
            (500000000000000, 500000000000001)
            >>> index.pull()
            (500000000000000, 'first')
        """
        return self._cache.push(value, prefix, side, retry=True)

    def pull(
        self,
        prefix: Optional[str] = None,
        default: tuple[Any, Any] = (None, None),
        side: str = "front",
    ) -> tuple[Any, Any]:
        """Remove the entry at an end of a queue.

        Args:
            prefix: Which queue, as for `push`.
            default: What to return if the queue is empty.
            side: ``"front"`` or ``"back"``.

        Returns:
            Key and value, or the default.
        """
        item: tuple[Any, Any] = self._cache.pull(prefix, default, side, retry=True)
        return item

    def clear(self) -> None:
        """Remove all entries."""
        self._cache.clear(retry=True)

    def keys(self) -> KeysView[Any]:
        """Return a view of the keys, in their order.

        Returns:
            The view.
        """
        return KeysView(self)

    def values(self) -> ValuesView[Any]:
        """Return a view of the values, in their order.

        Returns:
            The view.
        """
        return ValuesView(self)

    def items(self) -> ItemsView[Any, Any]:
        """Return a view of the keys and values, in their order.

        Returns:
            The view.
        """
        return ItemsView(self)

    def memoize(
        self,
        name: Optional[str] = None,
        typed: bool = False,
        ignore: Iterable[Any] = (),
    ) -> Callable[[_F], _F]:
        """Return a decorator that stores the results of a function.

        Args:
            name: What the keys begin with; the full name of the function if None.
            typed: Whether arguments of different types have different keys.
            ignore: Positions and names of arguments that are not part of the key.

        Returns:
            The decorator. The decorated function has ``__cache_key__``, which returns the key for
            arguments.

        Raises:
            TypeError: The parentheses are missing: write ``@index.memoize()``.

        Example:
            >>> index = Index()
            >>> @index.memoize()
            ... def double(number):
            ...     return 2 * number
            >>> double(21), len(index)
            (42, 1)
        """
        decorator: Callable[[_F], _F] = self._cache.memoize(name, typed, ignore=ignore)
        return decorator

    @contextmanager
    def transact(self) -> Generator[None]:
        """Hold the lock of the cache for several operations, which other processes see as one.

        Returns:
            A context manager.

        Example:
            >>> index = Index(total=1)
            >>> with index.transact():
            ...     index["total"] += 1
            >>> index["total"]
            2
        """
        with self._cache.transact(retry=True):
            yield
