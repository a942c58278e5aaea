"""T-I1: a value whose key was deleted or stored while it was made is not stored; others are."""

from __future__ import annotations

import multiprocessing
import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import pytest

from tuckbox import Cache, memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-I1"), pytest.mark.timeout(120)]

RUNS_ON = ("shared", "memory")

# While a value is made, other processes use other keys: what they would do in a second. Keys share
# counters of deletes, 16,384 in a file of 256 MiB, so each of the ten deletes refuses a clean store
# with a probability of 1/16384. That is 0.06 % for the ten, and 0.24 % in a file of 64 MiB or less.
SETS_EACH = 1000
DELETES_EACH = 10
REFUSED_MAX = 0.01

OTHER = "another value"
Way = Callable[[Any, str], object]
WAYS: dict[str, tuple[Way, Any]] = {
    # What another process does, and what the key then has.
    "delete": (lambda cache, key: cache.delete(key), None),
    "delete twice": (lambda cache, key: (cache.delete(key), cache.delete(key)), None),
    "delete_many": (lambda cache, key: cache.delete_many([key, "x"]), None),
    "pop": (lambda cache, key: cache.pop(key, None), None),
    "del": (lambda cache, key: (cache.set(key, 1), cache.__delitem__(key)), None),
    "set": (lambda cache, key: cache.set(key, OTHER), OTHER),
    "set_many": (lambda cache, key: cache.set_many({key: OTHER}), OTHER),
    "set and delete": (lambda cache, key: (cache.set(key, OTHER), cache.delete(key)), None),
    "set that expires": (lambda cache, key: cache.set(key, OTHER, ttl=0), None),
    "incr": (lambda cache, key: (cache.set(key, 1), cache.incr(key)), 2),
    # Here, the old value has no tags, and is kept when the new one is refused.
    "evict": (lambda cache, _: cache.evict(tag="page"), "old"),
    "evict softly": (lambda cache, _: cache.evict(tag="page", soft=True), None),
    "clear": (lambda cache, _: cache.clear(), None),
}
IN_NAMESPACE: dict[str, tuple[Way, Any]] = {
    "namespace.clear": (lambda cache, _: cache.namespace("blog").clear(), None),
    "outer namespace": (lambda cache, _: cache.namespace("site").clear(), None),
    "delete there": (lambda cache, key: cache.namespace("blog").delete(key), None),
    "clear": (lambda cache, _: cache.clear(), None),
}


class Stale(AssertionError):
    """A value was served that had to be refused."""


class RefusesTooMuch(AssertionError):
    """Values were refused for no reason."""


def others(cache: Any, turn: int) -> None:
    """A second of the others, with other keys."""
    cache.set_many({("other", turn % 7, number): turn for number in range(SETS_EACH)})
    for number in range(DELETES_EACH):
        cache.delete(("other", turn % 7, turn * DELETES_EACH + number))


