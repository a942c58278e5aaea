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
import struct
import time
import weakref
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
    "ENDS_MOST",
    "EXPIRE",
    "FILENAME",
    "FILE_NAME",
    "FIRST_SIZE",
    "GATE_CLOSED",
    "GATE_STATES",
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
    "Known",
    "Row",
    "bytes_of",
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
# What a short form stands for; in the place of ACCESSED, the time stored.
_LONGER: Final = (None, None, None, None, None, MODE_RAW, None, 0, None, 0, None)

Entry = tuple[Any, ...]
Counters = tuple[int, int, Optional[float], int]
"""`Entries.file_bytes`, `inline_bytes`, `soonest` and `queues`."""
Row = tuple[Any, Entry]
"""The key in the Tuckbox file and the entry."""

Known = tuple[int, Optional[float], int, int, int]
"""What holds while the gate has a word: that word, `Entries.soonest`, `file_bytes`, `queues`, and
how many bytes the entries may take before the file must grow."""

Ends = tuple[tuple[int, int], tuple[int, int]]
"""The lowest and the highest number that a queue may have, as far as this handle knows; and as they
are stored for other handles."""

PutPlain = Callable[[str, Any], int]
PlainLimits = Callable[[], tuple[float, float]]
_NO_LIMIT: Final = 2**62

# Keys of what is no entry. A tuple that begins with a str is never the key of an entry.
_STATE: Final = ("state",)
_SETTINGS: Final = ("settings",)
_HITS: Final = ("hits",)
_MISSES: Final = ("misses",)
_OWN_KEYS: Final = (_STATE, _SETTINGS, _HITS, _MISSES)

FILE_NAME: Final = "cache.tuck"
LOCK_NAME: Final = "cache.lock"
FIRST_SIZE: Final = 2**26
LONGEST_KEY: Final = 2**12
"""The place of a longer key is that of its digest."""
_ENTRY_BYTES: Final = 64
_NUMBER_BYTES: Final = 8
GATE_STATES: Final = 3
"""Bits of the gate's word that are 0 if it is open."""
_GATE_CLOSING: Final = 1
GATE_CLOSED: Final = 2
"""Of these bits: a handle holds the lock, or has died with it. When all are set, none holds it."""
_GATE_WAITS_S: Final = (*[0.0] * 20, *[20e-6] * 10)
_GATE_TURN: Final = 4
"""By how much each closing of the gate raises its word."""
_ANY: Final = 2**64 - 1
"""In place of the gate's word or of a version: whatever it is."""
_PASSED_MOST: Final = 1000
_ENDS_WIDER: Final = 16
ENDS_MOST: Final = 48
"""By how much the stored ends of a queue may differ from its ends."""
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**63 - 1


def _refuse(*_arguments: Any) -> int:
    """Do nothing, and say so as `Passage.put` does."""
    return 0


def lengthen(entry: Entry) -> Entry:
    """Return the long form."""
    if len(entry) > SHORT:
        return entry
    return (*entry, *_LONGER[SHORT:ACCESSED], entry[STORED], 0, None)


def shorten(entry: Entry) -> Entry:
    """Return the short form, if the entry has one."""
    if entry[EXPIRE:ACCESSED] != _LONGER[EXPIRE:ACCESSED]:
        return entry
    if entry[ACCESSED:] != (entry[STORED], 0, None):
        return entry
    return entry[:SHORT]


def field_of(entry: Entry, field: int) -> Any:
    """Return a field of an entry of either form."""
    if field < len(entry):
        return entry[field]
    return entry[STORED] if field == ACCESSED else _LONGER[field]


_OPEN: Final[weakref.WeakSet[Entries]] = weakref.WeakSet()


def _forget_in_child() -> None:
    for entries in list(_OPEN):
        entries.forget_as_child()
        entries.lock.forget_as_child()


os.register_at_fork(after_in_child=_forget_in_child)


