"""`Core`: the operations of a cache on a `Store` in this process.

Has the interface of the extension's class of the same name, whose stub is the reference, and
converts keys, values, lengths of time and errors as that does. Must not know paths or names.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Callable, ClassVar, NoReturn, Optional, TypeVar, cast

from tuckbox.advice import unexpected
from tuckbox.choices import AfterPowerCut, Favour
from tuckbox.contract import BUSY, FOUND, LEASE, Begun, Token, Ttl
from tuckbox.errors import (
    CacheClosed,
    CacheFull,
    CacheReadOnly,
    EntryCorrupt,
    IntegerOverflow,
    InvalidAfterPowerCut,
    InvalidArgument,
    InvalidFavour,
    InvalidLockTimeout,
    InvalidSize,
    InvalidTag,
    KeyTypeError,
    NotAnInteger,
    ValueTooLarge,
)
from tuckbox.keys import Key
from tuckbox.memory import codec, keys, spaces
from tuckbox.memory.messages import object_name, type_name
from tuckbox.memory.numbers import INT_MAX, INT_MIN, signed, ttl_us, version_of
from tuckbox.memory.store import Clock, Lease, Record, Store, Terms
from tuckbox.objects import Objects
from tuckbox.results import Entry

__all__ = ["Core", "Scan", "checked_terms"]

_SIZE_BYTES = 64 << 20
_SIZE_BYTES_MIN = 64 << 10
_SIZE_BYTES_MAX = 8 << 40
_TAG_BYTES_MAX = 255
_TAGS_MAX = 32
_INT_BYTES = 8
_AT_ONCE = 256
_T = TypeVar("_T")

_NOT_GIVEN: Any = object()


if TYPE_CHECKING:
    from collections.abc import MutableMapping

    _Mapping = MutableMapping[Key, Any]
else:
    _Mapping = object


class Core(_Mapping):
    """The operations of a cache. Use a subclass to open one."""

    file_format: ClassVar[str] = "memory"
    """The name of the format; a store in memory has no file."""

    # Set by `__init__`, not `__new__`, so that subclasses can have other arguments.
    _store: Optional[Store] = None
    _is_open = False
    # Of a namespace: the handle that it shares.
    _root: Optional[Core] = None
    _space = spaces.Space()

    def __init__(
        self,
        store: Optional[Store] = None,
        *,
        size_bytes: Optional[int] = None,
        max_entries: Optional[int] = None,
        favour: Optional[Favour] = None,
        after_power_cut: Optional[AfterPowerCut] = None,
        evict: Optional[bool] = None,
        ordered: Optional[bool] = None,
        lock_timeout_s: float = 1.0,
        read_only: bool = False,
        exact: bool = False,
        objects: Optional[Objects] = None,
        clock: Optional[Clock] = None,
    ) -> None:
        """Open a store, which gets the given limits; without one, create it."""
        if self._store is not None:
            raise RuntimeError("this cache is already open; create another for another store")
        if size_bytes is not None:
            _check_size(size_bytes)
        self._favour: Favour = _choice(
            favour, ("balanced", "hits", "bytes"), "favour", InvalidFavour
        )
        self._after_power_cut: AfterPowerCut = _choice(
            after_power_cut, ("keep", "discard"), "after_power_cut", InvalidAfterPowerCut
        )
        if not 0 <= lock_timeout_s < math.inf:
            raise InvalidLockTimeout(
                f"lock_timeout must be a number of seconds from 0 to 1e19, got {lock_timeout_s}"
            )
        self._lock_timeout_s = lock_timeout_s
        self._read_only = read_only
        self._is_exact = exact
        self._objects = Objects() if objects is None else objects
        if store is None:
            store = Store(
                size_bytes or _SIZE_BYTES,
                max_entries,
                clock,
                evicts=evict is not False,
                ordered=ordered is True,
            )
        elif size_bytes is not None or max_entries is not None:
            store.resize(size_bytes, max_entries)
        self._store = store
        self._is_open = True

    # --- The state of the handle ---------------------------------------------------------------

    def _described(self) -> Store:
        """Return the store, also if the handle is closed."""
        if self._store is None:
            raise CacheClosed(
                "this cache was never opened; a subclass that defines __init__ must call "
                "super().__init__"
            )
        return self._store

    def _readable(self) -> Store:
        # As `_described` and `closed`, without their calls: every operation comes by here.
        store = self._store
        if store is None:
            return self._described()
        if not (self if self._root is None else self._root)._is_open:
            raise CacheClosed(f"{self._title()} is closed; open it again to use it")
        return store

    def _writable(self) -> Store:
        store = self._readable()
        if self._read_only:
            raise CacheReadOnly(
                f"{self._title()} was opened with read_only; nothing was changed: open it without"
            )
        return store

    def _title(self) -> str:
        """How messages name the cache."""
        return "this cache"

    # --- Namespaces ----------------------------------------------------------------------------

    def _join(self, parent: Core, name: str) -> None:
        """Become a namespace of another cache or namespace, whose handle it shares."""
        parent._readable()
        vars(self).update(vars(parent))
        self._root = parent._handle
        self._space = parent._space.within(name)

    @property
    def _handle(self) -> Core:
        """The handle: of a namespace, the one that it shares."""
        return self if self._root is None else self._root

    def _prefix(self) -> bytes:
        return self._space.prefix(self._described())

    def _key(self, key: Key) -> bytes:
        return keys.joined(self._prefix(), keys.encode(key), key)

    def _lookup(self, key: object) -> bytes:
        encoded = keys.encode_lookup(key)
        if self._root is None:
            return encoded
        return keys.joined(self._prefix(), encoded, key)

    # --- One key -------------------------------------------------------------------------------

    def get(self, key: Key, default: Any = None, **others: object) -> Any:
        """Return the value of ``key``, or ``default`` if it has none.

        Args:
            key: A str, bytes, int, or a tuple of these.
            default: Returned if the key is missing or expired.
            **others: Refused.

        Returns:
            The value, with the type it was stored with; or ``default`` itself.

        Raises:
            KeyTypeError, KeyTooLong: The key is invalid.
            CacheClosed: The cache is closed.

        Example:
            >>> cache.set("user:42", {"name": "Ada"})
            >>> cache.get("user:42")
            {'name': 'Ada'}
        """
        if others:
            _refuse_names(self.get, others)
        store = self._readable()
        encoded = self._lookup(key)
        record = store.read(encoded)
        return default if record is None else self._decoded(encoded, record)

    def get_entry(self, key: Key, *, stale: bool = False) -> Optional[Entry]:
        """Return the entry of ``key``, or None if it has no value.

        Args:
            key: A str, bytes, int, or a tuple of these.
            stale: Whether to return a stale entry as well.

        Returns:
            An `Entry`, or None.

        Raises:
            As `get`.

        Example:
            >>> cache.set("user:42", "Ada")
            >>> cache.get_entry("user:42").value
            'Ada'
        """
        encoded = self._lookup(key)
        return self._entry(encoded, self._readable().read_entry(encoded, stale=stale))

    def set(
        self,
        key: Key,
        value: object,
        ttl: Ttl = None,
        *,
        tags: Iterable[str] = (),
        stale: Ttl = None,
        keep_ttl: bool = False,
        pinned: bool = False,
        **others: object,
    ) -> None:
        """Store ``value`` under ``key``, replacing any old value.

        Args:
            key: A str, bytes, int, or a tuple of these.
            value: An object of one of the types listed in `tuckbox.Cache`.
            ttl: Seconds, text such as "5m", or a timedelta; None never expires, 0 expires at once.
            tags: Names for `evict`.
            stale: How long the entry is kept stale after its ttl, as ``ttl``; None is not at all.
            keep_ttl: If true, a present entry keeps its expiry, and ``ttl`` is for a new one.
            pinned: If true, the entry is never evicted. Without it, the entry of ``key`` is not
                pinned any more.
            **others: Refused.

        Raises:
            KeyTypeError, KeyTooLong: The key is invalid.
            ValueTypeError, ValueTooLarge: The value cannot be stored.
            InvalidTTL, InvalidTag, InvalidArgument: An argument is invalid.
            CacheFull: There is no room, and nothing that may be evicted.
            CacheReadOnly, CacheClosed: The cache cannot be written.

        Whatever it raises, the old value is kept.

        Example:
            >>> cache.set("user:42", {"name": "Ada"}, ttl=300, tags=["users"])
            >>> cache.get_entry("user:42").tags
            ('users',)
        """
        if others:
            _refuse_names(self.set, others)
        self._write(key, value, checked_terms(ttl, stale, tags, keep_ttl, pinned))

    def add(
        self,
        key: Key,
        value: object,
        ttl: Ttl = None,
        *,
        tags: Iterable[str] = (),
        stale: Ttl = None,
        pinned: bool = False,
    ) -> bool:
        """Store ``value`` only if ``key`` has no value.

        Args:
            key: As `set`.
            value: As `set`.
            ttl: As `set`.
            tags: As `set`.
            stale: As `set`.
            pinned: As `set`.

        Returns:
            True if the value was stored, False if the key has a value.

        Raises:
            As `set`.

        Example:
            >>> cache.add("seen:7", True, ttl=60), cache.add("seen:7", True, ttl=60)
            (True, False)
        """
        return self._write(
            key, value, checked_terms(ttl, stale, tags, pinned=pinned), if_fresh=False
        )

    def replace(
        self,
        key: Key,
        value: object,
        ttl: Ttl = None,
        *,
        tags: Iterable[str] = (),
        stale: Ttl = None,
        keep_ttl: bool = False,
        pinned: bool = False,
    ) -> bool:
        """Store ``value`` only if ``key`` already has a value.

        Args:
            key: As `set`.
            value: As `set`.
            ttl: As `set`.
            tags: As `set`.
            stale: As `set`.
            keep_ttl: As `set`.
            pinned: As `set`.

        Returns:
            True if the value was stored, False if the key has no value.

        Raises:
            As `set`.

        Example:
            >>> cache.replace("user:42", "Ada")
            False
        """
        return self._write(
            key, value, checked_terms(ttl, stale, tags, keep_ttl, pinned), if_fresh=True
        )

    def cas(
        self,
        key: Key,
        value: object,
        version: int,
        ttl: Ttl = None,
        *,
        tags: Iterable[str] = (),
        stale: Ttl = None,
        keep_ttl: bool = False,
        pinned: bool = False,
    ) -> bool:
        """Store ``value`` only if the entry of ``key`` still has this ``version``.

        Args:
            key: As `set`.
            value: As `set`.
            ttl: As `set`.
            tags: As `set`.
            stale: As `set`.
            keep_ttl: As `set`.
            pinned: As `set`.
            version: The ``version`` of the `Entry` that `get_entry` returned.

        Returns:
            True if the value was stored, False if the value changed meanwhile or is missing.

        Raises:
            InvalidVersion: ``version`` is not the version of an entry.
            As `set`.

        Example:
            >>> cache.set("cart", ["tea"])
            >>> entry = cache.get_entry("cart")
            >>> cache.cas("cart", entry.value + ["milk"], entry.version)
            True
        """
        return self._write(
            key, value, checked_terms(ttl, stale, tags, keep_ttl, pinned), version=version
        )

    def _write(
        self,
        key: Key,
        value: object,
        terms: Terms,
        *,
        if_fresh: Optional[bool] = None,
        version: Any = _NOT_GIVEN,
    ) -> bool:
        encoded = self._key(key)
        expected = None if version is _NOT_GIVEN else version_of(version)
        store = self._writable()
        kept, len_bytes = self._encoded(store, key, encoded, value)
        return self._with_room(
            lambda: store.write(
                encoded, kept, len_bytes, terms, if_fresh=if_fresh, version=expected
            )
        )

    def _with_room(self, write: Callable[[], _T]) -> _T:
        """Write; if there is no room, delete what nobody can ask for, and write again."""
        try:
            return write()
        except CacheFull:
            if not self.expire():
                raise
            return write()

    def _encoded(
        self, store: Store, key: Key, encoded: bytes, value: object
    ) -> tuple[codec.Kept, int]:
        rules = codec.Rules(self._objects, store.id, store.value_bytes_max, self._is_exact)
        return codec.encode(value, key, encoded, rules)

    def _decoded(self, encoded: bytes, record: Record) -> Any:
        """Return the value of an entry with this key."""
        kept = record.kept
        return self._built(encoded, kept) if type(kept) is codec.Encoded else kept

    def _built(self, encoded: bytes, kept: codec.Encoded) -> Any:
        """Return the object of which these are the bytes, under this key."""
        try:
            return codec.decode(kept, encoded, self._objects, self._described().id)
        except EntryCorrupt as error:
            name = object_name(keys.decode(encoded[len(self._prefix()) :]))
            raise type(error)(f"key {name}: {error}") from error.__cause__

    def delete(self, key: Key, version: Optional[int] = None) -> bool:
        """Delete ``key``.

        Args:
            key: A str, bytes, int, or a tuple of these.
            version: If given, delete only if the entry still has this version.

        Returns:
            True if the key had a value (and that version), False if not.

        Raises:
            KeyTypeError, KeyTooLong, InvalidVersion: An argument is invalid.
            CacheReadOnly, CacheClosed: The cache cannot be written.

        Example:
            >>> cache.set("user:42", "Ada")
            >>> cache.delete("user:42"), cache.delete("user:42")
            (True, False)
        """
        encoded = self._lookup(key)
        expected = None if version is None else version_of(version)
        return self._writable().delete(encoded, expected) is not None

    def pop(self, key: Key, default: Any = _NOT_GIVEN) -> Any:
        """Delete ``key`` and return its value.

        Args:
            key: A str, bytes, int, or a tuple of these.
            default: Returned if the key has no value. Without it, raises KeyError.

        Returns:
            The value, or ``default``.

        Raises:
            KeyError: The key has no value, and ``default`` was not given.
            As `delete`.

        Example:
            >>> cache.set("token", "abc")
            >>> cache.pop("token"), cache.pop("token", None)
            ('abc', None)
        """
        encoded = self._lookup(key)
        record = self._writable().delete(encoded)
        if record is not None:
            return self._decoded(encoded, record)
        if default is _NOT_GIVEN:
            raise KeyError(key)
        return default

    def touch(self, key: Key, ttl: Ttl = None) -> bool:
        """Give ``key`` a new time to live, counted from now.

        Args:
            key: A str, bytes, int, or a tuple of these.
            ttl: Seconds, text such as "5m", or a timedelta; None never expires, 0 expires at once.

        Returns:
            True if the key has a value, False if not.

        Raises:
            InvalidTTL: ``ttl`` is not a length of time.
            As `delete`.

        Example:
            >>> cache.set("session", "abc", ttl=60)
            >>> cache.touch("session", ttl=3600)
            True
        """
        encoded = self._lookup(key)
        return self._writable().touch(encoded, ttl_us(ttl)) is not None

    def get_and_touch(self, key: Key, ttl: Ttl = None, default: Any = None) -> Any:
        """Return the value of ``key`` and give it a new time to live, counted from now.

        Args:
            key: A str, bytes, int, or a tuple of these.
            ttl: As for `touch`.
            default: Returned if the key has no value.

        Returns:
            The value, or ``default``.

        Raises:
            As `get` and `touch`.

        Example:
            >>> cache.set("session", "abc", ttl=60)
            >>> cache.get_and_touch("session", ttl=3600)
            'abc'
        """
        encoded = self._lookup(key)
        record = self._writable().touch(encoded, ttl_us(ttl))
        return default if record is None else self._decoded(encoded, record)

    def ttl(self, key: Key) -> Optional[float]:
        """Return how long ``key`` has to live.

        Args:
            key: A str, bytes, int, or a tuple of these.

        Returns:
            Seconds as a float, `math.inf` if it never expires, or None if it has no value.

        Raises:
            As `get`.

        Example:
            >>> cache.set("session", "abc", ttl=60)
            >>> round(cache.ttl("session"))
            60
        """
        store = self._readable()
        record = store.read(self._lookup(key))
        if record is None:
            return None
        until_us = record.fresh_until_us
        return math.inf if until_us is None else max(0, until_us - store.now_us()) / 1e6

    def incr(self, key: Key, delta: Any = 1, default: Any = 0, ttl: Ttl = None) -> int:
        """Add ``delta`` to the int stored under ``key``, atomically over all threads.

        Args:
            key: A str, bytes, int, or a tuple of these.
            delta: The int to add; may be negative.
            default: The int to start from if the key has no value; None raises KeyError then.
            ttl: The time to live if the key had no value. An existing entry keeps its expiry.

        Returns:
            The sum.

        Raises:
            KeyError: The key has no value, and ``default`` is None.
            NotAnInteger: The value, ``delta`` or ``default`` is not an int.
            IntegerOverflow: The sum, ``delta`` or ``default`` does not fit 64 bits.
            As `set`.

        Example:
            >>> cache.incr("visits"), cache.incr("visits")
            (1, 2)
        """
        return self._add_to(key, signed(delta, "delta"), default, ttl)

    def decr(self, key: Key, delta: Any = 1, default: Any = 0, ttl: Ttl = None) -> int:
        """Subtract ``delta`` from the int stored under ``key``, atomically over all threads.

        Args:
            key: As `incr`.
            delta: The int to subtract.
            default: As `incr`.
            ttl: As `incr`.

        Returns:
            The difference.

        Raises:
            As `incr`.

        Example:
            >>> cache.set("stock", 10)
            >>> cache.decr("stock", 3)
            7
        """
        number = signed(delta, "delta")
        if number == INT_MIN:
            raise IntegerOverflow(
                f"delta must fit a signed 64-bit integer when negated, got {number}"
            )
        return self._add_to(key, -number, default, ttl)

    def _add_to(self, key: Key, delta: int, default: Any, ttl: Ttl) -> int:
        start = None if default is None else signed(default, "default")
        encoded = self._key(key)
        length_us = ttl_us(ttl)

        def added(record: Optional[Record]) -> int:
            current = start if record is None else record.kept
            if current is None and record is None:
                raise KeyError(key)
            if type(current) is not int or not INT_MIN <= current <= INT_MAX:
                raise NotAnInteger(
                    f"key {object_name(key)}: the entry does not hold a 64-bit integer, so incr "
                    "and decr cannot change it"
                )
            if not INT_MIN <= current + delta <= INT_MAX:
                raise IntegerOverflow(
                    f"key {object_name(key)}: {current} + {delta} does not fit a 64-bit integer; "
                    "the entry was not changed"
                )
            return current + delta

        return cast("int", self._writable().change(encoded, added, _INT_BYTES, length_us))

    # --- Many keys -----------------------------------------------------------------------------

    def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the values of several keys.

        Args:
            keys: An iterable of keys.

        Returns:
            A dict of those keys that have a value.

        Raises:
            KeyTypeError: A key is invalid, or ``keys`` is a single str or bytes.
            As `get`.

        Example:
            >>> cache.set("a", 1)
            >>> cache.get_many(["a", "b"])
            {'a': 1}
        """
        store = self._readable()
        asked = _lookups(keys, self._lookup)
        found = store.read_many([encoded for _, encoded in asked])
        return {key: self._decoded(at, found[at]) for key, at in asked if at in found}

    def set_many(
        self,
        mapping: Any,
        ttl: Ttl = None,
        *,
        tags: Iterable[str] = (),
        stale: Ttl = None,
        pinned: bool = False,
        **others: object,
    ) -> None:
        """Store several values.

        Args:
            mapping: A dict, or another mapping with ``items``, of keys to values.
            ttl: As `set`.
            tags: As `set`.
            stale: As `set`.
            pinned: As `set`.
            **others: Refused.

        Raises:
            TypeError: ``mapping`` is not a mapping.
            As `set`. An invalid key or value raises before anything is stored.

        Example:
            >>> cache.set_many({"a": 1, "b": 2}, ttl=60)
            >>> len(cache)
            2
        """
        if others:
            _refuse_names(self.set_many, others)
        terms = checked_terms(ttl, stale, tags, pinned=pinned)
        store = self._writable()
        items = getattr(mapping, "items", None)
        if items is None:
            kind = type_name(type(mapping))
            raise TypeError(f"mapping must be a mapping of keys to values, not {kind}")
        pairs = [(key, self._key(key), value) for key, value in items()]
        entries = [(at, *self._encoded(store, key, at, value)) for key, at, value in pairs]
        self._with_room(lambda: store.write_many(entries, terms))

    def delete_many(self, keys: Iterable[Any]) -> int:
        """Delete several keys.

        Args:
            keys: An iterable of keys.

        Returns:
            How many of them had a value.

        Raises:
            KeyTypeError: A key is invalid, or ``keys`` is a single str or bytes. Nothing was
                deleted.
            As `delete`.

        Example:
            >>> cache.set("a", 1)
            >>> cache.delete_many(["a", "b"])
            1
        """
        store = self._writable()
        return sum(store.delete(encoded) is not None for _, encoded in _lookups(keys, self._lookup))

    # --- The mapping protocol ------------------------------------------------------------------

    def __getitem__(self, key: Key) -> Any:
        """Return the value of a key. Raises KeyError."""
        encoded = self._lookup(key)
        record = self._readable().read(encoded)
        if record is None:
            raise KeyError(key)
        return self._decoded(encoded, record)

    def __setitem__(self, key: Key, value: object) -> None:
        """Store a value, which never expires."""
        self._write(key, value, Terms(None))

    def __delitem__(self, key: Key) -> None:
        """Delete a key. Raises KeyError."""
        if not self.delete(key):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        """Return whether a key has a value."""
        return self._readable().contains(self._lookup(key))

    def __len__(self) -> int:
        """Return the number of entries, also of expired ones; of a namespace, of fresh ones."""
        store = self._readable()
        return len(store) if self._root is None else sum(1 for _ in self)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the keys."""
        return Scan(self, lambda own, *_: keys.decode(own))

    def _iter_tagged(self, tag: str) -> Iterator[Any]:
        (checked,) = _checked_tags((tag,))
        return Scan(self, lambda own, *_: keys.decode(own), checked)

    def _iter_keys(self, newest_first: bool = False) -> Iterator[Any]:
        return Scan(self, lambda own, *_: keys.decode(own), newest_first=newest_first)

    def _iter_values(self, newest_first: bool = False) -> Iterator[Any]:
        return Scan(self, lambda _, *entry: self._decoded(*entry), newest_first=newest_first)

    def _iter_items(self, newest_first: bool = False) -> Iterator[tuple[Any, Any]]:
        def item(own: bytes, *entry: Any) -> tuple[Any, Any]:
            return keys.decode(own), self._decoded(*entry)

        return Scan(self, item, newest_first=newest_first)

    def _peekitem(self, newest: bool) -> Optional[tuple[Any, Any]]:
        return next(self._iter_items(newest), None)

    def _iter_encoded(self) -> Iterator[tuple[Any, ...]]:
        """Yield entries for `tuckbox.dumps`, also those of the namespaces in this one."""
        # A place may list a key twice.
        listed = iter(dict.fromkeys(self._readable().keys()))
        while batch := list(itertools.islice(listed, _AT_ONCE)):
            store, prefix = self._readable(), self._prefix()
            eras = spaces.Eras(store)
            inside = [
                key
                for key in batch
                if key.startswith(prefix) and not spaces.is_of_former_era(eras, key)
            ]
            for key, record in store.peek_many(inside).items():
                kept, made_s = record.kept, record.made_s
                # A long int has bytes, too.
                is_int = type(kept) is int and INT_MIN <= kept <= INT_MAX
                made_us = None if made_s is None else round(made_s * 1e6)
                life = (record.fresh_until_us, record.stale_us, made_us)
                encoded = kept if is_int else codec.to_bytes(kept)
                yield key, encoded, *life, record.tags, record.pinned

    def _store_encoded(  # noqa: PLR0917 - As the extension's.
        self,
        key: bytes,
        value: object,
        expiry_us: Optional[int],
        stale_us: int,
        made_us: Optional[int],
        tags: tuple[str, ...],
        pinned: bool,
        replace: bool,
    ) -> Optional[bool]:
        store = self._writable()
        kept = codec.from_bytes(value) if isinstance(value, bytes) else value
        len_bytes = len(value) - 1 if isinstance(value, bytes) else _INT_BYTES
        if len_bytes > store.value_bytes_max:
            raise ValueTooLarge(f"value is {len_bytes} bytes long; resize the cache")
        now_us = store.now_us()
        if expiry_us is not None and now_us >= expiry_us + stale_us:
            return None
        ttl_us = None if expiry_us is None else expiry_us - now_us
        terms = Terms(ttl_us, stale_us, tags, pinned=pinned)
        made_s = None if made_us is None else made_us / 1e6
        if_fresh = None if replace else False
        return store.write(key, kept, len_bytes, terms, if_fresh=if_fresh, made_s=made_s)

    def popitem(self, last: bool = True) -> tuple[Any, Any]:
        """Delete any entry, or the newest or oldest of an ordered cache; return key and value.

        Args:
            last: Of an ordered cache: the entry that was inserted last (the default), or first.

        Returns:
            A (key, value) tuple.

        Raises:
            KeyError: The cache has no entries.
            InvalidArgument: ``last`` is false, and the cache is not ordered.
            As `delete`.

        Example:
            >>> cache.set("job", "mail")
            >>> cache.popitem()
            ('job', 'mail')
        """
        if not last and not self.ordered:
            raise InvalidArgument(
                "popitem(last=False) needs an ordered cache: create it with ordered=True"
            )
        store, prefix = self._writable(), self._prefix()
        popped = store.pop_any(lambda key: spaces.own_part(key, prefix) is not None, newest=last)
        if popped is None:
            raise KeyError("popitem(): the cache has no entries")
        key, record = popped
        return keys.decode(key[len(prefix) :]), self._decoded(key, record)

    # --- The whole cache -----------------------------------------------------------------------

    def clear(self) -> int:  # type: ignore[override]
        """Delete all entries.

        Returns:
            How many entries were deleted.

        Raises:
            CacheReadOnly, CacheClosed: The cache cannot be written.

        Example:
            >>> cache.set_many({"a": 1, "b": 2})
            >>> cache.clear()
            2
        """
        return self._writable().clear()

    def expire(self) -> int:
        """Delete all expired entries to free their space, and those that nobody can get any more.

        Those are entries with an evicted tag, or of a namespace that was cleared.

        Returns:
            How many entries were deleted.

        Raises:
            As `clear`.

        Example:
            >>> cache.set("a", 1, ttl=0)
            >>> cache.expire()
            1
        """
        store = self._writable()
        return store.expire(lambda key: spaces.is_of_former_era(store, key))

    def evict(self, *, tag: str, soft: bool = False) -> None:
        """Make all entries with a tag missing, in a time that does not depend on their number.

        Args:
            tag: The tag.
            soft: If true, the entries become stale instead.

        Raises:
            InvalidTag: ``tag`` is not a valid tag.
            As `clear`.

        Example:
            >>> cache.set("user:42", "Ada", tags=["users"])
            >>> cache.evict(tag="users")
            >>> "user:42" in cache
            False
        """
        (checked,) = _checked_tags((tag,))
        self._writable().evict(checked, soft=soft)

    def close(self) -> None:
        """Close this handle. Other handles stay open.

        Every later operation raises CacheClosed. Closing twice does nothing.

        Example:
            >>> cache.close()
            >>> cache.closed
            True
        """
        handle = self._handle
        if handle._is_open:
            handle._is_open = False
            handle._described().abandon_all(handle)

    @property
    def closed(self) -> bool:
        """Whether this handle is closed."""
        return not self._handle._is_open

    # --- Leases and eras: see `tuckbox.contract` -----------------------------------------------

    def _begin(self, key: Key, force: bool) -> Begun:
        encoded = self._key(key)
        store = self._readable()
        if self._read_only:
            found = store.read_entry(encoded, stale=False)
            if found is None or force:
                self._writable()
            return FOUND, self._entry(encoded, found), None
        found, lease = store.begin(encoded, self._handle, force=force)
        try:
            entry = self._entry(encoded, found)
        except BaseException:
            if lease is not None:
                self._abandon(lease)
            raise
        if lease is not None:
            return LEASE, entry, lease
        is_found = entry is not None and not entry.stale and not force
        return FOUND if is_found else BUSY, entry, None

    def _finish(  # noqa: PLR0917 - As the contract.
        self,
        token: Token,
        key: Key,
        value: object,
        ttl: Ttl,
        stale: Ttl,
        tags: Iterable[str],
        made_s: Optional[float],
    ) -> bool:
        lease = cast("Lease", token)
        try:
            store = self._writable()
            terms = checked_terms(ttl, stale, tags)
            encoded = self._key(key)
            kept, len_bytes = self._encoded(store, key, encoded, value)
            return store.finish(lease, encoded, kept, len_bytes, terms, made_s)
        finally:
            self._abandon(lease)

    def _abandon(self, token: Token) -> None:
        if self._store is not None:
            self._store.abandon(cast("Lease", token))

    def _wait_made(self, key: Key, timeout_s: float) -> bool:
        return self._readable().wait_made(self._key(key), timeout_s)

    def _entries(self, keys: Iterable[Any]) -> dict[Any, Entry]:
        """Return the fresh entries of several keys, read at once."""
        asked = _lookups(keys, self._lookup)
        found = self._readable().read_many([encoded for _, encoded in asked])
        entries = {}
        for key, encoded in asked:
            record = found.get(encoded)
            entry = None if record is None else self._entry(encoded, (record, False))
            if entry is not None:
                entries[key] = entry
        return entries

    def _entry(self, encoded: bytes, found: Optional[tuple[Record, bool]]) -> Optional[Entry]:
        if found is None:
            return None
        record, is_stale = found
        until_us = record.fresh_until_us
        return Entry(
            self._decoded(encoded, record),
            None if until_us is None else until_us / 1e6,
            record.version,
            record.tags,
            is_stale,
            record.made_s,
            record.pinned,
        )

    def _era(self, name: str) -> int:
        return self._readable().era(self._space.within(name).name)

    def _advance_era(self, name: str) -> int:
        return self._writable().advance_era(self._space.within(name).name)

    # --- Settings ------------------------------------------------------------------------------

    @property
    def path(self) -> Optional[str]:
        """The path of the file: None, for there is none."""
        self._described()
        return None

    @property
    def size(self) -> int:
        """The maximum of all entries, in bytes."""
        return self._described().size_bytes

    @property
    def max_entries(self) -> Optional[int]:
        """The maximum number of entries; None means no limit."""
        return self._described().max_entries

    @property
    def favour(self) -> Favour:
        """The goal of eviction. Has no effect here."""
        self._described()
        return self._favour

    @property
    def after_power_cut(self) -> AfterPowerCut:
        """What happens to the entries after a power cut. Has no effect here."""
        self._described()
        return self._after_power_cut

    @property
    def evicts(self) -> bool:
        """Whether a full cache evicts entries. Otherwise a write without room raises CacheFull."""
        return self._described().evicts

    @property
    def ordered(self) -> bool:
        """Whether the cache keeps the order in which keys were inserted."""
        return self._described().ordered

    @property
    def lock_timeout(self) -> float:
        """How long a write waits for a lock, in seconds. Has no effect here."""
        self._described()
        return self._lock_timeout_s

    @property
    def id(self) -> bytes:
        """The id of the cache: 16 random bytes."""
        return self._described().id

    @property
    def read_only(self) -> bool:
        """Whether this handle is read-only."""
        self._described()
        return self._read_only

    @property
    def group(self) -> Optional[int]:
        """The group that shares the cache: None, for only this process can use it."""
        self._described()
        return None

    def _resize(
        self,
        size_bytes: Optional[int] = None,
        max_entries: Optional[int] = None,
        favour: Optional[Favour] = None,
    ) -> None:
        if size_bytes is not None:
            _check_size(size_bytes)
        if favour is not None:
            _choice(favour, ("balanced", "hits", "bytes"), "favour", InvalidFavour)
        self._writable().resize(size_bytes, max_entries)
        self._favour = favour or self._favour

    def _stats(self) -> dict[str, int]:
        store = self._readable()
        return {
            **dict.fromkeys(_ZEROS, 0),
            **store.counts,
            "entries": len(store),
            "entry_bytes": store.bytes,
            "size_bytes": store.size_bytes,
            "max_entries": store.max_entries or 0,
            "largest_value_bytes": store.value_bytes_max,
            "processes": 1,
            "processes_max": 1,
            "shards": 1,
        }

    def _check(self) -> dict[str, Any]:
        store = self._writable()
        findings = store.audit()
        return {
            **dict.fromkeys(_CHECK_ZEROS, 0),
            "entries": len(store),
            "entry_bytes": store.bytes,
            "losses": [],
            "wrong_counts": len(findings),
            "findings": findings,
        }


_SEGMENTS = [f"segments_{use}" for use in ("free", "log", "index", "body", "spare", "building")]
_ZEROS = [
    "file_bytes", "lost_entries", "discards", "reopened", "takeovers", "reads_under_lock",
    "reads_given_up", "checksum_mismatches", "segment_bytes", "segments", *_SEGMENTS,
]  # fmt: skip
_CHECK_ZEROS = ["lost_entries", "damaged_entries", "leaked_segments", *_SEGMENTS]


class Scan:
    """Iterator over the entries of a cache. See the extension's class."""

    def __init__(
        self, core: Core, part: Any, tag: Optional[str] = None, *, newest_first: bool = False
    ) -> None:
        """``part`` makes what the iterator yields.

        It gets the key without the namespace, the whole key, and the record.
        """
        self._core = core
        self._part = part
        self._tag = tag
        # Several threads may share it.
        listed = core._readable().keys()
        self._keys = reversed(listed) if newest_first else iter(listed)

    def __iter__(self) -> Scan:
        """Return the iterator itself."""
        return self

    def __next__(self) -> Any:
        """Return a part of the next entry that is still there."""
        store = self._core._readable()
        while True:
            key = next(self._keys)
            # Each time, because the namespace may be cleared.
            own = spaces.own_part(key, self._core._prefix())
            record = None if own is None else store.peek(key)
            if record is not None and (self._tag is None or self._tag in record.tags):
                return self._part(own, key, record)


