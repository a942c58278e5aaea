"""`Namespace`: a part of a cache with the same operations.

Owns what differs from the whole cache. How keys of a namespace differ from others is in the
extension (`crates/python/src/spaces.rs`). Must not know files or places.
"""

from __future__ import annotations

from typing import Any

from tuckbox.cache import Cache
from tuckbox.errors import CacheClosed

__all__ = ["Namespace"]


class Namespace(Cache):
    """A part of a cache, as returned by ``cache.namespace("blog")``, with the same operations.

    Its keys are its own: the same key in the whole cache or in another namespace is another entry.
    Everything else is shared: size, eviction, tags, statistics, the file, and the handle. So
    ``evict`` reaches all namespaces, ``stats``, ``check``, ``resize`` and ``expire`` concern the
    whole cache, and ``close`` closes the handle.

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
    _title: str

    def __init__(self, parent: Cache, name: str) -> None:
        """Open a namespace. Use ``cache.namespace(name)``.

        Args:
            parent: The cache, or the namespace that contains this one.
            name: The name, of 1 to 255 bytes of UTF-8.

        Raises:
            InvalidArgument: The name is empty or too long.
            TypeError: The name is not a str.
            CacheClosed: The cache is closed.

        Example:
            >>> Namespace(cache, "blog")["post:7"] = "Hello"
            >>> cache.namespace("blog")["post:7"]
            'Hello'
        """
        self._join(parent, name)
        self._parent = parent
        self._title = name

    def clear(self) -> None:  # type: ignore[override]
        """Make the namespace empty, in a time that does not depend on the number of entries.

        No entry that was stored before is returned after it, in any process. The same holds for the
        namespaces in it. The entries use space until they are evicted; ``expire`` frees it at once.
        A cache that has no room for more namespaces may clear others as well.

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
        self._begin_era()

    def __repr__(self) -> str:
        """Return the name and the cache, such as ``<Namespace 'blog' of <Cache private>>``."""
        return f"<{type(self).__name__} {self._title!r} of {self._parent!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the cache and the name, not the entries.

        Raises:
            CacheClosed: The cache is closed.
        """
        if self.closed:
            raise CacheClosed(f"{self!r} cannot be pickled or copied; open it again first")
        return type(self), (self._parent, self._title)
