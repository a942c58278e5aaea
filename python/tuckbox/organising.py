"""`Organising`: namespaces, and operations on the entries of a tag or a prefix.

One implementation for all stores, so it uses what they have in common. Must not know files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Optional

from tuckbox.advice import explains_names
from tuckbox.errors import CacheLost, InvalidArgument
from tuckbox.keys import Key, Prefix
from tuckbox.namespaces import Namespace

__all__ = ["Organising"]

_SCANS_MAX = 10


class Organising:
    """Adds namespaces, and operations on the entries of a tag or a prefix, to a store."""

    __slots__ = ()

    if TYPE_CHECKING:
        # What it needs of the store, and its class of namespaces.
        def __iter__(self) -> Iterator[Key]: ...  # noqa: D105
        def _iter_tagged(self, tag: str) -> Iterator[Key]: ...
        def delete(self, key: Key, version: Optional[int] = None) -> bool: ...  # noqa: D102
        def _within(self, name: str) -> Namespace: ...

    # The namespaces in which this is, outermost first.
    _names: tuple[str, ...] = ()

    @explains_names
    def namespace(self, name: str) -> Namespace:
        """Return a part of the cache, which has the same operations.

        Args:
            name: The name, of 1 to 255 bytes of UTF-8. A version in it, such as ``"blog:v2"``,
                hides what older programs stored.

        Returns:
            A `Namespace`. Every process that gives the same name gets the same part. A namespace
            has namespaces of its own, which are cleared with it.

        Raises:
            InvalidArgument: The name is not a str, is empty or too long.
            CacheClosed: The cache is closed.

        Example:
            >>> cache.namespace("blog")["post:7"] = "Hello"
            >>> cache.namespace("blog").clear()
        """
        return self._within(name)

    @explains_names
    def scan(self, *, tag: Optional[str] = None, prefix: Optional[Prefix] = None) -> Iterator[Key]:
        """Iterate over the keys of a tag, or those that begin with a prefix.

        Visits all entries of the cache, so the time depends on their number.

        Args:
            tag: Only keys of entries with this tag.
            prefix: Only keys that begin with this: a str, bytes, or a tuple of the first items.

        Returns:
            An iterator, in the order of ``iter(cache)``, where each key that exists during the
            whole iteration comes exactly once.

        Raises:
            InvalidTag: ``tag`` is not a str, or is empty or too long.
            InvalidArgument: ``prefix`` is of another type.
            CacheClosed: The cache is closed.

        Example:
            >>> cache.set("user:42", "Ada", tags=["users"])
            >>> cache.set("post:7", "Hello")
            >>> list(cache.scan(tag="users")), list(cache.scan(prefix="post:"))
            (['user:42'], ['post:7'])
        """
        keys = iter(self) if tag is None else self._iter_tagged(tag)
        return keys if prefix is None else _beginning_with(keys, _checked(prefix))

    @explains_names
    def delete_prefix(self, prefix: Prefix) -> int:
        """Delete all keys that begin with a prefix.

        Visits all entries of the cache, so the time depends on their number. To empty a part of a
        cache in an instant, use a namespace or a tag. Entries that others store meanwhile may be
        kept.

        Args:
            prefix: A str for keys that are str, bytes for bytes, or a tuple of the first items of
                tuples.

        Returns:
            How many keys were deleted.

        Raises:
            InvalidArgument: ``prefix`` is of another type.
            CacheLost: The file was removed, replaced or resized meanwhile; call this again.
            As `delete`. Some of the keys may be deleted.

        Example:
            >>> cache.set_many({"user:1": "Ada", "user:2": "Bob", "post:7": "Hello"})
            >>> cache.delete_prefix("user:")
            2
            >>> list(cache)
            ['post:7']
        """
        checked = _checked(prefix)
        return sum(self.delete(key) for key in self._scanned(checked))

    def _scanned(self, prefix: Prefix) -> Iterator[Key]:
        """As `scan`. A resize ends a scan; then another one yields the keys that are left."""
        for _ in range(_SCANS_MAX - 1):
            with suppress(CacheLost):
                yield from self.scan(prefix=prefix)
                return
        yield from self.scan(prefix=prefix)


def _checked(prefix: object) -> Prefix:
    if isinstance(prefix, (str, bytes, tuple)):
        return prefix
    kind = type(prefix).__name__
    raise InvalidArgument(f"prefix must be a str, bytes or a tuple, not {kind}")


def _beginning_with(keys: Iterator[Key], prefix: Prefix) -> Iterator[Key]:
    for key in keys:
        if isinstance(prefix, tuple):
            if isinstance(key, tuple) and key[: len(prefix)] == prefix:
                yield key
        elif isinstance(key, type(prefix)) and key.startswith(prefix):  # type: ignore[arg-type]
            yield key
