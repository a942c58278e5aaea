"""What ``keys``, ``values`` and ``items`` of a cache return.

As the views of a dict, they show the entries of the moment. Iteration reads each entry once, so an
entry that is evicted meanwhile is no error.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any, TypeVar

from tuckbox.keys import Key

__all__ = ["Items", "Keys", "Values", "newest_first"]


_Cache = TypeVar("_Cache", bound=Any)


def newest_first(cache: _Cache) -> _Cache:
    """Return the cache if it is ordered. Raises TypeError."""
    if not cache.ordered:
        raise TypeError("this cache is not reversible: create it with ordered=True")
    return cache


class Keys(KeysView[Key]):
    """The keys of a cache."""

    _mapping: Any

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the keys."""
        return iter(self._mapping)

    def __reversed__(self) -> Iterator[Key]:
        """Iterate over the keys of an ordered cache, the newest first."""
        keys: Iterator[Key] = reversed(self._mapping)
        return keys


class Values(ValuesView[Any]):
    """The values of a cache."""

    _mapping: Any

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the values."""
        values: Iterator[Any] = self._mapping._iter_values()  # noqa: SLF001 - For this module.
        return values

    def __reversed__(self) -> Iterator[Any]:
        """Iterate over the values of an ordered cache, the newest first."""
        values: Iterator[Any] = newest_first(self._mapping)._iter_values(True)  # noqa: SLF001
        return values

    def __contains__(self, value: object) -> bool:
        """Return whether an entry has this value, after a comparison with each."""
        return any(value is own or value == own for own in self)


class Items(ItemsView[Key, Any]):
    """The keys and values of a cache, as tuples."""

    _mapping: Any

    def __iter__(self) -> Iterator[tuple[Key, Any]]:
        """Iterate over the (key, value) tuples."""
        items: Iterator[tuple[Key, Any]] = self._mapping._iter_items()  # noqa: SLF001 - As above.
        return items

    def __reversed__(self) -> Iterator[tuple[Key, Any]]:
        """Iterate over the (key, value) tuples of an ordered cache, the newest first."""
        items: Iterator[tuple[Key, Any]] = newest_first(self._mapping)._iter_items(True)  # noqa: SLF001
        return items
