from collections.abc import Callable, Iterable, Iterator, MutableMapping
from datetime import timedelta
from os import PathLike
from typing import Any, ClassVar, Final, ParamSpec, SupportsIndex, TypeVar, final, overload

from _typeshed import SupportsItems
from typing_extensions import Self, TypeAlias, disjoint_base

from tuckbox.choices import AfterPowerCut, Favour
from tuckbox.contract import Begun, Token
from tuckbox.keys import Key
from tuckbox.results import Entry

_D = TypeVar("_D")
_K = TypeVar("_K", bound=Key)
_P = ParamSpec("_P")
_R = TypeVar("_R")
_TTL: TypeAlias = float | SupportsIndex | str | timedelta | None

__all__ = ["Core", "ManualClock", "Near", "Passage", "Scan", "__version__", "briefly", "is_brief"]

__version__: Final[str]

def briefly(
    spin_s: float, function: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs
) -> _R:
    """Call a function whose cache operations must not wait, for event loops.

    An operation in it that meets a lock raises `tuckbox.brief.Locked`. One that would have to
    repair, or to copy a value longer than 128 KiB, raises `tuckbox.brief.WouldBlock`. Neither has
    changed anything.

    Args:
        spin_s: For how many seconds an operation may spin for a lock.
        function: What to call, with the other arguments.

    Returns:
        What the function returns.

    Raises:
        WouldBlock: See above; and whatever the function raises.

    Example:
        >>> briefly(0.0, cache.set, "user:42", "Ada", ttl=60)
        >>> briefly(0.0, cache.get, "user:42")
        'Ada'
    """

def is_brief() -> bool:
    """Return whether the operations of this thread must be brief now.

    Returns:
        True inside of a call of `briefly`.

    Example:
        >>> is_brief(), briefly(0.0, is_brief)
        (False, True)
    """

@final
class ManualClock:
    """A clock for tests: `Core(path, clock=clock)` uses its time instead of the system's.

    The time, in seconds since 1970, changes only by `advance`, and only forward.

    Args:
        now_s: The time to start at, in seconds since 1970.

    Example:
        >>> clock = ManualClock(1000.0)
        >>> clock.advance(5)
        >>> clock.now()
        1005.0
    """

    def __new__(cls, now_s: float = ...) -> Self: ...
    def now(self) -> float:
        """Return the time, in seconds since 1970."""
    def advance(self, seconds: float) -> None:
        """Move the time forward by `seconds`."""

@final
class Scan:
    """Iterator over the keys, values or items of a cache or a namespace. An ordered cache
    yields them in the order of insertion, others in no particular order.

    Yields each entry that exists during the whole iteration exactly once. Entries stored meanwhile
    may be missing. Expired entries are skipped.
    """

    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...

