"""`Cache`: DiskCache's cache on a Tuckbox file.

The other modules of this folder have its parts: how values are stored, locked, culled, checked.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, Callable, Final, Optional, TypeVar, Union

from tuckbox.compat.diskcache.checking import check
from tuckbox.compat.diskcache.culling import Culling
from tuckbox.compat.diskcache.disk import MODE_RAW, Disk, Stored, make_directory
from tuckbox.compat.diskcache.entries import (
    ACCESSED,
    COUNT,
    EXPIRE,
    FILENAME,
    FIRST_SIZE,
    KEY,
    LONGEST_KEY,
    MODE,
    NUMBER,
    SHORT,
    STORED,
    TAG,
    VALUE,
    Change,
    Entries,
    Entry,
    Row,
    field_of,
    lengthen,
    shorten,
)
from tuckbox.compat.diskcache.memoizing import memoizer
from tuckbox.compat.diskcache.passing import OVER, PASSED, PRESENT, REFUSED, Passing
from tuckbox.compat.diskcache.passing_items import PassingItems
from tuckbox.compat.diskcache.queues import TRIES, Queues, widen_ends
from tuckbox.compat.diskcache.settings import (
    DEFAULT_SETTINGS,
    ENOVAL,
    METADATA,
    Timeout,
    policy_of,
)
from tuckbox.compat.diskcache.signatures import Secret, SecretArgument, refuse_signed
from tuckbox.errors import CacheClosed

__all__ = ["Cache"]

_F = TypeVar("_F", bound=Callable[..., Any])
_Found = tuple[int, Any, Any, bool]
"""Number, key of the file, and what `Disk.put` returned for the key."""
_BATCH: Final = 100
_CULL_BATCH: Final = 10
_MISSING: Final = object()


class _NoSQL:
    """An attribute of DiskCache's that runs SQL. Using it says why there is none."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: Optional[type] = None) -> Any:
        if instance is None:
            return self
        raise AttributeError(
            f"{type(instance).__name__!r} object has no attribute {self._name!r}: there is no "
            "SQLite, so SQL cannot be run. Iterate over the keys and use get(), len(), volume(), "
            "expire() or evict(tag); a program that needs SQL must keep DiskCache"
        )


