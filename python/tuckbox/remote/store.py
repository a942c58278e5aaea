"""`RemoteStore`: what a cache needs of a store, on any driver.

Has the operations of `tuckbox.memory.store.Store`, for the same cache above it.

**Keys.** All begin with the program's prefix. Then ``e`` and the key for an entry, ``t`` and the
tag for the row of a tag, ``n`` and the name for the era of a namespace, ``c`` for the clock.

**Leases.** The lease on a key is part of its envelope, so whatever replaces or removes the envelope
ends the lease: another value, a delete, an eviction by the place. To finish, the maker replaces the
envelope in which it finds its own lease, and nothing else. Of a maker that dies, the lease ends
with its time.

**Tags.** Each eviction of a tag advances the clock, and writes the new value into the tag's row. An
entry with tags has a stamp: what the clock showed when the making of its value began. It is invalid
if a row of its tags has a later value. A place may lose any of these:

- A row: an entry whose tag has no row is invalid. A new row begins with what the clock shows, so
  entries from before it stay invalid.
- The clock: the next one begins with the time, and at least at the rows that are met. An entry
  whose stamp is later than the clock is invalid.

**Time.** The place counts a ttl by its own clock. Where a driver tells the remaining ttl, a reader
uses that. Elsewhere it uses the moment in the envelope, by the clock of the machine that stored it.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Callable, NamedTuple, Optional

from tuckbox.brief import refuse_if_brief
from tuckbox.drivers.contract import Driver, Found
from tuckbox.errors import DriverError, Unsupported
from tuckbox.forks import renew_in_children
from tuckbox.memory import spaces
from tuckbox.memory.codec import Kept, from_bytes, to_bytes
from tuckbox.memory.store import Record, SystemClock, Terms
from tuckbox.remote.envelope import VERSIONS_END, Envelope, pack, unpack

__all__ = ["Change", "RemoteLease", "RemoteStore"]

_ATTEMPTS_PAUSE_S = 0.002
_FIRST_LOOK_S = 0.005
_LOOK_MAX_S = 0.1
_STAMP_BYTES = 8
_VALUE_BYTES_MAX = 64 << 20
"""The longest value where the place has no limit: more would hold up everybody on a connection."""
_ENVELOPE_BYTES = 96 << 10
"""At most as long is what is added to a value: the key, the tags, and fixed fields."""


class RemoteLease(NamedTuple):
    """The right to make the value of a key. The token of the contract."""

    key: bytes
    number: int
    stamp: int
    """What the clock of evictions showed at the beginning."""
    end_us: int
    """When the place lets another caller make."""


class Change(NamedTuple):
    """What a change at the place is about. One of the fields is set, except for ``names``."""

    names: tuple[str, ...]
    """The namespace that it is about, outermost first; empty for the whole cache."""
    key: Optional[bytes] = None
    """The entry of this key, without its namespaces, has changed."""
    tag: Optional[str] = None
    """Entries with this tag are invalid."""
    is_cleared: bool = False
    """The namespace was cleared."""


class RemoteStore:
    """Entries in envelopes, by key.

    Args:
        driver: Where they are.
        prefix: What all keys at the place begin with: programs with different ones share a place
            without seeing each other's entries.
        lease_s: For how many seconds a maker has the lease on its key.
        now: What tells the time in seconds since 1970.
    """

    def __init__(
        self,
        driver: Driver,
        prefix: bytes,
        *,
        lease_s: float = 30.0,
        now: Optional[Callable[[], float]] = None,
    ) -> None:
        self.driver = driver
        self.prefix = prefix
        # The same in every process that uses these entries: signatures are bound to it.
        self.id = hashlib.blake2b(prefix, digest_size=16, person=b"tuckbox remote").digest()
        self.lease_us = round(lease_s * 1e6)
        self.counts = dict.fromkeys(("hits", "misses", "sets", "deletes"), 0)
        self._now = now or SystemClock().now
        self._leases: dict[int, RemoteLease] = {}
        """The leases of this handle, by number."""
        self._renew()
        renew_in_children(self)

    def _renew(self) -> None:
        self._counting = threading.Lock()

    def now_us(self) -> int:
        """Return the time in microseconds since 1970."""
        return round(self._now() * 1e6)

    @property
    def value_bytes_max(self) -> int:
        """The maximum length of an encoded value."""
        limit = self.driver.capabilities.value_bytes_max
        return _VALUE_BYTES_MAX if limit is None else max(0, limit - _ENVELOPE_BYTES)

    def _count(self, name: str, more: int = 1) -> None:
        with self._counting:
            self.counts[name] += more

    # --- Envelopes -----------------------------------------------------------------------------

    def _entry_key(self, key: bytes) -> bytes:
        return self.prefix + b"e" + key

    def change_of(self, place_key: bytes) -> Optional[Change]:
        """Return what the change of a key of the place is about; None if it is about no entry."""
        kind, rest = place_key[len(self.prefix) :][:1], place_key[len(self.prefix) + 1 :]
        if kind == b"e":
            names, key = spaces.parted(rest)
            return Change(names, key)
        if kind == b"t":
            return Change((), tag=rest.decode())
        return Change(spaces.names_of(rest), is_cleared=True) if kind == b"n" else None

    def _seen(self, key: bytes, found: Optional[Found]) -> Optional[Envelope]:
        """The envelope of a key. Its expiry is by this machine's clock."""
        seen = None if found is None else unpack(found.value, key)
        if seen is None or seen.expiry_us is None or found is None or found.ttl_s is None:
            return seen
        return seen._replace(expiry_us=self.now_us() + round(found.ttl_s * 1e6) - seen.stale_us)

    def _look(self, key: bytes) -> Optional[Envelope]:
        refuse_if_brief()
        return self._seen(key, self.driver.get(self.prefix + b"e" + key))

    def _state(self, envelope: Envelope) -> Optional[bool]:
        """Whether an entry with a value is stale; None if it is missing to everyone."""
        until_us = envelope.expiry_us
        is_stale = False
        if until_us is not None:
            now_us = self.now_us()
            if now_us >= until_us + envelope.stale_us:
                return None
            is_stale = now_us >= until_us
        if envelope.tags:
            clock, rows = self._rows(envelope.tags)
            if clock < envelope.stamp or len(rows) < len(envelope.tags):
                return None
            if any(hard > envelope.stamp for hard, _ in rows.values()):
                return None
            is_stale = is_stale or any(soft > envelope.stamp for _, soft in rows.values())
        return is_stale

    # --- Reading -------------------------------------------------------------------------------

    def read(self, key: bytes) -> Optional[Record]:
        """Return a fresh entry, and count the read."""
        found = self.read_entry(key, stale=False)
        return None if found is None else found[0]

    def read_entry(self, key: bytes, *, stale: bool) -> Optional[tuple[Record, bool]]:
        """Return a fresh or, if asked for, stale entry, and whether it is stale. Count the read."""
        found = self._present(self._look(key))
        if found is not None and found[1] and not stale:
            found = None
        self._count("misses" if found is None else "hits")
        return found

    def _present(self, seen: Optional[Envelope]) -> Optional[tuple[Record, bool]]:
        """The record of an envelope, and whether it is stale; None if it is missing to everyone."""
        if seen is None or seen.value is None:
            return None
        is_stale = self._state(seen)
        if is_stale is None:
            return None
        # By position, which is quicker. The cost is the place's affair.
        record = Record(
            from_bytes(seen.value),
            seen.version,
            0,
            seen.expiry_us,
            seen.stale_us,
            seen.tags,
            seen.stamp,
            None if seen.made_us is None else seen.made_us / 1e6,
        )
        return record, is_stale

    def read_many(self, keys: list[bytes]) -> dict[bytes, Record]:
        """Return the fresh entries of several keys, in one round trip, and count the reads."""
        records = self.peek_many(keys)
        self._count("hits", len(records))
        self._count("misses", len(keys) - len(records))
        return records

    def peek_many(self, keys: list[bytes]) -> dict[bytes, Record]:
        """Return the fresh entries of several keys, in one round trip."""
        refuse_if_brief()
        found = self.driver.get_many([self._entry_key(key) for key in keys])
        records = {}
        for key in keys:
            present = self._present(self._seen(key, found.get(self._entry_key(key))))
            if present is not None and not present[1]:
                records[key] = present[0]
        return records

    def contains(self, key: bytes) -> bool:
        """Return whether there is a fresh entry."""
        return self.peek(key) is not None

    def peek(self, key: bytes) -> Optional[Record]:
        """Return a fresh entry without counting the read."""
        found = self._present(self._look(key))
        return None if found is None or found[1] else found[0]

    def keys(self) -> list[bytes]:
        """Return the keys of all entries, also of expired ones."""
        refuse_if_brief()
        start = self._entry_key(b"")
        return [key[len(start) :] for key in self.driver.scan(start)]

    def __len__(self) -> int:
        """Return the number of entries, including expired ones."""
        return len(self.keys())

    # --- Writing -------------------------------------------------------------------------------

    def _packed(
        self, key: bytes, value: Optional[bytes], terms: Terms, **more: object
    ) -> tuple[bytes, Optional[float]]:
        """The envelope of a new value, and its ttl at the place."""
        expiry_us = None if terms.ttl_us is None else self.now_us() + terms.ttl_us
        stale_us = 0 if terms.ttl_us is None else terms.stale_us
        version = secrets.randbelow(VERSIONS_END - 1) + 1
        fields = {"stamp": self._stamp_for(terms.tags) if terms.tags else 0, **more}
        envelope = Envelope(
            key, version, value, expiry_us, stale_us, tags=terms.tags, **fields  # type: ignore[arg-type]
        )  # fmt: skip
        return pack(envelope), self._ttl_s(envelope)

    def _ttl_s(self, envelope: Envelope) -> Optional[float]:
        """How long the place keeps an envelope."""
        ends_us = envelope.expiry_us
        if ends_us is not None:
            ends_us += envelope.stale_us
        if envelope.lease is not None:
            lease_end_us = envelope.lease[1]
            if envelope.value is None:
                ends_us = lease_end_us
            elif ends_us is not None:
                ends_us = max(ends_us, lease_end_us)
        return None if ends_us is None else (ends_us - self.now_us()) / 1e6

    def write(
        self,
        key: bytes,
        kept: Kept,
        _len_bytes: int,
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
            terms: Its ttl and tags.
            if_fresh: If given, store only if this says whether there is a fresh entry.
            version: If given, store only if there is a fresh entry with this version.
            made_s: How many seconds making it took, if that is known.

        Returns:
            Whether it was stored.

        Raises:
            Unsupported: The terms ask for a pinned entry.
        """
        refuse_if_brief()
        self._refuse_pinned(terms)
        made_us = None if made_s is None else round(made_s * 1e6)
        packed, ttl_s = self._packed(key, to_bytes(kept), terms, made_us=made_us)
        place_key = self._entry_key(key)
        if if_fresh is None and version is None and not terms.keeps_ttl:
            if ttl_s is not None and ttl_s <= 0:
                self.driver.delete(place_key)
            else:
                self.driver.set(place_key, packed, ttl_s)
            self._count("sets")
            return True

        def wanted(seen: Optional[Envelope]) -> Optional[tuple[bytes, Optional[float]]]:
            present = self._present(seen)
            is_fresh = present is not None and not present[1]
            if if_fresh is not None and is_fresh is not if_fresh:
                return None
            if version is not None and (not is_fresh or seen is None or seen.version != version):
                return None
            if terms.keeps_ttl and is_fresh and seen is not None:
                until_us = seen.expiry_us
                left_us = None if until_us is None else until_us - self.now_us()
                return self._packed(key, to_bytes(kept), terms._replace(ttl_us=left_us))
            return packed, ttl_s

        return self._replace(key, wanted)

    def _refuse_pinned(self, terms: Terms) -> None:
        if terms.pinned:
            raise Unsupported(
                f"{self.driver.title} evicts by rules of its own, so no entry there can be pinned; "
                "nothing was changed: omit pinned, or use a cache in shared memory"
            )

    def write_many(self, entries: Iterable[tuple[bytes, Kept, int]], terms: Terms) -> None:
        """Store several values, given as key, value and length, in one round trip."""
        refuse_if_brief()
        self._refuse_pinned(terms)
        items = []
        for key, kept, _ in entries:
            packed, ttl_s = self._packed(key, to_bytes(kept), terms)
            items.append((self._entry_key(key), packed, ttl_s))
        if not items:
            return
        if any(ttl_s is not None and ttl_s <= 0 for _, _, ttl_s in items):
            self.driver.delete_many([key for key, _, _ in items])
        else:
            self.driver.set_many(items)
        self._count("sets", len(items))

    def _replace(
        self,
        key: bytes,
        wanted: Callable[[Optional[Envelope]], Optional[tuple[bytes, Optional[float]]]],
    ) -> bool:
        """Replace what a key has by what a function wants for that; None is nothing.

        Others may change it in between: then look again. Somebody has succeeded each time.
        """
        refuse_if_brief()
        place_key = self._entry_key(key)
        while True:
            found = self.driver.get(place_key)
            seen = self._seen(key, found)
            new = wanted(seen)
            if new is None:
                return False
            packed, ttl_s = new
            if ttl_s is not None and ttl_s <= 0:
                # It has expired already.
                is_done = found is None or self.driver.delete(place_key, found.version)
            elif found is None:
                is_done = self.driver.add(place_key, packed, ttl_s)
            else:
                is_done = self.driver.swap(place_key, packed, ttl_s, found.version)
            if is_done:
                self._count("sets")
                return True
            time.sleep(secrets.randbelow(1000) / 1000 * _ATTEMPTS_PAUSE_S)

    def change(
        self,
        key: bytes,
        changed: Callable[[Optional[Record]], Kept],
        _len_bytes: int,
        ttl_us: Optional[int],
    ) -> Kept:
        """Replace the value of a fresh entry, which keeps the rest, or store a new one.

        Args:
            key: The key.
            changed: Returns the new value; gets the fresh entry, or None. May raise.
            ttl_us: The ttl of a new entry.

        Returns:
            The new value.
        """
        kept: Kept = None

        def wanted(seen: Optional[Envelope]) -> tuple[bytes, Optional[float]]:
            nonlocal kept
            present = self._present(seen)
            if seen is None or present is None or present[1]:
                kept = changed(None)
                return self._packed(key, to_bytes(kept), Terms(ttl_us))
            kept = changed(present[0])
            return self._changed(seen, value=to_bytes(kept), lease=None, made_us=None)

        self._replace(key, wanted)
        return kept

    def _changed(self, seen: Envelope, **fields: object) -> tuple[bytes, Optional[float]]:
        """The same envelope with other fields and another version."""
        version = secrets.randbelow(VERSIONS_END - 1) + 1
        envelope = seen._replace(**{"version": version, **fields})  # type: ignore[arg-type]
        return pack(envelope), self._ttl_s(envelope)

    def touch(self, key: bytes, ttl_us: Optional[int]) -> Optional[Record]:
        """Give a fresh entry another ttl. Return the entry, if there is one."""
        touched: Optional[Record] = None

        def wanted(seen: Optional[Envelope]) -> Optional[tuple[bytes, Optional[float]]]:
            nonlocal touched
            present = self._present(seen)
            touched = None
            if seen is None or present is None or present[1]:
                return None
            touched = present[0]
            expiry_us = None if ttl_us is None else self.now_us() + ttl_us
            # The same version: a lease on the key stays valid, and so does what `cas` expects.
            return self._changed(seen, expiry_us=expiry_us, version=seen.version)

        if self._replace(key, wanted):
            self._count("sets", -1)
        return touched

    # --- Deleting ------------------------------------------------------------------------------

    def delete(self, key: bytes, version: Optional[int] = None) -> Optional[Record]:
        """Delete an entry, and so its lease. Return the entry if it was fresh.

        With a version, do so only if there is a fresh entry with this version.
        """
        refuse_if_brief()
        place_key = self._entry_key(key)
        while True:
            found = self.driver.get(place_key)
            if found is None:
                return None
            seen = self._seen(key, found)
            present = self._present(seen)
            fresh = present[0] if present is not None and not present[1] else None
            if version is not None and (fresh is None or fresh.version != version):
                return None
            if self.driver.delete(place_key, found.version):
                if fresh is not None:
                    self._count("deletes")
                return fresh

    def pop_any(
        self,
        is_wanted: Callable[[bytes], bool],
        *,
        newest: bool = True,  # noqa: ARG002 - There is no order.
    ) -> Optional[tuple[bytes, Record]]:
        """Delete any fresh entry whose key is wanted, and return it; None if there is none."""
        for key in self.keys():
            record = self.delete(key) if is_wanted(key) else None
            if record is not None:
                return key, record
        return None

    def clear(self) -> int:
        """Delete all entries and leases. Return how many entries there were."""
        refuse_if_brief()
        count = len(self)
        self.driver.clear(self._entry_key(b""))
        return count

    def expire(self, is_former: Callable[[bytes], bool]) -> int:
        """Delete the invalid entries, and those whose keys are former ones. Return their number.

        The place itself frees the expired ones.
        """
        count = 0
        for key in self.keys():
            found = self.driver.get(self._entry_key(key))
            seen = self._seen(key, found)
            is_gone = seen is not None and seen.value is not None and self._state(seen) is None
            if is_gone or is_former(key):
                count += self.driver.delete(self._entry_key(key), found and found.version)
        return count

    # --- Tags ----------------------------------------------------------------------------------

    def _row_key(self, tag: str) -> bytes:
        return self.prefix + b"t" + tag.encode()

    def _rows(self, tags: tuple[str, ...]) -> tuple[int, dict[str, tuple[int, int]]]:
        """What the clock shows, 0 without one, and the rows of tags that have one."""
        refuse_if_brief()
        clock_key = self.prefix + b"c"
        found = self.driver.get_many([clock_key, *map(self._row_key, tags)])
        rows = {}
        for tag in tags:
            row = _words(found.get(self._row_key(tag)), 2)
            if row is not None:
                rows[tag] = row[0], row[1]
        (clock,) = _words(found.get(clock_key), 1) or (0,)
        return clock, rows

    def _clock(self, least: int = 0) -> int:
        """What the clock shows; starts one that shows at least this."""
        clock_key = self.prefix + b"c"
        while True:
            words = _words(self.driver.get(clock_key), 1)
            if words is not None:
                return words[0]
            self.driver.add(clock_key, _packed_words(max(self.now_us(), least)), None)

    def _advance_clock(self) -> int:
        clock_key = self.prefix + b"c"
        while True:
            found = self.driver.get(clock_key)
            words = _words(found, 1)
            if found is None or words is None:
                self._clock()
                continue
            later = max(self.now_us(), words[0] + 1)
            if self.driver.swap(clock_key, _packed_words(later), None, found.version):
                return later

    def _stamp_for(self, tags: tuple[str, ...]) -> int:
        """The stamp of an entry that is made now. Gives each of its tags a row."""
        clock, rows = self._rows(tags)
        if not clock:
            clock = self._clock(max((max(row) for row in rows.values()), default=0))
        for tag in tags:
            if tag not in rows:
                self.driver.add(self._row_key(tag), _packed_words(clock, 0), None)
        return clock

    def evict(self, tag: str, *, soft: bool) -> None:
        """Make all entries with a tag invalid, or stale."""
        refuse_if_brief()
        later, row_key = self._advance_clock(), self._row_key(tag)
        while True:
            found = self.driver.get(row_key)
            words = _words(found, 2)
            if found is None or words is None:
                # Without a row, all its entries are invalid; a new row keeps them so.
                if self.driver.add(row_key, _packed_words(later, 0), None):
                    return
                continue
            hard, soft_at = words
            row = (hard, max(soft_at, later)) if soft else (max(hard, later), soft_at)
            if self.driver.swap(row_key, _packed_words(*row), None, found.version):
                return

    # --- Namespaces ----------------------------------------------------------------------------

    def _era_key(self, name: bytes) -> bytes:
        return self.prefix + b"n" + name

    def era(self, name: bytes) -> int:
        """Return the era of a namespace."""
        refuse_if_brief()
        key = self._era_key(name)
        while True:
            words = _words(self.driver.get(key), 1)
            if words is not None:
                return words[0]
            # Random: a place that loses an era must not give an earlier one again.
            self.driver.add(key, _packed_words(secrets.randbelow(VERSIONS_END - 1) + 1), None)

    def advance_era(self, name: bytes) -> int:
        """Give a namespace an era that it has not had. Return it."""
        refuse_if_brief()
        era = secrets.randbelow(VERSIONS_END - 1) + 1
        self.driver.set(self._era_key(name), _packed_words(era), None)
        return era

    # --- Leases --------------------------------------------------------------------------------

    def begin(
        self, key: bytes, _handle: object, *, force: bool
    ) -> tuple[Optional[tuple[Record, bool]], Optional[RemoteLease]]:
        """Return the present entry and whether it is stale, and a lease if none is out.

        Without ``force``, a fresh entry needs no lease.
        """
        present: Optional[tuple[Record, bool]] = None
        lease: Optional[RemoteLease] = None

        def wanted(seen: Optional[Envelope]) -> Optional[tuple[bytes, Optional[float]]]:
            nonlocal present, lease
            present, lease = self._present(seen), None
            if present is not None and not present[1] and not force:
                return None
            now_us = self.now_us()
            if seen is not None and seen.lease and seen.lease[1] > now_us:
                return None
            number = secrets.randbelow(VERSIONS_END)
            stamp, end_us = self._clock(), now_us + self.lease_us
            lease = RemoteLease(key, number, stamp, end_us)
            if seen is None or present is None:
                envelope = Envelope(key, number + 1, None, lease=(number, end_us))
                return pack(envelope), self._ttl_s(envelope)
            return self._changed(seen, lease=(number, end_us), version=seen.version)

        if not self._replace(key, wanted):
            return present, None
        self._count("sets", -1)
        assert lease is not None  # noqa: S101 - It was stored.
        self._leases[lease.number] = lease
        return present, lease

    def _own(self, lease: RemoteLease, seen: Optional[Envelope]) -> bool:
        return seen is not None and seen.lease == (lease.number, lease.end_us)

    def finish(
        self,
        lease: RemoteLease,
        key: bytes,
        kept: Kept,
        _len_bytes: int,
        terms: Terms,
        made_s: Optional[float],
    ) -> bool:
        """Store what was made, unless it must be refused, and end the lease."""
        if key != lease.key:  # The namespace was cleared.
            self.abandon(lease)
            return False
        if terms.tags:
            clock, rows = self._rows(terms.tags)
            lost = [tag for tag in terms.tags if tag not in rows]
            for tag in lost:
                self.driver.add(self._row_key(tag), _packed_words(max(clock, 1), 0), None)
            # Without a row, a tag may have been evicted since, unless nothing was.
            is_evicted = any(hard > lease.stamp for hard, _ in rows.values())
            if is_evicted or clock < lease.stamp or (lost and clock != lease.stamp):
                self.abandon(lease)
                return False
        made_us = None if made_s is None else round(made_s * 1e6)
        expiry_us = None if terms.ttl_us is None else self.now_us() + terms.ttl_us
        envelope = Envelope(
            lease.key,
            secrets.randbelow(VERSIONS_END - 1) + 1,
            to_bytes(kept),
            expiry_us,
            0 if terms.ttl_us is None else terms.stale_us,
            made_us,
            terms.tags,
            lease.stamp if terms.tags else 0,
        )
        new = pack(envelope), self._ttl_s(envelope)
        stored = self._replace(lease.key, lambda seen: new if self._own(lease, seen) else None)
        self._leases.pop(lease.number, None)
        return stored

    def abandon(self, lease: RemoteLease) -> None:
        """End a lease without a value. Of a lease that ended, does nothing."""
        place_key = self._entry_key(lease.key)
        while lease.number in self._leases:
            refuse_if_brief()
            found = self.driver.get(place_key)
            seen = self._seen(lease.key, found)
            if found is None or seen is None or not self._own(lease, seen):
                break
            if seen.value is None:
                is_done = self.driver.delete(place_key, found.version)
            else:
                packed, ttl_s = self._changed(seen, lease=None, version=seen.version)
                is_done = self.driver.swap(place_key, packed, ttl_s, found.version)
            if is_done:
                break
        self._leases.pop(lease.number, None)

    def abandon_all(self, _handle: object) -> None:
        """End all leases, as far as the place answers; the others end with their time."""
        for lease in list(self._leases.values()):
            with suppress(DriverError):
                self.abandon(lease)

    def wait_made(self, key: bytes, timeout_s: float) -> bool:
        """Wait until no lease of a key is out. Return whether that is so."""
        end_s = time.monotonic() + timeout_s
        pause_s = _FIRST_LOOK_S
        while True:
            seen = self._look(key)
            if seen is None or not seen.lease:
                return True
            if seen.lease[1] <= self.now_us():
                return True
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 1.5, _LOOK_MAX_S)


def _packed_words(*words: int) -> bytes:
    return b"".join(word.to_bytes(_STAMP_BYTES, "little") for word in words)


def _words(found: Optional[Found], count: int) -> Optional[tuple[int, ...]]:
    if found is None or len(found.value) != count * _STAMP_BYTES:
        return None
    parts = (found.value[at : at + _STAMP_BYTES] for at in range(0, len(found.value), _STAMP_BYTES))
    return tuple(int.from_bytes(part, "little") for part in parts)
