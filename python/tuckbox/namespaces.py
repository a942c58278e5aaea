"""`Namespace`: a part of a cache with the same operations.

Owns what differs from the whole cache, for every store: each store joins this class and its own
cache. How keys of a namespace differ from others is known to the store. Must not know files.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

from tuckbox.errors import CacheClosed, InvalidArgument

if TYPE_CHECKING:
    from tuckbox.cache import Cache
else:
    # Each store adds its own cache.
    Cache = object

__all__ = ["Namespace"]

_Self = TypeVar("_Self", bound="Namespace")

_NAME_BYTES_MAX = 255


class Namespace(Cache):
    """A part of a cache, as returned by ``cache.namespace("blog")``, with the same operations.

    Its keys are its own: the same key in the whole cache or in another namespace is another entry.
    Everything else is shared: size, eviction, tags, statistics, the file, and the handle. So
    ``evict`` reaches all namespaces, ``stats``, ``check``, ``resize``, ``copy_to`` and ``expire``
    concern the whole cache, and ``close`` closes the handle.

    Example:
        >>> blog = cache.namespace("blog")
        >>> blog["post:7"] = "Hello"
        >>> "post:7" in cache, list(blog)
        (False, ['post:7'])
        >>> blog.clear()
        >>> len(blog)
        0
    """

    _parent: Cache

    def __init__(self, parent: Cache, name: str) -> None:
        """Open a namespace. Use ``cache.namespace(name)``.

        Args:
            parent: The cache, or the namespace that contains this one.
            name: The name, of 1 to 255 bytes of UTF-8.

        Raises:
            InvalidArgument: The name is not a str, is empty or too long.
            CacheClosed: The cache is closed.

        Example:
            >>> blog = cache.namespace("blog")
            >>> blog
            <Namespace 'blog' of <Cache ...>>
        """
        checked = _checked(name)
        self._join(parent, checked)
        self._parent = parent
        self._names = (*parent._names, checked)  # noqa: SLF001 - Known here only.

    def clear(self) -> None:  # type: ignore[override]
        """Make the namespace empty, in a time that does not depend on the number of entries.

        No entry that was stored before is returned after it, in any process, and no value whose
        making began before is stored. The same holds for the namespaces in it. The entries use
        space until they are evicted; ``expire`` frees it at once. A cache that has no room for more
        namespaces may clear others as well.

        Raises:
            LockTimeout: A live process held the lock for longer than ``lock_timeout``.
            CacheReadOnly, CacheClosed, CacheLost: The cache cannot be written.

        Example:
            >>> blog = cache.namespace("blog")
            >>> blog["post:7"] = "Hello"
            >>> blog.clear()
            >>> blog.get("post:7") is None
            True
        """
        self._parent._advance_era(self._names[-1])  # noqa: SLF001 - Its store.

    def __repr__(self) -> str:
        """Return the name and the cache, such as ``<Namespace 'blog' of <Cache private>>``."""
        return f"<Namespace {self._names[-1]!r} of {self._parent!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the cache and the name, not the entries.

        Raises:
            CacheClosed: The cache is closed.
        """
        if self.closed:
            raise CacheClosed(f"{self!r} cannot be pickled or copied; open it again first")
        return type(self), (self._parent, self._names[-1])

    def __copy__(self: _Self) -> _Self:  # noqa: PYI019 - Self is not in Python 3.9.
        """Return the same namespace of another handle.

        Raises:
            CacheClosed: The cache is closed.
        """
        return type(self)(copy.copy(self._parent), self._names[-1])

    def __deepcopy__(self: _Self, memo: dict[int, Any]) -> _Self:  # noqa: PYI019 - As above.
        """Return the same namespace of another handle."""
        return self.__copy__()


def _checked(name: object) -> str:
    if not isinstance(name, str):
        kind = type(name).__name__
        raise InvalidArgument(f"the name of a namespace must be a str, not {kind}")
    try:
        len_bytes = len(str.encode(name))
    except UnicodeEncodeError:
        raise InvalidArgument(
            f"the name {name!r} of a namespace has a lone surrogate; use other characters"
        ) from None
    if not 0 < len_bytes <= _NAME_BYTES_MAX:
        raise InvalidArgument(
            f"the name of a namespace must have 1 to {_NAME_BYTES_MAX} bytes of UTF-8, and this "
            f"one has {len_bytes}"
        )
    return str.__str__(name)
