"""A contestant that holds some entries, and the passes over them.

Owns what a pass of each kind asks for, and the check of its answers. Must not know the contestant,
nor take times. Keys are new objects, as in a program that builds or reads its keys, unless a row
says otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import count

from benches.data import fresh, get_all, keys, require, values
from benches.turns import Turn
from lab.hosts.python.contract import Store
from rig.stamps import WrongAnswerError

#: Keys of a get_many.
BATCH = 100

# Key numbers that no initial entry has.
_ABSENT = 10_000_000
_NEW = 20_000_000


def drawn_fresh(dice: random.Random, names: list[str], count: int) -> list[str]:
    """Return some of the keys in random order, as new objects."""
    return fresh(dice.sample(names, count))


def drawn_same(dice: random.Random, names: list[str], count: int) -> list[str]:
    """Return some of the keys in random order, or all in their own order, as the same objects."""
    return names if count == len(names) else dice.sample(names, count)


class Contender:
    """One contestant with its entries."""

    def __init__(
        self,
        who: str,
        store: Store,
        stored: Mapping[str, object],
        operations: int,
        *,
        draw: Callable[[random.Random, list[str], int], list[str]] = drawn_fresh,
    ) -> None:
        """Store the entries. `draw` draws the keys of a pass, `operations` of them."""
        self.who = who
        self._store = store
        self._stored = stored
        self._names = list(stored)
        self._operations = operations
        self._draw = draw
        self._dice = random.Random(1)
        self._numbers = count(1)
        self._sums = dict.fromkeys(self._names, 0)
        for name, value in stored.items():
            store.set(name, value)

    def require_full(self) -> None:
        """Raise WrongAnswerError unless some initial entries were evicted and others kept."""
        kept = sum(self._store.get(name) is not None for name in self._names)
        if not 0 < kept < len(self._names):
            raise WrongAnswerError(
                f"{self.who} has {kept:,} of {len(self._names):,} entries: it is not full"
            )

    def get(self) -> Turn:
        """Return the turn that gets values."""
        return Turn(self._operations, get_all(self._store.get), self._drawn, self._check_stored)

    def get_missing(self) -> Turn:
        """Return the turn that gets keys that were never stored."""

        def asked() -> list[str]:
            return keys(self._operations, first=_ABSENT + next(self._numbers) * self._operations)

        return Turn(self._operations, get_all(self._store.get), asked, self._check_missing)

    def get_many(self) -> Turn:
        """Return the turn that gets batches of 100 keys; an operation is one batch."""
        get_many = self._store.get_many
        assert get_many is not None
        batches = max(self._operations // BATCH, 1)

        def asked() -> list[list[str]]:
            return [fresh(self._dice.sample(self._names, BATCH)) for _ in range(batches)]

        def work(given: Sequence[Sequence[str]]) -> None:
            for batch in given:
                get_many(batch)

        def check(given: Sequence[Sequence[str]]) -> None:
            wanted = [{name: self._stored[name] for name in batch} for batch in given]
            require(self.who, map(get_many, given), wanted)

        return Turn(batches, work, asked, check)

    def overwrite(self) -> Turn:
        """Return the turn that overwrites values with others of the same length."""
        length = len(self._stored[self._names[0]])  # type: ignore[arg-type]

        def asked() -> tuple[list[str], bytes]:
            return self._drawn(), values(1, length, seed=next(self._numbers))[0]

        def check(given: tuple[list[str], bytes]) -> None:
            names, value = given
            require(self.who, map(self._store.get, names), [value] * len(names))

        return Turn(self._operations, self._set_all, asked, check)

    def set_new(self) -> Turn:
        """Return the turn that stores new keys into a full cache."""
        value = self._stored[self._names[0]]

        def asked() -> tuple[list[str], object]:
            first = _NEW + next(self._numbers) * self._operations
            return keys(self._operations, first=first), value

        def check(given: tuple[list[str], object]) -> None:
            names, _ = given
            found = [self._store.get(name) for name in names]
            there = [one for one in found if one is not None]
            if not there or any(one != value for one in there):
                raise WrongAnswerError(
                    f"{self.who} has {len(there):,} of the {len(names):,} latest entries, "
                    "or a wrong value"
                )

        return Turn(self._operations, self._set_all, asked, check)

    def delete(self) -> Turn:
        """Return the turn that deletes entries. Each pass stores them first, untimed."""

        def asked() -> list[str]:
            names = self._drawn()
            for name in names:
                self._store.set(name, self._stored[name])
            return names

        return Turn(self._operations, get_all(self._store.delete), asked, self._check_missing)

    def incr(self) -> Turn:
        """Return the turn that adds 1 to ints. All initial values must be 0."""
        incr = self._store.incr
        assert incr is not None

        def counted() -> list[str]:
            names = self._drawn()
            for name in names:
                self._sums[name] += 1
            return names

        def check(_names: list[str]) -> None:
            names = counted()
            require(self.who, map(incr, names), [self._sums[name] for name in names])

        return Turn(self._operations, get_all(incr), counted, check)

    def _drawn(self) -> list[str]:
        return self._draw(self._dice, self._names, self._operations)

    def _set_all(self, given: tuple[list[str], object]) -> None:
        names, value = given
        store = self._store.set
        for name in names:
            store(name, value)

    def _check_stored(self, names: Sequence[str]) -> None:
        require(self.who, map(self._store.get, names), [self._stored[name] for name in names])

    def _check_missing(self, names: Sequence[str]) -> None:
        require(self.who, map(self._store.get, names), [None] * len(names))


def opening(open_store: Callable[[], Store], who: str, stored: Mapping[str, object]) -> Turn:
    """Return the turn that opens an existing store and gets one of its values.

    The store is closed before the next pass.
    """
    names = list(stored)
    dice = random.Random(1)
    opened: list[Store] = []
    answers: list[object] = []

    def closed() -> str:
        while opened:
            opened.pop().close()
        return dice.choice(names)

    def work(name: str) -> None:
        store = open_store()
        opened.append(store)
        answers.append(store.get(name))

    def check(name: str) -> None:
        require(who, answers[-1:], [stored[name]])
        closed()

    return Turn(1, work, closed, check)