class Cache(Queues):
    """A cache in a directory, shared by all processes that open it.

    Example:
        >>> cache = Cache("./cached")
        >>> cache.set("user:42", {"name": "Ada"}, expire=300)
        True
        >>> cache["user:42"]
        {'name': 'Ada'}
        >>> cache.close()

    Keys and values are any objects that can be pickled. The directory must be one that only this
    user can write to: whoever can write to it can run code in every process that reads it.

    Methods that change something raise `Timeout` if another thread or process keeps the lock for
    longer than ``timeout``; with ``retry=True`` they wait. Reads take no lock.
    """

    # What each set and get loads: CPython finds slots faster than the many other attributes.
    __slots__ = ("_disk", "_entries", "_reads_change", "_reads_plain", "_size_limit")

    _first_size = FIRST_SIZE

    _con = _NoSQL()
    _sql = _NoSQL()
    _sql_retry = _NoSQL()

    # Settings that the code here uses. `reset` sets all of them.
    cull_limit: int
    tag_index: int
    count: int
    size: int

    def __init__(
        self,
        directory: Union[str, os.PathLike[str], None] = None,
        timeout: float = 60,
        disk: type[Disk] = Disk,
        *,
        secret: Union[SecretArgument, Secret, None] = None,
        **settings: Any,
    ) -> None:
        """Open the cache of a directory, and create what is missing.

        Args:
            directory: The directory; None for a new temporary one. ``~`` and variables are
                expanded. A new one has mode 0700.
            timeout: Seconds to wait for the lock.
            disk: How keys and values are converted: `Disk` or a subclass.
            secret: Signs each pickle, so that no other one is unpickled: a str or bytes, several
                with the newest first, or a function that returns them. It is not stored. Each
                program that uses the directory needs it.
            settings: As in `DEFAULT_SETTINGS`. They are stored in the directory. Those that begin
                with ``disk_`` are arguments of ``disk``, those with ``sqlite_`` have no effect.

        Raises:
            ValueError: ``disk`` is no subclass of `Disk`. Or the directory is used with another
                secret, or without one (`InvalidArgument`).
            OSError: The directory cannot be created.
            UnsafeFile: Another user could write to the directory.
        """
        given: Any = disk
        if not (isinstance(given, type) and issubclass(given, Disk)):
            raise ValueError(  # noqa: TRY004 - As DiskCache.
                f"disk must be a subclass of Disk, not {disk!r}"
            )
        if directory is None:
            directory = tempfile.mkdtemp(prefix="diskcache-")
        self._directory = os.path.expandvars(os.path.expanduser(str(directory)))
        self._timeout = timeout
        _create_directory(self._directory)
        self._secret = None if secret is None else Secret(secret)
        self._entries = Entries(self._directory, self._remove_file, self._secret, self._first_size)
        self._culling = Culling(self._entries)
        self._passing = Passing(self._entries)
        self._items = PassingItems(self._entries)
        stored = self._entries.settings()
        merged = {**DEFAULT_SETTINGS, **stored, **settings}
        signatures = self._entries.signatures
        if signatures is None:
            refuse_signed(stored, self._directory)
        else:
            merged.update(signatures.settings(stored, self._directory))
        for name in METADATA:
            merged.pop(name, None)
        options = {name[5:]: merged[name] for name in merged if name.startswith("disk_")}
        self._disk = disk(self._directory, **options)
        if signatures is not None:
            self._disk.use_signatures(signatures)
        self._size_limit: float = DEFAULT_SETTINGS["size_limit"]
        if type(self._disk) is Disk:
            self._entries.plain_limits = self._plain_limits
            self._disk.notice = self._entries.forget
        self._statistics = 0
        self._policy = policy_of(merged["eviction_policy"])
        for name, value in merged.items():
            setattr(self, name, value)
        if merged != stored:
            with self._transact(retry=True) as entries:
                entries.put_settings({**entries.settings(), **merged})
        for name in METADATA:
            self.reset(name)

    def _remove_file(self, filename: str) -> None:
        self._disk.remove(filename)

    def _plain_limits(self) -> tuple[float, float]:
        return self._disk.min_file_size, self._size_limit

    @property
    def size_limit(self) -> float:
        """From how many bytes on entries are removed."""
        return self._size_limit

    @size_limit.setter
    def size_limit(self, limit: float) -> None:
        self._size_limit = limit
        self._entries.forget()

    @property
    def statistics(self) -> int:
        """Whether reads are counted."""
        return self._statistics

    @statistics.setter
    def statistics(self, enable: int) -> None:
        self._statistics = enable
        self._note_reads()

    @property
    def eviction_policy(self) -> str:
        """The name of the policy: a key of `EVICTION_POLICY`."""
        return self._eviction_policy

    @eviction_policy.setter
    def eviction_policy(self, name: str) -> None:
        self._policy = policy_of(name)
        self._eviction_policy = name
        self._note_reads()

    def _note_reads(self) -> None:
        self._reads_change = bool(self._statistics) or self._policy.marks_reads
        self._reads_plain = type(self._disk) is Disk and not self._reads_change

    @property
    def directory(self) -> str:
        """The directory."""
        return self._directory

    @property
    def timeout(self) -> float:
        """Seconds to wait for the lock."""
        return self._timeout

    @property
    def secret(self) -> Optional[Secret]:
        """What signs the pickles, or None. It does not show what it is."""
        return self._secret

    @property
    def disk(self) -> Disk:
        """What converts keys and values."""
        return self._disk

    # --- Changing ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def transact(self, retry: bool = False) -> Iterator[None]:
        """Make several operations one: no other thread or process changes the cache meanwhile.

        If the block raises, or the process dies in it, its changes are undone. Readers outside see
        the changes at once. May be nested in one thread; the outermost one counts.

        Args:
            retry: Whether to wait for the lock for as long as it takes.

        Raises:
            Timeout: The lock was not free within ``timeout``.

        Example:
            >>> with cache.transact():
            ...     total = cache.incr("total", 12)
            ...     count = cache.incr("count")
        """
        with self._transact(retry) as entries:
            entries.undo_on_failure()
            yield

    def _transact(self, retry: bool = False, *, opens: Optional[bool] = False) -> Change:
        return Change(self._entries, self._timeout, retry, opens=opens)

    def _place(self, key: Any) -> tuple[Any, Any]:
        return Entries.place(*self._disk.put(key))

    def set(
        self,
        key: Any,
        value: Any,
        expire: Optional[float] = None,
        read: bool = False,
        tag: Any = None,
        retry: bool = False,
    ) -> bool:
        """Store a value.

        Args:
            key: The key.
            value: The value; with ``read``, a file that is open in binary mode.
            expire: Seconds until it expires; None is never.
            read: Whether to store what the file contains.
            tag: A str, number or bytes for `evict`.
            retry: Whether to wait for the lock for as long as it takes.

        Returns:
            True.

        Raises:
            Timeout: The lock was not free within ``timeout``.
        """
        if expire is None and tag is None:
            # The most common keys and values, without the steps of `_put`; or nothing.
            result = self._entries.put_plain(key, value)
            if result == PASSED:
                return True
            if result == OVER:
                self._cull_after(retry)
                return True
        return self._put(key, value, expire, read, tag, retry, only_new=False)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Store a value. Waits for the lock for as long as it takes."""
        result = self._entries.put_plain(key, value)
        if result == OVER:
            self._cull_after(True)
        elif result != PASSED:
            self._put(key, value, None, False, None, True, only_new=False)

    def add(
        self,
        key: Any,
        value: Any,
        expire: Optional[float] = None,
        read: bool = False,
        tag: Any = None,
        retry: bool = False,
    ) -> bool:
        """Store a value if the key has none. Of several callers only one stores.

        Args:
            key, value, expire, read, tag, retry: As for `set`.

        Returns:
            Whether it was stored.

        Raises:
            Timeout: The lock was not free within ``timeout``.
        """
        return self._put(key, value, expire, read, tag, retry, only_new=True)

    def _put(
        self,
        key: Any,
        value: Any,
        expire: Optional[float],
        read: bool,
        tag: Any,
        retry: bool,
        *,
        only_new: bool,
    ) -> bool:
        disk = self._disk
        if type(key) is str and len(key) <= LONGEST_KEY and type(disk) is Disk:
            place, long_key = key, None
        else:
            place, long_key = Entries.place(*disk.put(key))
        _, mode, filename, kept = stored = disk.store(value, read, key=key)
        if filename is None and type(kept) is not memoryview:
            result = self._passing.put(
                place, long_key, mode, kept, expire, tag, self.size_limit, only_new
            )
            if result != REFUSED:
                if result == OVER:
                    self._cull_after(retry)
                return result != PRESENT
        now = time.time()
        try:
            with self._transact(retry, opens=filename is None) as entries:
                old = entries.peek(place)
                if only_new and old is not None and _is_fresh(old, now):
                    self._drop(stored)
                    return False
                self._put_stored(place, long_key, stored, now, expire, tag, old)
                self._cull(now)
        except BaseException:
            self._drop(stored)
            raise
        return True

    def _cull_after(self, retry: bool) -> None:
        # The value is stored: if the lock is not free, the next call culls.
        with contextlib.suppress(Timeout), self._transact(retry, opens=True) as entries:
            entries.grow()
            self._cull(time.time())

    def _drop(self, stored: Stored) -> None:
        if stored[2] is not None:
            self._disk.remove(stored[2])

    def _put_stored(
        self,
        place: Any,
        long_key: Any,
        stored: Stored,
        now: float,
        expire: Optional[float],
        tag: Any,
        old: Optional[Entry],
    ) -> None:
        entries = self._entries
        size, mode, filename, value = stored
        if isinstance(value, memoryview):
            value = bytes(value)
        number = entries.next_number(old)
        if old is not None:
            # As the first one that was stored: 1 for 1.0.
            long_key = field_of(old, KEY)
        if mode == MODE_RAW and expire is None and tag is None and long_key is None:
            entry: Entry = (value, number, now)
        else:
            until = None if expire is None else now + expire
            entry = (value, number, now, until, tag, mode, filename, size, now, 0, long_key)
        if old is None:
            # First: a process that is killed in between must not hide the item.
            widen_ends(entries, long_key[0] if long_key else place)
        entries.put(place, entry, old)
        self._culling.notice(place, entry)

    def _cull(self, now: float) -> None:
        left = self.cull_limit
        if left:
            entries = self._entries
            if entries.soonest is not None:
                left -= self._culling.expire(now, left)
            if left and entries.file_bytes + entries.inline_bytes >= self.size_limit:
                self._culling.evict(self._policy.field, left)

    def touch(self, key: Any, expire: Optional[float] = None, retry: bool = False) -> bool:
        """Give an entry another expiry.

        Args:
            key: The key.
            expire: Seconds from now; None is never.
            retry: Whether to wait for the lock for as long as it takes.

        Returns:
            Whether the key has a value.

        Raises:
            Timeout: The lock was not free within ``timeout``.
        """
        now = time.time()
        place, _ = self._place(key)
        with self._transact(retry) as entries:
            old = entries.peek(place)
            if old is None or not _is_fresh(old, now):
                return False
            entry = list(lengthen(old))
            entry[EXPIRE] = None if expire is None else now + expire
            self._replace(place, entry, old)
            return True

    def _replace(self, place: Any, entry: list[Any], old: Entry) -> None:
        changed = shorten(tuple(entry))
        self._entries.next_number(old)
        self._entries.put(place, changed, old)
        self._culling.notice(place, changed)

    def incr(self, key: Any, delta: Any = 1, default: Any = 0, retry: bool = False) -> Any:
        """Add to a number.

        Args:
            key: The key.
            delta: What to add.
            default: What to start from if the key has no value; None raises KeyError then.
            retry: Whether to wait for the lock for as long as it takes.

        Returns:
            The sum.

        Raises:
            KeyError: The key has no value, and ``default`` is None.
            Timeout: The lock was not free within ``timeout``.

        Example:
            >>> cache.incr("visits"), cache.incr("visits", 2)
            (1, 3)
        """
        place, long_key = self._place(key)
        is_plain = type(self._disk) is Disk and not self._policy.marks_reads
        if is_plain:
            result, total = self._passing.add_to(place, long_key, delta, default, self.size_limit)
            if result != REFUSED:
                if result == OVER:
                    self._cull_after(retry)
                return total
        now = time.time()
        with self._transact(retry, opens=is_plain) as entries:
            old = entries.peek(place)
            if old is None or (field_of(old, EXPIRE) is not None and old[EXPIRE] < now):
                if default is None:
                    raise KeyError(key)
                value = default + delta
                stored = self._disk.store(value, False, key=key)
                self._put_stored(place, long_key, stored, now, None, None, old)
                self._cull(now)
                return value
            entry = list(lengthen(old))
            entry[VALUE] = value = entry[VALUE] + delta
            entry[STORED] = now
            if not self._mark(entry, now):
                # The short form is for entries that were accessed when they were stored.
                entry[ACCESSED] = now
            self._replace(place, entry, old)
            return value

    def decr(self, key: Any, delta: Any = 1, default: Any = 0, retry: bool = False) -> Any:
        """Subtract from a number. See `incr`."""
        return self.incr(key, -delta, default, retry)

    def _mark(self, entry: list[Any], now: float) -> bool:
        policy = self._policy
        if policy.marks_reads:
            if policy.field == "access_time":
                entry[ACCESSED] = now
            else:
                entry[COUNT] += 1
        return policy.marks_reads

    # --- Reading -------------------------------------------------------------------------------

    def get(
        self,
        key: Any,
        default: Any = None,
        read: bool = False,
        expire_time: bool = False,
        tag: bool = False,
        retry: bool = False,
    ) -> Any:
        """Return the value of a key.

        Args:
            key: The key.
            default: Returned if the key has no value.
            read: Whether to return an open file, if the value is in one.
            expire_time: Whether to return the time when it expires as well, or None.
            tag: Whether to return the tag as well.
            retry: Has no effect: a read takes no lock.

        Returns:
            The value or ``default``; a tuple with ``expire_time`` or ``tag``.

        Example:
            >>> cache.set("user:42", "Ada", tag="users")
            True
            >>> cache.get("user:42", tag=True)
            ('Ada', 'users')
        """
        if self._reads_plain and not (read or expire_time or tag):
            # The most common values, without the steps below; or None.
            value = self._entries.plain_value(key)
            if value is not None:
                return value
        disk = self._disk
        kind = type(key)
        if kind is str and len(key) < LONGEST_KEY and type(disk) is Disk:
            place = key
        else:
            place = Entries.place(*disk.put(key))[0]
        try:
            entry = self._entries.read(place)
        except CacheClosed:
            entry = self._entries.peek(place)
        if entry is None or expire_time or tag or self._reads_change or type(disk) is not Disk:
            return self._get(place, entry, default, read, expire_time, tag)
        if len(entry) == SHORT:
            return entry[VALUE]
        if entry[FILENAME] is None and (entry[EXPIRE] is None or entry[EXPIRE] > time.time()):
            return disk.fetch(entry[MODE], None, entry[VALUE], read)
        return self._get(place, entry, default, read, expire_time, tag)

    def _get(
        self,
        place: Any,
        entry: Optional[Entry],
        default: Any,
        read: bool,
        expire_time: bool,
        tag: bool,
    ) -> Any:
        value: Any = _MISSING
        while entry is not None and _is_fresh(entry, time.time()):
            try:
                value = self._fetch(entry, read)
            except OSError:
                # Its file may have been replaced meanwhile.
                again = self._entries.peek(place)
                if again is not None and field_of(again, FILENAME) != field_of(entry, FILENAME):
                    entry = again
                    continue
            break
        if self.statistics:
            self._entries.hit(value is not _MISSING)
        if entry is None or value is _MISSING:
            return self._default(default, expire_time, tag)
        if self._policy.marks_reads:
            self._mark_read(place)
        return self._with_extras(entry, value, expire_time, tag)

    def _fetch(self, entry: Entry, read: bool) -> Any:
        if len(entry) == SHORT and type(self._disk) is Disk:
            return entry[VALUE]
        return self._disk.fetch(
            field_of(entry, MODE), field_of(entry, FILENAME), entry[VALUE], read
        )

    def _mark_read(self, place: Any) -> None:
        entry, version = self._entries.peek_version(place)
        if entry is not None:
            marked = list(lengthen(entry))
            self._mark(marked, time.time())
            self._entries.mark(place, tuple(marked), version)

    def __getitem__(self, key: Any) -> Any:
        """Return the value of a key.

        Raises:
            KeyError: It has none.
        """
        value = self.get(key, ENOVAL, retry=True)
        if value is ENOVAL:
            raise KeyError(key)
        return value

    def read(self, key: Any, retry: bool = False) -> Any:
        """Return the value of a key as an open file, if it is in one.

        Raises:
            KeyError: The key has no value.
        """
        reader = self.get(key, ENOVAL, read=True, retry=retry)
        if reader is ENOVAL:
            raise KeyError(key)
        return reader

    def __contains__(self, key: Any) -> bool:
        """Return whether a key has a value."""
        entry = self._entries.peek(self._place(key)[0])
        return entry is not None and _is_fresh(entry, time.time())

    def pop(
        self,
        key: Any,
        default: Any = None,
        expire_time: bool = False,
        tag: bool = False,
        retry: bool = False,
    ) -> Any:
        """Remove an entry and return its value. Of several callers only one gets it.

        Args:
            key, default, expire_time, tag: As for `get`.
            retry: Whether to wait for the lock for as long as it takes.

        Returns:
            As `get`.

        Raises:
            Timeout: The lock was not free within ``timeout``.
        """
        place, _ = self._place(key)
        result, taken = self._passing.take(place)
        if result != REFUSED:
            if taken is None:
                return self._default(default, expire_time, tag)
            with contextlib.suppress(OSError):
                return self._with_extras(taken, self._fetch(taken, False), expire_time, tag)
            return self._default(default, expire_time, tag)
        with self._transact(retry, opens=True) as entries:
            entry = entries.peek(place)
            if entry is not None and _is_fresh(entry, time.time()):
                entries.remove(place, entry)
                with contextlib.suppress(OSError):
                    return self._with_extras(entry, self._fetch(entry, False), expire_time, tag)
        return self._default(default, expire_time, tag)

    @staticmethod
    def _default(default: Any, expire_time: bool, tag: bool) -> Any:
        return _with_extras(default, None, None, expire_time, tag)

    @staticmethod
    def _with_extras(entry: Entry, value: Any, expire_time: bool, tag: bool) -> Any:
        if not (expire_time or tag):
            return value
        return _with_extras(value, field_of(entry, EXPIRE), field_of(entry, TAG), expire_time, tag)

    def __delitem__(self, key: Any, retry: bool = True) -> None:
        """Remove an entry.

        Raises:
            KeyError: The key has no value.
        """
        if not self.delete(key, retry):
            raise KeyError(key)

    def delete(self, key: Any, retry: bool = False) -> bool:
        """Remove an entry.

        Args:
            key: The key.
            retry: Whether to wait for the lock for as long as it takes.

        Returns:
            Whether the key had a value.

        Raises:
            Timeout: The lock was not free within ``timeout``.
        """
        place, _ = self._place(key)
        result, taken = self._passing.take(place)
        if result != REFUSED:
            return taken is not None
        with self._transact(retry, opens=True) as entries:
            entry = entries.peek(place)
            if entry is None or not _is_fresh(entry, time.time()):
                return False
            entries.remove(place, entry)
            return True

    # --- In order ------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the keys in the order of insertion, also those of expired entries."""
        counters, found = self._in_order()
        return self._keys(counters, found)

    def __reversed__(self) -> Iterator[Any]:
        """Iterate over the keys, the latest first."""
        counters, found = self._in_order()
        return self._keys(counters, found[::-1])

    def _in_order(self) -> tuple[Any, list[_Found]]:
        while True:
            try:
                counters = self._entries.counters()
                found = [
                    (entry[NUMBER], place, *Entries.key_of(place, entry))
                    for place, entry in self._entries.rows()
                ]
            except CacheClosed:
                # Another thread has closed the cache.
                continue
            found.sort(key=itemgetter(0))
            return counters, found

    def _keys(self, counters: Any, found: list[_Found]) -> Iterator[Any]:
        for start in range(0, len(found), _BATCH):
            # Every removal changes a counter.
            same = self._entries.counters() == counters
            for _, place, key, raw in found[start : start + _BATCH]:
                if same or self._entries.peek(place) is not None:
                    yield self._disk.get(key, raw)

    def iterkeys(self, reverse: bool = False) -> Iterator[Any]:
        """Iterate over the keys in their own order: numbers, then str, then bytes.

        Args:
            reverse: Whether to begin with the last one.

        Example:
            >>> for key in (4, 1, 3):
            ...     cache[key] = key
            >>> list(cache.iterkeys())
            [1, 3, 4]
        """
        counters, found = self._in_order()
        found.sort(key=_rank, reverse=reverse)
        return self._keys(counters, found)

    def peekitem(
        self,
        last: bool = True,
        expire_time: bool = False,
        tag: bool = False,
        retry: bool = False,
    ) -> Any:
        """Return the key and the value of the latest entry. Removes expired ones on the way.

        Args:
            last: Whether it is the latest; the oldest otherwise.
            expire_time, tag: As for `get`.
            retry: Whether to wait for the lock for as long as it takes.

        Returns:
            A tuple of key and value, or a tuple of it and what else was asked for.

        Raises:
            KeyError: The cache is empty.
            Timeout: The lock was not free within ``timeout``.
        """
        candidates = self._culling.newest if last else self._culling.oldest
        failed: list[Row] = []
        while True:
            with self._transact(retry) as entries:
                row = candidates.first()
                if row is None:
                    raise KeyError("the cache is empty")
                place, entry = row
                until = field_of(entry, EXPIRE)
                if (until is not None and until < time.time()) or failed.count(row) == TRIES:
                    entries.remove(place, entry)
                    continue
                try:
                    value = self._fetch(entry, False)
                except OSError:
                    # Tried once more, as in a queue.
                    failed.append(row)
                    continue
                key = self._disk.get(*Entries.key_of(place, entry))
                return self._with_extras(entry, (key, value), expire_time, tag)

    def __len__(self) -> int:
        """Return how many entries there are, expired ones included."""
        return len(self._entries)

    # --- Removing many -------------------------------------------------------------------------

    def expire(self, now: Optional[float] = None, retry: bool = False) -> int:
        """Remove the expired entries.

        Args:
            now: The time; None is the present.
            retry: Whether to wait for the lock for as long as it takes.

        Returns:
            How many there were.

        Raises:
            Timeout: The lock was not free within ``timeout``. ``args[0]`` is how many were removed.
        """
        moment = now or time.time()
        return self._remove(lambda entry: 0 < (field_of(entry, EXPIRE) or 0) < moment, retry)

    def evict(self, tag: Any, retry: bool = False) -> int:
        """Remove the entries of a tag. Returns and raises as `expire`.

        Example:
            >>> cache.set("user:42", "Ada", tag="users")
            True
            >>> cache.evict("users")
            1
        """
        return self._remove(lambda entry: tag is not None and field_of(entry, TAG) == tag, retry)

    def clear(self, retry: bool = False) -> int:
        """Remove all entries. Returns and raises as `expire`."""
        return self._remove(lambda _: True, retry)

    def _remove(self, chosen: Callable[[Entry], bool], retry: bool) -> int:
        count = 0
        places: Optional[list[Any]] = None
        try:
            while places is None or places:
                with self._transact(retry) as entries:
                    if places is None:
                        places = [place for place, entry in entries.rows() if chosen(entry)]
                    batch = places[-_BATCH:]
                    del places[-_BATCH:]
                    for place in batch:
                        entry = entries.peek(place)
                        if entry is not None and chosen(entry):
                            entries.remove(place, entry)
                            count += 1
        except Timeout:
            raise Timeout(count) from None
        return count

    def cull(self, retry: bool = False) -> int:
        """Remove expired entries, and others until the cache is within ``size_limit``.

        Returns and raises as `expire`.
        """
        count = self.expire(time.time())
        field = self._policy.field
        if field is None:
            return 0
        try:
            while self.volume() > self.size_limit:
                with self._transact(retry):
                    removed = self._culling.evict(field, _CULL_BATCH)
                if not removed:
                    break
                count += removed
        except Timeout:
            raise Timeout(count) from None
        return count

    # --- The rest ------------------------------------------------------------------------------

    def memoize(
        self,
        name: Optional[str] = None,
        typed: bool = False,
        expire: Optional[float] = None,
        tag: Any = None,
        ignore: Iterable[Any] = (),
    ) -> Callable[[_F], _F]:
        """Make a function remember what it returned for the same arguments.

        Args:
            name: What its keys begin with; None is the module and name of the function.
            typed: Whether arguments of different types make different keys.
            expire: Seconds until a result expires; None is never, and 0 stores nothing.
            tag: A tag for the results.
            ignore: Positions and names of arguments that make no difference.

        Raises:
            TypeError: The decorator was used without parentheses.

        Example:
            >>> @cache.memoize(expire=60)
            ... def square(number):
            ...     return number * number
            >>> square(7), cache[square.__cache_key__(7)]
            (49, 49)
        """
        return memoizer(self, name, typed, expire, tag, ignore)

    def check(self, fix: bool = False, retry: bool = False) -> list[warnings.WarningMessage]:
        """Compare entries, files and counters with each other.

        Args:
            fix: Whether to repair what is wrong, and to remove unknown files.
            retry: Whether to wait for the lock for as long as it takes.

        Returns:
            A warning for each thing that is wrong.

        Raises:
            Timeout: The lock was not free within ``timeout``.
        """
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            with self._transact(retry) as entries:
                check(entries, fix=fix)
            for name in METADATA:
                self.reset(name)
        return found

    def create_tag_index(self) -> None:
        """Set ``tag_index``. Has no other effect."""
        self.reset("tag_index", 1)

    def drop_tag_index(self) -> None:
        """Reset ``tag_index``. Has no other effect."""
        self.reset("tag_index", 0)

    def stats(self, enable: bool = True, reset: bool = False) -> tuple[int, int]:
        """Return how many reads found a value and how many did not, while that was counted.

        Args:
            enable: Whether to count from now on.
            reset: Whether to begin at 0 again.
        """
        counts = (self.reset("hits"), self.reset("misses"))
        if reset:
            self.reset("hits", 0)
            self.reset("misses", 0)
        self.reset("statistics", enable)
        return counts

    def volume(self) -> int:
        """Return about how many bytes the entries take, with their files."""
        _, file_bytes, inline_bytes, _, _ = self._entries.counters()
        return file_bytes + inline_bytes

    def reset(self, key: str, value: Any = ENOVAL, update: bool = True) -> Any:
        """Read a setting again, or change it. It is then an attribute of the cache.

        Args:
            key: The name of a setting, or ``"count"``, ``"size"``, ``"hits"`` or ``"misses"``.
            value: The new value.
            update: Whether to store it in the directory.

        Returns:
            The value.

        Raises:
            ValueError: Nothing has that name.
            Timeout: The lock was not free within ``timeout``.
        """
        if value is ENOVAL:
            value = self._read_setting(key)
        elif update:
            self._store_setting(key, value)
        if key.startswith("disk_"):
            setattr(self._disk, key[5:], value)
        setattr(self, key, value)
        return value

    def _read_setting(self, name: str) -> Any:
        if name == "count":
            return len(self)
        if name == "size":
            return self._entries.counters()[1]
        if name in METADATA:
            return self._entries.hits(name)
        settings = self._entries.settings()
        if name not in settings:
            raise ValueError(f"there is no setting {name!r}; the settings are {sorted(settings)}")
        return settings[name]

    def _store_setting(self, name: str, value: Any) -> None:
        if name in {"hits", "misses"}:
            self._entries.put_hits(name, value)
        elif name == "eviction_policy":
            policy_of(value)
        if name in METADATA:
            return
        with self._transact(retry=True) as entries:
            settings = entries.settings()
            if name in settings:
                entries.put_settings({**settings, name: value})

    def close(self) -> None:
        """Close the files. Using the cache opens them again."""
        self._entries.close()

    def __enter__(self) -> Cache:
        """Return the cache."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the files."""
        self.close()

    def __getstate__(self) -> tuple[Any, ...]:
        """Return how to open the cache in another process."""
        state = self._directory, self._timeout, type(self._disk)
        return state if self._secret is None else (*state, self._secret)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Open the cache."""
        secret = state[3] if state[3:] else None
        self.__init__(*state[:3], secret=secret)  # type: ignore[misc]


def _create_directory(directory: str) -> None:
    try:
        # Not `make_directory` for the last one: programs may replace `os.makedirs`.
        make_directory(os.path.dirname(os.path.abspath(directory)))
        os.makedirs(directory, 0o700, exist_ok=True)
    except OSError as error:
        raise OSError(
            error.errno, f"cannot create the directory of the cache: {error.strerror}", directory
        ) from None


def _is_fresh(entry: Entry, now: float) -> bool:
    if len(entry) == SHORT:
        return True
    return entry[EXPIRE] is None or bool(entry[EXPIRE] > now)


def _with_extras(value: Any, until: Any, tag: Any, with_until: bool, with_tag: bool) -> Any:
    if with_until and with_tag:
        return value, until, tag
    if with_until:
        return value, until
    return (value, tag) if with_tag else value


def _rank(found: _Found) -> tuple[int, Any, bool]:
    _, _, key, raw = found
    if isinstance(key, (int, float)):
        return 0, key, raw
    if isinstance(key, str):
        return 1, key.encode("utf-8", "surrogatepass"), raw
    return 2, key, raw
