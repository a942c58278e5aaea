"""A deque in a directory, as DiskCache has it.

Owns positions, order and length. Storage, locking and the keys of the items belong to `Cache`,
of which this module uses only public methods.
"""

from __future__ import annotations

import operator
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, Callable, Optional, TypeVar, Union

from tuckbox.compat.diskcache.core import Cache
from tuckbox.compat.diskcache.settings import ENOVAL

__all__ = ["Deque"]

_R = TypeVar("_R")
_EMPTY = (None, ENOVAL)


def _comparison(compare: Callable[[Any, Any], Any]) -> Callable[[Any, object], Any]:
    """Return the method that compares two sequences item by item, and then by length."""

    def method(self: Deque, other: object) -> Any:
        if not isinstance(other, Sequence):
            return NotImplemented
        if compare in {operator.eq, operator.ne} and len(self) != len(other):
            return compare is operator.ne
        for mine, others in zip(self, other):
            if mine != others:
                return compare(mine, others)
        return compare(len(self), len(other))

    method.__name__ = f"__{compare.__name__}__"
    method.__doc__ = f"Compare with any sequence: {method.__name__}."
    return method


class Deque(Sequence):  # type: ignore[type-arg] # As DiskCache has it, without a parameter.
    """A double-ended queue that processes share through a directory.

    Items are those of `collections.deque`; none is ever evicted. Access to an end takes the same
    time at any length, access in the middle visits all items before it.

    Args:
        iterable: What to append.
        directory: Where the deque is; None makes a temporary directory.
        maxlen: The most items it keeps; None for no limit. Appending to a full deque discards an
            item at the other end.

    Raises:
        OSError: The directory cannot be made or used.

    Example:
        >>> deque = Deque("abc", maxlen=4)
        >>> deque.rotate(1)
        >>> deque.extend("de")
        >>> list(deque)
        ['a', 'b', 'd', 'e']
    """

    def __init__(
        self,
        iterable: Iterable[Any] = (),
        directory: Optional[str] = None,
        maxlen: Optional[float] = None,
    ) -> None:
        self._use(Cache(directory, eviction_policy="none"), maxlen)
        self._extend(iterable)

    @classmethod
    def fromcache(
        cls, cache: Cache, iterable: Iterable[Any] = (), maxlen: Optional[float] = None
    ) -> Deque:
        """Return a deque that stores its items in an open cache.

        Args:
            cache: Where the items are. Every entry of it is an item.
            iterable: What to append.
            maxlen: The most items it keeps; None for no limit.

        Returns:
            The deque, which shares ``cache``.

        Example:
            >>> cache = Cache()
            >>> list(Deque.fromcache(cache, [5, 6, 7]))
            [5, 6, 7]
        """
        self = cls.__new__(cls)
        self._use(cache, maxlen)
        self._extend(iterable)
        return self

    def _use(self, cache: Cache, maxlen: Optional[float]) -> None:
        self._cache = cache
        self._maxlen = float("inf") if maxlen is None else maxlen

    @property
    def cache(self) -> Cache:
        """The cache that holds the items."""
        return self._cache

    @property
    def directory(self) -> str:
        """The directory of the deque."""
        return self._cache.directory

    @property
    def maxlen(self) -> float:
        """The most items that the deque keeps; infinity if there is no limit.

        A smaller number takes effect at once: items at the left end are discarded.
        """
        return self._maxlen

    @maxlen.setter
    def maxlen(self, value: float) -> None:
        self._maxlen = value
        with self.transact():
            while len(self) > self._maxlen:
                self._popleft()

    __eq__ = _comparison(operator.eq)
    __ne__ = _comparison(operator.ne)
    __lt__ = _comparison(operator.lt)
    __gt__ = _comparison(operator.gt)
    __le__ = _comparison(operator.le)
    __ge__ = _comparison(operator.ge)
    __hash__ = None  # type: ignore[assignment] # Its items change.

    def __repr__(self) -> str:
        return f"{type(self).__name__}(directory={self.directory!r})"

    def __len__(self) -> int:
        return len(self._cache)

    def __iter__(self) -> Iterator[Any]:
        return self._values(is_reversed=False)

    def __reversed__(self) -> Iterator[Any]:
        return self._values(is_reversed=True)

    def _values(self, *, is_reversed: bool) -> Iterator[Any]:
        """Return the items; those that others remove meanwhile are left out."""
        for key in self._cache.iterkeys(reverse=is_reversed):
            try:
                value = self._cache[key]
            except KeyError:
                continue
            yield value

    def _at(self, index: int, operation: Callable[[Any], _R]) -> _R:
        """Apply an operation to the key at an index.

        If another process removed that item, the next one has the index.
        """
        size = len(self._cache)
        if -size <= index < size:
            keys = self._cache.iterkeys(reverse=index < 0)
            for key in islice(keys, index if index >= 0 else -index - 1, None):
                try:
                    return operation(key)
                except KeyError:
                    continue
        raise IndexError("deque index out of range")

    def __getitem__(self, index: int) -> Any:  # type: ignore[override] # No slices.
        return self._at(index, self._cache.__getitem__)

    def __setitem__(self, index: int, value: object) -> None:
        self._at(index, lambda key: self._cache.__setitem__(key, value))

    def __delitem__(self, index: int) -> None:
        self._at(index, self._cache.__delitem__)

    def __iadd__(self, iterable: Iterable[Any]) -> Deque:
        self._extend(iterable)
        return self

    def __getstate__(self) -> tuple[Union[str, Cache], float]:
        cache = self._cache
        return self.directory if cache.secret is None else cache, self.maxlen

    def __setstate__(self, state: tuple[Union[str, Cache], float]) -> None:
        place, maxlen = state
        # It is a cache if it has a secret.
        if not isinstance(place, Cache):
            place = Cache(place, eviction_policy="none")
        self._use(place, maxlen)

    def append(self, value: object) -> None:
        """Add an item at the right end.

        Args:
            value: Any value that `Cache` stores.
        """
        self._push(value, "back", self._popleft)

    def appendleft(self, value: object) -> None:
        """Add an item at the left end.

        Args:
            value: Any value that `Cache` stores.
        """
        self._push(value, "front", self._pop)

    def _push(self, value: object, side: str, discard: Callable[[], object]) -> None:
        if self._maxlen == float("inf"):
            self._cache.push(value, side=side, retry=True)
            return
        with self.transact():
            self._cache.push(value, side=side, retry=True)
            if len(self) > self._maxlen:
                discard()

    # What the class itself calls, so that a subclass may override the public methods.
    _append = append
    _appendleft = appendleft

    def extend(self, iterable: Iterable[Any]) -> None:
        """Add items at the right end.

        Args:
            iterable: The items.
        """
        for value in iterable:
            self._append(value)

    _extend = extend

    def extendleft(self, iterable: Iterable[Any]) -> None:
        """Add items at the left end, which reverses their order.

        Args:
            iterable: The items.
        """
        for value in iterable:
            self._appendleft(value)

    def clear(self) -> None:
        """Remove all items."""
        self._cache.clear(retry=True)

    def copy(self) -> Deque:
        """Return another handle of the same directory, with the same `maxlen`.

        DiskCache calls this a copy, too: both handles have the same items from then on.

        Returns:
            The other handle.
        """
        return type(self)(directory=self.directory, maxlen=self.maxlen)

    def count(self, value: object) -> int:
        """Count the items that are equal to a value.

        Args:
            value: What to look for.

        Returns:
            The number of such items.
        """
        return sum(item == value for item in self)

    def peek(self) -> Any:
        """Return the item at the right end, and leave it there.

        Returns:
            The item.

        Raises:
            IndexError: The deque is empty.
        """
        return self._end("peek", self._cache.peek, "back")

    def peekleft(self) -> Any:
        """Return the item at the left end, and leave it there.

        Returns:
            The item.

        Raises:
            IndexError: The deque is empty.
        """
        return self._end("peek", self._cache.peek, "front")

    def pop(self) -> Any:
        """Remove the item at the right end.

        Returns:
            The item.

        Raises:
            IndexError: The deque is empty.
        """
        return self._end("pop", self._cache.pull, "back")

    _pop = pop

    def popleft(self) -> Any:
        """Remove the item at the left end.

        Returns:
            The item.

        Raises:
            IndexError: The deque is empty.
        """
        return self._end("pop", self._cache.pull, "front")

    _popleft = popleft

    @staticmethod
    def _end(name: str, operation: Callable[..., Any], side: str) -> Any:
        _key, value = operation(default=_EMPTY, side=side, retry=True)
        if value is ENOVAL:
            raise IndexError(f"{name} from an empty deque")
        return value

    def remove(self, value: object) -> None:
        """Remove the first item that is equal to a value.

        Args:
            value: What to remove.

        Raises:
            ValueError: No item is equal to it.
        """
        for key in self._cache.iterkeys():
            try:
                if self._cache[key] == value:
                    del self._cache[key]
                    return
            except KeyError:
                continue  # Another process removed this item.
        raise ValueError("deque.remove(value): value not in deque")

    def reverse(self) -> None:
        """Reverse the order of the items, in one transaction."""
        with self.transact():
            keys = list(self._cache.iterkeys())
            for left, right in zip(keys[: len(keys) // 2], reversed(keys)):
                self._cache[left], self._cache[right] = self._cache[right], self._cache[left]

    def rotate(self, steps: int = 1) -> None:
        """Move items from the right end to the left, in one transaction.

        Args:
            steps: How many items to move. A negative number moves them from left to right.

        Raises:
            TypeError: ``steps`` is not an integer.
        """
        if not isinstance(steps, int):
            raise TypeError(f"steps must be an int, not {type(steps).__name__}")
        # The length counts expired entries of a cache that `fromcache` was given.
        with self.transact(), suppress(IndexError):
            size = len(self)
            rightwards = steps % size if size else 0
            if rightwards <= size // 2:
                for _ in range(rightwards):
                    self._appendleft(self._pop())
            else:
                for _ in range(size - rightwards):
                    self._append(self._popleft())

    @contextmanager
    def transact(self) -> Generator[None]:
        """Hold the lock of the cache for several operations, which other processes see as one.

        Returns:
            A context manager.

        Example:
            >>> deque = Deque([1, 2])
            >>> with deque.transact():
            ...     deque.append(deque.popleft() + deque.popleft())
            >>> list(deque)
            [3]
        """
        with self._cache.transact(retry=True):
            yield
