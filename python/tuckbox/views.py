"""What ``keys``, ``values`` and ``items`` of a cache return.

As the views of a dict, they show the entries of the moment. Iteration reads each entry once, so an
entry that is evicted meanwhile is no error.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any

from tuckbox.keys import Key

__all__ = ["Items", "Keys", "Values"]


class Keys(KeysView[Key]):
    """The keys of a cache."""

    _mapping: Any

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the keys."""
        return iter(self._mapping)


class Values(ValuesView[Any]):
    """The values of a cache."""

    _mapping: Any

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the values."""
        values: Iterator[Any] = self._mapping._iter_values()  # noqa: SLF001 - For this module.
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