# At run time only `Cache` is one, by registration.
@disjoint_base
class Core(MutableMapping[Key, Any]):
    """The operations of a cache. Use the subclass `tuckbox.Cache` to open one."""

    def __new__(cls, *_args: object, **_kwargs: object) -> Self: ...
    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        shown: str | PathLike[str] | None = None,
        size_bytes: int | None = None,
        max_entries: int | None = None,
        favour: Favour | None = None,
        after_power_cut: AfterPowerCut | None = None,
        evict: bool | None = None,
        ordered: bool | None = None,
        lock_timeout_s: float = 1.0,
        read_only: bool = False,
        group: int | None = None,
        exact: bool = False,
        objects: object = None,
        only_mine: bool = False,
        clock: ManualClock | None = None,
        resizes: bool = False,
        creates_folder: bool = False,
        local_bytes: int | None = None,
    ) -> None: ...
    @overload
    def get(self, key: Key, default: None = None) -> Any | None:
        """Return the value of `key`, or `default` if it has none.

        Args:
            key: A str, bytes, int, or a tuple of these.
            default: Returned if the key is missing or expired.

        Returns:
            The value, with the type it was stored with; or `default` itself.

        Raises:
            KeyTypeError, KeyTooLong: The key is invalid.
            EntryCorrupt: The value cannot be decoded.
            CacheClosed, CacheLost: The cache cannot be read.

        Example:
            >>> cache.set("user:42", {"name": "Ada"})
            >>> cache.get("user:42")
            {'name': 'Ada'}
            >>> cache.get("user:43", "nobody")
            'nobody'
        """
    @overload
    def get(self, key: Key, default: _D) -> Any | _D: ...
    def get_entry(self, key: Key, *, stale: bool = False) -> Entry | None:
        """Return the entry of `key`, or None if it has no value.

        Args:
            key: A str, bytes, int, or a tuple of these.
            stale: If true, also return a stale entry.

        Returns:
            An `Entry` (a named tuple), or None.

        Raises:
            As `get`.

        Example:
            >>> cache.set("user:42", "Ada")
            >>> entry = cache.get_entry("user:42")
            >>> entry.value, entry.expiry
            ('Ada', None)
        """
    def set(
        self,
        key: Key,
        value: object,
        ttl: _TTL = None,
        *,
        tags: Iterable[str] = (),
        stale: _TTL = None,
        keep_ttl: bool = False,
        pinned: bool = False,
    ) -> None:
        """Store `value` under `key`, replacing any old value.

        Args:
            key: A str, bytes, int, or a tuple of these.
            value: An object of one of the types listed in `tuckbox.Cache`.
            ttl: Seconds, text such as "5m", or a timedelta; None never expires, 0 expires at
                once.
            tags: Names for `evict`, each a str.
            stale: How long the entry is kept stale after its ttl, as ``ttl``; None is not at all.
            keep_ttl: If true, a present entry keeps its expiry, and ``ttl`` is for a new one.
            pinned: If true, the entry is never evicted. Without it, the entry of `key` is not
                pinned any more.

        Raises:
            KeyTypeError, KeyTooLong: The key is invalid.
            ValueTypeError, ValueTooLarge: The value cannot be stored.
            InvalidTTL: `ttl` or `stale` is not a length of time.
            InvalidTag: `tags` is not an iterable of str, or one is empty or longer than 255 bytes.
            CacheFull: There is no room, and nothing that may be evicted.
            LockTimeout: A live process held the lock for longer than `lock_timeout`.
            CacheReadOnly, CacheClosed, CacheLost: The cache cannot be written.
            MemoryError: This process is out of memory.

        Whatever it raises, the old value is kept.

        Example:
            >>> cache.set("user:42", {"name": "Ada"}, ttl=300)
            >>> cache.get_entry("user:42").value
            {'name': 'Ada'}
            >>> cache.set("user:42", {"name": "Ada"}, tags=["users"])
            >>> cache.evict(tag="users")
            >>> "user:42" in cache
            False
        """
    def add(
        self,
        key: Key,
        value: object,
        ttl: _TTL = None,
        *,
        tags: Iterable[str] = (),
        stale: _TTL = None,
        pinned: bool = False,
    ) -> bool:
        """Store `value` only if `key` has no value.

        Args:
            key: A str, bytes, int, or a tuple of these.
            value: An object of one of the types listed in `tuckbox.Cache`.
            ttl: Seconds, text such as "5m", or a timedelta; None never expires, 0 expires at once.
            tags, stale, pinned: As `set`.

        Returns:
            True if the value was stored, False if the key has a value.

        Raises:
            As `set`.

        Example:
            >>> cache.add("seen:7", True, ttl=60), cache.add("seen:7", True, ttl=60)
            (True, False)
        """
    def replace(
        self,
        key: Key,
        value: object,
        ttl: _TTL = None,
        *,
        tags: Iterable[str] = (),
        stale: _TTL = None,
        keep_ttl: bool = False,
        pinned: bool = False,
    ) -> bool:
        """Store `value` only if `key` already has a value.

        Args:
            key: A str, bytes, int, or a tuple of these.
            value: An object of one of the types listed in `tuckbox.Cache`.
            ttl: Seconds, text such as "5m", or a timedelta; None never expires, 0 expires at once.
            tags, stale, keep_ttl, pinned: As `set`.

        Returns:
            True if the value was stored, False if the key has no value.

        Raises:
            As `set`.

        Example:
            >>> cache.replace("user:42", "Ada")
            False
        """
    def cas(
        self,
        key: Key,
        value: object,
        version: int,
        ttl: _TTL = None,
        *,
        tags: Iterable[str] = (),
        stale: _TTL = None,
        keep_ttl: bool = False,
        pinned: bool = False,
    ) -> bool:
        """Store `value` only if the entry of `key` still has this `version` (compare and set).

        Args:
            key: A str, bytes, int, or a tuple of these.
            value: An object of one of the types listed in `tuckbox.Cache`.
            version: The `version` of the `Entry` that `get_entry` returned.
            ttl: Seconds, text such as "5m", or a timedelta; None never expires, 0 expires at once.
            tags, stale, keep_ttl, pinned: As `set`.

        Returns:
            True if the value was stored, False if the value changed meanwhile or is missing.

        Raises:
            InvalidVersion: `version` is not the version of an entry.
            As `set`.

        Example:
            >>> cache.set("cart", ["tea"])
            >>> entry = cache.get_entry("cart")
            >>> cache.cas("cart", entry.value + ["milk"], entry.version)
            True
            >>> cache.cas("cart", entry.value + ["salt"], entry.version)
            False
        """
    def delete(self, key: Key, version: int | None = None) -> bool:
        """Delete `key`.

        Args:
            key: A str, bytes, int, or a tuple of these.
            version: If given, delete the entry only if it still has this version (compare and
                delete).

        Returns:
            True if the key had a value, and that version; False if not.

        Raises:
            KeyTypeError, KeyTooLong: The key is invalid.
            InvalidVersion: `version` is not the version of an entry.
            LockTimeout: A live process held the lock for longer than `lock_timeout`.
            CacheReadOnly, CacheClosed, CacheLost: The cache cannot be written.

        Example:
            >>> cache.set("user:42", "Ada")
            >>> cache.delete("user:42"), cache.delete("user:42")
            (True, False)
        """
    @overload
    def pop(self, key: Key) -> Any:
        """Delete `key` and return its value.

        Args:
            key: A str, bytes, int, or a tuple of these.
            default: Returned if the key has no value. Without it, raises KeyError.

        Returns:
            The value, or `default`.

        Raises:
            KeyError: The key has no value, and `default` was not given.
            EntryCorrupt: The value cannot be decoded. The entry is deleted.
            As `delete`.

        Example:
            >>> cache.set("token", "abc")
            >>> cache.pop("token"), cache.pop("token", None)
            ('abc', None)
        """
    @overload
    def pop(self, key: Key, default: _D) -> Any | _D: ...
    def touch(self, key: Key, ttl: _TTL = None) -> bool:
        """Give `key` a new time to live, counted from now.

        Args:
            key: A str, bytes, int, or a tuple of these.
            ttl: Seconds, text such as "5m", or a timedelta; None never expires, 0 expires at once.

        Returns:
            True if the key has a value, False if not.

        Raises:
            InvalidTTL: `ttl` is not a length of time.
            CacheFull: There is no room for a first expiry. Entries that stay have it.
            As `delete`.

        Example:
            >>> cache.set("session", "abc", ttl=60)
            >>> cache.touch("session", ttl=3600)
            True
        """
    def get_and_touch(self, key: Key, ttl: _TTL = None, default: Any = None) -> Any:
        """Return the value of `key` and give it a new time to live, counted from now.

        Atomic over all processes. Takes a lock, which `get` does not.

        Args:
            key: A str, bytes, int, or a tuple of these.
            ttl: As for `touch`.
            default: Returned if the key has no value.

        Returns:
            The value, or `default`.

        Raises:
            As `get` and `touch`.

        Example:
            >>> cache.set("session", "abc", ttl=60)
            >>> cache.get_and_touch("session", ttl=3600)
            'abc'
        """
    def ttl(self, key: Key) -> float | None:
        """Return how long `key` has to live.

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
    def incr(
        self,
        key: Key,
        delta: SupportsIndex = 1,
        default: SupportsIndex | None = 0,
        ttl: _TTL = None,
    ) -> int:
        """Add `delta` to the int stored under `key`, atomically over all processes.

        Args:
            key: A str, bytes, int, or a tuple of these.
            delta: The int to add; may be negative.
            default: The int to start from if the key has no value; None raises KeyError then.
            ttl: The time to live if the key had no value, as for `set`. An existing entry keeps its
                expiry.

        Returns:
            The sum.

        Raises:
            KeyError: The key has no value, and `default` is None.
            NotAnInteger: The value, `delta` or `default` is not an int. A bool is not an int here.
            IntegerOverflow: The sum, `delta` or `default` does not fit a signed 64-bit integer.
            As `set`.

        Example:
            >>> cache.incr("visits"), cache.incr("visits")
            (1, 2)
        """
    def decr(
        self,
        key: Key,
        delta: SupportsIndex = 1,
        default: SupportsIndex | None = 0,
        ttl: _TTL = None,
    ) -> int:
        """Subtract `delta` from the int stored under `key`, atomically over all processes.

        Args:
            key, delta, default, ttl: As `incr`.

        Returns:
            The difference.

        Raises:
            As `incr`.

        Example:
            >>> cache.set("stock", 10)
            >>> cache.decr("stock", 3)
            7
        """
    def get_many(self, keys: Iterable[_K]) -> dict[_K, Any]:
        """Return the values of several keys.

        Args:
            keys: An iterable of keys.

        Returns:
            A dict of those keys that have a value.

        Raises:
            KeyTypeError: A key is invalid, or `keys` is a single str or bytes.
            As `get`.

        Example:
            >>> cache.set("a", 1)
            >>> cache.get_many(["a", "b"])
            {'a': 1}
        """
    def set_many(
        self,
        mapping: SupportsItems[Key, object],
        ttl: _TTL = None,
        *,
        tags: Iterable[str] = (),
        stale: _TTL = None,
        pinned: bool = False,
    ) -> None:
        """Store several values.

        Args:
            mapping: A dict, or another mapping with `items`, of keys to values.
            ttl: Seconds, text such as "5m", or a timedelta; None never expires, 0 expires at once.
            tags, stale, pinned: As `set`.

        Raises:
            TypeError: `mapping` is not a mapping.
            As `set`. An invalid key or value raises before anything is stored. After any other
                error, some of the values may be stored.

        Example:
            >>> cache.set_many({"a": 1, "b": 2}, ttl=60)
            >>> len(cache)
            2
        """
    def delete_many(self, keys: Iterable[Key]) -> int:
        """Delete several keys.

        Args:
            keys: An iterable of keys.

        Returns:
            How many of them had a value.

        Raises:
            KeyTypeError: A key is invalid, or `keys` is a single str or bytes. Nothing was deleted.
            As `delete`. After any other error, some of the keys may be deleted.

        Example:
            >>> cache.set("a", 1)
            >>> cache.delete_many(["a", "b"])
            1
        """
    def __getitem__(self, key: Key, /) -> Any: ...
    def __setitem__(self, key: Key, value: object, /) -> None: ...
    def __delitem__(self, key: Key, /) -> None: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Key]: ...
    def _iter_keys(self, newest_first: bool = False) -> Iterator[Key]: ...
    def _iter_values(self, newest_first: bool = False) -> Iterator[Any]: ...
    def _iter_items(self, newest_first: bool = False) -> Iterator[tuple[Key, Any]]: ...
    def _peekitem(self, newest: bool) -> tuple[Key, Any] | None: ...
    def _iter_tagged(self, tag: str) -> Iterator[Key]: ...
    def _iter_encoded(self) -> Iterator[tuple[Any, ...]]: ...
    def _store_encoded(
        self,
        key: bytes,
        value: int | bytes,
        expiry_us: int | None,
        stale_us: int,
        made_us: int | None,
        tags: tuple[str, ...],
        pinned: bool,
        replace: bool,
    ) -> bool | None: ...
    def _prefix(self) -> bytes: ...
    def _copy_to(self, path: str) -> None: ...
    def popitem(self, last: bool = True) -> tuple[Key, Any]:
        """Delete any entry, or the newest or oldest of an ordered cache; return key and value.

        Atomic over all processes: of several callers only one gets the entry.

        Args:
            last: Of an ordered cache: the entry that was inserted last (the default), or first.

        Returns:
            A (key, value) tuple.

        Raises:
            KeyError: The cache has no entries.
            InvalidArgument: `last` is false, and the cache is not ordered.
            EntryCorrupt: The key or the value cannot be decoded. The entry is deleted.
            As `delete`.

        Example:
            >>> cache.set("job", "mail")
            >>> cache.popitem()
            ('job', 'mail')
        """
    def clear(self) -> int:  # type: ignore[override]
        """Delete all entries.

        Entries that other processes store meanwhile may be kept.

        Returns:
            How many entries were deleted.

        Raises:
            LockTimeout: A live process held a lock for longer than `lock_timeout`. Some of the
                entries may be deleted.
            CacheReadOnly, CacheClosed, CacheLost: The cache cannot be written.

        Example:
            >>> cache.set_many({"a": 1, "b": 2})
            >>> cache.clear()
            2
        """
    def expire(self) -> int:
        """Delete all expired entries to free their space, and those that an eviction of a tag or a
        clear of a namespace has made missing. Reads never return them in any case.

        Returns:
            How many entries were deleted.

        Raises:
            As `clear`.

        Example:
            >>> cache.set("a", 1, ttl=0)
            >>> cache.expire()
            1
        """
    def evict(self, *, tag: str, soft: bool = False) -> None:
        """Make all entries with a tag missing, in a time that does not depend on their number.

        No entry that was stored before is returned after it, in any process. Entries stored later
        are not affected. A cache that has no room for more tags may evict those of others as well.

        Args:
            tag: The tag, a str.
            soft: If true, the entries become stale instead: only callers that accept stale entries
                get them.

        Raises:
            InvalidTag: `tag` is not a str, or is empty or longer than 255 bytes.
            LockTimeout: A live process held the lock for longer than `lock_timeout`.
            CacheReadOnly, CacheClosed, CacheLost: The cache cannot be written.

        Example:
            >>> cache.set("user:42", "Ada", tags=["users"])
            >>> cache.evict(tag="users")
            >>> cache.get("user:42") is None
            True
        """
    def _begin(self, key: Key, force: bool) -> Begun: ...
    def _finish(
        self,
        token: Token,
        key: Key,
        value: Any,
        ttl: _TTL,
        stale: _TTL,
        tags: Iterable[str],
        made_s: float | None,
    ) -> bool: ...
    @staticmethod
    def _abandon(token: Token) -> None: ...
    def _wait_made(self, key: Key, timeout_s: float) -> bool: ...
    def _join(self, parent: Core, name: str) -> None: ...
    def _era(self, name: str) -> int: ...
    def _advance_era(self, name: str) -> int: ...
    def close(self) -> None:
        """Close this handle. The file and all other handles stay open.

        Every later operation raises CacheClosed. Closing twice does nothing.

        Example:
            >>> cache.close()
            >>> cache.closed
            True
        """
    @property
    def closed(self) -> bool:
        """Whether this handle is closed."""
    file_format: ClassVar[str]
    @property
    def path(self) -> str | None:
        """The absolute path of the file; None for a private cache."""
    @property
    def size(self) -> int:
        """The maximum length of the file, in bytes."""
    @property
    def max_entries(self) -> int | None:
        """The maximum number of entries; None means no limit."""
    @property
    def favour(self) -> Favour:
        """The goal of eviction: "balanced", "hits" or "bytes"."""
    @property
    def after_power_cut(self) -> AfterPowerCut:
        """What happens to the entries after a power cut: "keep" or "discard"."""
    @property
    def evicts(self) -> bool:
        """Whether a full cache evicts entries. Otherwise a write without room raises CacheFull."""
    @property
    def ordered(self) -> bool:
        """Whether the cache keeps the order in which keys were inserted."""
    @property
    def lock_timeout(self) -> float:
        """How long a write waits for a lock, in seconds."""
    @property
    def id(self) -> bytes:
        """The id of the cache: 16 random bytes, chosen when the file was created."""
    @property
    def read_only(self) -> bool:
        """Whether this handle is read-only."""
    @property
    def group(self) -> int | None:
        """The number of the group that shares the file; None if only its owner can use it."""
    @property
    def _objects(self) -> Any | None: ...
    @property
    def _local_bytes(self) -> int | None: ...
    @property
    def _gate(self) -> int: ...
    def _close_gate(self) -> int: ...
    def _leave_gate(self, opens: bool) -> None: ...
    def _next_number(self) -> int: ...
    @property
    def _last_number(self) -> int: ...
    def _weigh(self, delta: int) -> int: ...
    @property
    def _is_weight_unsure(self) -> bool: ...
    def _set_weight(self, weight: int) -> None: ...
    def _plain_value(self, key: Key) -> str | bytes | None:
        """Return the str or bytes that `Passage.put` has stored under a str, or None."""
    def _look(self, key: Key, word: int) -> tuple[int, int, Any] | None: ...
    def _store_passing(
        self, key: Key, value: Any, word: int, version: int, delta: int
    ) -> int | None: ...
    def _delete_passing(self, key: Key, word: int, version: int, delta: int) -> int | None: ...
    @property
    def _shown(self) -> str | None: ...
    def _resize(
        self,
        size_bytes: int | None = None,
        max_entries: int | None = None,
        favour: Favour | None = None,
    ) -> None: ...
    @property
    def _refusal(self) -> str | None: ...
    @staticmethod
    def _default_size(path: str | PathLike[str] | None) -> tuple[int, str | None]: ...
    def _stats(self) -> dict[str, int]: ...
    def _check(self) -> dict[str, Any]: ...

@final
class Passage:
    """What holds while the gate has a word."""

    def __new__(
        cls,
        core: Core,
        gate: int,
        soonest_s: float | None,
        file_bytes: int,
        has_queues: bool,
        most_bytes: int,
        key_length_max: int,
        value_length_end: int,
        size_limit: int,
    ) -> Self: ...
    def put(self, key: str, value: Any) -> int:
        """Set a str, bytes, int or float under a str that has such a value or none.

        Args:
            key: The key.
            value: The value.

        Returns:
            0 if nothing was done; 1 if the value was set; 3 if there is too much now.
        """

@disjoint_base
class Near(Core):
    """A `Core` in front of another cache. Its subclasses are in `tuckbox.tiers`."""

    def __new__(cls, *_args: object, **_kwargs: object) -> Self: ...
    def _now_us(self) -> int:
        """Return the time by the clock of the file, in microseconds. It goes on while the machine
        sleeps, and does not follow changes of the wall clock."""

    def _serve_until(self, time_us: int) -> None:
        """Let `get` serve entries until a moment, in microseconds by the clock of the file; 0, the
        default, is not at all."""

    def _served_until(self) -> tuple[int, int]:
        """Return until when entries may be served that are read after this, for `_is_ahead`."""

    @staticmethod
    def _is_ahead(moment: tuple[int, int]) -> bool:
        """Return whether a moment of `_served_until` has not come yet."""

    def _serve_with(self, other: Near) -> None:
        """Serve entries for as long as another handle does, whatever it is told from now on. Only
        the first call, before any `_serve_until`, has an effect."""
