"""`Store`: what loading, tags, namespaces and async need from the place that holds the entries.

The shared file (`tuckbox.Cache`) and `tuckbox.memory` are stores. Whatever is built on a store
works on each, so nothing here may assume a file, shared memory, or a single machine.

**The four states of an entry.** A store shows an entry to its operations as follows:

- *fresh*: it has a value, its ttl has not ended, and none of its tags was evicted.
- *stale*: its ttl has ended but not the ``stale`` time after it, or one of its tags was evicted
  with ``soft``. Only ``_begin`` and ``get_entry(stale=True)`` see it. To every other operation it
  is missing: ``add`` replaces it, ``delete`` and ``touch`` return False.
- *expired*: its ttl and its ``stale`` time have ended. It is missing to every operation.
- *invalid*: one of its tags was evicted after the making of its value began. It is missing to every
  operation, whatever its ttl.

An entry without tags and ``stale`` is fresh, and then expired. A store may evict any entry at any
moment. Then the entry is missing, which is never an error.

**Time.** A ttl and ``stale`` are lengths of time: seconds, text such as ``"5m"``, or a timedelta. A
moment is a float in seconds since 1970, by the store's clock.

**Errors** are those of `tuckbox.errors`. Arguments are checked before anything changes. An
operation on one key that raises has changed nothing. After ``close``, every operation except
``close`` and ``closed`` raises CacheClosed.

Every operation is atomic, and safe to call from any thread, and from any process that the store
serves.

**Event loops.** Inside of `tuckbox.brief.briefly`, an operation that would wait or work for long
raises WouldBlock and has changed nothing: a lease lasts, also after a ``_finish`` or ``_abandon``.
The caller repeats it. A store that can wait calls `tuckbox.brief.refuse_if_brief` before it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final, Optional, Protocol, SupportsIndex, Union, runtime_checkable

from tuckbox.keys import Key
from tuckbox.results import Entry

__all__ = ["BUSY", "FOUND", "LEASE", "Begun", "Store", "Token", "Ttl"]

Ttl = Union[float, SupportsIndex, str, timedelta, None]
"""A length of time as users write it; None is without end."""

Token = object
"""A lease: hashable, and of use only to the store and the process that gave it."""

Begun = tuple[int, Optional[Entry], Optional[Token]]
"""What ``_begin`` returns: a state, an entry, and a token."""

FOUND: Final = 0
"""There is a fresh entry. The entry is that; there is no token."""
LEASE: Final = 1
"""The caller makes the value. The entry is the present one or None; the token is the lease."""
BUSY: Final = 2
"""Another caller makes the value. The entry is the present one or None; there is no token."""


@runtime_checkable
class Store(Protocol):
    """The operations of a store. See the module for the states of an entry and for errors.

    A key is a `Key`. A value is an object of the types that the store accepts; it comes back as an
    independent copy, equal and of the same type.

    ``isinstance(store, Store)`` checks that the methods exist.

    Example:
        >>> from tuckbox.contract import LEASE
        >>> state, entry, token = cache._begin("report", False)
        >>> state == LEASE, entry
        (True, None)
        >>> cache._finish(token, "report", [1, 2], 60, None, (), 0.5)
        True
        >>> cache.get("report")
        [1, 2]
    """

    # --- Reading ---------------------------------------------------------------------------------

    def get(self, key: Key, default: Any = None) -> Any:
        """Return the value of a fresh entry, or ``default``. A lookup: see `Cache` on keys."""

    def get_entry(self, key: Key, *, stale: bool = False) -> Optional[Entry]:
        """Return an entry.

        Args:
            key: The key.
            stale: Whether to return a stale entry as well.

        Returns:
            The `Entry`, or None if it is missing. Its fields:

            - ``value``: the value.
            - ``expiry``: the moment at which its ttl ends, without the ``stale`` time; None is
              never.
            - ``version``: a positive int. Each change of the value gives the entry a version that
              this key has not had before. ``touch`` may keep it.
            - ``tags``: a tuple of its tags, sorted.
            - ``stale``: False if it is fresh. Always False unless the argument ``stale`` is true.
            - ``made_s``: how many seconds making the value took, if ``_finish`` stored it; None if
              not.
        """

    def get_many(self, keys: Iterable[Key]) -> dict[Any, Any]:
        """Return a dict of the given keys that have a fresh entry, to their values."""

    def __contains__(self, key: object) -> bool:
        """Return whether there is a fresh entry."""

    def ttl(self, key: Key) -> Optional[float]:
        """Return for how many seconds an entry is fresh.

        Returns:
            A float; `math.inf` if its ttl does not end; None if there is no fresh entry.
        """

    def __len__(self) -> int:
        """Return the number of entries. May include expired and invalid ones.

        Without a namespace, those of all namespaces are included.
        """

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the keys of fresh entries, in no particular order.

        Without a namespace, those of namespaces are not included.
        """

    def _iter_tagged(self, tag: str) -> Iterator[Key]:
        """Iterate over the keys of fresh entries with a tag, as ``__iter__``.

        Raises:
            InvalidTag: As for ``evict``.
        """

    # --- Writing ---------------------------------------------------------------------------------
    #
    # `ttl`, `tags` and `stale` belong to the stored entry, and replace those of the old one. With
    # `keep_ttl`, a fresh entry keeps the moment at which its ttl ends; then `ttl` is for a new one.

    def set(
        self,
        key: Key,
        value: Any,
        ttl: Ttl = None,
        *,
        tags: Iterable[str] = (),
        stale: Ttl = None,
        keep_ttl: bool = False,
        pinned: bool = False,
    ) -> None:
        """Store a value, whatever the key had.

        Args:
            key: The key.
            value: The value.
            ttl: How long the entry is fresh.
            tags: Names for ``evict``: an iterable of str, but not a str. Duplicates count once.
            stale: How long it is kept stale after that; None is not at all. Without a ttl it has no
                effect.
            keep_ttl: Whether a fresh entry keeps the end of its ttl.
            pinned: Whether the entry is never evicted. A store that evicts by rules of its own
                refuses it.

        Raises:
            InvalidArgument: ``keep_ttl`` or ``pinned`` is not a bool.
            Unsupported: The store cannot promise what ``pinned`` asks for.
            InvalidTag: ``tags`` is not an iterable of str, or one of them is empty or too long, or
                there are too many.
            InvalidTTL: ``ttl`` or ``stale`` is not a length of time.
        """

    def add(
        self,
        key: Key,
        value: Any,
        ttl: Ttl = None,
        *,
        tags: Iterable[str] = (),
        stale: Ttl = None,
        pinned: bool = False,
    ) -> bool:
        """Store a value if the entry is missing or stale. Return whether it was stored."""

    def replace(
        self,
        key: Key,
        value: Any,
        ttl: Ttl = None,
        *,
        tags: Iterable[str] = (),
        stale: Ttl = None,
        keep_ttl: bool = False,
        pinned: bool = False,
    ) -> bool:
        """Store a value if there is a fresh entry. Return whether it was stored."""

    def cas(
        self,
        key: Key,
        value: Any,
        version: int,
        ttl: Ttl = None,
        *,
        tags: Iterable[str] = (),
        stale: Ttl = None,
        keep_ttl: bool = False,
        pinned: bool = False,
    ) -> bool:
        """Store a value if there is a fresh entry with this version.

        Returns:
            Whether it was stored.

        Raises:
            InvalidVersion: ``version`` is not an int from 0 to 2**64 - 1.
        """

    def set_many(
        self,
        mapping: Mapping[Any, Any],
        ttl: Ttl = None,
        *,
        tags: Iterable[str] = (),
        stale: Ttl = None,
        pinned: bool = False,
    ) -> None:
        """Store several values, each as `set` does. Not atomic as a whole."""

    def touch(self, key: Key, ttl: Ttl = None) -> bool:
        """Give a fresh entry another ttl, counted from now. Return whether there was one.

        The ``stale`` time of the entry, its tags and its value are kept.
        """

    def get_and_touch(self, key: Key, ttl: Ttl = None, default: Any = None) -> Any:
        """Return the value of a fresh entry and `touch` it, as one operation; or ``default``."""

    def incr(self, key: Key, delta: int = 1, default: Optional[int] = 0, ttl: Ttl = None) -> int:
        """Add to the int of a fresh entry, which keeps its ttl and tags. Return the sum.

        If the entry is missing or stale, it is stored as ``default + delta`` with ``ttl``; with
        ``default=None``, KeyError is raised.
        """

    # --- Deleting: each of these refuses the leases of the keys it deletes -----------------------

    def delete(self, key: Key, version: Optional[int] = None) -> bool:
        """Delete an entry, fresh or not.

        Args:
            key: The key.
            version: If given, delete only a fresh entry with this version.

        Returns:
            Whether there was a fresh entry. Without a version, the leases of the key are refused in
            any case: what is being made may be older than the reason for the delete.
        """

    def delete_many(self, keys: Iterable[Key]) -> int:
        """Delete several entries as `delete` does. Return how many of them were fresh."""

    def pop(self, key: Key, *default: Any) -> Any:
        """Delete an entry as `delete` does and return its value, if it was fresh.

        If it was not, return ``default``, or raise KeyError if that is not given.
        """

    def clear(self) -> Optional[int]:
        """Delete all entries and refuse all leases.

        Returns:
            The number of deleted entries. None of a namespace, which does not count them: it
            advances its era.
        """

    def expire(self) -> int:
        """Free the space of expired and invalid entries, and of former eras of namespaces.

        Returns:
            How many there were.
        """

    def evict(self, *, tag: str, soft: bool = False) -> None:
        """Make every entry with a tag invalid, in a time that does not depend on their number.

        It counts for entries stored before it, and for values whose making began before it.
        Entries whose making begins after it are not affected. A store that has too many tags to
        know each of them may make more entries invalid, never fewer.

        Args:
            tag: The tag.
            soft: If true, the entries become stale instead, and are kept for as long as their
                ttl and ``stale`` time would have kept them.

        Raises:
            InvalidTag: ``tag`` is not a str, or is empty or too long.
        """

    # --- Leases: one maker at a time -------------------------------------------------------------

    def _begin(self, key: Key, force: bool) -> Begun:
        """Return the fresh entry, or make the caller its maker.

        A caller that gets LEASE must call ``_finish`` or ``_abandon`` with the token, from any
        thread of the same process. Until then, and as long as that process lives, every other
        ``_begin`` of the key returns BUSY, also to the thread that has the lease.

        Args:
            key: The key.
            force: Whether to make the value also if there is a fresh entry. Then the state is never
                FOUND.

        Returns:
            A state, an entry and a token:

            - ``(FOUND, entry, None)``: the entry is fresh.
            - ``(LEASE, entry, token)``: the caller makes the value. The entry is fresh (only with
              ``force``), stale, or None.
            - ``(BUSY, entry, None)``: another caller makes it; then as LEASE. Wait with
              ``_wait_made``, or use the entry.

            A store that cannot keep another lease may return LEASE to several callers. The rules of
            ``_finish`` hold for each of them.

        Raises:
            CacheReadOnly: The store cannot be written, and the state would not be FOUND.
        """

    def _finish(  # noqa: PLR0917 - All are given at each call.
        self,
        token: Token,
        key: Key,
        value: Any,
        ttl: Ttl,
        stale: Ttl,
        tags: Iterable[str],
        made_s: Optional[float],
    ) -> bool:
        """Store the value that was made, end the lease, and wake the waiters.

        The lease ends whatever happens, also if this raises.

        Args:
            token: The lease, as returned by ``_begin`` of this process for this key.
            key: The key.
            value: The value.
            ttl: As for `set`. It counts from now.
            stale: As for `set`.
            tags: As for `set`.
            made_s: How many seconds making the value took, for ``Entry.made_s``; None if unknown.

        Returns:
            True if the value was stored. False if it was refused, because one of these happened
            after the ``_begin``:

            - the key was deleted, or the store was cleared;
            - another value was stored under the key, or its int was changed; an entry that has
              become missing without that is no reason;
            - one of ``tags`` was evicted. With ``soft``, the value is stored and is stale;
            - the store lost the lease: it ended, or the store was replaced.

            A store may refuse for less, but rarely. It never stores a value that it must refuse.
        """

    def _abandon(self, token: Token) -> None:
        """End a lease without a value, and wake the waiters. Of a lease that ended, does nothing.

        It is safe after a fork: in a child, it does nothing to the leases of its parent.
        """

    def _wait_made(self, key: Key, timeout_s: float) -> bool:
        """Wait until nobody holds the lease of a key.

        Signal handlers run meanwhile, and their exceptions end the wait. Other threads run.

        Args:
            key: The key.
            timeout_s: At most so many seconds; 0 only looks; infinity is no limit.

        Returns:
            True if nobody holds the lease: it ended, or its process did. False if the time is over.
            Then call ``_begin`` again: the value may be there, or the caller may be the next maker.
        """

    # --- Namespaces ------------------------------------------------------------------------------
    #
    # A namespace is an object of the store's class that has joined a parent. The store puts the
    # names of the namespace and its parents, each with its era, before each of its keys. So to
    # advance the era makes the entries of the namespace unreachable, and those of the namespaces in
    # it: reads miss them, and a lease on one of them is refused. They are evicted or expire like
    # others.

    def _join(self, parent: Any, name: str) -> None:
        """Become a namespace of a store or namespace. Called once, instead of opening a store.

        The two share the handle: its entries, its limits, its leases, and whether it is closed.

        Args:
            parent: An open store or namespace of this class.
            name: The name, of 1 to 255 bytes of UTF-8.
        """

    def _era(self, name: str) -> int:
        """Return the era of a namespace of this one: a positive int, the same until it advances."""

    def _advance_era(self, name: str) -> int:
        """Give a namespace of this one an era that it has never had, for every user of the store.

        A store that has too many namespaces to know each of them may advance the eras of others
        too.

        Returns:
            The era.
        """

    # --- The handle ------------------------------------------------------------------------------

    def close(self) -> None:
        """Close this handle. Its leases end as by ``_abandon``. Twice does nothing."""

    @property
    def closed(self) -> bool:
        """Whether this handle is closed."""
