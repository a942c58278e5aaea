"""`Tiering`: the operations of a cache that stands in front of another one.

Owns what goes to which tier, and what happens when the far one does not answer. Joined with the
class of the near tier, whose own operations are `super()`. Must not know files or servers.

Reads ask the near tier, then the far one, and leave a copy near. Writes go to the far tier, and
remove the copy. Of a value that is being fetched, the near tier has a lease, so a change that comes
in between refuses the copy.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, NoReturn, Optional, TypeVar

from tuckbox.choices import OnOutage
from tuckbox.contract import BUSY, FOUND, LEASE, Begun, Token, Ttl
from tuckbox.errors import (
    CacheFull,
    CacheReadOnly,
    DriverError,
    EntryCorrupt,
    InvalidArgument,
    KeyTypeError,
    LockTimeout,
    ValueTooLarge,
)
from tuckbox.keys import Key
from tuckbox.loads import MISSING
from tuckbox.memory import keys as encoding
from tuckbox.results import Entry
from tuckbox.tiers.coverage import Coverage

if TYPE_CHECKING:
    from tuckbox.cache import Cache
    from tuckbox.remote.store import Change
else:
    Cache = object

__all__ = ["Health", "Tiering", "Tiers"]

_T = TypeVar("_T")

_COVERED = ("tuckbox", "tiers", "covered")
"""The key of the near tier that has the moment of the last confirmation, in microseconds."""
_OUTAGE = "tuckbox outage"
"""The near tier's namespace for what is made while the far tier does not answer."""
_CONFIRMATIONS = 5
"""How many confirmations there are in ``max_stale``."""

_CHOICES = ("miss", "serve", "raise")

_NOT_KEPT = (CacheFull, LockTimeout, ValueTooLarge)
"""Why a near tier may be unable to keep a copy."""


class Health(NamedTuple):
    """How a cache with tiers is doing. Counts are those of this handle."""

    is_listening: Optional[bool]
    """Whether the far tier tells this process its changes; None without tracking."""
    serves_near: bool
    """Whether the near tier serves its entries now."""
    far_hits: int
    """Reads that the far tier has answered with a value."""
    far_misses: int
    """Reads that neither tier had."""
    far_errors: int
    """Operations that the far tier did not answer, or refused."""
    changes: int
    """Changes that were told, and applied to the near tier."""
    gaps: int
    """How often changes may have been missed, and the near tier was cleared."""
    error: Optional[str]
    """The last error of the far tier; None if it has answered since."""


class Tiers:
    """What a cache with tiers and its namespaces share.

    Args:
        max_stale_s: How old a near entry may be, in seconds, unless the far tier tells what
            changes.
        on_outage: What reads do that need a far tier which does not answer.
        is_tracked: Whether the far tier is to tell what changes, if it can.
    """

    def __init__(self, max_stale_s: float, on_outage: OnOutage, *, is_tracked: bool) -> None:
        self.max_stale_s = max_stale_s
        self.on_outage = on_outage
        self.is_tracked = is_tracked
        self.coverage: Optional[Coverage] = None
        self.counts = dict.fromkeys(("far_hits", "far_misses", "far_errors"), 0)
        self.error: Optional[str] = None
        self._counting = threading.Lock()

    @classmethod
    def checked(cls, max_stale: Any, on_outage: OnOutage, tracking: object) -> Tiers:
        """Return these for the arguments of `tuckbox.connect`. Raises InvalidArgument."""
        is_number = isinstance(max_stale, (int, float)) and not isinstance(max_stale, bool)
        if not is_number or not 0 < max_stale < math.inf:
            raise InvalidArgument(
                f"max_stale must be a positive number of seconds, not {max_stale!r}"
            )
        if on_outage not in _CHOICES:
            raise InvalidArgument(f"on_outage must be one of {_CHOICES}, not {on_outage!r}")
        if not isinstance(tracking, bool):
            raise InvalidArgument(f"tracking must be True or False, not {tracking!r}")
        return cls(float(max_stale), on_outage, is_tracked=tracking)

    def count(self, name: str, more: int = 1) -> None:
        """Count reads or errors."""
        with self._counting:
            self.counts[name] += more

    def failed(self, error: DriverError) -> None:
        """Count an error of the far tier, and keep its text."""
        self.count("far_errors")
        self.error = str(error)