class Partner:
    """A process that uses the same cache, or a thread of this one."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self._pool = None
        if isinstance(cache, memory.Cache):
            self._pool = ThreadPoolExecutor(1)
            return
        context = multiprocessing.get_context("fork")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=self._serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def _serve(self, pipe: Any) -> None:
        self._ours.close()
        cache = type(self._cache)(self._cache.path)
        while True:
            try:
                work, arguments = pipe.recv()
            except EOFError:
                return
            pipe.send(_WORK[work](cache, *arguments))

    def do(self, work: str, *arguments: Any) -> Any:
        """Have it do what `_WORK` has under a name."""
        if self._pool:
            return self._pool.submit(_WORK[work], self._cache, *arguments).result(60)
        self._ours.send((work, arguments))
        assert self._ours.poll(60), f"{work} hangs"
        return self._ours.recv()

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown()
        else:
            self._ours.close()
            self._process.join(60)
            assert self._process.exitcode == 0


def part_of(cache: Any, space: tuple[str, ...]) -> Any:
    for name in space:
        cache = cache.namespace(name)
    return cache


_WORK: dict[str, Callable[..., Any]] = {
    "others": others,
    "invalidate": lambda cache, way, key: ({**IN_NAMESPACE, **WAYS}[way][0](cache, key), None)[1],
    "invalidate there": lambda cache, way, key: (IN_NAMESPACE[way][0](cache, key), None)[1],
    "get": lambda cache, space, key: part_of(cache, space).get(key),
}


class Round(NamedTuple):
    """The making of one value, and what another process does meanwhile."""

    turn: int
    way: str
    """What happens to the key of a stale value."""
    is_stale: bool
    is_in_namespace: bool
    is_first: bool
    """Whether that comes before what happens to other keys."""
    old: Any
    """What the key had."""

    @property
    def space(self) -> tuple[str, ...]:
        if not self.is_in_namespace:
            return ()
        return ("site", "inner") if self.way == "outer namespace" else ("blog",)

    def found(self, cache: Any, partner: Partner) -> list[Any]:
        """Make the value. What this process and the partner find afterwards."""
        part, key, made = part_of(cache, self.space), f"page {self.turn}", ["made", self.turn]
        if self.old is not None:
            part.set(key, self.old, tags=[] if self.way == "evict" else ["page"])
        todo: list[tuple[Any, ...]] = [("others", self.turn)]
        if self.is_stale:
            todo.insert(not self.is_first, (self._work, self.way, key))

        def make() -> list[Any]:
            for one in todo:
                partner.do(*one)
            return made

        tags = ["page", f"tag {self.turn % 5}"]
        assert part.get_or_set(key, make, tags=tags, force=True) == made
        return [part.get(key), partner.do("get", self.space, key)]

    @property
    def _work(self) -> str:
        return "invalidate there" if self.is_in_namespace else "invalidate"

    def judge(self, found: list[Any]) -> bool:
        """Whether the value was stored.

        Raises:
            Stale: It was, though it is stale.
        """
        assert found[0] == found[1], f"two processes find {found}"
        if not self.is_stale:
            assert found[0] in (["made", self.turn], self.old, None), found
            return bool(found[0] == ["made", self.turn])
        left = IN_NAMESPACE[self.way][1] if self.is_in_namespace else WAYS[self.way][1]
        expected = self.old if self.way == "evict" else left
        if found[0] != expected:
            raise Stale(f"{self.way}: {found[0]!r} is served, not {expected!r}")
        return False


def rounds(cache: Any, count: int, seed: int) -> tuple[int, int]:
    """Make values, half of which must be refused. How many stale ones there were, and clean ones.

    Raises:
        Stale: A stale value was served.
        RefusesTooMuch: Too many clean values were refused.
    """
    dice = random.Random(seed)
    partner = Partner(cache)
    clean = stored = 0
    try:
        for turn in range(2 * count):
            is_in_namespace = hasattr(cache, "namespace") and dice.random() < 0.3
            way = dice.choice(list(IN_NAMESPACE if is_in_namespace else WAYS))
            old = dice.choice((None, None, "old", 17))
            one = Round(turn, way, turn % 2 == 0, is_in_namespace, dice.random() < 0.5, old)
            stored += one.judge(one.found(cache, partner))
            clean += not one.is_stale
    finally:
        partner.close()
    if clean - stored >= REFUSED_MAX * clean:
        raise RefusesTooMuch(f"{clean - stored} of {clean} values were refused for no reason")
    return count, clean


def test_stale_values_are_refused_and_others_are_not(
    cache: Cache, trials: Trials, size: Any, seed: int
) -> None:
    # In memory, each key has a counter of its own, so fewer rounds show as much.
    count = size(1000, 20_000) if type(cache) is Cache else size(50, 1000)
    stale, clean = rounds(cache, count, seed)
    trials.add(stale, "stale stores")
    trials.add(clean, "clean stores")


@pytest.fixture
def cache(opened: Callable[..., Any], path: str, size: Any) -> Any:
    """A cache with many counters, for few rounds; and one with the fewest, for many."""
    return opened(path, size=size("256 MiB", "64 MiB"))


# Caches that must be caught.


class StoresAnyway(Cache):
    """Asks nobody whether the value is stale."""

    def _finish(self, token: Any, key: Any, value: Any, *terms: Any) -> bool:
        self._abandon(token)
        self.set(key, value)
        return True


class LooksFirst(Cache):
    """Takes an entry that has not changed for the proof that nobody deleted it."""

    def _finish(self, token: Any, key: Any, value: Any, *terms: Any) -> bool:
        if super()._finish(token, key, value, *terms):
            return True
        return self.add(key, value)


class NeverStores(Cache):
    def _finish(self, token: Any, key: Any, value: Any, *terms: Any) -> bool:
        self._abandon(token)
        return False


class RefusesOften(Cache):
    """As with a single counter for all keys."""

    def _finish(self, token: Any, key: Any, value: Any, *terms: Any) -> bool:
        if value[1] % 20 == 1:
            self._abandon(token)
            return False
        return super()._finish(token, key, value, *terms)


@pytest.fixture
def liar(path: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    with request.param(path, size="64 MiB") as cache:
        yield cache


@pytest.mark.parametrize("liar", [StoresAnyway, LooksFirst], indirect=True)
def test_a_cache_that_stores_stale_values_is_caught(liar: Any) -> None:
    with pytest.raises(Stale):
        rounds(liar, 50, 1)


@pytest.mark.parametrize("liar", [NeverStores, RefusesOften], indirect=True)
def test_a_cache_that_refuses_too_much_is_caught(liar: Any) -> None:
    with pytest.raises(RefusesTooMuch):
        rounds(liar, 100, 1)
