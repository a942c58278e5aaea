"""`Tiering`: what reads and makers do in a cache that stands in front of another one.

Owns what they ask of which tier, and what happens when the far one does not answer. Joined with the
class of the near tier, whose own operations are `super()`. Must not know files or servers.

Reads ask the near tier, then the far one, and leave a copy near. Of a value that is being fetched,
the near tier has a lease, so a change that comes in between refuses the copy.
`tuckbox.tiers.writing` has the writes.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, NoReturn, Optional, TypeVar, get_args

from tuckbox.choices import OnOutage, Writes
from tuckbox.contract import BUSY, FOUND, LEASE, Begun, Token, Ttl
from tuckbox.errors import (
    CacheFull,
    CacheReadOnly,
    DriverError,
    EntryCorrupt,
    InvalidArgument,
    KeyTypeError,
    LockTimeout,
    Unsupported,
    ValueTooLarge,
)
from tuckbox.forks import renew_in_children
from tuckbox.keys import Key
from tuckbox.loads import MISSING
from tuckbox.memory import codec
from tuckbox.memory import keys as encoding
from tuckbox.memory.core import checked_terms
from tuckbox.memory.store import Terms
from tuckbox.objects import Objects
from tuckbox.results import Entry
from tuckbox.tiers.behind import Behind, Write, value_of
from tuckbox.tiers.coverage import Coverage

if TYPE_CHECKING:
    from tuckbox.cache import Cache
    from tuckbox.coordination.space import Space
    from tuckbox.remote.store import Change
else:
    Cache = object

__all__ = ["NOT_KEPT", "Health", "Tiering", "Tiers", "made_entry"]

_T = TypeVar("_T")

_COVERED = ("tuckbox", "tiers", "covered")
"""The key of the near tier that has the moment of the last confirmation, in microseconds."""
_OUTAGE = "tuckbox outage"
"""The near tier's namespace for what is made while the far tier does not answer."""
_CONFIRMATIONS = 5
"""How many confirmations there are in ``max_stale``."""

_BEHIND = "tuckbox behind"
"""The near tier's namespace for writes that wait, so that other processes see them: each value with
a number of its own."""

NOT_KEPT = (CacheFull, LockTimeout, ValueTooLarge)
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
    waiting: int
    """Writes of this process that the far tier does not have yet."""
    dropped: int
    """Writes that the far tier never got."""
    error: Optional[str]
    """The last error of the far tier; None if it has answered since."""