class Entries:
    """The entries of one directory, and the handle on its file.

    Methods that change something need the lock: call them inside of ``with Change(...)``.

    Attributes:
        directory: The directory.
        lock: One writer at a time.
        read: Returns the entry of a key of the file, or None. May raise CacheClosed.
        file_bytes: The sum of the sizes of files.
        inline_bytes: About how many bytes the entries take without their files.
        soonest: No entry expires earlier; None if none expires.
        queues: How many queues have a record of their ends.
        foreign: How often another handle was found to have stored something.
        gate: The word of the closed gate when this handle last held the lock; None if it does not
            know the state of then.
        known: What changes that take no lock must know; see `Known`.
        known_ends: Of queues, the ends that this handle knows, as long as no other handle takes the
            lock. Each holder of the lock has a dict of its own: a change without the lock that
            is late leaves what it knows in the one that it had.
        plain_value: `Core._plain_value` of the engine, which returns the value of the most common
            entries; None for others. May not be used if there are no `plain_limits`.
        process: The process to which `gate` and `known_ends` belong.
        put_plain: `Passage.put` of the engine while it may be called; otherwise it refuses.
        plain_limits: If a str, bytes, int or float is stored as it is, so that `put_plain` may be
            called: returns from which length on a value becomes a file, and from how many bytes on
            there are too many. If they change, call `forget`. Otherwise None.
    """

    # What each set and get loads: CPython finds slots faster than the many other attributes.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "_watched",
        "file",
        "gate",
        "known",
        "known_ends",
        "lock",
        "plain_value",
        "process",
        "put_plain",
        "read",
    )

    file_bytes: int
    inline_bytes: int
    soonest: Optional[float]
    queues: int

    def __init__(
        self,
        directory: str,
        remove_file: Callable[[str], None],
        secret: Optional[Secret] = None,
        first_size: int = FIRST_SIZE,
    ) -> None:
        """Open the file of a directory, or create it.

        Args:
            directory: The directory.
            remove_file: Called with the name of each file that no entry has any more.
            secret: Signs the pickles; None if they are not signed.
            first_size: How many bytes a new file may take before it is compacted, or resized. It
                begins with fewer.
        """
        self._secret = secret
        self._first_size = first_size
        # A handle that is opened again is the same after the program has changed its directory.
        self.directory = directory = os.path.abspath(directory)
        self.remove_file = remove_file
        self.foreign = 0
        self._forgotten = 0
        self.plain_limits: Optional[PlainLimits] = None
        self.forget()
        self._watched = False
        self.notice: Callable[[Any, Entry], None] = lambda _key, _entry: None
        self._passed: list[tuple[int, Any, Optional[Entry]]] = []
        self._path = os.path.join(directory, FILE_NAME)
        self.lock = WriteLock(os.path.join(directory, LOCK_NAME))
        self._undoing = False
        # Set while a change may be made: not while the lock is being taken or released.
        self._may_change = False
        self._opens = False
        self.gate: Optional[int] = None
        self._last_number = 0
        self._noted: set[Any] = set()
        self._doomed: list[str] = []
        self.known_ends: dict[str, Ends] = {}
        self.process = os.getpid()
        _OPEN.add(self)
        self.open()
        self.signatures: Optional[Signatures] = None
        if secret is not None:
            self.signatures = self.lock.signatures = Signatures(secret, self.file.id)
        self._load()

    def open(self) -> None:
        """Open the file, also if it was closed."""
        self.forget()
        new: dict[str, Any] = {"size": self._first_size, "evict": False}
        # With "private", Tuckbox refuses a place where another user could write.
        self.file = File(
            self._path, pickle="private", **({} if os.path.exists(self._path) else new)
        )
        self.read, self.plain_value = self.file.get, self.file._plain_value
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
            self.read, self.plain_value = self.file.get, self.file._plain_value

    def close(self) -> None:
        """Close the file, unless a thread is changing it. Every operation opens it again."""
        self.lock.close(self.file.close)

    def _load(self) -> None:
        self._saved = state = self.peek(_STATE)
        if state is not None:
            self.file_bytes, self.soonest, self.queues = state
        else:
            # A new file, or Tuckbox has lost it.
            self.file_bytes, _, self.soonest, self.queues = self._counted()

    def _counted(self) -> Counters:
        """Return the counters as the entries have them, by a scan of the file."""
        file_bytes = inline_bytes = 0
        soonest = math.inf
        for key, entry in self.rows():
            inline_bytes += bytes_of(key, entry)
            file_bytes += _file_bytes_of(entry)
            expire = field_of(entry, EXPIRE)
            soonest = soonest if expire is None else min(soonest, expire)
        queues = sum(1 for key in self.file if type(key) is tuple and key[0] == "queue")
        return file_bytes, inline_bytes, None if soonest == math.inf else soonest, queues

    def _state(self) -> tuple[int, Optional[float], int]:
        return self.file_bytes, self.soonest, self.queues

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
            self.file._store_passing(key, entry, _ANY, version, 0)

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

    def counters(self) -> tuple[int, int, int, Optional[float], int]:
        """Return the counters of now.

        Returns:
            How many changes there were, `file_bytes`, `inline_bytes`, `soonest` and `queues`.
        """
        state = self.peek(_STATE)
        number = self.file._last_number
        if state is None:
            return (number, *self._counted())
        file_bytes, soonest, queues = state
        return number, file_bytes, self.file._weigh(0), soonest, queues

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
            content = key.encode("utf-8", "surrogatepass") if kind is str else key
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

    def begin(self, timeout: float, retry: bool, opens: Optional[bool]) -> None:
        """Take the lock. Undoes what a process has left undone that died in a transaction.

        Args:
            timeout, retry: See `WriteLock.acquire`.
            opens: Whether to open the gate at the end; None if no other handle had the lock since
                this one had it.

        Raises:
            Timeout: Another thread or process kept the lock. Or this is the handler of a signal,
                whose own thread is taking the lock or releasing it.
        """
        if not self.lock.acquire(timeout, retry):
            if not self._may_change:
                self.lock.release()
                raise Timeout
            if opens:
                self._opens = True
            return
        try:
            # A forked child has those of its parent.
            self._may_change, self._undoing, self._opens = False, False, False
            self._noted, self._doomed = set(), []
            if self.file.closed:
                self.open()
            if self.process != os.getpid():
                # A host that forks without CPython, as uWSGI may, does not call the hook.
                self.forget_as_child()
            last, self.gate = self.gate, None
            known_ends, self.known_ends = self.known_ends, {}
            gate = self.file._close_gate()
            self._hear()
            is_alone = last is not None and gate == last + _GATE_TURN
            self._opens = is_alone if opens is None else opens
            if is_alone:
                self.known_ends.update(known_ends)
            else:
                # Another handle has held the lock since.
                self._load()
                if self.lock.has_journal():
                    self._undo()
            if self._saved is None or self.file._is_weight_unsure:
                self._weigh_again(self._counted()[1])
            self._may_change = True
        except BaseException:
            self.lock.release()
            raise

    def _weigh_again(self, inline_bytes: int) -> None:
        self.file._set_weight(inline_bytes)
        self.inline_bytes = inline_bytes

    def _hear(self) -> None:
        """Learn what was stored since this handle last held the lock. The gate is closed."""
        self.inline_bytes = self.file._weigh(0)
        number = self.file._last_number
        count = number - self._last_number
        if count:
            passed, self._passed = self._passed, []
            if len(passed) == count and all(row[0] > self._last_number for row in passed):
                for _, key, entry in passed:
                    if entry is not None:
                        self.notice(key, entry)
            else:
                self.foreign += 1
                self.watched = False
            self._last_number = number

    def end(self, *, failed: bool) -> None:
        """Release the lock; after a failure, undo the transaction."""
        if not self.lock.depth:
            return
        removable: list[str] = []
        try:
            if failed:
                self.known_ends = {}
            if self.lock.depth == 1:
                self._may_change = False
                if failed and self._undoing:
                    self._undo()
                self._save()
                if self._undoing:
                    self.lock.forget()
                removable, self._doomed = self._doomed, []
                self._noted.clear()
                self._leave()
            else:
                self._save()
        finally:
            self.lock.release()
        for filename in removable:
            self.remove_file(filename)

    def _leave(self) -> None:
        """Open the gate, if that is of use. All that others must know is stored."""
        gate = self.file._gate
        if self._opens:
            self._know(gate & ~GATE_STATES, self.soonest, self.file_bytes, self.queues)
        self.file._leave_gate(self._opens)
        self.gate = gate

    def learn(self) -> Optional[Known]:
        """Return what holds while the gate is open as it is now; None if it is closed."""
        gate = self.file._gate
        # Usually it opens soon. A change that takes the lock makes the next one take it, too.
        for wait_s in _GATE_WAITS_S:
            if gate & GATE_STATES not in {_GATE_CLOSING, GATE_CLOSED} or self.lock.depth:
                break
            if wait_s:
                time.sleep(wait_s)
            gate = self.file._gate
        if gate & GATE_STATES:
            return None
        state = self.peek(_STATE)
        if state is None or self.file._gate != gate:
            return None
        file_bytes, soonest, queues = state
        return self._know(gate, soonest, file_bytes, queues)

    def forget_as_child(self) -> None:
        """Forget what only the parent may rely on, in a child that was forked off."""
        self.process = os.getpid()
        self.gate = None
        self.known_ends = {}
        self.forget()

    def forget(self) -> None:
        """Forget what holds while the gate is open."""
        self._forgotten += 1
        # No gate has this word.
        self.known: Known = (GATE_STATES, None, 0, 0, 0)
        self.put_plain: PutPlain = _refuse

    def _know(self, gate: int, soonest: Optional[float], file_bytes: int, queues: int) -> Known:
        most, forgotten = self.file.size // 2, self._forgotten
        self.known = known = (gate, soonest, file_bytes, queues, most)
        if self.plain_limits is not None and not self._watched:
            # Not above: the module can be imported where there is no extension.
            from tuckbox._engine import Passage  # noqa: PLC0415

            ends = (math.ceil(min(max(limit, 0), _NO_LIMIT)) for limit in self.plain_limits())
            passage = Passage(
                self.file, gate, soonest, file_bytes, queues > 0, most, LONGEST_KEY, *ends
            )
            self.put_plain = passage.put
            if forgotten != self._forgotten:
                # Another thread has changed a limit meanwhile.
                self.forget()
        return known

    @property
    def watched(self) -> bool:
        """Whether changes that take no lock are remembered for `notice`."""
        return self._watched

    @watched.setter
    def watched(self, watched: bool) -> None:
        if watched != self._watched:
            self._watched = watched
            self.forget()

    def remember(self, number: int, key: Any, entry: Optional[Entry]) -> None:
        """Remember a change that took no lock, for `notice`.

        Args:
            number: The number that it took.
            key: The key of the file.
            entry: What was stored; None if it was removed.
        """
        if len(self._passed) < _PASSED_MOST:
            self._passed.append((number, key, entry))

    def _save(self) -> None:
        state = self._state()
        if state != self._saved:
            if self._undoing or self._replace(_STATE, state, 0) is None:
                self._store(_STATE, state)
            self._saved = state

    def undo_on_failure(self) -> None:
        """Undo the changes from here on if the outermost `change` fails, or the process dies."""
        if not self._undoing:
            self.lock.append(_STATE, (self.inline_bytes, *self._state()))
            self._undoing = True

    def _undo(self) -> None:
        """Undo what the journal names."""
        records = self.lock.journal()
        kept = {old[FILENAME] for key, old in records if not _is_own(key) and _has_file(old)}
        for key, old in reversed(records):
            now = self.read(key)
            if key == _STATE:
                inline_bytes, self.file_bytes, self.soonest, self.queues = old
                self._weigh_again(inline_bytes)
                continue
            if not _is_own(key):
                self._doom(now)
            if old is None:
                self.file.delete(key)
            else:
                self._store(key, old)
        self._doomed = [filename for filename in self._doomed if filename not in kept]
        self._save()
        self.lock.forget()
        self.foreign += 1
        self.watched = False

    def _note(self, key: Any, old: Any) -> None:
        if self._undoing and key not in self._noted:
            self.lock.append(key, old)
            self._noted.add(key)

    def _doom(self, entry: Any) -> None:
        if _has_file(entry):
            self._doomed.append(entry[FILENAME])

    def next_number(self, old: Optional[Entry]) -> int:
        """Count a change, and return the number of the entry: that of the old one, if any."""
        number = self.file._next_number()
        # Only changes that were refused have taken one meanwhile.
        self._last_number = number
        return number if old is None else int(old[NUMBER])

    def expires_from(self, soonest: Optional[float]) -> None:
        """Say that no entry expires earlier."""
        self.soonest = soonest

    def recount(self, *, fix: bool) -> dict[str, tuple[Any, Any]]:
        """Count everything.

        Args:
            fix: Whether to correct the counters.

        Returns:
            By name, what a counter has and what it should have.
        """
        file_bytes, inline_bytes, _, queues = self._counted()
        found = {"file_bytes": file_bytes, "inline_bytes": inline_bytes, "queues": queues}
        compared = {name: (getattr(self, name), count) for name, count in found.items()}
        if fix:
            self.file_bytes, self.queues = file_bytes, queues
            self._weigh_again(inline_bytes)
        return compared

    def put(self, key: Any, entry: Entry, old: Optional[Entry]) -> None:
        """Store an entry.

        Args:
            key: The key of the file.
            entry: The entry.
            old: The entry that it replaces, or None.
        """
        if len(entry) > SHORT:
            expire = entry[EXPIRE]
            if expire is not None and (self.soonest is None or expire < self.soonest):
                self.soonest = expire
        delta = bytes_of(key, entry) - (0 if old is None else bytes_of(key, old))
        if _is_counted(entry) or _is_counted(old) or not self._put_one(key, entry, delta):
            self.undo_on_failure()
            self._note(key, old)
            self._store(key, entry)
            self.file_bytes += _file_bytes_of(entry) - _file_bytes_of(old)
            self.inline_bytes = self.file._weigh(delta)
        if old is not None and field_of(old, FILENAME) != field_of(entry, FILENAME):
            self._doom(old)

    def remove(self, key: Any, old: Entry) -> None:
        """Remove an entry, and its file at the end of the outermost `change`."""
        delta = -bytes_of(key, old)
        weight = None
        if not (self._undoing or _is_counted(old)):
            weight = self.file._delete_passing(key, self.file._gate, _ANY, delta)
        if weight is None:
            self.undo_on_failure()
            self._note(key, old)
            self.file.delete(key)
            self.file_bytes -= _file_bytes_of(old)
            weight = self.file._weigh(delta)
        self.inline_bytes = weight
        self._doom(old)

    def _put_one(self, key: Any, entry: Any, delta: int) -> bool:
        """Store an entry, or the ends of a queue, so that it needs no journal.

        Returns:
            Whether it was stored. Otherwise there is a journal already, or no room at once.
        """
        if self._undoing:
            return False
        self.grow()
        # First: then no entry expires earlier than the stored counters say, whoever dies.
        self._save()
        weight = self._replace(key, entry, delta)
        if weight is not None:
            self.inline_bytes = weight
        return weight is not None

    def _replace(self, key: Any, value: Any, delta: int) -> Optional[int]:
        """Store a value and return the weight; if the process dies, both are as before or after.

        None if there is no room at once.
        """
        try:
            return self.file._store_passing(key, value, self.file._gate, _ANY, delta)
        except (CacheFull, ValueTooLarge):
            return None

    def _store(self, key: Any, entry: Any) -> None:
        self.grow()
        while True:
            try:
                self.file[key] = entry
            except (CacheFull, ValueTooLarge):
                self.file.resize(2 * self.file.size)
            else:
                return

    def grow(self) -> None:
        """Make the file larger, if it is nearly full: each write would have to compact it."""
        if 2 * self.inline_bytes > self.file.size:
            self.file.resize(2 * self.file.size)

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
        known = self._ends(queue)
        return None if known is None else known[0]

    def _ends(self, queue: str) -> Optional[Ends]:
        known = self.known_ends.get(queue)
        if known is None and self.queues:
            found: Optional[tuple[int, int]] = self.peek(("queue", queue))
            if found is not None:
                self.known_ends[queue] = known = (found, found)
        return known

    def put_ends(self, queue: str, ends: tuple[int, int]) -> None:
        """Keep the ends of a queue.

        What is stored for other handles may be wider, so that it is not stored for each item.
        """
        key = ("queue", queue)
        known = self._ends(queue)
        stored = None if known is None else known[1]
        low, high = ends
        if stored is None or not (
            low - ENDS_MOST <= stored[0] <= low and high <= stored[1] <= high + ENDS_MOST
        ):
            if stored is None:
                self.undo_on_failure()
                self.queues += 1
            wider = (low - _ENDS_WIDER, high + _ENDS_WIDER)
            if not self._put_one(key, wider, 0):
                self.undo_on_failure()
                self._note(key, stored)
                self._store(key, wider)
            stored = wider
        self.known_ends[queue] = (ends, stored)


