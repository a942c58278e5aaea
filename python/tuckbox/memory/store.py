"""`Store`: entries in dictionaries, for all threads of one process.

Owns the entries, which of them are evicted, tags, eras and leases. Must not know how keys and
values are encoded: it gets keys as bytes, and values as objects that nobody changes, with their
length.

Eviction is S3-FIFO (Yang et al., SOSP 2023): new entries enter a small queue, entries that are read
again move to the main queue, and a key that comes back soon after its eviction enters the main
queue. Entries that are never evicted have a queue of their own.

All state is under one reentrant lock, because a signal handler or finalizer may use the store in
the middle of an operation of its own thread. Such an interruption finds whole records, and each
step bears that an entry has changed since the step before.
"""

from __future__ import annotations

import copy
import errno
import itertools
import os
import sys
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from typing import Callable, NamedTuple, Optional, Protocol

from tuckbox.errors import CacheFull, ValueTooLarge

__all__ = ["Clock", "Lease", "Record", "Store", "SystemClock", "Terms"]

_ENTRY_BYTES = 256
"""About what CPython needs for a record and its place in a queue, without key and value."""
_SMALL_SHARE = 10
"""The small queue has a tenth of the bytes."""
_READS_MAX = 3
_ROWS_MAX = 1 << 16
"""How many evicted tags, and how many namespaces, are known by name."""


class Clock(Protocol):
    """What tells the time."""

    def now(self) -> float:
        """Return seconds since 1970."""


class SystemClock:
    """The wall clock of when this was created; a change of the system's clock does not move it."""

    def __init__(self) -> None:
        # Where `time.monotonic` stops while the machine sleeps, one of these does not.
        clock = getattr(time, "CLOCK_BOOTTIME", None) or getattr(time, "CLOCK_MONOTONIC", None)
        self._elapsed_s: Callable[[], float] = time.monotonic
        if clock is not None:
            self._elapsed_s = lambda: time.clock_gettime(clock)
        self._start_s = time.time() - self._elapsed_s()

    def now(self) -> float:
        """Return seconds since 1970."""
        return self._start_s + self._elapsed_s()


class Terms(NamedTuple):
    """What a caller asks for an entry, besides its value."""

    ttl_us: Optional[int]
    """How long it is fresh; None is without end."""
    stale_us: int = 0
    """How long it is stale then."""
    tags: tuple[str, ...] = ()
    """Its tags, sorted."""
    keeps_ttl: bool = False
    """Whether a fresh entry keeps its end. Then ``ttl_us`` is for a new entry."""
    pinned: bool = False
    """Whether it is never evicted."""


class Record:
    """An entry. Only `reads`, `is_main` and `position` change."""

    __slots__ = (
        "cost_bytes", "fresh_until_us", "is_main", "kept", "made_s", "pinned", "position", "reads",
        "stale_us", "stamp", "stays", "tags", "version",
    )  # fmt: skip

    def __init__(  # noqa: PLR0917 - By position, which is quicker.
        self,
        kept: object,
        version: int,
        cost_bytes: int,
        fresh_until_us: Optional[int],
        stale_us: int,
        tags: tuple[str, ...],
        stamp: int,
        made_s: Optional[float] = None,
        pinned: bool = False,
        stays: bool = False,
    ) -> None:
        self.kept = kept
        self.version = version
        self.cost_bytes = cost_bytes
        self.fresh_until_us = fresh_until_us
        """When the ttl ends; None is never."""
        self.stale_us = stale_us
        self.tags = tags
        self.stamp = stamp
        """The time of invalidations at which the making of the value began."""
        self.made_s = made_s
        self.pinned = pinned
        self.stays = stays
        """Whether it is never evicted: it is pinned, or the store does not evict."""
        self.position = 0
        """Its position in the order of insertion."""
        self.reads = 0
        self.is_main = False


