"""`Writing`: what operations that change entries do in a cache that stands in front of another one.

Owns the ways of writing. Must not know files or servers.

- **around**: the far tier stores, and the copy is removed.
- **through**: the far tier stores, and a copy is kept. The near tier has a lease on the key from
  before, as for a read, so another write in between refuses the copy.
- **behind**: the value waits in `tuckbox.tiers.behind`, and is shown to other processes in a
  namespace of the near tier, which no message of the far tier reaches.

Operations that need an answer, such as `add`, `incr` and `delete`, write around in any case. They
first send what waits for their keys.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Callable, Optional

from tuckbox.contract import Token, Ttl
from tuckbox.errors import KeyTypeError, TuckboxError
from tuckbox.keys import Key
from tuckbox.loads import MISSING
from tuckbox.memory import codec
from tuckbox.memory import keys as encoding
from tuckbox.memory.core import checked_terms
from tuckbox.memory.store import Terms
from tuckbox.objects import Objects
from tuckbox.tiers.behind import Write, now_s, value_of
from tuckbox.tiers.tiering import NOT_KEPT, Tiering, made_entry

__all__ = ["Writing"]


class Writing(Tiering):
    """Adds writes to `Tiering`."""

    @contextmanager
    def _changing(self, *keys: Any) -> Iterator[None]:
        """Write to the far tier. The copies of the keys end in any case: it may have been done."""
        try:
            with self._asking():
                if keys:
                    self._settled(*keys)
                yield
        finally:
            for key in keys:
                with suppress(KeyTypeError):
                    super().delete(key)
                    if self._tiers.writes == "behind":
                        # Of another process: this write is newer, until that one is sent.
                        self._behind().delete(key)

    # --- Ways of writing -----------------------------------------------------------------------

    def _store_items(
        self,
        items: list[tuple[Key, Any]],
        ttl: Ttl,
        terms: dict[str, Any],
        store: Callable[[dict[str, Any]], None],
    ) -> None:
        """Store values, in the way of these tiers.

        Args:
            items: Keys and values.
            ttl: As given.
            terms: The other arguments, as given.
            store: Stores them in the far tier, with the arguments that it gets.
        """
        writes = self._tiers.writes
        # What the end of a kept ttl is, only the far tier knows.
        if items and writes != "around" and terms.keys() <= {"tags", "stale"}:
            checked = checked_terms(ttl, terms.get("stale"), terms.get("tags", ()))
            terms = {**terms, "tags": checked.tags}
            if writes == "through":
                with self._keeping(items, checked):
                    store(terms)
                return
            if self._tiers.behind is not None and checked.ttl_us != 0:
                self._put_behind(items, checked, terms)
                return
        with self._changing(*(key for key, _ in items)):
            store(terms)

    @contextmanager
    def _keeping(self, items: list[tuple[Key, Any]], terms: Terms) -> Iterator[None]:
        """Write to the far tier, and keep copies."""
        leases: dict[Any, Optional[Token]] = {}
        asked_us, asked_s = self._now_us(), time.time()
        try:
            for key, _ in items:
                with suppress(KeyTypeError):
                    super().delete(key)
                leases[key] = self._begin_copy(key)[2]
            with self._asking():
                yield
            for key, value in items:
                lease, entry = leases[key], made_entry(value, terms, asked_s)
                if lease is not None and self._kept_until(lease, key, entry, asked_us) is not None:
                    del leases[key]
        finally:
            for key, lease in leases.items():
                self._drop(lease)
                # Somebody else may have kept, or be fetching, an older value.
                with suppress(KeyTypeError):
                    super().delete(key)

    def _put_behind(
        self, items: list[tuple[Key, Any]], terms: Terms, given: dict[str, Any]
    ) -> None:
        """Let values wait for the far tier."""
        behind = self._tiers.behind
        assert behind is not None  # noqa: S101 - The caller has looked.
        len_max = self._far._remote().value_bytes_max
        rules = codec.Rules(self._objects or Objects(), b"", len_max)
        max_stale_s = self._tiers.max_stale_s
        ttl_s = None if terms.ttl_us is None else terms.ttl_us / 1e6
        ends_s = None if ttl_s is None else now_s() + ttl_s
        shown_s = max_stale_s if ttl_s is None else min(ttl_s, max_stale_s)
        shown, writes = {}, []
        for key, value in items:
            encoded = encoding.encode(key)
            kept, len_bytes = codec.encode(value, key, encoded, rules)
            number = secrets.randbits(63)
            shown[key] = number, codec.to_bytes(kept)
            writes.append(
                Write(
                    self._names,
                    key,
                    self._far,
                    partial(value_of, kept, encoded, rules.objects),
                    len(encoded) + len_bytes,
                    ends_s,
                    ttl_s,
                    tuple(given.items()),
                    keep=partial(self._show_longer, key),
                    sent=partial(self._has_sent, key, number),
                )
            )
        # Before the copies are removed: readers that miss them look there.
        with suppress(*NOT_KEPT):
            self._behind().set_many(shown, shown_s)
        behind.put(writes)
        for key, _ in items:
            super().delete(key)

    def _show_longer(self, key: Key) -> None:
        """Show a write that waits to other processes for longer."""
        with suppress(TuckboxError):
            self._behind().touch(key, self._tiers.max_stale_s)

    def _has_sent(self, key: Key, number: int) -> None:
        """The far tier has a write: show it no longer, unless there is a newer one."""
        super().delete(key)
        entry = self._behind().get_entry(key)
        if entry is not None and entry.value[0] == number:
            self._behind().delete(key, entry.version)

    # --- Storing -------------------------------------------------------------------------------

    def set(self, key: Key, value: Any, ttl: Ttl = None, **terms: Any) -> None:
        """Store a value. See `tuckbox.Cache.set`, and ``writes`` of `tuckbox.connect`."""
        self._store_items(
            [(key, value)], ttl, terms, lambda kept: self._far.set(key, value, ttl, **kept)
        )

    def __setitem__(self, key: Key, value: Any) -> None:
        """Store a value, without a ttl."""
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
        """Store several values, each as `set` does. See `tuckbox.Cache.set_many`."""
        values = dict(mapping.items()) if hasattr(mapping, "items") else mapping
        items = list(values.items()) if isinstance(values, dict) else []
        self._store_items(items, ttl, terms, lambda kept: self._far.set_many(values, ttl, **kept))

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

    def popitem(self, last: bool = True) -> tuple[Key, Any]:
        """Delete any entry from all tiers, and return its key and value. See `tuckbox.Cache`."""
        with self._asking():
            key, value = self._settled().popitem(last)
        super().delete(key)
        return key, value

    def clear(self) -> Any:
        """Delete all entries from all tiers. See `tuckbox.Cache.clear`."""
        try:
            with self._asking():
                return self._settled().clear()
        finally:
            super().clear()

    def expire(self) -> int:
        """Free the space of expired and invalid entries in all tiers. Return how many were far."""
        super().expire()
        with self._asking():
            return self._settled().expire()  # type: ignore[no-any-return]

    def evict(self, *, tag: str, soft: bool = False) -> None:
        """Make all entries with a tag invalid, in all tiers. See `tuckbox.Cache.evict`."""
        try:
            with self._asking():
                self._settled().evict(tag=tag, soft=soft)
        finally:
            super().evict(tag=tag)
