"""`Entries`: the entries of a directory in one Tuckbox file, changed by one writer at a time.

Knows the layout of an entry and the counters of the cache, and undoes transactions. Must not know
how values become bytes, nor which entry is evicted.

An entry is a tuple. The short form is for a value without a file, an expiry or a tag that no read
has marked: value, number, time stored. The long form adds the fields named below.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import secrets
import struct
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final, Optional

from tuckbox import Cache as File
from tuckbox.compat.diskcache.disk import MODE_RAW
from tuckbox.compat.diskcache.locks import WriteLock
from tuckbox.compat.diskcache.settings import Timeout
from tuckbox.compat.diskcache.signatures import Secret, Signatures
from tuckbox.errors import CacheClosed, CacheFull, LockTimeout, UnsafeFile, ValueTooLarge

__all__ = [
    "ACCESSED",
    "COUNT",
    "EXPIRE",
    "FILENAME",
    "FILE_NAME",
    "KEY",
    "LOCK_NAME",
    "LONGEST_KEY",
    "MODE",
    "NUMBER",
    "SHORT",
    "SIZE",
    "STORED",
    "TAG",
    "VALUE",
    "Change",
    "Entries",
    "Entry",
    "Row",
    "field_of",
    "lengthen",
    "shorten",
]

VALUE: Final = 0
NUMBER: Final = 1
"""The place in the order of insertion. An overwritten entry keeps its own."""
STORED: Final = 2
"""When the value was stored."""
EXPIRE: Final = 3
TAG: Final = 4
MODE: Final = 5
FILENAME: Final = 6
SIZE: Final = 7
"""Bytes in the file."""
ACCESSED: Final = 8
COUNT: Final = 9
"""How often the value was read."""
KEY: Final = 10
"""What `Disk.put` returned, where the key in the file does not tell; otherwise None."""

SHORT: Final = 3
"""Fields of the short form."""

Entry = tuple[Any, ...]
Counters = tuple[int, int, int, Optional[float], int]
Row = tuple[Any, Entry]
"""The key in the Tuckbox file and the entry."""

# Keys of what is no entry. A tuple that begins with a str is never the key of an entry.
_STATE: Final = ("state",)
_SETTINGS: Final = ("settings",)
_HITS: Final = ("hits",)
_MISSES: Final = ("misses",)
_OWN_KEYS: Final = (_STATE, _SETTINGS, _HITS, _MISSES)
_SERIAL: Final = 5
"""Where the stored state says how often it was stored. Before it are the counters, and after it the
changes that were announced: see `Entries._announce`."""

FILE_NAME: Final = "cache.tuck"
LOCK_NAME: Final = "cache.lock"
_FIRST_SIZE: Final = 2**24
LONGEST_KEY: Final = 2**12
"""The place of a longer key is that of its digest."""
_ENTRY_BYTES: Final = 64
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**63 - 1


def lengthen(entry: Entry) -> Entry:
    """Return the long form."""
    if len(entry) > SHORT:
        return entry
    return (*entry, None, None, MODE_RAW, None, 0, entry[STORED], 0, None)


def shorten(entry: Entry) -> Entry:
    """Return the short form, if the entry has one."""
    if entry[EXPIRE:ACCESSED] != (None, None, MODE_RAW, None, 0):
        return entry
    if entry[ACCESSED:] != (entry[STORED], 0, None):
        return entry
    return entry[:SHORT]


def field_of(entry: Entry, field: int) -> Any:
    """Return a field of an entry of either form."""
    if field < len(entry):
        return entry[field]
    return entry[STORED] if field == ACCESSED else lengthen(entry)[field]


class Entries:
    """The entries of one directory, and the handle on its file.

    Methods that change something need the lock: call them inside of ``with change()``.

    Attributes:
        directory: The directory.
        lock: One writer at a time.
        read: Returns the entry of a key of the file, or None. May raise CacheClosed.
        number: How many entries were stored.
        file_bytes: The sum of the sizes of files.
        inline_bytes: About how many bytes the entries take without their files.
        soonest: No entry expires earlier; None if none expires.
        queues: How many queues have a record of their ends.
        foreign: How often another handle was found to have stored something.
    """

    number: int
    file_bytes: int
    inline_bytes: int
    soonest: Optional[float]
    queues: int

    def __init__(
        self, directory: str, remove_file: Callable[[str], None], secret: Optional[Secret] = None
    ) -> None:
        """Open the file of a directory, or create it.

        Args:
            directory: The directory.
            remove_file: Called with the name of each file that no entry has any more.
            secret: Signs the pickles; None if they are not signed.
        """
        self._secret = secret
        # A handle that is opened again is the same after the program has changed its directory.
        self.directory = directory = os.path.abspath(directory)
        self.remove_file = remove_file
        self.foreign = 0
        self._path = os.path.join(directory, FILE_NAME)
        self.lock = WriteLock(os.path.join(directory, LOCK_NAME))
        self._undoing = False
        self._changed = False
        self._serial = 0
        self._is_current = False
        self._noted: set[Any] = set()
        self._doomed: list[str] = []
        self.open()
        self.signatures: Optional[Signatures] = None
        if secret is not None:
            self.signatures = self.lock.signatures = Signatures(secret, self.file.id)
        self._load()

    def open(self) -> None:
        """Open the file, also if it was closed."""
        new: dict[str, Any] = {"size": _FIRST_SIZE, "evict": False}
        # With "private", Tuckbox refuses a place where another user could write.
        self.file = File(
            self._path, pickle="private", **({} if os.path.exists(self._path) else new)
        )
        self.read = self.file.get
        if self.file.path != self._path:
            path = self.file.path
            self.file.close()
            raise UnsafeFile(
                f"{self.directory}: another user can write to this directory or replace it, and "
                "so could run code in this process; run: chmod go-w on it and on its parents, or "
                f"choose a directory of your own (Tuckbox would have used {path})"
            )
        if self._secret is not None:
            # The other handle was only for its look at the directory.
            self.file.close()
            self.file = File(self._path, pickle="signed", secret=self._secret.given)
            self.read = self.file.get

    def close(self) -> None:
        """Close the file, unless a thread is changing it. Every operation opens it again."""
        self.lock.close(self.file.close)

    def _load(self) -> None:
        stored = self.peek(_STATE)
        if stored is None or stored[_SERIAL] != self._serial or not self._is_current:
            state = self._settled(stored, put_back=self.lock.held)
            self.number, self.file_bytes, self.inline_bytes, self.soonest, self.queues = state
            # A number that no other handle knows, where the file has lost it.
            self._serial = secrets.randbits(60) if stored is None else stored[_SERIAL]
            # Without the lock, an announced change may be made at this moment.
            self._is_current = stored is not None and self.lock.held
            self._changed = stored is None and self.lock.held
        self._seen = self.number

    def _settled(self, stored: Optional[tuple[Any, ...]], *, put_back: bool = False) -> Counters:
        """Return the counters of a stored state, with the changes that it announces.

        Args:
            stored: The state, or None.
            put_back: Whether to store again what a process was overwriting when it was killed,
                which Tuckbox may drop.
        """
        if stored is None:
            # A new file; or a process was killed while it stored the state.
            return self._counted()
        number, file_bytes, inline_bytes, soonest, queues, _, changes = stored
        for key, old_bytes, old in changes:
            entry = self.peek(key)
            if put_back and entry is None and old is not None:
                self._store(key, old)
                entry = old
            if not _is_own(key):
                inline_bytes += (0 if entry is None else _bytes_of(key, entry)) - old_bytes
        return number, file_bytes, inline_bytes, soonest, queues

    def _counted(self) -> Counters:
        """Return the counters as the entries have them, by a scan of the file."""
        number = file_bytes = inline_bytes = 0
        soonest = math.inf
        for key, entry in self.rows():
            number = max(number, entry[NUMBER])
            inline_bytes += _bytes_of(key, entry)
            file_bytes += _file_bytes_of(entry)
            expire = field_of(entry, EXPIRE)
            soonest = soonest if expire is None else min(soonest, expire)
        queues = sum(1 for key in self.file if type(key) is tuple and key[0] == "queue")
        return number, file_bytes, inline_bytes, None if soonest == math.inf else soonest, queues

    def _state(self) -> Counters:
        return self.number, self.file_bytes, self.inline_bytes, self.soonest, self.queues

    # --- Reading -------------------------------------------------------------------------------

    def peek(self, key: Any) -> Any:
        """Return the entry of a key of the file, or None."""
        try:
            return self.read(key)
        except CacheClosed:
            self.open()
            return self.read(key)

    def peek_version(self, key: Any) -> tuple[Any, int]:
        """Return the entry of a key of the file, or None; and its version."""
        try:
            found = self.file.get_entry(key)
        except CacheClosed:
            self.open()
            found = self.file.get_entry(key)
        return (None, 0) if found is None else (found.value, found.version)

    def mark(self, key: Any, entry: Entry, version: int) -> None:
        """Replace an entry by one that differs in what reads change, if it still has a version."""
        with contextlib.suppress(CacheClosed, CacheFull, LockTimeout):
            self.file.cas(key, entry, version)

    def rows(self) -> Iterator[Row]:
        """Yield the keys of the file and their entries, in no particular order."""
        if self.file.closed:
            self.open()
        for key, entry in self.file.items():
            if not _is_own(key):
                yield key, entry

    def __len__(self) -> int:
        """Return how many entries there are."""
        queues = self.counters()[4]
        return len(self.file) - sum(map(self.file.__contains__, _OWN_KEYS)) - queues

    def counters(self) -> Counters:
        """Return the counters as other processes left them: see the attributes."""
        return self._settled(self.peek(_STATE))

    @staticmethod
    def place(key: Any, raw: bool) -> tuple[Any, Any]:
        """Return where an entry is.

        Args:
            key, raw: What `Disk.put` returned.

        Returns:
            The key of the file, and the field `KEY`.
        """
        kind = type(key)
        if kind is memoryview:
            key, kind = bytes(key), bytes
        if raw and kind is int:
            return key, None
        if raw and kind is float:
            if key.is_integer() and _INT_MIN <= key <= _INT_MAX:
                return int(key), (key, True)
            return (b"float", struct.pack("<d", key)), (key, True)
        if kind is not str and kind is not bytes:
            raise TypeError(f"Disk.put must return str, bytes, int or float, not {kind.__name__}")
        if len(key) > LONGEST_KEY:
            content = key.encode("utf-8") if kind is str else key
            digest = hashlib.sha256(content).digest()
            return (b"long", kind is str, bool(raw), digest), (key, bool(raw))
        if raw:
            return key, None
        return ((key,), None) if kind is bytes else ((b"str", key), (key, False))

    @staticmethod
    def key_of(place: Any, entry: Entry) -> tuple[Any, bool]:
        """Return what `Disk.put` returned for the key of an entry."""
        if len(entry) > SHORT and entry[KEY] is not None:
            key, raw = entry[KEY]
            return key, raw
        return (place[0], False) if type(place) is tuple else (place, True)

    # --- Changing ------------------------------------------------------------------------------

    def change(self, timeout: float, retry: bool) -> Change:
        """Return a context manager that holds the lock. See `WriteLock.acquire`."""
        return Change(self, timeout, retry)

    def begin(self, timeout: float, retry: bool) -> None:
        """Take the lock. Undoes what a process has left undone that died in a transaction."""
        if not self.lock.acquire(timeout, retry):
            return
        try:
            # A forked child has those of its parent.
            self._undoing = self._changed = False
            self._noted, self._doomed = set(), []
            if self.file.closed:
                self.open()
            seen = self._seen
            self._load()
            if self.lock.has_journal():
                self._undo()
            if seen != self.number:
                self.foreign += 1
        except BaseException:
            self.lock.release()
            raise

    def end(self, *, failed: bool) -> None:
        """Release the lock; after a failure, undo the transaction."""
        if not self.lock.held:
            return
        removable: list[str] = []
        try:
            if self.lock.depth == 1:
                if failed:
                    self._undo() if self._undoing else self._reload()
                self._save()
                if self._undoing:
                    self.lock.forget()
                removable, self._doomed = self._doomed, []
                self._noted.clear()
            else:
                self._save()
        finally:
            self.lock.release()
        for filename in removable:
            self.remove_file(filename)

    def _reload(self) -> None:
        """Read the counters again: the last change that was announced may not have been made."""
        self._is_current = False
        self._load()

    def _save(self) -> None:
        if self._changed:
            self._announce(())

    def _announce(self, changes: tuple[tuple[Any, int, Any], ...]) -> None:
        """Store the counters with what is about to change, so that they are right after a kill.

        Args:
            changes: Keys, the bytes of their entries, and what is overwritten, or None. Whoever
                reads the counters adds what the entries have then: see `_settled`. With a journal,
                there is no need for any.
        """
        self._is_current = False
        self._serial += 1
        self._store(_STATE, (*self._state(), self._serial, changes))
        self._is_current = True
        self._seen = self.number
        self._changed = False

    def undo_on_failure(self) -> None:
        """Undo the changes from here on if the outermost `change` fails, or the process dies."""
        if not self._undoing:
            self.lock.append(_STATE, self._state())
            self._undoing = True

    def _undo(self) -> None:
        """Undo what the journal names."""
        records = self.lock.journal()
        kept = {old[FILENAME] for key, old in records if not _is_own(key) and _has_file(old)}
        for key, old in reversed(records):
            now = self.read(key)
            if key == _STATE:
                number = self.number
                self.number, self.file_bytes, self.inline_bytes, self.soonest, self.queues = old
                self.number = max(number, self.number)
                continue
            if not _is_own(key):
                self._doom(now)
            if old is None:
                self.file.delete(key)
            else:
                self._store(key, old)
        self._doomed = [filename for filename in self._doomed if filename not in kept]
        self._changed = True
        self._save()
        self.lock.forget()
        self.foreign += 1

    def _note(self, key: Any, old: Any) -> None:
        if self._undoing and key not in self._noted:
            self.lock.append(key, old)
            self._noted.add(key)

    def _doom(self, entry: Any) -> None:
        if _has_file(entry):
            self._doomed.append(entry[FILENAME])

    def next_number(self, old: Optional[Entry]) -> int:
        """Count a change, and return the number of the entry: that of the old one, if any."""
        self.number += 1
        self._changed = True
        return self.number if old is None else int(old[NUMBER])

    def expires_from(self, soonest: Optional[float]) -> None:
        """Say that no entry expires earlier."""
        self._changed = self._changed or soonest != self.soonest
        self.soonest = soonest

    def recount(self, *, fix: bool) -> dict[str, tuple[Any, Any]]:
        """Count everything.

        Args:
            fix: Whether to correct the counters.

        Returns:
            By name, what a counter has and what it should have.
        """
        _, file_bytes, inline_bytes, _, queues = self._counted()
        found = {"file_bytes": file_bytes, "inline_bytes": inline_bytes, "queues": queues}
        compared = {name: (getattr(self, name), count) for name, count in found.items()}
        if fix:
            for name, count in found.items():
                setattr(self, name, count)
            self._changed = True
        return compared

    def put(self, key: Any, entry: Entry, old: Optional[Entry]) -> None:
        """Store an entry.

        Args:
            key: The key of the file.
            entry: The entry.
            old: The entry that it replaces, or None.
        """
        if _is_counted(entry) or _is_counted(old):
            self.undo_on_failure()
        if len(entry) > SHORT:
            expire = entry[EXPIRE]
            if expire is not None and (self.soonest is None or expire < self.soonest):
                self.soonest = expire
        self._changed = True
        old_bytes = 0 if old is None else _bytes_of(key, old)
        if self._undoing:
            self._note(key, old)
        else:
            self._announce(((key, old_bytes, old),))
        self._store(key, entry)
        self.inline_bytes += _bytes_of(key, entry) - old_bytes
        self.file_bytes += _file_bytes_of(entry) - _file_bytes_of(old)
        if old is not None and field_of(old, FILENAME) != field_of(entry, FILENAME):
            self._doom(old)

    def remove(self, key: Any, old: Entry) -> None:
        """Remove an entry, and its file at the end of the outermost `change`."""
        self.remove_all([(key, old)])

    def remove_all(self, rows: list[Row]) -> None:
        """Remove entries, and their files at the end of the outermost `change`."""
        if not rows:
            return
        if any(_is_counted(old) for _, old in rows):
            self.undo_on_failure()
        self._changed = True
        changes = tuple((key, _bytes_of(key, old), None) for key, old in rows)
        if not self._undoing:
            self._announce(changes)
        for (key, old), (_, old_bytes, _) in zip(rows, changes):
            self._note(key, old)
            self.file.delete(key)
            self.inline_bytes -= old_bytes
            self.file_bytes -= _file_bytes_of(old)
            self._doom(old)

    def _store(self, key: Any, entry: Any) -> None:
        # In a file that is nearly full, each write would have to compact it.
        grows = 2 * self.inline_bytes > self.file.size
        while True:
            if grows:
                self.file.resize(2 * self.file.size)
            try:
                self.file[key] = entry
            except (CacheFull, ValueTooLarge):
                grows = True
            else:
                return

    # --- What is no entry ----------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Return the stored settings."""
        found: dict[str, Any] = self.peek(_SETTINGS) or {}
        return found

    def put_settings(self, settings: dict[str, Any]) -> None:
        """Store the settings, and create what every cache has."""
        old = self.peek(_SETTINGS)
        if old is not None:
            self.undo_on_failure()
        self._note(_SETTINGS, old)
        self.file.add(_HITS, 0)
        self.file.add(_MISSES, 0)
        self._changed = True
        self._save()
        # Last: a cache that has settings has all of it.
        self._store(_SETTINGS, settings)

    def hit(self, found: bool) -> None:
        """Count a read."""
        self._ready().incr(_HITS if found else _MISSES)

    def hits(self, name: str) -> int:
        """Return a count: ``"hits"`` or ``"misses"``."""
        count: int = self.peek((name,)) or 0
        return count

    def put_hits(self, name: str, count: int) -> None:
        """Replace a count."""
        self._ready()[(name,)] = count

    def _ready(self) -> File:
        if self.file.closed:
            self.open()
        return self.file

    def ends(self, queue: str) -> Optional[tuple[int, int]]:
        """Return the lowest and the highest number that a queue may have; None if unknown."""
        found: Optional[tuple[int, int]] = self.peek(("queue", queue))
        return found

    def put_ends(self, queue: str, ends: tuple[int, int], old: Optional[tuple[int, int]]) -> None:
        """Store the ends of a queue."""
        key = ("queue", queue)
        if old is None:
            self.undo_on_failure()
            self.queues += 1
            self._changed = True
        if self._undoing:
            self._note(key, old)
        else:
            self._announce(((key, 0, old),))
        self._store(key, ends)