def _lookups(objects: Iterable[Any], encode: Callable[[Any], bytes]) -> list[tuple[Any, bytes]]:
    if isinstance(objects, (str, bytes)):
        raise KeyTypeError(
            f"keys must be an iterable of keys, not {type_name(type(objects))}; put a single key "
            "in a list"
        )
    return [(key, encode(key)) for key in list(objects)]


def checked_terms(
    ttl: Ttl,
    stale: Ttl,
    tags: Iterable[str],
    keep_ttl: bool = False,
    pinned: bool = False,
) -> Terms:
    """Return the terms that a caller has given. Raises InvalidTTL, InvalidTag, InvalidArgument."""
    length_us = ttl_us(ttl)
    flags: tuple[tuple[str, object], ...] = (("keep_ttl", keep_ttl), ("pinned", pinned))
    for name, given in flags:
        if not isinstance(given, bool):
            kind = type_name(type(given))
            raise InvalidArgument(f"{name} must be True or False, not {kind}")
    stale_us = 0
    if stale is not None:
        given_us = ttl_us(stale)
        stale_us = _STALE_US_MAX if given_us is None else given_us
    return Terms(length_us, stale_us, _checked_tags(tags) if tags != () else (), keep_ttl, pinned)


_STALE_US_MAX = 1 << 62


