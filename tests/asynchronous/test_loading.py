"""`aget_or_set` and `aget_or_set_many`: one maker, and what cancelling and closed loops leave."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import logging
import threading
from typing import TYPE_CHECKING, Any, Callable

import anyio
import pytest

from asynchronous.conftest import ticks
from tuckbox import Result, flights, memory
from tuckbox.brief import is_brief, refuse_if_brief
from tuckbox.contract import LEASE
from tuckbox.errors import (
    InvalidArgument,
    InvalidResult,
    InvalidTTL,
    LoadRecursion,
    LoadTimeout,
    ValueTypeError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    Run = Callable[[Callable[[], Any]], Any]


class Waiting(memory.Cache):
    """A store that waits for another machine: on an event loop, it always needs a thread."""


def _waits(name: str) -> Any:
    def operation(self: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_if_brief()
        return getattr(memory.Cache, name)(self, *args, **kwargs)

    return operation


for _name in ("get", "get_entry", "set_many", "_begin", "_finish", "_abandon", "_wait_made"):
    setattr(Waiting, _name, _waits(_name))


@pytest.fixture(params=[memory.Cache, Waiting])
def local(request: pytest.FixtureRequest) -> Iterator[Any]:
    """An empty local. After the test, nobody holds a lease, and nothing is brief."""
    with request.param() as local:
        yield local
        assert not is_brief()
        assert not leases(local), "a lease was leaked"


def leases(local: Any) -> bool:
    return bool(local._described()._leases)


class Maker:
    """A coroutine function that can be held, and counts its calls."""

    def __init__(self, *results: Any, held: bool = False) -> None:
        self.results = list(results) or ["made"]
        self.calls = 0
        self.ended = 0
        self.is_held = held

    async def __call__(self) -> Any:
        self.calls += 1
        while self.is_held:
            await anyio.sleep(0.001)
        self.ended += 1
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, BaseException):
            raise result
        return result


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(20_000):
        if condition():
            return
        await anyio.sleep(0.001)
    raise AssertionError("it never came true")


def test_makers_of_every_kind(run: Run, local: Any) -> None:
    main_thread = threading.get_ident()
    threads: list[int] = []
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    async def coroutine(value: str = "coroutine") -> str:
        threads.append(threading.get_ident())
        return value + variable.get()

    def plain() -> str:
        threads.append(threading.get_ident())
        return "plain" + variable.get()

    async def main() -> None:
        variable.set("!")
        assert await local.aget_or_set("a", coroutine, ttl=60) == "coroutine!"
        assert await local.aget_or_set("b", functools.partial(coroutine, "partial")) == "partial!"
        assert await local.aget_or_set("c", lambda: coroutine("lambda")) == "lambda!"
        assert await local.aget_or_set("d", Maker("object"), tags=iter(["t"])) == "object"
        assert set(threads) == {main_thread}
        assert await local.aget_or_set("e", plain) == "plain!"
        assert main_thread != threads[-1]
        assert await local.aget_or_set("e", Maker()) == "plain!"
        assert await local.aget_or_set("f", Maker(None)) is None
        assert await local.aget_or_set("f", Maker(1)) is None
        assert await local.aget_or_set("g", Maker(Result(5, ttl=0))) == 5
        assert await local.aget("g") is None
        assert await local.aget_or_set("h", Maker(Result(5, store=False))) == 5
        assert await local.aget("h") is None
        assert (await local.aget_entry("d")).tags == ("t",)

    run(main)


@pytest.mark.parametrize("timeout", [None, 50])
def test_thousands_of_tasks_run_one_maker(run: Run, timeout: float | None) -> None:
    make = Maker(held=True)
    values = []
    with memory.Cache() as local:

        async def ask() -> None:
            values.append(await local.aget_or_set("key", make, ttl=60, timeout=timeout))

        async def main() -> None:
            async with anyio.create_task_group() as group:
                for _ in range(3000):
                    group.start_soon(ask)
                await ticks(20)
                assert make.calls == 1
                assert not values
                make.is_held = False

        run(main)
        assert values == ["made"] * 3000
        assert make.calls == 1


def test_event_loops_in_several_threads_run_one_maker(local: Any) -> None:
    make = Maker(held=True)
    values: list[Any] = []

    async def main() -> None:
        values.extend(await asyncio.gather(*(local.aget_or_set("k", make) for _ in range(20))))

    threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    asyncio.run(until(lambda: make.calls == 1))
    asyncio.run(ticks(20))
    make.is_held = False
    for thread in threads:
        thread.join(30)
    assert values == ["made"] * 80
    assert make.calls == 1


def test_a_task_waits_for_the_maker_of_a_thread(run: Run, local: Any) -> None:
    opened = threading.Event()
    began = threading.Event()

    def make() -> str:
        began.set()
        assert opened.wait(30)
        return "of a thread"

    thread = threading.Thread(target=local.get_or_set, args=("key", make))
    thread.start()
    assert began.wait(30)
    values = []

    async def ask() -> None:
        values.append(await local.aget_or_set("key", Maker()))

    async def main() -> None:
        with pytest.raises(LoadTimeout):
            await local.aget_or_set("key", Maker(), timeout=0)
        with pytest.raises(LoadTimeout):
            await local.aget_or_set("key", Maker(), timeout=0.01)
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await ticks(20)
            assert not values
            opened.set()

    run(main)
    thread.join()
    assert values == ["of a thread"]


def test_a_cancelled_waiter_changes_nothing_for_others(run: Run, local: Any) -> None:
    make = Maker(held=True)
    values = []

    async def ask() -> None:
        values.append(await local.aget_or_set("key", make))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(ask)
            await until(lambda: make.calls == 1)
            for _ in range(50):
                with anyio.move_on_after(0.001):
                    await local.aget_or_set("key", make)
            make.is_held = False

    run(main)
    assert values == ["made"] * 3
    assert make.calls == 1


def test_the_maker_of_a_cancelled_call_goes_on(run: Run, local: Any) -> None:
    make = Maker(held=True)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(local.aget_or_set, "key", make)
            await until(lambda: make.calls == 1)
            group.cancel_scope.cancel()
        make.is_held = False
        assert await local.aget_or_set("key", Maker("other")) == "made"

    run(main)
    assert make.calls == make.ended == 1


def test_a_storm_of_cancelled_calls_leaks_no_lease(run: Run, local: Any) -> None:
    """Calls are cancelled at every moment, also while a thread is about to take a lease."""

    async def make() -> str:
        await anyio.sleep(0.001)
        return "made"

    async def main() -> None:
        for number in range(60):
            async with anyio.create_task_group() as group:
                for key in range(10):
                    group.start_soon(local.aget_or_set, (number, key), make)
                await anyio.sleep(0.0005 * (number % 8))
                group.cancel_scope.cancel()
        await until(lambda: not leases(local))

    run(main)


def test_a_call_that_is_cancelled_while_a_thread_takes_its_lease() -> None:
    began, opened = threading.Event(), threading.Event()

    class Slow(memory.Cache):
        def _begin(self, *arguments: Any) -> Any:
            refuse_if_brief()
            began.set()
            assert opened.wait(30)
            return super()._begin(*arguments)

    with Slow() as slow:
        make = Maker()

        async def main() -> None:
            task = asyncio.create_task(slow.aget_or_set("key", make))
            await until(began.is_set)
            task.cancel()
            await asyncio.wait([task])
            began.clear()
            opened.set()
            # The next call gets the lease when the thread has ended the first one.
            assert await slow.aget_or_set("key", make, timeout=20) == "made"

        asyncio.run(main())
        assert make.calls == 1


def test_the_end_of_a_program_ends_the_leases(run: Run, local: Any) -> None:
    make = Maker(held=True)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(local.aget_or_set, "key", make)
            await until(lambda: make.calls == 1)
            group.cancel_scope.cancel()
        assert leases(local)

    run(main)
    assert (make.calls, make.ended) == (1, 0)
    # A thread may be ending it.
    asyncio.run(until(lambda: not leases(local)))


@pytest.mark.parametrize("kept", [True, False])
def test_a_loop_that_is_closed_in_the_middle_ends_its_leases(local: Any, kept: bool) -> None:
    """At once, and not only when Python happens to collect the tasks."""
    gc.disable()
    try:
        loop = asyncio.new_event_loop()
        make, waiter = Maker(held=True), Maker()
        tasks = [
            loop.create_task(local.aget_or_set("key", make)),
            loop.create_task(local.aget_or_set("key", waiter)),
        ]
        loop.run_until_complete(until(lambda: make.calls == 1))
        loop.run_until_complete(ticks(5))
        assert leases(local)
        loop.close()
        if not kept:
            del loop
        asyncio.run(until(lambda: not leases(local)))
        assert local.get_or_set("key", lambda: "another") == "another"
    finally:
        gc.enable()
    del tasks
    gc.collect()
    assert local.get("key") == "another"


def test_a_maker_that_raises(run: Run, local: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        for error in (ValueError("no"), StopIteration(), TimeoutError()):
            expected = RuntimeError if isinstance(error, StopIteration) else type(error)
            with pytest.raises(expected):
                await local.aget_or_set("key", Maker(error))
            with pytest.raises(expected):
                await local.aget_or_set("key", functools.partial(_raise, error))
        with pytest.raises(ValueTypeError):
            await local.aget_or_set("key", Maker(object()))
        with pytest.raises(InvalidArgument):
            await local.aget_or_set("key", 42)
        assert await local.aget_or_set("key", Maker(), ttl=0.001, stale=60) == "made"
        await anyio.sleep(0.002)
        assert await local.aget_or_set("key", Maker(ValueError("no")), stale=60) == "made"
        assert "served its stale value" in caplog.text

    run(main)


def _raise(error: BaseException) -> None:
    raise error


def test_stale_values_are_served_while_one_makes(run: Run, local: Any) -> None:
    make = Maker("new", held=True)

    async def main() -> None:
        await local.aset("key", "old", ttl=0.001, stale=60)
        await anyio.sleep(0.002)
        assert await local.aget_or_set("key", make, 60, stale=60, background=True) == "old"
        assert await local.aget_or_set("key", Maker(), cached_only=True) == "old"
        assert await local.aget_or_set("key", make) == "old"
        assert await local.aget_or_set("key", make, timeout=0.01) == "old"
        make.is_held = False
        await until(lambda: local.get_or_set("key", None, cached_only=True) == "new")
        assert await local.aget_or_set("none", Maker(), cached_only=True, default=5) == 5
        assert await local.aget_or_set("key", Maker("forced"), force=True) == "forced"

    run(main)
    assert make.calls == 1


def test_a_maker_that_outlives_its_limit_goes_on(
    run: Run, local: Any, caplog: pytest.LogCaptureFixture
) -> None:
    make, failing = Maker(held=True), Maker(ValueError("no"), held=True)

    async def main() -> None:
        with pytest.raises(LoadTimeout):
            await local.aget_or_set("key", make, timeout=0.01)
        with pytest.raises(LoadTimeout):
            await local.aget_or_set("failing", failing, timeout=0.01)
        make.is_held = failing.is_held = False
        assert await local.aget_or_set("key", Maker("other")) == "made"
        await until(lambda: "the background maker of key 'failing'" in caplog.text)

    caplog.set_level(logging.WARNING)
    run(main)


def test_a_value_that_was_deleted_while_it_was_made_is_not_stored(run: Run, local: Any) -> None:
    make = Maker("stale", held=True)
    values = []

    async def ask() -> None:
        values.append(await local.aget_or_set("key", make))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await until(lambda: make.calls == 1)
            await local.adelete("key")
            make.is_held = False
        assert values == ["stale"]
        assert await local.aget("key") is None

    run(main)


def test_a_maker_that_asks_for_itself(run: Run, local: Any) -> None:
    async def again() -> Any:
        return await local.aget_or_set("key", again)

    async def in_a_task() -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(local.aget_or_set, "key", in_a_task)

    async def other() -> Any:
        return [await local.aget_or_set("inner", Maker())]

    async def main() -> None:
        with pytest.raises(LoadRecursion):
            await local.aget_or_set("key", again)
        with pytest.raises(Exception) as group:  # noqa: PT011 - A group, which Python 3.9 lacks.
            await local.aget_or_set("key", in_a_task)
        assert "LoadRecursion" in repr(group.value)
        with pytest.raises(LoadRecursion):
            await local.aget_or_set("key", lambda: local.get_or_set("key", str))
        assert await local.aget_or_set("key", other) == ["made"]

    run(main)


def test_arguments_are_checked_before_the_maker_runs(run: Run, local: Any) -> None:
    make = Maker()

    async def main() -> None:
        with pytest.raises(InvalidArgument):
            await local.aget_or_set("key", make, timeout="5")
        with pytest.raises(InvalidTTL):
            await local.aget_or_set("key", make, ttl="soon")

    run(main)
    assert make.calls == 0


def test_many(run: Run, local: Any) -> None:
    asked: list[list[int]] = []

    async def double(keys: list[int]) -> dict[int, int]:
        asked.append(keys)
        await anyio.sleep(0.001)
        return {key: 2 * key for key in keys}

    async def main() -> None:
        await local.aset(1, "present")
        expected = {1: "present", 2: 4, 3: 6}
        assert await local.aget_or_set_many([1, 2, 3], double, ttl=60) == expected
        assert await local.aget_or_set_many([1, 2, 3], double) == expected
        assert await local.aget_or_set_many([4], lambda keys: {4: 8}) == {4: 8}
        assert await local.aget_or_set_many([5], lambda keys: double(list(keys))) == {5: 10}
        assert await local.aget_or_set_many([9], double, cached_only=True) == {}
        with pytest.raises(InvalidResult):
            await local.aget_or_set_many([6], lambda keys: {7: 1})
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(local.aget_or_set_many, [10, 11], double)
        assert asked == [[2, 3], [5], [10, 11]]

    run(main)


def test_many_with_a_loop_that_is_closed_in_the_middle(local: Any) -> None:
    began = []

    async def make(keys: list[int]) -> dict[int, int]:
        began.append(keys)
        await asyncio.sleep(100)
        return {}

    loop = asyncio.new_event_loop()
    task = loop.create_task(local.aget_or_set_many([1, 2], make))
    loop.run_until_complete(until(lambda: bool(began)))
    loop.close()
    asyncio.run(until(lambda: not leases(local)))
    assert local._begin(1, False)[0] == LEASE
    local.clear()
    del task
    local._described()._leases.clear()


def test_memoized_coroutines(run: Run, local: Any) -> None:
    calls = []

    @local.memoize(ttl=60)
    async def square(number: int, power: int = 2) -> int:
        calls.append(number)
        await anyio.sleep(0.001)
        return number**power

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(square, 3)
        assert await square(number=3, power=2) == 9
        assert calls == [3]
        assert await square.peek(3) == 9
        assert await square.peek(4) is None
        assert await square.refresh(3) == 9
        assert await square.invalidate(3)
        assert await square.peek(3) is None

    run(main)


def test_no_task_waits_when_nobody_does(local: Any) -> None:
    """The task that looks for the end of a maker elsewhere ends with its last waiter."""
    opened, began = threading.Event(), threading.Event()

    def make() -> int:
        began.set()
        assert opened.wait(30)
        return 1

    thread = threading.Thread(target=local.get_or_set, args=("key", make))
    thread.start()
    assert began.wait(30)

    async def main() -> None:
        for _ in range(3):
            with pytest.raises(LoadTimeout):
                await local.aget_or_set("key", Maker(), timeout=0.005)
        await until(lambda: len(asyncio.all_tasks()) == 1)
        assert not flights._flights.get().waits

    asyncio.run(main())
    opened.set()
    thread.join()