class Change:
    """Holds the lock of the entries."""

    __slots__ = ("_entries", "_retry", "_timeout")

    def __init__(self, entries: Entries, timeout: float, retry: bool) -> None:
        """Take nothing yet."""
        self._entries = entries
        self._timeout = timeout
        self._retry = retry

    def __enter__(self) -> Entries:
        """Take the lock.

        Raises:
            Timeout: Another thread or process held it for too long.
        """
        try:
            self._entries.begin(self._timeout, self._retry)
        except LockTimeout:
            raise Timeout from None
        return self._entries

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        """Release the lock; after a failure, undo the transaction.

        Raises:
            Timeout: A lock of the Tuckbox file was held for too long.
        """
        self._entries.end(failed=kind is not None)
        if kind is not None and issubclass(kind, LockTimeout):
            raise Timeout from None


def _has_file(entry: Any) -> bool:
    return entry is not None and len(entry) > SHORT and entry[FILENAME] is not None


def _is_own(key: Any) -> bool:
    """Return whether a key of the file is that of no entry."""
    return type(key) is tuple and type(key[0]) is str


def _is_counted(entry: Any) -> bool:
    """Return whether an entry has a file, or the size of one from a `Disk` of the program."""
    return _has_file(entry) or _file_bytes_of(entry) != 0


def _file_bytes_of(entry: Optional[Entry]) -> int:
    return 0 if entry is None or len(entry) == SHORT else int(entry[SIZE])


def _bytes_of(key: Any, entry: Entry) -> int:
    if type(key) is tuple:
        key = key[0] if len(entry) == SHORT or entry[KEY] is None else entry[KEY][0]
    value = entry[VALUE]
    length = len(value) if isinstance(value, (str, bytes)) else 8
    return _ENTRY_BYTES + length + (len(key) if isinstance(key, (str, bytes)) else 8)