def _checked_tags(tags: Any) -> tuple[str, ...]:
    if isinstance(tags, (str, bytes)):
        raise InvalidTag(
            f"tags must be an iterable of str, not {type_name(type(tags))}; put a single tag in a "
            "list"
        )
    try:
        iterator = iter(tags)
    except TypeError:
        raise InvalidTag(f"tags must be an iterable of str, not {type_name(type(tags))}") from None
    given = tuple(itertools.islice(iterator, _TAGS_MAX + 1))
    if len(given) > _TAGS_MAX:
        raise InvalidTag(f"an entry can have {_TAGS_MAX} tags; give fewer")
    for tag in given:
        if not isinstance(tag, str):
            raise InvalidTag(f"a tag must be a str, not {type_name(type(tag))}")
        try:
            len_bytes = len(str.encode(tag))
        except UnicodeEncodeError:
            raise InvalidTag(
                f"tag {object_name(tag)} has a lone surrogate; use other characters"
            ) from None
        if not 0 < len_bytes <= _TAG_BYTES_MAX:
            raise InvalidTag(
                f"tag {object_name(tag)} is {len_bytes} bytes long; use 1 to {_TAG_BYTES_MAX}"
            )
    return tuple(sorted({str.__str__(tag) for tag in given}))


def _check_size(size_bytes: int) -> None:
    if not _SIZE_BYTES_MIN <= size_bytes <= _SIZE_BYTES_MAX:
        raise InvalidSize(
            f"size is {size_bytes:,} bytes; it must be between {_SIZE_BYTES_MIN:,} and "
            f"{_SIZE_BYTES_MAX:,} bytes"
        )


def _choice(given: Any, known: tuple[str, ...], name: str, error: type[Exception]) -> Any:
    if given is None:
        return known[0]
    if not isinstance(given, str) or given not in known:
        names = ", ".join(f"'{one}'" for one in known)
        raise error(f"{name} must be one of {names}, not {object_name(given)}")
    return given


def _refuse_names(function: Any, others: dict[str, object]) -> NoReturn:
    raise TypeError(unexpected(function, next(iter(others))))