class Lease:
    """The right to make the value of a key. The token of the contract."""

    __slots__ = ("ended", "handle", "is_open", "is_refused", "key", "stamp", "version")

    def __init__(self, key: bytes, handle: object, version: Optional[int], stamp: int) -> None:
        self.key = key
        self.handle = handle
        self.version = version
        """The version of the entry at the beginning; None if there was none."""
        self.stamp = stamp
        self.is_open = True
        self.is_refused = False
        """Whether the key was deleted meanwhile."""
        self.ended = threading.Event()


class Store:
    """Entries by key.

    Args:
        size_bytes: The maximum of all entries: keys, values, and an estimate of the rest.
        max_entries: The maximum number of entries; None is no limit.
        clock: What tells the time.
        evicts: Whether entries are evicted when it is full.
        ordered: Whether keys are listed in the order in which they were inserted.
    """

    def __init__(
        self,
        size_bytes: int,
        max_entries: Optional[int],
        clock: Optional[Clock] = None,
        *,
        evicts: bool = True,
        ordered: bool = False,
    ) -> None:
        self.id = os.urandom(16)
        self.lock = threading.RLock()
        self.size_bytes = size_bytes
        self.max_entries = max_entries
        self.evicts = evicts
        self.ordered = ordered
        self.title = "this cache"
        """How messages name it."""
        self.counts = dict.fromkeys(
            ("hits", "misses", "sets", "deletes", "evictions", "expirations"), 0
        )
        self.bytes = 0
        self._clock = clock or SystemClock()
        self._small: OrderedDict[bytes, Record] = OrderedDict()
        self._main: OrderedDict[bytes, Record] = OrderedDict()
        self._staying: OrderedDict[bytes, Record] = OrderedDict()
        self._small_bytes = self._staying_bytes = 0
        self._ghosts: OrderedDict[int, None] = OrderedDict()
        self._versions = itertools.count(1)
        self._positions = itertools.count(1)
        self._invalidations = 1
        """The time of invalidations: the number of evictions of tags and advances of eras."""
        self._evicted: dict[str, int] = {}
        self._staled: dict[str, int] = {}
        self._all_evicted = 0
        """When all tags were evicted, because too many had been."""
        self._eras: dict[bytes, int] = {}
        self._first_era = 1
        self._leases: dict[bytes, Lease] = {}
        _stores.add(self)

    @property
    def value_bytes_max(self) -> int:
        """The maximum length of a value."""
        return self.size_bytes // 8 * 7

    def now_us(self) -> int:
        """Return the time in microseconds since 1970."""
        return round(self._clock.now() * 1e6)

    def __len__(self) -> int:
        """Return the number of entries, including expired ones."""
        return len(self._small) + len(self._main) + len(self._staying)

    # --- The states of an entry ---------------------------------------------------------------

    def _record(self, key: bytes) -> Optional[Record]:
        return self._small.get(key) or self._main.get(key) or self._staying.get(key)

    def _is_invalid(self, record: Record) -> bool:
        stamp = record.stamp
        if self._all_evicted > stamp:
            return True
        return any(self._evicted.get(tag, 0) > stamp for tag in record.tags)

    def _is_gone(self, record: Record) -> bool:
        """Whether nobody can have the entry any more, not even as a stale one."""
        until_us = record.fresh_until_us
        if until_us is not None and self.now_us() >= until_us + record.stale_us:
            return True
        return bool(record.tags) and self._is_invalid(record)

    def _is_fresh(self, record: Record) -> bool:
        until_us = record.fresh_until_us
        if until_us is not None and self.now_us() >= until_us:
            return False
        if not record.tags:
            return True
        stamp = record.stamp
        return not self._is_invalid(record) and all(
            self._staled.get(tag, 0) <= stamp for tag in record.tags
        )

    def _fresh(self, key: bytes) -> Optional[Record]:
        record = self._record(key)
        return record if record is not None and self._is_fresh(record) else None

    # --- Reading -------------------------------------------------------------------------------

    def read(self, key: bytes) -> Optional[Record]:
        """Return a fresh entry, and count the read."""
        with self.lock:
            record = self._fresh(key)
            return self._counted(record)

    def read_many(self, keys: Iterable[bytes]) -> dict[bytes, Record]:
        """Return the fresh entries of several keys, and count the reads."""
        return {key: record for key in keys if (record := self.read(key)) is not None}

    def _counted(self, record: Optional[Record]) -> Optional[Record]:
        if record is None:
            self.counts["misses"] += 1
        else:
            self.counts["hits"] += 1
            if record.reads < _READS_MAX:
                record.reads += 1
        return record

    def read_entry(self, key: bytes, *, stale: bool) -> Optional[tuple[Record, bool]]:
        """Return a fresh or, if asked for, stale entry, and whether it is stale. Count the read."""
        with self.lock:
            found = self._present(key)
            if found is not None and found[1] and not stale:
                found = None
            self._counted(found and found[0])
            return found

    def _present(self, key: bytes) -> Optional[tuple[Record, bool]]:
        record = self._record(key)
        if record is None or self._is_gone(record):
            return None
        return record, not self._is_fresh(record)

    def contains(self, key: bytes) -> bool:
        """Return whether there is a fresh entry."""
        with self.lock:
            return self._fresh(key) is not None

    def keys(self) -> list[bytes]:
        """Return the keys of all entries, also of expired ones."""
        with self.lock:
            if not self.ordered:
                return [*self._small, *self._main, *self._staying]
            queues = (self._small, self._main, self._staying)
            entries = itertools.chain.from_iterable(queue.items() for queue in queues)
            return [key for key, _ in sorted(entries, key=lambda entry: entry[1].position)]

    def peek(self, key: bytes) -> Optional[Record]:
        """Return a fresh entry without counting the read."""
        with self.lock:
            return self._fresh(key)

    def peek_many(self, keys: Iterable[bytes]) -> dict[bytes, Record]:
        """Return the fresh entries of several keys without counting the reads."""
        return {key: record for key in keys if (record := self.peek(key)) is not None}

    # --- Writing -------------------------------------------------------------------------------

    def write(
        self,
        key: bytes,
        kept: object,
        len_bytes: int,
        terms: Terms,
        *,
        if_fresh: Optional[bool] = None,
        version: Optional[int] = None,
        made_s: Optional[float] = None,
    ) -> bool:
        """Store a value.

        Args:
            key: The key.
            kept: The value.
            len_bytes: Its length.
            terms: Its ttl and tags.
            if_fresh: If given, store only if this says whether there is a fresh entry.
            version: If given, store only if there is a fresh entry with this version.
            made_s: How many seconds making it took, if that is known.

        Returns:
            Whether it was stored.

        Raises:
            ValueTooLarge: Key and value do not fit, even into an empty store.
            CacheFull: The entries that are never evicted leave no room.
        """
        with self.lock:
            old = self._fresh(key)
            if if_fresh is not None and (old is not None) is not if_fresh:
                return False
            if version is not None and (old is None or old.version != version):
                return False
            until_us = None
            if terms.keeps_ttl and old is not None:
                terms, until_us = terms._replace(ttl_us=None), old.fresh_until_us
            stamp = self._invalidations
            self._put(key, kept, len_bytes, terms, stamp, until_us=until_us, made_s=made_s)
            return True

    def write_many(self, entries: Iterable[tuple[bytes, object, int]], terms: Terms) -> None:
        """Store several values, given as key, value and length."""
        for key, kept, len_bytes in entries:
            self.write(key, kept, len_bytes, terms)

    def change(
        self,
        key: bytes,
        changed: Callable[[Optional[Record]], object],
        len_bytes: int,
        ttl_us: Optional[int],
    ) -> object:
        """Replace the value of a fresh entry, which keeps the rest, or store a new one.

        Args:
            key: The key.
            changed: Returns the new value; gets the fresh entry, or None. May raise.
            len_bytes: The length of the new value.
            ttl_us: The ttl of a new entry.

        Returns:
            The new value.
        """
        with self.lock:
            old = self._fresh(key)
            kept = changed(old)
            if old is None:
                self._put(key, kept, len_bytes, Terms(ttl_us), self._invalidations)
            else:
                terms = Terms(None, old.stale_us, old.tags, pinned=old.pinned)
                self._put(key, kept, len_bytes, terms, old.stamp, until_us=old.fresh_until_us)
            return kept

    def touch(self, key: bytes, ttl_us: Optional[int]) -> Optional[Record]:
        """Give a fresh entry another ttl. Return the entry; None if there is none."""
        with self.lock:
            old = self._fresh(key)
            if old is None:
                return None
            touched = copy.copy(old)
            touched.fresh_until_us = None if ttl_us is None else self.now_us() + ttl_us
            self._replace(key, old, touched)
            return touched

    def _put(
        self,
        key: bytes,
        kept: object,
        len_bytes: int,
        terms: Terms,
        stamp: int,
        *,
        until_us: Optional[int] = None,
        made_s: Optional[float] = None,
    ) -> None:
        ttl_us, stale_us, tags, _, pinned = terms
        cost_bytes = _ENTRY_BYTES + len(key) + len_bytes + (sys.getsizeof(tags) if tags else 0)
        if cost_bytes > self.size_bytes:
            raise ValueTooLarge(
                f"the entry needs {cost_bytes} bytes, and the limit of this cache is "
                f"{self.size_bytes} bytes; resize the cache, or store less"
            )
        self._check_room(key, cost_bytes)
        self._make_room(key, cost_bytes)
        record = Record(
            kept,
            version=next(self._versions),
            cost_bytes=cost_bytes,
            fresh_until_us=until_us if ttl_us is None else self.now_us() + ttl_us,
            stale_us=stale_us,
            tags=tags,
            stamp=stamp,
            made_s=made_s,
            pinned=pinned,
            stays=pinned or not self.evicts,
        )
        self.counts["sets"] += 1
        if (old := self._record(key)) is not None:
            record.position = next(self._positions) if self._is_gone(old) else old.position
            self._replace(key, old, record)
            return
        record.position = next(self._positions)
        record.is_main = hash(key) in self._ghosts
        self._ghosts.pop(hash(key), None)
        self._insert(key, record)

    def _replace(self, key: bytes, old: Record, record: Record) -> None:
        record.reads, record.is_main = old.reads, old.is_main
        if record.stays is not old.stays:
            self._remove(key, old)
            self._insert(key, record)
            return
        self._queue_of(record)[key] = record
        self._count_bytes(record, record.cost_bytes - old.cost_bytes)

    def _insert(self, key: bytes, record: Record) -> None:
        self._queue_of(record)[key] = record
        self._count_bytes(record, record.cost_bytes)

    def _remove(self, key: bytes, record: Record) -> None:
        queue = self._queue_of(record)
        if queue.get(key) is record:
            queue.pop(key, None)
            self._count_bytes(record, -record.cost_bytes)

    def _queue_of(self, record: Record) -> OrderedDict[bytes, Record]:
        if record.stays:
            return self._staying
        return self._main if record.is_main else self._small

    def _count_bytes(self, record: Record, more_bytes: int) -> None:
        self.bytes += more_bytes
        if record.stays:
            self._staying_bytes += more_bytes
        elif not record.is_main:
            self._small_bytes += more_bytes

    # --- Entries that are never evicted ----------------------------------------------------------

    def _check_room(self, key: bytes, cost_bytes: int) -> None:
        """Refuse an entry for which those that are never evicted leave no room."""
        if self._has_room(key, cost_bytes):
            return
        for other, record in list(self._staying.items()):
            if other != key and self._is_gone(record):
                self._drop(other, record)
        if not self._has_room(key, cost_bytes):
            raise self._full(f"has no room for {cost_bytes:,} bytes more within")

    def _has_room(self, key: bytes, cost_bytes: int) -> bool:
        old = self._staying.get(key)
        staying_bytes = self._staying_bytes - (0 if old is None else old.cost_bytes)
        return staying_bytes + cost_bytes <= self.size_bytes and (
            self.max_entries is None or len(self._staying) - (old is not None) < self.max_entries
        )

    def _full(self, what: str) -> CacheFull:
        limit = "" if self.max_entries is None else f" and {self.max_entries:,} entries"
        why = "all of its entries are pinned" if self.evicts else "it evicts no entries"
        return CacheFull(
            errno.ENOSPC,
            f"{self.title} is full: it {what} {self.size_bytes:,} bytes{limit}, and {why}; nothing "
            "was changed: delete entries, or give it a larger size with resize",
        )

    # --- Eviction ------------------------------------------------------------------------------

    def _make_room(self, key: bytes, cost_bytes: int) -> None:
        while True:
            old = self._record(key)
            more_bytes = cost_bytes - (old.cost_bytes if old is not None else 0)
            more_entries = 1 if old is None else 0
            is_full = self.bytes + more_bytes > self.size_bytes or (
                self.max_entries is not None and len(self) + more_entries > self.max_entries
            )
            if not is_full or not (self._small or self._main):
                return
            self._evict_one()

    def _evict_one(self) -> None:
        if self._small and (
            not self._main
            or self._small_bytes * _SMALL_SHARE > self.size_bytes
            or (self.max_entries and len(self._small) * _SMALL_SHARE > self.max_entries)
        ):
            self._step_small()
        else:
            self._step_main()

    def _step_small(self) -> None:
        key, record = _oldest(self._small)
        if record is None:
            return
        if self._is_gone(record):
            self._drop(key, record)
            return
        if record.reads <= 1:
            self._drop(key, record)
            self._ghosts[hash(key)] = None
            while len(self._ghosts) > max(len(self._main), 100):
                self._ghosts.popitem(last=False)
            return
        self._remove(key, record)
        record.is_main, record.reads = True, 0
        self._insert(key, record)

    def _step_main(self) -> None:
        key, record = _oldest(self._main)
        if record is None:
            return
        if self._is_gone(record) or not record.reads:
            self._drop(key, record)
            return
        record.reads -= 1
        with suppress(KeyError):
            self._main.move_to_end(key)

    def _drop(self, key: bytes, record: Record) -> None:
        self.counts["expirations" if self._is_gone(record) else "evictions"] += 1
        self._remove(key, record)

    def resize(self, size_bytes: Optional[int], max_entries: Optional[int]) -> None:
        """Give the store other limits; None keeps the present one, 0 entries are no limit."""
        with self.lock:
            former = self.size_bytes, self.max_entries
            self.size_bytes = size_bytes or self.size_bytes
            if max_entries is not None:
                self.max_entries = max_entries or None
            if self._staying_bytes > self.size_bytes or (
                self.max_entries is not None and len(self._staying) > self.max_entries
            ):
                full = self._full("has entries that do not fit within")
                self.size_bytes, self.max_entries = former
                raise full
            while self.bytes > self.size_bytes or (
                self.max_entries is not None and len(self) > self.max_entries
            ):
                self._evict_one()

    # --- Deleting ------------------------------------------------------------------------------

    def delete(self, key: bytes, version: Optional[int] = None) -> Optional[Record]:
        """Delete an entry, and refuse its lease. Return the entry if it was fresh.

        With a version, do so only if there is a fresh entry with this version.
        """
        with self.lock:
            record = self._record(key)
            fresh = record if record is not None and self._is_fresh(record) else None
            if version is not None and (fresh is None or fresh.version != version):
                return None
            if (lease := self._leases.get(key)) is not None:
                lease.is_refused = True
            if record is not None:
                self._remove(key, record)
            if fresh is not None:
                self.counts["deletes"] += 1
            return fresh

    def pop_any(
        self, is_wanted: Callable[[bytes], bool], *, newest: bool = True
    ) -> Optional[tuple[bytes, Record]]:
        """Delete any fresh entry whose key is wanted, and return it; None if there is none.

        In an ordered store, it is the newest or the oldest one.
        """
        with self.lock:
            if self.ordered:
                listed = self.keys()
                for own in filter(is_wanted, reversed(listed) if newest else listed):
                    if (record := self.delete(own)) is not None:
                        return own, record
                return None
            for queue in (self._small, self._main, self._staying):
                while (key := _last(queue, is_wanted)) is not None:
                    record = self.delete(key)
                    if record is not None:
                        return key, record
            return None

    def clear(self) -> int:
        """Delete all entries, and refuse all leases. Return the number of entries."""
        with self.lock:
            count = len(self)
            for lease in list(self._leases.values()):
                lease.is_refused = True
            self._small.clear()
            self._main.clear()
            self._staying.clear()
            self._ghosts.clear()
            self.bytes = self._small_bytes = self._staying_bytes = 0
            return count

    def expire(self, is_unreachable: Callable[[bytes], bool]) -> int:
        """Delete the entries that are expired or invalid, or whose key nobody can ask for.

        Returns:
            Their number.
        """
        with self.lock:
            gone = [
                (key, record)
                for queue in (self._small, self._main, self._staying)
                for key, record in list(queue.items())
                if self._is_gone(record) or is_unreachable(key)
            ]
            for key, record in gone:
                if self._is_gone(record):
                    self._drop(key, record)
                else:
                    self.delete(key)
            return len(gone)

    # --- Tags and eras -------------------------------------------------------------------------

    def evict(self, tag: str, *, soft: bool) -> None:
        """Make all entries with a tag invalid, or stale."""
        with self.lock:
            self._invalidations += 1
            rows = self._staled if soft else self._evicted
            rows[tag] = self._invalidations
            if len(rows) > _ROWS_MAX:
                # Too many entries become invalid, never too few.
                self._all_evicted = self._invalidations
                rows.clear()

    def era(self, name: bytes) -> int:
        """Return the era of a namespace."""
        with self.lock:
            return self._eras.get(name, self._first_era)

    def advance_era(self, name: bytes) -> int:
        """Give a namespace an era that no namespace has had. Return it."""
        with self.lock:
            self._invalidations += 1
            if len(self._eras) >= _ROWS_MAX and name not in self._eras:
                # The eras of all others advance too.
                self._first_era = self._invalidations
                self._eras.clear()
            self._eras[name] = self._invalidations
            return self._invalidations

    # --- Leases --------------------------------------------------------------------------------

    def begin(
        self, key: bytes, handle: object, *, force: bool
    ) -> tuple[Optional[tuple[Record, bool]], Optional[Lease]]:
        """Return the present entry and whether it is stale, and a lease if none is out.

        Without ``force``, a fresh entry needs no lease.
        """
        with self.lock:
            found = self._present(key)
            self._counted(found[0] if found is not None and not found[1] else None)
            if (found is not None and not found[1] and not force) or key in self._leases:
                return found, None
            # Of an expired entry too: what is there now is no reason to refuse.
            record = self._record(key)
            version = None if record is None else record.version
            lease = self._leases[key] = Lease(key, handle, version, self._invalidations)
            return found, lease

    def finish(  # noqa: PLR0917 - As the contract.
        self,
        lease: Lease,
        key: bytes,
        kept: object,
        len_bytes: int,
        terms: Terms,
        made_s: Optional[float],
    ) -> bool:
        """Store what was made, unless it must be refused, and end the lease.

        It must be refused also if the key is not that of the lease: then its namespace was cleared.
        """
        with self.lock:
            if not lease.is_open:
                return False
            try:
                if lease.key != key or lease.is_refused or self._is_overtaken(lease, terms.tags):
                    return False
                self._put(lease.key, kept, len_bytes, terms, lease.stamp, made_s=made_s)
                return True
            finally:
                self.abandon(lease)

    def _is_overtaken(self, lease: Lease, tags: tuple[str, ...]) -> bool:
        present = self._record(lease.key)
        if present is not None and present.version != lease.version:
            return True
        evicted = [self._evicted.get(tag, 0) for tag in tags]
        return bool(tags) and max(self._all_evicted, *evicted) > lease.stamp

    def abandon(self, lease: Lease) -> None:
        """End a lease, and wake its waiters."""
        with self.lock:
            if lease.is_open:
                lease.is_open = False
                self._leases.pop(lease.key, None)
                lease.ended.set()

    def abandon_all(self, handle: object) -> None:
        """End the leases that a handle began."""
        with self.lock:
            for lease in list(self._leases.values()):
                if lease.handle is handle:
                    self.abandon(lease)

    def wait_made(self, key: bytes, timeout_s: float) -> bool:
        """Wait until no lease of a key is out. Return whether that is so."""
        end_s = time.monotonic() + timeout_s
        while True:
            with self.lock:
                lease = self._leases.get(key)
            if lease is None:
                return True
            left_s = min(max(end_s - time.monotonic(), 0), threading.TIMEOUT_MAX)
            return lease.ended.wait(left_s)

    # --- Health --------------------------------------------------------------------------------

    def audit(self) -> list[str]:
        """Compare the counted bytes with the entries, and correct them. Return what was wrong."""
        with self.lock:
            findings = []
            for key in self._small.keys() & self._main.keys():
                findings.append(f"the key {key!r} was in both queues")
                del self._main[key]
            queues = (self._small, self._main, self._staying)
            small, main, staying = (
                sum(record.cost_bytes for record in list(queue.values())) for queue in queues
            )
            found = (small, staying, small + main + staying)
            counted = (self._small_bytes, self._staying_bytes, self.bytes)
            if counted != found:
                findings.append(
                    f"{counted[2]} bytes were counted ({counted[0]} in the small queue, "
                    f"{counted[1]} that stay), and the entries have {found[2]} ({found[0]}, "
                    f"{found[1]})"
                )
                self._small_bytes, self._staying_bytes, self.bytes = found
            return findings

    def after_fork(self) -> None:
        """Make a copy in a forked child usable: other threads, and what they held, do not exist."""
        self.lock = threading.RLock()
        for lease in self._leases.values():
            lease.is_open = False
            lease.ended = threading.Event()
            lease.ended.set()
        self._leases.clear()


def _oldest(queue: OrderedDict[bytes, Record]) -> tuple[bytes, Optional[Record]]:
    """Return the first key and its record; None if an interruption removed it."""
    with suppress(StopIteration, RuntimeError):
        key = next(iter(queue))
        return key, queue.get(key)
    return b"", None


def _last(queue: OrderedDict[bytes, Record], is_wanted: Callable[[bytes], bool]) -> Optional[bytes]:
    """Return the last key that is wanted; None if there is none."""
    while True:
        # An interruption may change the queue.
        with suppress(RuntimeError):
            return next(filter(is_wanted, reversed(queue)), None)


_stores: weakref.WeakSet[Store] = weakref.WeakSet()
_forking = threading.Lock()
_held: list[Store] = []


def _before_fork() -> None:
    # So that the child's copy is not in the middle of another thread's operation.
    _forking.acquire()
    for store in list(_stores):
        store.lock.acquire()
        _held.append(store)


def _after_in_parent() -> None:
    while _held:
        _held.pop().lock.release()
    _forking.release()


def _after_in_child() -> None:
    global _forking  # noqa: PLW0603 - A lock cannot be reset in place.
    while _held:
        _held.pop().after_fork()
    _forking = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
