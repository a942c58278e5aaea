"""The cache against a dict with a clock, operation by operation."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from properties import strategies
from tuckbox import Cache, _engine, memory
from tuckbox.errors import IntegerOverflow, NotAnInteger

INT_MIN, INT_MAX = -(2**63), 2**63 - 1

ttls = st.one_of(st.none(), st.sampled_from([0, 1, 5, 60, 3600]))
plain = st.one_of(
    st.integers(-5, 5),
    st.integers(INT_MIN, INT_MAX),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.binary(min_size=100, max_size=3000),
    st.lists(st.integers(), max_size=4),
    st.none(),
    st.booleans(),
    st.builds(
        lambda byte, count: bytes([byte]) * count, st.integers(0, 255), st.integers(3000, 200_000)
    ),
)


class Machine(RuleBasedStateMachine):
    """Two handles on one file, which is large enough that nothing needs to be evicted."""

    keys = Bundle("keys")

    @initialize()
    def open(self) -> None:
        self.clock = _engine.ManualClock(1_000_000.0)
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "cache.tuck")
        self.store: Any = None
        self.handles = [self.opened(), self.opened()]
        self.entries: dict[Any, tuple[Any, float | None]] = {}
        self.turn = 0

    def opened(self) -> Cache:
        cache = Cache.__new__(Cache)
        _engine.Core.__init__(cache, self.path, size_bytes=32 << 20, clock=self.clock)
        return cache

    @property
    def cache(self) -> Cache:
        self.turn += 1
        return self.handles[self.turn % 2]

    def live(self, key: Any) -> bool:
        entry = self.entries.get(key)
        return entry is not None and (entry[1] is None or self.clock.now() < entry[1])

    def expiry(self, ttl: float | None) -> float | None:
        return None if ttl is None else self.clock.now() + ttl

    @rule(target=keys, key=strategies.keys)
    def new_key(self, key: Any) -> Any:
        return key

    @rule(key=keys, value=plain, ttl=ttls)
    def set(self, key: Any, value: Any, ttl: float | None) -> None:
        self.cache.set(key, value, ttl)
        self.entries[key] = (value, self.expiry(ttl))

    @rule(some=st.dictionaries(st.integers(0, 50), plain, max_size=20), ttl=ttls)
    def set_many(self, some: dict[Any, Any], ttl: float | None) -> None:
        self.cache.set_many(some, ttl)
        self.entries.update({key: (value, self.expiry(ttl)) for key, value in some.items()})

    @rule(key=keys, value=plain, ttl=ttls)
    def add(self, key: Any, value: Any, ttl: float | None) -> None:
        assert self.cache.add(key, value, ttl) is not self.live(key)
        if not self.live(key):
            self.entries[key] = (value, self.expiry(ttl))

    @rule(key=keys, value=plain, ttl=ttls)
    def replace(self, key: Any, value: Any, ttl: float | None) -> None:
        assert self.cache.replace(key, value, ttl) is self.live(key)
        if self.live(key):
            self.entries[key] = (value, self.expiry(ttl))

    @rule(key=keys, value=plain, ttl=ttls, stale=st.booleans())
    def cas(self, key: Any, value: Any, ttl: float | None, stale: bool) -> None:
        entry = self.cache.get_entry(key)
        assert (entry is not None) is self.live(key)
        if entry is None:
            return
        if stale:
            self.cache.set(key, entry.value)
            self.entries[key] = (self.entries[key][0], None)
        assert self.cache.cas(key, value, entry.version, ttl) is not stale
        if not stale:
            self.entries[key] = (value, self.expiry(ttl))

    @rule(key=keys)
    def delete(self, key: Any) -> None:
        assert self.cache.delete(key) is self.live(key)
        self.entries.pop(key, None)

    @rule(key=keys)
    def pop(self, key: Any) -> None:
        missing = object()
        expected = self.entries[key][0] if self.live(key) else missing
        assert self.cache.pop(key, missing) == expected
        self.entries.pop(key, None)

    @rule(key=keys, ttl=ttls)
    def touch(self, key: Any, ttl: float | None) -> None:
        assert self.cache.touch(key, ttl) is self.live(key)
        if self.live(key):
            self.entries[key] = (self.entries[key][0], self.expiry(ttl))

    @rule(
        key=keys,
        delta=st.one_of(st.integers(-3, 3), st.integers(INT_MIN, INT_MAX)),
        default=st.one_of(st.none(), st.integers(-3, 3)),
        ttl=ttls,
    )
    def incr(self, key: Any, delta: int, default: int | None, ttl: float | None) -> None:
        if not self.live(key):
            if default is None:
                with pytest.raises(KeyError):
                    self.cache.incr(key, delta, None, ttl)
                return
            current, expiry = default, self.expiry(ttl)
        else:
            current, expiry = self.entries[key]
        if type(current) is not int or not INT_MIN <= current <= INT_MAX:
            with pytest.raises(NotAnInteger):
                self.cache.incr(key, delta, default, ttl)
        elif not INT_MIN <= current + delta <= INT_MAX:
            with pytest.raises(IntegerOverflow):
                self.cache.incr(key, delta, default, ttl)
        else:
            assert self.cache.incr(key, delta, default, ttl) == current + delta
            self.entries[key] = (current + delta, expiry)

    @rule(key=keys)
    def get(self, key: Any) -> None:
        missing = object()
        expected = self.entries[key][0] if self.live(key) else missing
        found = self.cache.get(key, missing)
        assert found == expected
        assert type(found) is type(expected)
        assert (key in self.cache) is self.live(key)

    @rule(key=keys)
    def get_entry(self, key: Any) -> None:
        entry = self.cache.get_entry(key)
        assert (entry is not None) is self.live(key)
        if entry is not None:
            value, expiry = self.entries[key]
            assert entry.value == value
            assert entry.expiry == (None if expiry is None else pytest.approx(expiry, abs=1e-6))

    @rule(some=st.lists(keys, max_size=5))
    def many(self, some: list[Any]) -> None:
        expected = {key: self.entries[key][0] for key in some if self.live(key)}
        assert self.cache.get_many(some) == expected

    @rule(some=st.lists(keys, max_size=5, unique=True))
    def delete_many(self, some: list[Any]) -> None:
        assert self.cache.delete_many(some) == sum(map(self.live, some))
        for key in some:
            self.entries.pop(key, None)

    @rule()
    def walk(self) -> None:
        expected = {key: entry[0] for key, entry in self.entries.items() if self.live(key)}
        found = list(self.cache.items())
        assert len(found) == len(expected)
        assert dict(found) == expected

    @rule(seconds=st.sampled_from([0.5, 1, 4, 60, 10_000]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def expire(self) -> None:
        self.cache.expire()
        self.entries = {key: entry for key, entry in self.entries.items() if self.live(key)}
        assert len(self.cache) == len(self.entries)

    @rule()
    def clear(self) -> None:
        self.cache.clear()
        self.entries.clear()
        assert len(self.cache) == 0

    @rule()
    def reopen(self) -> None:
        for handle in self.handles:
            handle.close()
        self.handles = [self.opened(), self.opened()]

    @invariant()
    def nothing_is_missing(self) -> None:
        if hasattr(self, "handles"):
            assert len(self.handles[0]) >= sum(map(self.live, self.entries))

    def teardown(self) -> None:
        if hasattr(self, "handles"):
            report, stats = self.handles[0].check(), self.handles[0].stats()
            for handle in self.handles:
                handle.close()
            self.folder.cleanup()
            assert report.is_sound, report
            assert stats.evictions == 0, stats


class MemoryMachine(Machine):
    """Two handles on one store in this process."""

    def opened(self) -> Any:
        cache = memory.Cache.__new__(memory.Cache)
        memory.core.Core.__init__(cache, self.store, size_bytes=32 << 20, clock=self.clock)
        self.store = cache._store
        return cache


Machine.TestCase.settings = MemoryMachine.TestCase.settings = settings(
    deadline=None, max_examples=60, stateful_step_count=60
)
TestModel = Machine.TestCase
TestMemoryModel = MemoryMachine.TestCase
