"""Transactions: all changes of several keys or none, whoever is killed at which step."""

from __future__ import annotations

import enum
import os
import random
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, ClassVar

import pytest

from coordination.conftest import child, kill
from coordination.stepping import Stepped, orders
from tuckbox import Cache, _engine, connect, errors, memory, register
from tuckbox.coordination import ledger
from tuckbox.coordination.ledger import Ledger
from tuckbox.drivers.memory import Memory
from tuckbox.errors import (
    AcquireTimeout,
    CacheFull,
    InvalidArgument,
    TransactionConflict,
    TransactionUnfinished,
)
from tuckbox.remote import cache as remote
from tuckbox.tiers.memory_first import MemoryFirst

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tuckbox.coordination.transactions import Transaction

RUNS_ON = ("shared", "memory", "namespace")

Opened = Callable[..., Cache]


def begun(cache: Cache) -> Transaction:
    return cache.transaction().__enter__()


def state(cache: Cache) -> dict[Any, Any]:
    """All keys as a transaction sees them, after it has finished what others left."""
    with cache.transaction():
        pass
    return dict(cache.items())


class TestOneProcess:
    def test_it_sees_its_own_changes_and_others_see_them_at_the_end(self, cache: Cache) -> None:
        cache.set_many({"a": 1, "b": [2], "d": 4})
        with cache.transaction() as t:
            t.set("a", 10)
            t.set("c", 3)
            assert (t.delete("b"), t.delete("b"), t.delete("x")) == (True, False, False)
            assert (t.incr("d", 5), t.incr("d"), t.incr("e", -1), t.incr("f", 1, 7)) == (
                *(9, 10),
                *(-1, 8),
            )
            assert [t.get(key) for key in "abcdef"] == [10, None, 3, 10, -1, 8]
            assert [key in t for key in "abcx"] == [True, False, True, False]
            assert t.get("x", "none") == "none"
            assert dict(cache.items()) == {"a": 1, "b": [2], "d": 4}
        assert dict(cache.items()) == {"a": 10, "c": 3, "d": 10, "e": -1, "f": 8}

    def test_an_error_of_the_block_drops_everything(self, cache: Cache) -> None:
        with pytest.raises(ZeroDivisionError), cache.transaction() as t:
            t.set("a", 1)
            raise ZeroDivisionError
        assert state(cache) == {}

    @pytest.mark.parametrize(
        "change",
        [
            lambda cache: cache.set("a", 1),
            lambda cache: cache.delete("a"),
            lambda cache: cache.incr("a"),
            lambda cache: cache.set("absent", 1),
            lambda cache: cache.clear(),
            lambda cache: cache.touch("a", 0),
            lambda cache: cache.transact(lambda t: t.set("a", 2)),
        ],
    )
    def test_what_was_read_must_be_unchanged(
        self, cache: Cache, change: Callable[[Cache], object]
    ) -> None:
        cache.set("a", 1)
        t = begun(cache)
        t.get("a")
        assert "absent" not in t
        t.set("b", 1)
        change(cache)
        with pytest.raises(TransactionConflict, match="changed after this transaction"):
            t.__exit__(None, None, None)
        assert "b" not in cache

    def test_a_second_read_notices_it_at_once(self, cache: Cache) -> None:
        t = begun(cache)
        t.get("a")
        cache.set("a", 1)
        with pytest.raises(TransactionConflict, match="'a' was changed"):
            t.get("a")

    def test_what_was_only_set_may_change(self, cache: Cache) -> None:
        cache.set_many({"a": 1, "b": 1})
        with cache.transaction() as t:
            for key in "abc":
                t.set(key, 2)
            cache.set("a", 5)
            cache.delete("b")
            cache.set("c", 5)
        assert state(cache) == {"a": 2, "b": 2, "c": 2}

    def test_other_keys_may_change(self, cache: Cache) -> None:
        with cache.transaction() as t:
            t.incr("a")
            cache.set("b", 1)
        assert state(cache) == {"a": 1, "b": 1}

    def test_values_are_copies(self, cache: Cache) -> None:
        value = [1]
        with cache.transaction() as t:
            t.set("a", value)
            value.append(2)
            t.get("a").append(3)
            assert t.get("a") == [1]
        assert cache["a"] == [1]

    def test_keys_are_those_of_the_cache(self, cache: Cache) -> None:
        class Kind(str, enum.Enum):
            A = "a"

        keys = [Kind.A, b"a", 7, 2**80, ("a", (b"b", 1)), (Kind.A,), True, "\ud800"]
        with cache.transaction() as t:
            for number, key in enumerate(keys):
                t.set(key, number)
        assert [cache.get(key) for key in keys] == [*range(len(keys))]
        assert type(next(key for key in cache if key == "a")) is str
        with cache.transaction() as t:
            assert (t.get(1.0), t.get(1.5), 1.5 in t) == (6, None, False)  # type: ignore[arg-type]
            assert t.delete(7.0)  # type: ignore[arg-type]
        assert 7 not in cache

    def test_terms_are_those_of_set(self, timed: Cache, clock: _engine.ManualClock) -> None:
        with timed.transaction() as t:
            t.set("a", 1, "1m", tags=iter(["x", "y"]), pinned=True)
            t.set("b", 1)
            t.set("c", 1, ttl=0)
            assert "c" not in t
        entry = timed.get_entry("a")
        assert entry is not None
        assert (entry.tags, entry.pinned, timed.ttl("a")) == (("x", "y"), True, 60)
        assert timed.ttl("b") == float("inf")
        assert "c" not in timed
        clock.advance(61)
        assert "a" not in timed

    def test_incr_keeps_terms(self, timed: Cache, clock: _engine.ManualClock) -> None:
        timed.set("a", 1, 60, tags=["x"], pinned=True)
        with timed.transaction() as t:
            t.incr("a")
            t.set("b", 1, 60, tags=["y"], pinned=True)
            t.incr("b")
            t.incr("c", ttl=10)
            clock.advance(5)
        for key, left_s, tag in (("a", 55, ("x",)), ("b", 60, ("y",)), ("c", 10, ())):
            entry = timed.get_entry(key)
            assert entry is not None
            assert (entry.tags, entry.pinned) == (tag, key != "c")
            assert timed.ttl(key) == pytest.approx(left_s)
        assert [timed.get(key) for key in "abc"] == [2, 2, 1]

    def test_what_expires_meanwhile_has_changed(
        self, timed: Cache, clock: _engine.ManualClock
    ) -> None:
        timed.set("a", 1, 10)
        t = begun(timed)
        t.incr("a")
        clock.advance(11)
        with pytest.raises(TransactionConflict):
            t.__exit__(None, None, None)

    def test_invalid_arguments_change_nothing(self, cache: Cache) -> None:
        cache.set_many({"text": "x", "flag": True, "most": 2**63 - 1})
        before = dict(cache.items())
        with cache.transaction() as t:
            for raised, act in (
                (errors.KeyTypeError, lambda: t.set(1.5, 1)),  # type: ignore[arg-type]
                (errors.KeyTypeError, lambda: t.set(["a"], 1)),  # type: ignore[arg-type]
                (errors.KeyTypeError, lambda: t.get(["a"])),  # type: ignore[arg-type]
                (errors.KeyTypeError, lambda: ["a"] in t),
                (errors.KeyTooLong, lambda: t.set("x" * 70_000, 1)),
                (errors.ValueTypeError, lambda: t.set("a", object())),
                (errors.ValueTooLarge, lambda: t.set("a", b"x" * (5 << 20))),
                (errors.InvalidTTL, lambda: t.set("a", 1, "soon")),
                (errors.InvalidTag, lambda: t.set("a", 1, tags="x")),
                (errors.InvalidTag, lambda: t.set("a", 1, tags=[1])),  # type: ignore[list-item]
                (errors.InvalidTag, lambda: t.set("a", 1, tags=1)),  # type: ignore[arg-type]
                (InvalidArgument, lambda: t.set("a", 1, pinned=1)),  # type: ignore[arg-type]
                (errors.NotAnInteger, lambda: t.incr("text")),
                (errors.NotAnInteger, lambda: t.incr("flag")),
                (errors.NotAnInteger, lambda: t.incr("n", 1.5)),  # type: ignore[arg-type]
                (errors.NotAnInteger, lambda: t.incr("n", 1, "x")),  # type: ignore[arg-type]
                (errors.IntegerOverflow, lambda: t.incr("most")),
                (errors.IntegerOverflow, lambda: t.incr("n", 2**63)),
                (errors.InvalidTTL, lambda: t.incr("n", ttl="soon")),
                (KeyError, lambda: t.incr("n", 1, None)),
            ):
                with pytest.raises(raised):
                    act()
        assert state(cache) == before
        for timeout in (-1, "1"):
            with pytest.raises(InvalidArgument, match="timeout"):
                cache.transaction(timeout=timeout)  # type: ignore[arg-type]
        for tries in (0, 1.5, True):
            with pytest.raises(InvalidArgument, match="tries must be an int"):
                cache.transact(lambda t: None, tries=tries)  # type: ignore[arg-type]

    def test_it_is_for_one_block(self, cache: Cache) -> None:
        t = cache.transaction()
        for act in (lambda: t.get("a"), lambda: t.set("a", 1), lambda: t.incr("a")):
            with pytest.raises(InvalidArgument, match="is over, or has not begun"):
                act()
        with t:
            t.set("a", 1)
            with pytest.raises(InvalidArgument, match="this transaction has begun"):
                t.__enter__()
        with pytest.raises(InvalidArgument, match="is over"):
            t.get("a")
        # Another block is another transaction.
        with t:
            assert t.incr("a") == 2
        assert repr(t) == "<Transaction 1 read, 1 to change>"

    def test_blocks_in_each_other_are_transactions_of_their_own(self, cache: Cache) -> None:
        with cache.transaction() as outer:
            outer.set("a", 1)
            with cache.transaction() as inner:
                inner.set("b", 1)
            assert list(cache) == ["b"]
        with pytest.raises(TransactionConflict), cache.transaction() as outer:
            outer.incr("a")
            with cache.transaction() as inner:
                inner.incr("a")
        assert cache["a"] == 2

    def test_namespaces_are_apart(self, cache: Cache) -> None:
        part = cache.namespace("x")
        with part.transaction() as t, cache.transaction() as outer:
            t.set("a", 1)
            outer.set("a", 2)
        assert (part["a"], cache["a"]) == (1, 2)

    def test_its_entries_are_not_among_the_keys(self, cache: Cache) -> None:
        cache.transact(lambda t: t.set("a", 1, 60))
        assert list(cache) == ["a"]

    def test_a_function_runs_again(self, cache: Cache) -> None:
        runs: list[int] = []

        def function(t: Transaction) -> int:
            runs.append(t.incr("a"))
            if len(runs) < 3:
                cache.incr("a", 10)
            return runs[-1]

        assert cache.transact(function) == 21
        assert runs == [1, 11, 21]
        with pytest.raises(TransactionConflict):
            cache.transact(lambda t: (t.incr("a"), cache.incr("a")), tries=2)
        with pytest.raises(ZeroDivisionError):
            cache.transact(lambda t: 1 // 0)

    def test_threads_lose_nothing(self, cache: Cache) -> None:
        cache.set_many(dict.fromkeys("abcd", 100))

        def work(seed: int) -> None:
            dice = random.Random(seed)
            for _ in range(50):
                cache.transact(lambda t: move(t, *dice.sample("abcd", 2)), tries=10_000)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(cache.get_many([*"abcd"]).values()) == 400
        assert cache["moves"] == 200


def move(t: Transaction, source: str, target: str) -> None:
    t.incr(source, -1)
    t.incr(target)
    t.incr("moves")


class TestObjects:
    """Values that a handle encodes in its own way are stored as `set` stores them."""

    @pytest.mark.parametrize("kind", ["codec", "signed", "private", "registered", "compressed"])
    def test_what_a_handle_can_store(self, opened: Opened, path: str, kind: str) -> None:
        class Text:
            name = "text"

            def encode(self, value: object) -> Any:
                return repr(value).encode() if isinstance(value, complex) else NotImplemented

            def decode(self, content: bytes) -> complex:
                return complex(content.decode())

        given: dict[str, Any] = {
            "codec": {"codec": Text()},
            "signed": {"pickle": "signed", "secret": "s"},
            "private": {"pickle": "private"},
            "compressed": {"compress": 100, "compressor": "zstd"},
        }.get(kind, {})
        value: Any = "x" * 1000 if kind == "compressed" else 1 + 2j
        if kind == "registered":
            register(
                complex,
                name="complex",
                encode=lambda z: (z.real, z.imag),
                decode=lambda parts: complex(*parts),
            )
        cache, other = (opened(path, size="4 MiB", **given) for _ in range(2))
        with cache.transaction() as t:
            t.set(("a", 1), value)
            t.set(b"b", [1, (2, {3})])
            t.set("c", 5)
            assert (t.get(("a", 1)), t.get(b"b"), t.incr("c")) == (value, [1, (2, {3})], 6)
        assert other.get_many([("a", 1), b"b", "c"]) == {
            ("a", 1): value,
            b"b": [1, (2, {3})],
            "c": 6,
        }

    @pytest.mark.shared_file
    def test_who_cannot_decode_a_journal_leaves_it(self, cache: Cache, path: str) -> None:
        signed = Cache(path, size="4 MiB", pickle="signed", secret="s")
        t = begun(signed)
        t.set("a", 1 + 2j)
        t.set("b", 1)
        steps = Stepped(t._end())
        while not isinstance(signed._coordination().value("ledger")(), ledger._Journal) or not (
            signed._coordination().value("ledger")().changes
        ):
            steps.step()
        signed.close()
        with pytest.raises(errors.EntryRefused):
            cache.transact(lambda t: t.get("b"))
        again = Cache(path, size="4 MiB", pickle="signed", secret="s")
        assert state(again) == {"a": 1 + 2j, "b": 1}
        again.close()


class TestDeaths:
    """A handle that is closed after a step leaves what a killed process leaves."""

    BEFORE: ClassVar[dict[str, Any]] = {"a": 1, "b": [2], "c": 3, "d": 4}
    AFTER: ClassVar[dict[str, Any]] = {"a": 2, "c": 30, "d": 5, "e": "new", "f": [6]}

    def fill(self, cache: Cache) -> None:
        cache.clear()
        cache.set_many(self.BEFORE)

    def steps(self, cache: Cache) -> Stepped:
        t = begun(cache)
        t.incr("a")
        t.delete("b")
        t.set("c", 30)
        t.set("d", 5)
        t.set("e", "new")
        t.set("f", [6], ttl=100)
        return Stepped(t._end())

    def deaths(self, opened: Opened, path: str) -> Iterator[tuple[int, Cache, bool]]:
        """Yield a handle after a death at each step, and at last after a commit without a death."""
        cache = opened(path, size="4 MiB")
        for count in range(200):
            self.fill(cache)
            doomed = opened(path)
            steps = self.steps(doomed)
            is_over = not all(steps.step() for _ in range(count))
            doomed.close()
            yield count, cache, is_over
            if is_over:
                return
        raise AssertionError("a transaction has no end")

    def test_all_or_nothing_after_a_death_at_each_step(self, opened: Opened, path: str) -> None:
        results = []
        for _, cache, _ in self.deaths(opened, path):
            seen = state(cache)
            assert seen in (self.BEFORE, self.AFTER)
            results.append(seen == self.AFTER)
            with cache.transaction() as t:
                assert t.incr("a") == seen["a"] + 1
        assert results == sorted(results)
        # Both before the commit point and after it.
        assert results.count(False) > 5
        assert results.count(True) > 5

    def test_and_after_one_more_death_while_it_is_finished(self, opened: Opened, path: str) -> None:
        for first, cache, is_over in self.deaths(opened, path):
            if is_over:
                return
            left = dict(cache._coordination().store.items())
            held = dict(cache.items())
            for second in range(first + 40):
                # What the first death left, again. Versions are others: that is a resize.
                if second:
                    cache.clear()
                    cache.set_many(held)
                    cache._coordination().store.set_many(left, pinned=True)
                doomed = opened(path)
                steps = Stepped(begun(doomed)._end())
                has_more = all(steps.step() for _ in range(second))
                doomed.close()
                assert state(cache) in (self.BEFORE, self.AFTER)
                if not has_more:
                    break

    def test_a_resize_after_each_step(self, opened: Opened, path: str) -> None:
        for number, (_, cache, _) in enumerate(self.deaths(opened, path)):
            cache.resize(f"{5 + number % 3} MiB")
            assert state(cache) in (self.BEFORE, self.AFTER)

    def test_a_resize_between_the_steps_of_a_live_one(self, opened: Opened, path: str) -> None:
        cache = opened(path, size="4 MiB")
        for count in range(60):
            self.fill(cache)
            steps = self.steps(cache)
            for _ in range(count):
                steps.step()
            cache.resize(f"{5 + count % 3} MiB")
            try:
                steps.finish()
            except TransactionConflict:
                # The versions that it has read are others.
                assert state(cache) == self.BEFORE
            else:
                assert state(cache) == self.AFTER

    def test_evicted_entries_are_stored_as_well(self, opened: Opened, path: str) -> None:
        """An entry that is evicted after the commit point looks like a deleted one."""
        for _, cache, _ in self.deaths(opened, path):
            ledger_value = cache._coordination().value("ledger")()
            if isinstance(ledger_value, ledger._Journal) and ledger_value.changes:
                cache.delete_many([*"abcdef"])
                assert state(cache) == self.AFTER

    def test_a_later_write_of_others_is_kept(self, opened: Opened, path: str) -> None:
        """After the commit point, the value that others have stored wins for its key."""
        for _, cache, _ in self.deaths(opened, path):
            ledger_value = cache._coordination().value("ledger")()
            if isinstance(ledger_value, ledger._Journal) and ledger_value.changes:
                cache.set_many({"a": "other", "b": "other", "e": "other"})
                assert state(cache) == {**self.AFTER, **dict.fromkeys("abe", "other")}

    def test_a_clear_leaves_nothing(self, opened: Opened, path: str) -> None:
        for _, cache, _ in self.deaths(opened, path):
            cache.clear()
            assert state(cache) == {}

    def test_ttls_count_from_the_commit_point(
        self, timed: Cache, clock: _engine.ManualClock
    ) -> None:
        timed.set("b", 1, 100)
        t = begun(timed)
        for key in ("a", "b"):
            t.set(key, 2, 10)
        t.set("c", 2, 30)
        t.set("d", 2)
        steps = Stepped(t._end())
        while "a" not in timed:
            steps.step()
        # Killed: its lease ends.
        steps._steps.close()
        clock.advance(20)
        assert state(timed) == {"c": 2, "d": 2}
        assert timed.ttl("c") == pytest.approx(10)

    def test_a_killed_process(self, tmp_path: Any) -> None:
        def open_cache() -> Cache:
            return Cache(tmp_path / "cache.tuck", size="4 MiB")

        def work() -> None:
            cache = open_cache()
            steps = self.steps(cache)
            while cache.get("a") == 1:
                steps.step()
            held.append(steps)

        held: list[Stepped] = []
        cache = open_cache()
        self.fill(cache)
        with child(work) as pid:
            with pytest.raises(AcquireTimeout, match="other transactions were busy for 0s"):
                cache.transaction(timeout=0).__enter__().__exit__(None, None, None)
            kill(pid)
            assert state(cache) == self.AFTER
        cache.close()

    def test_a_stopped_process_is_waited_for(self, tmp_path: Any) -> None:
        def open_cache() -> Cache:
            return Cache(tmp_path / "cache.tuck", size="4 MiB")

        def work() -> None:
            cache = open_cache()
            steps = self.steps(cache)
            while cache.get("a") == 1:
                steps.step()
            threading.Timer(0.3, steps.finish).start()
            os.kill(os.getpid(), signal.SIGSTOP)

        cache = open_cache()
        self.fill(cache)
        pid = os.fork()
        if pid == 0:
            try:
                work()
                time.sleep(60)
            finally:
                os._exit(1)
        os.waitpid(pid, os.WUNTRACED)
        with pytest.raises(AcquireTimeout), cache.transaction(timeout=0.2) as t:
            t.set("a", 7)
        os.kill(pid, signal.SIGCONT)
        assert state(cache) == self.AFTER
        kill(pid)
        cache.close()

    def test_a_child_has_not_the_turn_of_its_parent(self, cache: Cache) -> None:
        steps = self.steps(cache)
        steps.step()

        def work() -> None:
            with cache.transaction(timeout=0.01) as t:
                t.set("child", 1)

        is_private = isinstance(cache, memory.Cache)
        pid = os.fork()
        if pid == 0:
            try:
                work()
                os._exit(0)
            except AcquireTimeout:
                os._exit(5)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == (0 if is_private else 5)
        steps.finish()
        assert "e" in cache


class TestRoom:
    def test_without_room_for_all_nothing_changes(self, opened: Opened, path: str) -> None:
        cache = opened(path, size="1 MiB", evict=False)
        with pytest.raises(CacheFull):
            for number in range(10_000):
                cache.set(number, "x" * 500)
        before = dict(cache.items())
        with pytest.raises(CacheFull), cache.transaction() as t:
            t.set(0, "y" * 2000)
            t.set("new", "z" * 300_000)
        assert state(cache) == before

    def test_more_than_the_cache_can_hold(self, opened: Opened, path: str) -> None:
        cache = opened(path, size="1 MiB")
        with pytest.raises((errors.ValueTooLarge, CacheFull)), cache.transaction() as t:
            for number in range(4):
                t.set(number, "x" * 400_000)
        assert state(cache) == {}

    def test_without_room_after_the_commit_point_nothing_is_lost(
        self, opened: Opened, path: str
    ) -> None:
        cache = opened(path, size="1 MiB", evict=False)
        cache.set_many({"a": 1, "b": 2})
        t = begun(cache)
        t.delete("a")
        t.set("b", 20)
        t.set("c", "c" * 100_000)
        steps = Stepped(t._end())
        while "a" in cache:
            steps.step()
        number = 0
        for length in (20_000, 1000, 100):
            with pytest.raises(CacheFull):
                while True:
                    cache.set(("fill", number), "x" * length)
                    number += 1
        with pytest.raises(TransactionUnfinished, match=r"committed.*do not repeat it") as raised:
            steps.finish()
        assert isinstance(raised.value.__cause__, CacheFull)
        with pytest.raises(CacheFull), cache.transaction() as t:
            t.incr("b")
        cache.delete_many([("fill", one) for one in range(number)])
        assert state(cache) == {"b": 20, "c": "c" * 100_000}

    def test_nothing_of_it_is_evicted(self, opened: Opened, path: str) -> None:
        cache = opened(path, size="1 MiB")
        doomed = opened(path, size="1 MiB")
        t = begun(doomed)
        for number in range(5):
            t.set(number, number, pinned=True)
        steps = Stepped(t._end())
        while 0 not in cache:
            steps.step()
        doomed.close()
        for number in range(5000):
            cache.set(("fill", number), "x" * 1000)
        with cache.transaction() as t:
            assert [t.get(number) for number in range(5)] == [*range(5)]


class TestOrdersOfSteps:
    """Two transactions in every order of their steps, as if both had the turn."""

    @pytest.fixture(autouse=True)
    def _without_turns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def turn(ledger: Ledger, timeout_s: Any) -> Any:
            lease = ledger._space.store._begin(os.urandom(8), True)[2]
            yield lambda: None
            return lease

        monkeypatch.setattr(Ledger, "_turn", turn)

    def test_both_count_or_one_conflicts(self, opened: Opened, path: str) -> None:
        cache = opened(path, size="4 MiB")
        cache.set("a", 0)
        both_counted = 0
        dice = random.Random(1)
        every = list(orders(9, 9))
        for order in dice.sample(every, 1500):
            before = cache["a"]
            both = []
            for _ in range(2):
                t = begun(cache)
                t.incr("a")
                both.append(Stepped(quiet(t._end())))
            for who in order:
                both[who].step()
            count = sum(one.finish() for one in both)
            assert count >= 1
            assert cache["a"] == before + count
            both_counted += count == 2
        # Both have read the same.
        assert both_counted == 0


def quiet(steps: Any) -> Any:
    try:
        yield from steps
    except TransactionConflict:
        return False
    return True


class TestEventLoops:
    def test_operations(self, cache: Cache, run: Callable[..., Any]) -> None:
        async def main() -> None:
            await cache.aset("a", 1)
            async with cache.transaction() as t:
                assert await t.aget("a") == 1
                assert await t.aget("x", 5) == 5
                await t.aset("b", 2, ttl=60, tags=["x"])
                assert await t.ahas_key("b")
                assert await t.aincr("c", 3) == 3
                assert await t.adelete("a")
            with pytest.raises(TransactionConflict):
                async with cache.transaction() as t:
                    await t.aincr("c")
                    await cache.aset("c", 9)
            with pytest.raises(ZeroDivisionError):
                async with cache.transaction() as t:
                    await t.aset("d", 1)
                    raise ZeroDivisionError

        run(main)
        assert dict(cache.items()) == {"b": 2, "c": 9}

    def test_tasks_lose_nothing(self, cache: Cache, run: Callable[..., Any]) -> None:
        import anyio

        async def count(t: Transaction) -> int:
            number = await t.aincr("a")
            await anyio.sleep(0)
            await t.aincr("b", -1)
            return number

        numbers: list[int] = []

        async def work() -> None:
            for _ in range(10):
                numbers.append(await cache.transact(count, tries=10_000))

        async def main() -> None:
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(work)

        run(main)
        assert sorted(numbers) == [*range(1, 51)]
        assert (cache["a"], cache["b"]) == (50, -50)

    def test_a_cancelled_one_leaves_the_turn(
        self, cache: Cache, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import anyio

        plain = Ledger._settled

        def slow(ledger: Ledger) -> Any:
            yield 30.0
            return (yield from plain(ledger))

        async def main() -> None:
            monkeypatch.setattr(Ledger, "_settled", slow)
            with anyio.move_on_after(0.05) as scope:
                async with cache.transaction() as t:
                    await t.aset("a", 1)
            assert scope.cancelled_caught
            monkeypatch.setattr(Ledger, "_settled", plain)
            async with cache.transaction(timeout=5) as t:
                await t.aset("b", 1)

        run(main)
        assert dict(cache.items()) == {"b": 1}


@pytest.mark.shared_file
def test_a_handle_that_only_reads_cannot_commit(cache: Cache, path: str) -> None:
    cache.set("a", 1)
    reader = type(cache)(path, read_only=True)
    with pytest.raises(errors.CacheReadOnly), reader.transaction() as t:
        assert t.get("a") == 1
    reader.close()


def test_a_closed_cache(cache: Cache) -> None:
    t = begun(cache)
    cache.close()
    with pytest.raises(errors.CacheClosed):
        t.get("a")
    with pytest.raises(errors.CacheClosed):
        cache.transaction()


def test_servers_and_tiers_refuse() -> None:
    far = remote.Cache(Memory())
    for cache in (far, far.namespace("x"), connect("memcached://127.0.0.1:1")):
        with pytest.raises(errors.Unsupported, match="has no pinned entries"):
            cache.transaction()
        with pytest.raises(errors.Unsupported):
            cache.transact(lambda t: None)
    with MemoryFirst(far, None, tracking=False) as tiers:
        for cache in (tiers, tiers.namespace("x")):
            with pytest.raises(errors.Unsupported, match="cache with tiers"):
                cache.transaction()