class Tiers:
    """What a cache with tiers and its namespaces share.

    Args:
        max_stale_s: How old a near entry may be, in seconds, unless the far tier tells what
            changes.
        on_outage: What reads do that need a far tier which does not answer.
        is_tracked: Whether the far tier is to tell what changes, if it can.
        writes: What writes do with the near tier.
    """

    def __init__(
        self, max_stale_s: float, on_outage: OnOutage, *, is_tracked: bool, writes: Writes
    ) -> None:
        self.max_stale_s = max_stale_s
        self.on_outage = on_outage
        self.is_tracked = is_tracked
        self.writes = writes
        self.behind: Optional[Behind] = None
        """The writes that wait, here or in the far tier, if that has tiers."""
        self.coverage: Optional[Coverage] = None
        self.counts = dict.fromkeys(("far_hits", "far_misses", "far_errors"), 0)
        self.error: Optional[str] = None
        self._renew()
        renew_in_children(self)

    def _renew(self) -> None:
        self._counting = threading.Lock()

    @classmethod
    def checked(
        cls, max_stale: Any, on_outage: OnOutage, tracking: object, writes: Writes
    ) -> Tiers:
        """Return these for the arguments of `tuckbox.connect`. Raises InvalidArgument."""
        is_number = isinstance(max_stale, (int, float)) and not isinstance(max_stale, bool)
        if not is_number or not 0 < max_stale < math.inf:
            raise InvalidArgument(
                f"max_stale must be a positive number of seconds, not {max_stale!r}"
            )
        for name, given, kind in (("on_outage", on_outage, OnOutage), ("writes", writes, Writes)):
            if given not in get_args(kind):
                raise InvalidArgument(f"{name} must be one of {get_args(kind)}, not {given!r}")
        if not isinstance(tracking, bool):
            raise InvalidArgument(f"tracking must be True or False, not {tracking!r}")
        return cls(float(max_stale), on_outage, is_tracked=tracking, writes=writes)

    def count(self, name: str, more: int = 1) -> None:
        """Count reads or errors."""
        with self._counting:
            self.counts[name] += more

    def failed(self, error: DriverError) -> None:
        """Count an error of the far tier, and keep its text."""
        self.count("far_errors")
        self.error = str(error)

    def told(self, error: Optional[DriverError]) -> None:
        """Note how an attempt to reach the far tier ended."""
        if error is None:
            self.error = None
        else:
            self.failed(error)


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
    # The near tier's own operations, which `super` finds slowly: its classes are many. And how it
    # is opened as a namespace without tiers.
    _near_get: Callable[..., Any]
    _near_begin: Callable[..., Any]
    _near_finish: Callable[..., Any]
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
        writes: Writes = "around",
        **options: Any,
    ) -> None:
        """Open the near tier, in front of a cache. See the classes."""
        tiers = Tiers.checked(max_stale, on_outage, tracking, writes)
        watched = _watched(far) if tiers.is_tracked else None
        if writes == "through" and watched is not None:
            raise InvalidArgument(
                f'writes="through" has no effect: {watched.driver.title} tells of every change, '
                "also of one's own, which removes the copy; pass tracking=False, or omit writes"
            )
        if writes == "behind" and not hasattr(far, "_remote"):
            raise InvalidArgument('writes="behind" needs a server behind the near tier')
        super().__init__(path, **options)
        self._far = far
        self._tiers = tiers
        self._outage_space: Any = None
        self._behind_space: Any = None
        if isinstance(far, Tiering):
            tiers.behind = far._tiers.behind
        elif writes == "behind" and not far.read_only:
            tiers.behind = Behind(tiers.told)
        self._get_behind_first()
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
            waiting=0 if tiers.behind is None else len(tiers.behind),
            dropped=0 if tiers.behind is None else tiers.behind.dropped,
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
        if tiers.behind is not None:
            write = self._waiting(key)
            if write is not None:
                return write.entry()
        coverage = tiers.coverage
        if coverage is not None and not coverage.is_listening_here:
            coverage.start()
            self._serve_as_told()
        # Before the look at the entry: in between, the tier may be cleared and serve again.
        until, asked_us = self._served_until(), self._now_us()
        state, entry, lease = self._begin_copy(key)
        if state == FOUND and self._is_ahead(until):
            return entry
        if tiers.writes == "behind":
            # After the lease: a write that comes later ends it.
            shown = self._on_its_way(key)
            if shown is not None:
                self._drop(lease)
                return shown
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
            covered_us = self._near_get(_COVERED)
            if isinstance(covered_us, int):
                self._serve_until(covered_us + round(self._tiers.max_stale_s * 1e6))

    def _begin_copy(self, key: Any) -> Begun:
        """Take a lease of the near tier for a copy, if there is none."""
        try:
            return self._near_begin(key, False)  # type: ignore[no-any-return]
        except (*NOT_KEPT, CacheReadOnly, KeyTypeError):
            # Also a key that can be looked up, but not be stored.
            return BUSY, None, None

    def _copied_from(
        self, lease: Optional[Token], key: Any, entry: Optional[Entry], asked_us: int
    ) -> Optional[Entry]:
        """Keep a copy of what the far tier has had since a moment, and return it."""
        if lease is None or entry is None:
            self._drop(lease)
            return entry
        expiry = self._kept_until(lease, key, entry, asked_us)
        # One that was not kept is still the answer.
        if expiry is None or expiry == math.inf:
            return entry
        # Quicker than `_replace`.
        return Entry(entry.value, expiry, *entry[2:])

    def _kept_until(self, lease: Token, key: Any, entry: Entry, asked_us: int) -> Optional[float]:
        """Keep a copy. Return when it ends, perhaps never; None if it was refused."""
        left_s = ttl = math.inf if entry.expiry is None else entry.expiry - time.time()
        keeps_s: Optional[float] = None
        if self._tiers.coverage is None:
            # The far tier may have read it as soon as it was asked.
            age_s = (self._now_us() - asked_us) / 1e6
            ttl = min(left_s, self._tiers.max_stale_s - age_s)
            # Kept for an outage.
            keeps_s = left_s - ttl if self._tiers.on_outage == "serve" else None
        if ttl <= 0:
            self._drop(lease)
            return None
        try:  # Quicker than `suppress`.
            if self._near_finish(lease, key, entry.value, ttl, keeps_s, entry.tags, None):
                return time.time() + ttl
        except NOT_KEPT:
            pass
        return None

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

    # --- What waits for the far tier -----------------------------------------------------------

    def _get_behind_first(self) -> None:
        """Let `get` see what waits: that of the extension does not."""
        if self._tiers.behind is not None:
            self.get = self._get_behind  # type: ignore[method-assign]

    def _get_behind(self, key: Any, default: Any = None, **others: Any) -> Any:
        write = self._waiting(key)
        if write is None:
            return type(self).get(self, key, default, **others)
        entry = write.entry()
        return default if entry is None else entry.value

    def _waiting(self, key: Any) -> Optional[Write]:
        """The write of this process that waits for a key."""
        behind = self._tiers.behind
        return None if behind is None else behind.get(self._names, key)

    def _behind(self) -> Any:
        """The part of the near tier that has the writes that wait."""
        if self._behind_space is None:
            self._behind_space = self._near_within(_BEHIND)
        return self._behind_space

    def _on_its_way(self, key: Any) -> Optional[Entry]:
        """What waits in any process of this machine."""
        entry: Optional[Entry] = self._behind().get_entry(key)
        if entry is None:
            return None
        kept, encoded = codec.from_bytes(entry.value[1]), encoding.encode_lookup(key)
        return entry._replace(value=value_of(kept, encoded, self._objects or Objects()))

    def _settled(self, *keys: Any) -> Any:
        """The far tier, which has what waited for these keys; without keys, for all."""
        behind = self._tiers.behind
        if behind is not None:
            behind.send([(self._names, key) for key in keys] if keys else None)
        return self._far

    def flush(self, timeout: Optional[float] = None) -> bool:
        """Wait until the far tier has all values that this process has stored before.

        Only needed with ``writes="behind"``. `close` and the exit of the interpreter do the same,
        for five seconds at most.

        Args:
            timeout: How many seconds to wait at most; None waits for as long as it takes.

        Returns:
            Whether the far tier has them all. False if the time is over, or if it could not store
            one since the last call, such as a value that is too large.

        Example:
            >>> cache.set("a", 1)
            >>> cache.flush(timeout=10)
            True
        """
        behind = self._tiers.behind
        return behind is None or behind.flush(timeout)

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
        write = self._waiting(key)
        if write is not None:
            return write.entry() is not None
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
        return self._asked(lambda: self._settled(key).get_entry(key, stale=stale), None)  # type: ignore[no-any-return]

    def ttl(self, key: Key) -> Optional[float]:
        """Return for how many seconds an entry of the far tier is fresh."""
        return self._asked(lambda: self._settled(key).ttl(key), None)  # type: ignore[no-any-return]

    def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the values of several keys. What is not near takes one round trip."""
        given = keys if isinstance(keys, (str, bytes)) else list(keys)
        until = self._served_until()
        near = super().get_many(given)
        found = near if self._is_ahead(until) else {}
        writes = {key: write for key in given if (write := self._waiting(key)) is not None}
        if writes:
            waiting = {key: write.entry() for key, write in writes.items()}
            found = {key: value for key, value in found.items() if key not in writes}
            found |= {key: entry.value for key, entry in waiting.items() if entry is not None}
        missing = [key for key in dict.fromkeys(given) if key not in found and key not in writes]
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
            if self._tiers.writes == "behind":
                # As in `_fetch`.
                for key in list(leases):
                    shown = self._on_its_way(key)
                    if shown is not None:
                        found[key] = shown
                        self._drop(leases.pop(key))
            try:
                with self._asking():
                    entries = _fetched_many(self._far, leases)
            except DriverError as error:
                found |= {key: self._in_outage(key, error) for key in leases}
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
        return len(self._settled())

    @contextmanager
    def _at_entries(self, *, is_writing: bool) -> Iterator[Any]:
        try:
            with self._asking(), self._settled()._at_entries(is_writing=is_writing) as place:
                yield place
        finally:
            if is_writing:
                super().clear()

    def _copy_file(self, path: Any) -> NoReturn:
        raise InvalidArgument(
            f"{self!r} has tiers, so no file to copy to {path!r} has all entries: use dump"
        )

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the keys of the far tier."""
        return iter(self._settled())

    def _iter_keys(self, newest_first: bool = False) -> Iterator[Key]:
        return self._settled()._iter_keys(newest_first)  # type: ignore[no-any-return]

    def _iter_values(self, newest_first: bool = False) -> Iterator[Any]:
        return self._settled()._iter_values(newest_first)  # type: ignore[no-any-return]

    def _iter_items(self, newest_first: bool = False) -> Iterator[tuple[Key, Any]]:
        return self._settled()._iter_items(newest_first)  # type: ignore[no-any-return]

    def _peekitem(self, newest: bool) -> Optional[tuple[Key, Any]]:
        return self._settled()._peekitem(newest)  # type: ignore[no-any-return]

    @property
    def ordered(self) -> bool:
        """Whether the far tier keeps the order in which keys were inserted."""
        return self._far.ordered  # type: ignore[no-any-return]

    def _iter_tagged(self, tag: str) -> Iterator[Key]:
        return self._settled()._iter_tagged(tag)  # type: ignore[no-any-return]

    # --- Leases: one maker for all who share the far tier ---------------------------------------

    def _begin(self, key: Key, force: bool) -> Begun:
        if not force:
            write = self._waiting(key)
            entry = None if write is None else write.entry()
            if entry is not None:
                return FOUND, entry, None
            until = self._served_until()
            entry = super().get_entry(key)
            if entry is not None and self._is_ahead(until):
                return FOUND, entry, None
        asked_us = self._now_us()
        _, _, near = self._begin_copy(key)
        try:
            with self._asking():
                state, entry, far = self._settled(key)._begin(key, force)
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
        is_kept = False
        if fetch.outage is not None:
            made = (key, value, self._tiers.max_stale_s, None, tags, made_s)
            return self._outage()._finish(fetch.outage, *made)  # type: ignore[no-any-return]
        try:
            asked_us, asked_s = self._now_us(), time.time()
            tags = list(tags) if isinstance(tags, Iterator) else tags
            with self._asking():
                is_stored: bool = self._settled(key)._finish(
                    fetch.far, key, value, ttl, stale, tags, made_s
                )
            if is_stored and fetch.near is not None and self._tiers.writes == "through":
                entry = made_entry(value, checked_terms(ttl, stale, tags), asked_s)
                is_kept = self._kept_until(fetch.near, key, entry, asked_us) is not None
            return is_stored  # noqa: TRY300 - The error is that of the far tier.
        except DriverError:
            if self._tiers.on_outage == "raise":
                raise
            return False
        finally:
            # In general, the next read fetches the copy, which has the far tier's expiry.
            self._drop(fetch.near)
            if not is_kept:
                super().delete(key)

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
        self._outage_space = self._behind_space = None
        self._get_behind_first()

    def _era(self, name: str) -> int:
        return self._far._era(name)  # type: ignore[no-any-return]

    def _advance_era(self, name: str) -> int:
        try:
            with self._asking():
                return self._settled()._advance_era(name)  # type: ignore[no-any-return]
        finally:
            super()._advance_era(name)

    def _coordination(self) -> Space:
        space: Space = self._far._coordination()
        return space

    def _transactions(self) -> Space:
        raise Unsupported(
            "a cache with tiers has no pinned entries, so transactions would not be all or "
            "nothing; use a cache on a file or in memory"
        )

    # --- The handle ----------------------------------------------------------------------------

    def close(self) -> None:
        """Close the cache: all its tiers. Closing twice does nothing."""
        if self._tiers.behind is not None:
            self._tiers.behind.close()
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
        covered_us = self._tier._near_get(_COVERED)
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


def made_entry(value: Any, terms: Terms, asked_s: float) -> Entry:
    """The entry that the far tier has, of a value that was sent to it after a moment."""
    expiry = None if terms.ttl_us is None else asked_s + terms.ttl_us / 1e6
    return Entry(value, expiry, 0, terms.tags)


_FOREVER = (1 << 64) - 1
"""The moment until which a near tier serves without asking."""
