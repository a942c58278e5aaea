"""`Ledger`: the commit of transactions, and the completion of those whose process was killed.

The ledger is one entry. It is empty, or holds the journal of the transaction that is being applied.
Must not know how a transaction collects its changes: see `transactions`.

- *Turn.* A process that commits holds the lease of the ledger's key, which ends with the process.
- *Commit point.* The ledger is replaced by the journal, by the version that it had before the
  versions of all keys were compared. So no other transaction committed in between, even if the
  lease was lost.
- *Application.* Each change is stored by the version that its key had, so to repeat it does
  nothing. A process that has the turn and finds a journal applies that first.
- *Mark.* A resize, a copy and a dump give every entry another version. The mark is an entry that
  nobody changes: if its version is not the journal's, the versions of the changes mean nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple, Optional

from tuckbox.contract import BUSY, Begun, Store
from tuckbox.coordination.space import Space
from tuckbox.coordination.steps import Steps, pauses
from tuckbox.errors import AcquireTimeout, TransactionConflict, TransactionUnfinished
from tuckbox.keys import Key
from tuckbox.objects import Objects
from tuckbox.registry import register
from tuckbox.results import Entry

__all__ = ["Change", "Ledger"]

_LEDGER = "ledger"
_MARK = "mark"
_CLOCK = "clock"

_NUMBER_BITS = 62
_CLOCK_TTL_S = 3600.0
_SHOWN_MAX = 100


class Change(NamedTuple):
    """What a transaction does to one key."""

    key: Key
    is_deleted: bool
    code: Optional[int] = None
    """If the codec of a handle encoded the value: the code of `tuckbox.objects`."""
    value: Any = None
    """The value, or what the codec made of it."""
    ttl_s: Optional[float] = None
    """How long the value is fresh, from the commit point; None is without end."""
    keeps_ttl: bool = False
    """Whether a present entry keeps its expiry. ``ttl_s`` is then the time that remains."""
    tags: tuple[str, ...] = ()
    pinned: bool = False
    version: int = 0
    """What the key had before; 0 is nothing."""


class _Journal:
    """The changes of a committed transaction. Without any, the ledger is empty. Never changed.

    Args:
        number: No other journal has it.
        mark: The version of the mark.
        time_s: The time of the commit point by the clock of the store, if a change has a ttl.
        changes: The changes.
    """

    __slots__ = ("changes", "mark", "number", "time_s")

    def __init__(
        self, number: int, mark: int = 0, time_s: float = 0.0, changes: tuple[Change, ...] = ()
    ) -> None:
        self.number = number
        self.mark = mark
        self.time_s = time_s
        self.changes = changes

    def state(self) -> list[Any]:
        """Return plain values for `of`, apart from the values of entries."""
        return [self.number, self.mark, self.time_s, [tuple(change) for change in self.changes]]

    @staticmethod
    def of(state: list[Any]) -> _Journal:
        """Return what `state` was of."""
        number, mark, time_s, changes = state
        return _Journal(number, mark, time_s, tuple(Change(*parts) for parts in changes))


# A registered type, because a codec of the cache encodes all others.
register(_Journal, name="tuckbox.transaction", encode=_Journal.state, decode=_Journal.of)


class Ledger:
    """The transactions of one cache or namespace.

    Args:
        store: The cache or namespace.
        space: The entries of its coordination.

    Example:
        >>> from tuckbox.coordination.steps import run
        >>> ledger = Ledger(cache, cache._coordination())
        >>> run(ledger.commit({}, [Change("a", False, value=1)], None))
        >>> cache.get("a")
        1
    """

    __slots__ = ("_space", "_store")

    def __init__(self, store: Store, space: Space) -> None:
        self._store = store
        self._space = space

    def commit(
        self, seen: Mapping[Key, int], changes: list[Change], timeout_s: Optional[float]
    ) -> Steps[None]:
        """Make all changes, or none.

        Args:
            seen: The versions of the keys that were read; 0 is nothing.
            changes: At most one for each key. Their versions are not used.
            timeout_s: How long to wait for others; None is no limit.

        Raises:
            TransactionConflict: A key has another version. Nothing was changed.
            AcquireTimeout: Others were busy for ``timeout_s``. Nothing was changed.
            TransactionUnfinished: An error after the commit point.
            Exception: As operations of the store. Nothing was changed.
        """
        token = yield from self._turn(timeout_s)
        try:
            journal = yield from self._committed(seen, changes)
            if journal is None:
                return
            try:
                yield from self._finish(journal)
            except Exception as error:
                raise TransactionUnfinished(
                    f"the transaction is committed, but not all of its {len(changes)} changes can "
                    f"be read ({type(error).__name__}: {error}); do not repeat it: the next "
                    "transaction of any process finishes it"
                ) from error
        finally:
            # Never waits.
            self._space.store._abandon(token)  # noqa: SLF001 - Part of the contract.

    def settle(self, timeout_s: Optional[float]) -> Steps[None]:
        """Wait for a transaction that is being applied, or finish that of a killed process.

        Raises:
            As `commit`.
        """
        entry: Optional[Entry] = yield self._space.entry(_LEDGER)
        if entry is not None and entry.value.changes:
            yield from self.commit({}, [], timeout_s)

    def _turn(self, timeout_s: Optional[float]) -> Steps[object]:
        """Wait until no other transaction commits. Return the lease."""
        waits = pauses(timeout_s)
        while True:
            begun: Begun = yield partial(self._space.store._begin, _LEDGER, True)  # noqa: SLF001 - As above.
            state, _, token = begun
            if state != BUSY:
                return token
            pause_s = next(waits, None)
            if pause_s is None:
                raise AcquireTimeout(
                    f"other transactions were busy for {timeout_s:g}s; nothing was changed: try "
                    "again later, pass a longer timeout, or look for a process that is stopped"
                )
            yield pause_s

    def _committed(
        self, seen: Mapping[Key, int], changes: list[Change]
    ) -> Steps[Optional[_Journal]]:
        """Pass the commit point. Return the journal; None if there is nothing to change."""
        while True:
            ledger = yield from self._settled()
            found = dict.fromkeys([*seen, *(change.key for change in changes)], 0)
            for key in found:
                entry: Optional[Entry] = yield partial(self._store.get_entry, key)
                found[key] = 0 if entry is None else entry.version
                if seen.get(key, found[key]) != found[key]:
                    raise conflict(key)
            if not changes:
                return None
            if ledger is None:
                yield self._space.add(_LEDGER, _Journal(_number()))
                continue
            mark = yield from self._mark()
            has_ttl = any(change.ttl_s is not None for change in changes)
            time_s = (yield self._time_s) if has_ttl else 0.0
            versioned = (change._replace(version=found[change.key]) for change in changes)
            journal = _Journal(_number(), mark, time_s, tuple(versioned))
            is_committed: bool = yield self._space.swap(_LEDGER, ledger, journal)
            if is_committed:
                return journal

    def _settled(self) -> Steps[Optional[Entry]]:
        """Finish the transaction of a killed process, if there is one. Return the empty ledger."""
        while True:
            entry: Optional[Entry] = yield self._space.entry(_LEDGER)
            if entry is None or not entry.value.changes:
                return entry
            yield from self._finish(entry.value)

    def _mark(self) -> Steps[int]:
        """Return the version of the mark."""
        while True:
            entry: Optional[Entry] = yield self._space.entry(_MARK)
            if entry is not None:
                return entry.version
            yield self._space.add(_MARK, _number())

    def _time_s(self) -> float:
        """Return the time by the clock of the store, which only expiries show."""
        store = self._space.store
        while True:
            store.set(_CLOCK, 0, _CLOCK_TTL_S, pinned=True)
            entry = store.get_entry(_CLOCK)
            if entry is not None and entry.expiry is not None:
                return entry.expiry - _CLOCK_TTL_S

    def _finish(self, journal: _Journal) -> Steps[None]:
        """Apply the changes of a journal that are not made yet, and empty the ledger."""
        has_ttl = any(change.ttl_s is not None for change in journal.changes)
        gone_s = (yield self._time_s) - journal.time_s if has_ttl else 0.0
        # Deletions first: they make room.
        for change in sorted(journal.changes, key=lambda one: not one.is_deleted):
            yield from self._apply(change, journal.mark, gone_s)
        while True:
            entry: Optional[Entry] = yield self._space.entry(_LEDGER)
            if entry is None or entry.value.number != journal.number:
                return
            # False if it got another version by a resize.
            is_done: bool = yield self._space.swap(_LEDGER, entry, _Journal(_number()))
            if is_done:
                return

    def _apply(self, change: Change, mark: int, gone_s: float) -> Steps[None]:
        """Make a change, unless that was done or another write came after it."""
        key, version = change.key, change.version
        ttl_s = None if change.ttl_s is None else change.ttl_s - gone_s
        is_over = ttl_s is not None and ttl_s <= 0 and not change.keeps_ttl
        if change.is_deleted or is_over:
            is_done: bool = version == 0 or (yield partial(self._store.delete, key, version))
            if not is_done and (yield from self._mark()) != mark:
                yield partial(self._store.delete, key)
            return
        value = change.value
        if change.code is not None:
            # A codec encodes without the key.
            objects = self._store._objects or Objects()  # type: ignore[attr-defined] # noqa: SLF001 - As `tuckbox.dumps`.
            value = objects.decode(change.code, value, b"", b"")
        terms: dict[str, Any] = {"tags": change.tags, "pinned": change.pinned}
        kept: dict[str, Any] = {**terms, "keep_ttl": change.keeps_ttl}
        is_done = version != 0 and (
            yield partial(self._store.cas, key, value, version, ttl_s, **kept)
        )
        # Nothing is there if it was evicted, or deleted by others.
        is_done = is_done or (yield partial(self._store.add, key, value, ttl_s, **terms))
        if not is_done and (yield from self._mark()) != mark:
            yield partial(self._store.set, key, value, ttl_s, **kept)


def conflict(key: Key) -> TransactionConflict:
    """Return the exception about a key that another process has changed.

    Example:
        >>> raise conflict("stock")
        Traceback (most recent call last):
        tuckbox.errors.TransactionConflict: the key 'stock' was changed after this transaction...
    """
    shown = repr(key)
    shown = shown if len(shown) <= _SHOWN_MAX else f"{shown[:_SHOWN_MAX]}..."
    return TransactionConflict(
        f"the key {shown} was changed after this transaction had read it; nothing was changed: "
        "run the transaction again, as cache.transact(function) does"
    )


def _number() -> int:
    return secrets.randbits(_NUMBER_BITS)