class _Fetch(NamedTuple):
    """The lease of a maker: of the far tier, and of the near one for the copy.

    Without the far one, the far tier did not answer when the making began.
    """

    far: Optional[Token]
    near: Optional[Token]
    outage: Optional[Token] = None


class Tiering(Cache):
    """Adds a far tier to the class of a near one."""

    _far: Any
    _tiers: Tiers
    # The near tier's own `get`, and how it is opened as a namespace without tiers.
    _near_get: Callable[..., Any]
    _near_within: Callable[..., Any]

    if TYPE_CHECKING:

        def _now_us(self) -> int: ...
        def _serve_until(self, time_us: int) -> None: ...
        def _served_until(self) -> Any: ...
        def _is_ahead(self, moment: Any) -> bool: ...
        def _serve_with(self, other: Any) -> None: ...

    def __init__(
        self,
        far: Any,
        path: Any = None,
        *,
        max_stale: float = 5.0,
        on_outage: OnOutage = "miss",
        tracking: bool = True,
        **options: Any,
    ) -> None:
        """Open the near tier, in front of a cache. See the classes."""
        tiers = Tiers.checked(max_stale, on_outage, tracking)
        super().__init__(path, **options)
        self._far = far
        self._tiers = tiers
        self._outage_space: Any = None
        watched = _watched(far) if tiers.is_tracked else None
        if watched is None:
            # Copies end by themselves.
            self._serve_until(_FOREVER)
            return
        inner = far._tiers.coverage if isinstance(far, Tiering) else None
        coverage = inner or Coverage(
            lambda changed: watched.driver.watch(watched.prefix, changed),
            tiers.max_stale_s / _CONFIRMATIONS,
        )
        tiers.coverage = coverage
        coverage.add(_Side(self, watched.change_of))
        if tiers.on_outage == "serve":
            self._serve_until(_FOREVER)

    def health(self) -> Health:
        """Return how the tiers are doing.

        Returns:
            A `Health`.

        Example:
            >>> cache.set("a", 1)
            >>> cache.get("a"), cache.health().far_hits, cache.health().far_errors
            (1, 1, 0)
        """
        tiers, coverage = self._tiers, self._tiers.coverage
        return Health(
            is_listening=None if coverage is None else coverage.is_listening,
            serves_near=self._is_ahead(self._served_until()),
            changes=0 if coverage is None else coverage.changes,
            gaps=0 if coverage is None else coverage.gaps,
            error=tiers.error or (coverage.error if coverage else None),
            **tiers.counts,
        )

    # --- Fetching ------------------------------------------------------------------------------

    def _missed(self, key: Any, default: Any) -> Any:
        """Answer a `get` that the near tier has not answered."""
        entry = self._fetch(key)
        return default if entry is None else entry.value

    def _fetch(self, key: Any) -> Optional[Entry]:
        """Return a fresh entry of either tier. Its expiry is that of the copy."""
        tiers = self._tiers
        coverage = tiers.coverage
        if coverage is not None and not coverage.is_listening_here:
            coverage.start()
            self._serve_as_told()
        # Before the look at the entry: in between, the tier may be cleared and serve again.
        until, asked_us = self._served_until(), self._now_us()
        state, entry, lease = self._begin_copy(key)
        if state == FOUND and self._is_ahead(until):
            return entry
        try:
            entry = _fetched(self._far, key)
        except DriverError as error:
            tiers.failed(error)
            self._drop(lease)
            return self._in_outage(key, error)
        except BaseException:
            self._drop(lease)
            raise
        tiers.error = None
        tiers.count("far_misses" if entry is None else "far_hits")
        return self._copied_from(lease, key, entry, asked_us)

    def _serve_as_told(self) -> None:
        """Serve for as long as another process of this machine has confirmed."""
        if self._tiers.on_outage != "serve":
            covered_us = type(self)._near_get(self, _COVERED)
            if isinstance(covered_us, int):
                self._serve_until(covered_us + round(self._tiers.max_stale_s * 1e6))

    def _begin_copy(self, key: Any) -> Begun:
        """Take a lease of the near tier for a copy, if there is none."""
        try:
            return super()._begin(key, False)
        except (*_NOT_KEPT, CacheReadOnly, KeyTypeError):
            # Also a key that can be looked up, but not be stored.
            return BUSY, None, None

    def _copied_from(
        self, lease: Optional[Token], key: Any, entry: Optional[Entry], asked_us: int
    ) -> Optional[Entry]:
        """Keep a copy of what the far tier has had since a moment, and return it."""
        if lease is None or entry is None:
            self._drop(lease)
            return entry
        ttl: Optional[float] = None
        keeps_s: Optional[float] = None
        if entry.expiry is not None or self._tiers.coverage is None:
            left_s = math.inf if entry.expiry is None else entry.expiry - time.time()
            ttl = left_s
            if self._tiers.coverage is None:
                # The far tier may have read it as soon as it was asked.
                age_s = (self._now_us() - asked_us) / 1e6
                ttl = min(left_s, self._tiers.max_stale_s - age_s)
                # Kept for an outage.
                keeps_s = left_s - ttl if self._tiers.on_outage == "serve" else None
            if ttl <= 0:
                self._drop(lease)
                return entry
        with suppress(*_NOT_KEPT):
            super()._finish(lease, key, entry.value, ttl, keeps_s, entry.tags, None)
        return entry if ttl is None else entry._replace(expiry=time.time() + ttl)

    def _drop(self, lease: Optional[Token]) -> None:
        if lease is not None:
            super()._abandon(lease)

    def _in_outage(self, key: Any, error: DriverError) -> Optional[Entry]:
        """Answer a read while the far tier does not, or raise its error."""
        if self._tiers.on_outage == "raise":
            raise error
        found: Optional[Entry] = None
        if self._tiers.on_outage == "serve":
            found = super().get_entry(key, stale=True)
        return found or self._outage().get_entry(key)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Count what goes wrong at the far tier."""
        try:
            yield
        except DriverError as error:
            self._tiers.failed(error)
            raise
        self._tiers.error = None

    def _asked(self, read: Callable[[], _T], otherwise: _T) -> _T:
        """Read from the far tier; while it does not answer, do as ``on_outage`` says."""
        try:
            with self._asking():
                return read()
        except DriverError:
            if self._tiers.on_outage == "raise":
                raise
            return otherwise

    @contextmanager
    def _changing(self, *keys: Any) -> Iterator[None]:
        """Write to the far tier. The copies of the keys end in any case: it may have been done."""
        try:
            with self._asking():
                yield
        finally:
            for key in keys:
                with suppress(KeyTypeError):
                    super().delete(key)

    # --- Reading -------------------------------------------------------------------------------

    def __getitem__(self, key: Key) -> Any:
        """Return the value of ``key``. Raises KeyError if it has none."""
        value = self.get(key, MISSING)
        if value is MISSING:
            # In a tuple, so that a key that is a tuple is one argument.
            raise KeyError(*(key,))
        return value

    def __contains__(self, key: object) -> bool:
        """Return whether ``key`` has a value."""
        until = self._served_until()
        if super().__contains__(key) and self._is_ahead(until):
            return True
        try:
            with self._asking():
                return key in self._far
        except DriverError as error:
            return self._in_outage(key, error) is not None

    def get_entry(self, key: Key, *, stale: bool = False) -> Optional[Entry]:
        """Return the entry of the far tier: versions are its own. See `tuckbox.Cache.get_entry`."""
        return self._asked(lambda: self._far.get_entry(key, stale=stale), None)  # type: ignore[no-any-return]

    def ttl(self, key: Key) -> Optional[float]:
        """Return for how many seconds an entry of the far tier is fresh."""
        return self._asked(lambda: self._far.ttl(key), None)  # type: ignore[no-any-return]

    def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the values of several keys. What is not near takes one round trip."""
        given = keys if isinstance(keys, (str, bytes)) else list(keys)
        until = self._served_until()
        near = super().get_many(given)
        found = near if self._is_ahead(until) else {}
        missing = [key for key in dict.fromkeys(given) if key not in found]
        if missing:
            fetched = self._entries(missing)
            found = {**found, **{key: entry.value for key, entry in fetched.items()}}
        return {key: found[key] for key in given if key in found}

    def _entries(self, keys: Iterable[Any]) -> dict[Any, Entry]:
        """Return the fresh entries of several keys that are not near, and keep copies."""
        if self._tiers.coverage is not None:
            self._tiers.coverage.start()
        asked_us = self._now_us()
        leases = {key: self._begin_copy(key)[2] for key in keys}
        found: dict[Any, Optional[Entry]] = {}
        try:
            try:
                with self._asking():
                    entries = _fetched_many(self._far, leases)
            except DriverError as error:
                found = {key: self._in_outage(key, error) for key in leases}
            else:
                self._tiers.count("far_hits", len(entries))
                self._tiers.count("far_misses", len(leases) - len(entries))
                for key in list(leases):
                    found[key] = self._copied_from(leases.pop(key), key, entries.get(key), asked_us)
            return {key: entry for key, entry in found.items() if entry is not None}
        finally:
            for lease in leases.values():
                self._drop(lease)

    def __len__(self) -> int:
        """Return the number of entries of the far tier."""
        return len(self._far)

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the keys of the far tier."""
        return iter(self._far)

    def _iter_values(self) -> Iterator[Any]:
        return self._far._iter_values()  # type: ignore[no-any-return]

    def _iter_items(self) -> Iterator[tuple[Key, Any]]:
        return self._far._iter_items()  # type: ignore[no-any-return]

    def _iter_tagged(self, tag: str) -> Iterator[Key]:
        return self._far._iter_tagged(tag)  # type: ignore[no-any-return]

    # --- Writing -------------------------------------------------------------------------------

    def set(self, key: Key, value: Any, ttl: Ttl = None, **terms: Any) -> None:
        """Store a value in the far tier. See `tuckbox.Cache.set`."""
        with self._changing(key):
            self._far.set(key, value, ttl, **terms)

    def __setitem__(self, key: Key, value: Any) -> None:
        """Store a value in the far tier, without a ttl."""
        self.set(key, value)

    def add(self, key: Key, value: Any, ttl: Ttl = None, **terms: Any) -> bool:
        """Store a value in the far tier if the key has none. See `tuckbox.Cache.add`."""
        with self._changing(key):
            return self._far.add(key, value, ttl, **terms)  # type: ignore[no-any-return]

    def setdefault(self, key: Key, default: Any = None, ttl: Ttl = None) -> Any:
        """Return the value of a key; if it has none, store ``default`` and return that."""
        value = self.get(key, MISSING)
        if value is not MISSING:
            return value
        with self._changing(key):
            return self._far.setdefault(key, default, ttl)

    def replace(self, key: Key, value: Any, ttl: Ttl = None, **terms: Any) -> bool:
        """Store a value in the far tier if the key has one. See `tuckbox.Cache.replace`."""
        with self._changing(key):
            return self._far.replace(key, value, ttl, **terms)  # type: ignore[no-any-return]

    def cas(self, key: Key, value: Any, version: int, ttl: Ttl = None, **terms: Any) -> bool:
        """Store a value if the far tier's entry has this version. See `tuckbox.Cache.cas`."""
        with self._changing(key):
            return self._far.cas(key, value, version, ttl, **terms)  # type: ignore[no-any-return]

    def set_many(self, mapping: Any, ttl: Ttl = None, **terms: Any) -> None:
        """Store several values in the far tier. See `tuckbox.Cache.set_many`."""
        items = dict(mapping.items()) if hasattr(mapping, "items") else mapping
        with self._changing(*(items if isinstance(items, Mapping) else ())):
            self._far.set_many(items, ttl, **terms)

    def touch(self, key: Key, ttl: Ttl = None) -> bool:
        """Give an entry another ttl. See `tuckbox.Cache.touch`."""
        with self._changing(key):
            return self._far.touch(key, ttl)  # type: ignore[no-any-return]

    def get_and_touch(self, key: Key, ttl: Ttl = None, default: Any = None) -> Any:
        """Return a value and give it another ttl. See `tuckbox.Cache.get_and_touch`."""
        with self._changing(key):
            return self._far.get_and_touch(key, ttl, default)

    def incr(self, key: Key, delta: Any = 1, default: Any = 0, ttl: Ttl = None) -> int:
        """Add to an int of the far tier. See `tuckbox.Cache.incr`."""
        with self._changing(key):
            return self._far.incr(key, delta, default, ttl)  # type: ignore[no-any-return]

    def decr(self, key: Key, delta: Any = 1, default: Any = 0, ttl: Ttl = None) -> int:
        """Subtract from an int of the far tier. See `tuckbox.Cache.decr`."""
        with self._changing(key):
            return self._far.decr(key, delta, default, ttl)  # type: ignore[no-any-return]

    # --- Deleting ------------------------------------------------------------------------------

    def delete(self, key: Key, version: Optional[int] = None) -> bool:
        """Delete an entry from all tiers. See `tuckbox.Cache.delete`."""
        with self._changing(key):
            return self._far.delete(key, version)  # type: ignore[no-any-return]

    def __delitem__(self, key: Key) -> None:
        """Delete an entry from all tiers. Raises KeyError if there is none."""
        with self._changing(key):
            del self._far[key]

    def delete_many(self, keys: Iterable[Key]) -> int:
        """Delete several entries from all tiers. See `tuckbox.Cache.delete_many`."""
        given = keys if isinstance(keys, (str, bytes)) else list(keys)
        with self._changing(*(() if isinstance(given, (str, bytes)) else given)):
            return self._far.delete_many(given)  # type: ignore[no-any-return]

    def pop(self, key: Key, *default: Any, **others: Any) -> Any:
        """Delete an entry from all tiers and return its value. See `tuckbox.Cache.pop`."""
        with self._changing(key):
            return self._far.pop(key, *default, **others)

    def popitem(self) -> tuple[Key, Any]:
        """Delete any entry from all tiers, and return its key and value."""
        with self._asking():
            key, value = self._far.popitem()
        super().delete(key)
        return key, value

    def clear(self) -> Any:
        """Delete all entries from all tiers. See `tuckbox.Cache.clear`."""
        try:
            with self._asking():
                return self._far.clear()
        finally:
            super().clear()

    def expire(self) -> int:
        """Free the space of expired and invalid entries in all tiers. Return how many were far."""
        super().expire()
        with self._asking():
            return self._far.expire()  # type: ignore[no-any-return]

    def evict(self, *, tag: str, soft: bool = False) -> None:
        """Make all entries with a tag invalid, in all tiers. See `tuckbox.Cache.evict`."""
        try:
            with self._asking():
                self._far.evict(tag=tag, soft=soft)
        finally:
            super().evict(tag=tag)

    # --- Leases: one maker for all who share the far tier ---------------------------------------

    def _begin(self, key: Key, force: bool) -> Begun:
        if not force:
            until = self._served_until()
            entry = super().get_entry(key)
            if entry is not None and self._is_ahead(until):
                return FOUND, entry, None
        asked_us = self._now_us()
        _, _, near = self._begin_copy(key)
        try:
            with self._asking():
                state, entry, far = self._far._begin(key, force)
        except DriverError:
            self._drop(near)
            if self._tiers.on_outage == "raise":
                raise
            state, entry, own = self._outage()._begin(key, force)
            return state, entry, None if own is None else _Fetch(None, None, own)
        except BaseException:
            self._drop(near)
            raise
        if state == LEASE:
            return state, entry, _Fetch(far, near)
        if state == FOUND:
            entry = self._copied_from(near, key, entry, asked_us)
        else:
            self._drop(near)
        return state, entry, None

    def _finish(  # noqa: PLR0917 - As the contract.
        self,
        token: Token,
        key: Key,
        value: Any,
        ttl: Ttl,
        stale: Ttl,
        tags: Iterable[str],
        made_s: Optional[float],
    ) -> bool:
        fetch: Any = token
        if fetch.outage is not None:
            made = (key, value, self._tiers.max_stale_s, None, tags, made_s)
            return self._outage()._finish(fetch.outage, *made)  # type: ignore[no-any-return]
        try:
            with self._asking():
                return self._far._finish(  # type: ignore[no-any-return]
                    fetch.far, key, value, ttl, stale, tags, made_s
                )
        except DriverError:
            if self._tiers.on_outage == "raise":
                raise
            return False
        finally:
            # The next read fetches the copy, which has the far tier's expiry.
            self._drop(fetch.near)

    def _abandon(self, token: Token) -> None:  # type: ignore[override] # A static method there.
        fetch: Any = token
        if not isinstance(fetch, _Fetch):
            super()._abandon(fetch)
            return
        if fetch.outage is not None:
            self._outage()._abandon(fetch.outage)
            return
        self._drop(fetch.near)
        # Else it ends with its time.
        with suppress(DriverError), self._asking():
            self._far._abandon(fetch.far)

    def _wait_made(self, key: Key, timeout_s: float) -> bool:
        try:
            with self._asking():
                return self._far._wait_made(key, timeout_s)  # type: ignore[no-any-return]
        except DriverError:
            if self._tiers.on_outage == "raise":
                raise
            return self._outage()._wait_made(key, timeout_s)  # type: ignore[no-any-return]

    def _outage(self) -> Any:
        """The part of the near tier that has what was made while the far one did not answer."""
        if self._outage_space is None:
            self._outage_space = self._near_within(_OUTAGE)
        return self._outage_space

    # --- Namespaces ----------------------------------------------------------------------------

    def _join(self, parent: Any, name: str) -> None:
        super()._join(parent, name)
        self._serve_with(parent)
        self._far = parent._far.namespace(name)
        self._tiers = parent._tiers
        self._outage_space = None

    def _era(self, name: str) -> int:
        return self._far._era(name)  # type: ignore[no-any-return]

    def _advance_era(self, name: str) -> int:
        try:
            with self._asking():
                return self._far._advance_era(name)  # type: ignore[no-any-return]
        finally:
            super()._advance_era(name)

    # --- The handle ----------------------------------------------------------------------------

    def close(self) -> None:
        """Close the cache: all its tiers. Closing twice does nothing."""
        if self._tiers.coverage is not None:
            self._tiers.coverage.stop()
        super().close()
        self._far.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: a connection belongs to its process."""
        raise TypeError(f"{self!r} cannot be pickled or copied; connect in each process")

    def _place(self) -> str:
        return f"{super()._place()} before {self._far._place()}"


class _Side:
    """The near tier of a cache, for its `Coverage`."""

    def __init__(self, tier: Any, change_of: Callable[[bytes], Optional[Change]]) -> None:
        self._tier = tier
        self._change_of = change_of

    def now_us(self) -> int:
        return self._tier._now_us()  # type: ignore[no-any-return]

    def covered_us(self) -> Optional[int]:
        covered_us = type(self._tier)._near_get(self._tier, _COVERED)
        if not isinstance(covered_us, int) or covered_us > self.now_us():
            return None
        return covered_us

    def cover(self, time_us: int) -> None:
        tier = self._tier
        _near(tier).set(_COVERED, time_us)
        if tier._tiers.on_outage != "serve":
            tier._serve_until(time_us + round(tier._tiers.max_stale_s * 1e6))

    def apply(self, keys: Optional[Sequence[bytes]]) -> None:
        tier = self._tier
        if keys is None:
            _near(tier).clear()
            return
        for change in map(self._change_of, keys):
            if change is None:
                continue
            part: Any = None
            for name in change.names[:-1] if change.is_cleared else change.names:
                part = tier._near_within(name) if part is None else part.namespace(name)
            part = _near(tier) if part is None else part
            if change.is_cleared:
                part._advance_era(change.names[-1])
            elif change.tag is not None:
                part.evict(tag=change.tag)
            elif change.key is not None:
                # A key that this release cannot read has no copy.
                with suppress(EntryCorrupt):
                    part.delete(encoding.decode(change.key))


def _near(tier: Any) -> Any:
    """The operations of a near tier, without the far one."""
    return super(Tiering, tier)


def _watched(far: Any) -> Any:
    """The store at the far end, if its place tells what changes."""
    if isinstance(far, Tiering):
        return _watched(far._far)
    return far._watchable() if hasattr(far, "_watchable") else None


def _fetched(far: Any, key: Any) -> Optional[Entry]:
    if isinstance(far, Tiering):
        return _near_entry(far, key) or far._fetch(key)
    return far.get_entry(key)  # type: ignore[no-any-return]


def _fetched_many(far: Any, keys: Iterable[Any]) -> dict[Any, Entry]:
    if isinstance(far, Tiering):
        found = {key: entry for key in keys if (entry := _near_entry(far, key)) is not None}
        return {**found, **far._entries([key for key in keys if key not in found])}
    if hasattr(far, "_entries"):
        return far._entries(keys)  # type: ignore[no-any-return]
    return {key: entry for key in keys if (entry := far.get_entry(key)) is not None}


def _near_entry(far: Any, key: Any) -> Optional[Entry]:
    until = far._served_until()
    entry: Optional[Entry] = _near(far).get_entry(key)
    return entry if far._is_ahead(until) else None


_FOREVER = (1 << 64) - 1
"""The moment until which a near tier serves without asking."""