class Change:
    """Holds the lock of the entries."""

    __slots__ = ("_depth", "_entries", "_opens", "_retry", "_timeout")

    def __init__(
        self, entries: Entries, timeout: float, retry: bool, *, opens: Optional[bool]
    ) -> None:
        """Take nothing yet.

        Args:
            entries: The entries.
            timeout, retry: See `WriteLock.acquire`.
            opens: Whether later changes like this one may do without the lock; None if that pays
                only for a handle that no other one follows.
        """
        # How often its thread has the lock inside of it; 0 outside.
        self._depth = 0
        self._opens = opens
        self._entries = entries
        self._timeout = timeout
        self._retry = retry

    def __enter__(self) -> Entries:
        """Take the lock.

        Raises:
            Timeout: Another thread or process held it for too long.
        """
        try:
            self._depth = self._entries.lock.depth + 1
            self._entries.begin(self._timeout, self._retry, self._opens)
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
        while self._entries.lock.depth > self._depth:
            # An interruption kept an inner change from its end.
            self._entries.end(failed=True)
        self._entries.end(failed=kind is not None)
        self._depth = 0
        if kind is not None and issubclass(kind, LockTimeout):
            raise Timeout from None

    def __del__(self) -> None:
        """Release the lock if an interruption, as by Ctrl-C, kept `__exit__` from doing so."""
        depth = getattr(self, "_depth", 0)
        if depth and self._entries.lock.depth >= depth:
            self._entries.end(failed=True)


def _is_own(key: Any) -> bool:
    """Return whether a key of the file is that of no entry."""
    return type(key) is tuple and type(key[0]) is str


def _is_counted(entry: Any) -> bool:
    """Return whether an entry has a file, or the size of one from a `Disk` of the program."""
    return _has_file(entry) or _file_bytes_of(entry) != 0


def _file_bytes_of(entry: Optional[Entry]) -> int:
    return 0 if entry is None or len(entry) == SHORT else int(entry[SIZE])


def _has_file(entry: Any) -> bool:
    return entry is not None and len(entry) > SHORT and entry[FILENAME] is not None


def bytes_of(key: Any, entry: Entry) -> int:
    """Return about how many bytes an entry takes."""
    kind = type(key)
    if kind is tuple:
        key = key[0] if len(entry) == SHORT or entry[KEY] is None else entry[KEY][0]
        kind = type(key)
    value = entry[VALUE]
    of_value = type(value)
    return (
        _ENTRY_BYTES
        + (len(key) if kind is str or kind is bytes else _NUMBER_BYTES)
        + (len(value) if of_value is str or of_value is bytes else _NUMBER_BYTES)
    )
