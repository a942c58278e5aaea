"""T-E1: other processes are stopped and killed while they hold the lock of a cache, and tasks are
cancelled at any moment. Event loops turn all the same, and no lease is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from reliability.holders import stopped_holder
from tuckbox import Cache, brief, flights, memory
from tuckbox.errors import LockTimeout

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-E1"), pytest.mark.timeout(120)]

BACKENDS = ("asyncio", "trio")
ENTRIES = 3000
TICKS = 20
TASKS = 40
HANG_S = 30


class HeldUp(Exception):
    """An event loop did not turn while a lock was held."""


def fill(path: str) -> None:
    with Cache(path, size="1 MB") as cache:
        cache.set_many({("entry", number): number for number in range(ENTRIES)})


async def held_round(cache: Cache, holder: BaseProcess, dice: random.Random) -> int:
    """Tasks write while the lock is held. After some turns of the loop, a third of the tasks are
    cancelled, and the holder goes on or is killed. Return how many tasks there were."""
    assert holder.pid is not None
    ended: dict[int, bool] = {}
    scopes: dict[int, anyio.CancelScope] = {}
    operations = {
        0: lambda number: cache.aset(("task", number), number),
        1: lambda number: cache.aincr(("sum", number % 3)),
        2: lambda number: cache.aset_many({("task", number): number, ("many", number): 1}),
        # Two of these fit, so that no entry is evicted.
        3: lambda number: cache.aset(("large", number % 2), b"x" * 150_000),
        4: lambda number: cache.adelete_many([("entry", number), ("entry", number + 1)]),
    }

    async def work(number: int) -> None:
        with anyio.CancelScope() as scope:
            scopes[number] = scope
            try:
                await operations[dice.choice((0, 0, 0, 0, 1, 1, 1, 2, 3, 4))](number)
                ended[number] = True
            except LockTimeout:
                raise HeldUp from None

    sums = sum(cache.get_many([("sum", one) for one in range(3)]).values())
    async with anyio.create_task_group() as group:
        for number in range(TASKS):
            group.start_soon(work, number)
        for _ in range(TICKS):
            await anyio.sleep(0.001)
        if ended:
            raise HeldUp
        for number in dice.sample(range(TASKS), TASKS // 3):
            scopes[number].cancel()
        os.kill(holder.pid, dice.choice((signal.SIGCONT, signal.SIGKILL)))
    assert len(ended) >= TASKS - TASKS // 3, "a task was lost"
    assert sum(cache.get_many([("sum", one) for one in range(3)]).values()) <= sums + TASKS
    return TASKS


def rounds(path: str, backend: str, count: int, seed: int) -> int:
    dice = random.Random(f"{seed} {backend}")
    tasks = 0
    for _ in range(count):
        fill(path)
        with stopped_holder(path) as holder, Cache(path, lock_timeout=HANG_S) as cache:
            tasks += anyio.run(held_round, cache, holder, dice, backend=backend)
        with Cache(path) as cache:
            cache.check()
            assert cache.check().is_sound
            assert cache.get(("entry", ENTRIES - 1)) == ENTRIES - 1
    return tasks


@pytest.mark.parametrize("backend", BACKENDS)
def test_loops_turn_while_locks_are_held(
    path: str, backend: str, trials: Trials, size: Any, seed: int
) -> None:
    trials.add(rounds(path, backend, size(6, 300), seed), "operations that met a held lock")


def test_a_loop_that_waits_is_caught(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that calls the operations as they are, and so blocks the loop."""

    async def call(_store: object, function: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    monkeypatch.setattr("tuckbox.aio.call", call)
    monkeypatch.setattr(f"{__name__}.HANG_S", 0.05)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - A group of errors.
        rounds(path, "asyncio", 1, 1)
    assert "HeldUp" in repr(caught.value)


class Distant(memory.Cache):
    """A store that waits for another machine: on an event loop, a thread takes and ends leases."""

    def _begin(self, *arguments: Any) -> Any:
        brief.refuse_if_brief()
        return super()._begin(*arguments)

    def _finish(self, *arguments: Any) -> Any:
        brief.refuse_if_brief()
        return super()._finish(*arguments)

    def _abandon(self, *arguments: Any) -> Any:
        brief.refuse_if_brief()
        return super()._abandon(*arguments)


# The shared file as soon as it has leases.
STORES = [memory.Cache, Distant, *([Cache] if hasattr(Cache, "aget_or_set") else [])]


async def cancel_storm(cache: Any, count: int, dice: random.Random) -> None:
    """Groups of callers of the same few keys are cancelled at any moment; then each key is asked
    for once more, which would time out if a lease were left."""

    async def make() -> int:
        for _ in range(dice.randrange(3)):
            await anyio.sleep(dice.random() / 1000)
        if dice.random() < 0.1:
            raise ValueError("a maker that fails")
        return 1

    async def ask(key: object) -> None:
        with contextlib.suppress(ValueError):
            await cache.aget_or_set(key, make)

    for group_number in range(count):
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(ask, (group_number, number % 3))
            await anyio.sleep(dice.random() / 400)
            group.cancel_scope.cancel()
    for group_number in range(count):
        for number in range(3):
            key = group_number, number
            assert await cache.aget_or_set(key, lambda: 1, timeout=HANG_S) == 1, "a lease was left"


def storms(kind: type, backend: str, count: int, seed: int) -> int:
    dice = random.Random(f"{seed} {backend} {kind.__name__}")
    with kind() as cache:
        anyio.run(cancel_storm, cache, count, dice, backend=backend)
        # A second loop, which is closed while its tasks make.
        loop = asyncio.new_event_loop()
        tasks = [loop.create_task(cache.aget_or_set(("closed", n), _never)) for n in range(10)]
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()
        for number in range(10):
            assert cache.get_or_set(("closed", number), lambda: 2, timeout=HANG_S) == 2
        assert len(tasks) == 10
    return count * 10 + 10


async def _never() -> None:
    await asyncio.sleep(1000)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", STORES)
def test_cancelled_calls_leave_no_lease(
    kind: type, backend: str, trials: Trials, size: Any, seed: int
) -> None:
    trials.add(storms(kind, backend, size(60, 5000), seed), "calls that were cancelled")


@pytest.mark.parametrize("kind", STORES)
def test_a_lease_that_is_left_is_caught(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that does not end the leases of tasks that end without a value."""
    monkeypatch.setattr(flights, "_end", lambda _one: None)
    monkeypatch.setattr(f"{__name__}.HANG_S", 0.2)
    with pytest.raises(TimeoutError):
        storms(kind, "asyncio", 20, 1)
