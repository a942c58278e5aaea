"""The operations for event loops: what they return, and what they do while a lock is held."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any, Callable

import anyio
import pytest
import trio

from asynchronous.conftest import let_go, ticks
from reliability.holders import stopped_holder
from tuckbox import Cache
from tuckbox.brief import Locked, WouldBlock, briefly, is_brief, refuse_if_brief
from tuckbox.errors import CacheClosed, CacheLost, KeyTypeError, LockTimeout

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    Run = Callable[[Callable[[], Any]], Any]

LARGE = b"x" * (1 << 20)
WRITES: dict[str, Callable[[Cache], Any]] = {
    "aset": lambda cache: cache.aset("key", 2),
    "aadd": lambda cache: cache.aadd("new", 2),
    "areplace": lambda cache: cache.areplace("entry 10", 2),
    "acas": lambda cache: cache.acas("entry 11", 2, 1),
    "asetdefault": lambda cache: cache.asetdefault("new", 2),
    "adelete": lambda cache: cache.adelete("entry 12"),
    "apop": lambda cache: cache.apop("entry 13"),
    "apopitem": lambda cache: cache.apopitem(),
    "atouch": lambda cache: cache.atouch("entry 14", 60),
    "aincr": lambda cache: cache.aincr("entry 15"),
    "adecr": lambda cache: cache.adecr("entry 16"),
    "aset_many": lambda cache: cache.aset_many({"a": 1, "b": 2}),
    "aupdate": lambda cache: cache.aupdate(a=1),
    "adelete_many": lambda cache: cache.adelete_many(["entry 17", "entry 18"]),
    "aset with keep_ttl": lambda cache: cache.aset("key", 2, keep_ttl=True, tags=["t"]),
    "aget_and_touch": lambda cache: cache.aget_and_touch("entry 19", 60),
    "aevict": lambda cache: cache.aevict(tag="t"),
    "adelete_prefix": lambda cache: cache.adelete_prefix("entry 123"),
    "aset in a namespace": lambda cache: cache.namespace("n").aset("key", 2),
    "aclear of a namespace": lambda cache: cache.namespace("n").aclear(),
    "aclear": lambda cache: cache.aclear(),
    "aexpire": lambda cache: cache.aexpire(),
    "acheck": lambda cache: cache.acheck(),
    "aresize": lambda cache: cache.aresize("2 MB"),
    "large aset": lambda cache: cache.aset("key", b"x" * 200_000),
}


def test_plain_operations_need_no_thread(run: Run, cache: Cache, in_threads: list[str]) -> None:
    async def main() -> None:
        await cache.aset("key", {"plain": [1]}, ttl=60)
        assert await cache.aget("key") == {"plain": [1]}
        assert await cache.aget("missing", "default") == "default"
        assert not await cache.aadd("key", 2)
        assert await cache.areplace("key", 1)
        entry = await cache.aget_entry("key")
        assert entry is not None
        assert await cache.acas("key", 5, entry.version)
        assert await cache.aincr("key", 5) == 10
        assert await cache.adecr("key", ttl=1) == 9
        assert await cache.atouch("key", 60)
        assert await cache.ahas_key("key")
        assert await cache.asetdefault("key", 1) == 9
        assert 59 < await cache.attl("key") <= 60
        await cache.aset("key", 7, tags=["t"], keep_ttl=True)
        assert 59 < await cache.attl("key") <= 60
        assert await cache.aget_and_touch("key", ttl=None) == 7
        assert await cache.aget_and_touch("missing", 60, "default") == "default"
        assert await cache.adelete("key", version=1) is False
        blog = cache.namespace("blog")
        await blog.aset("key", 8)
        assert (await blog.aget("key"), await cache.aget("key")) == (8, 7)
        await cache.aevict(tag="t")
        assert await cache.attl("key") is None
        await cache.aset("key", 9)
        await cache.aset_many({"a": 1, "b": 2})
        assert await cache.aget_many(["a", "b", "c"]) == {"a": 1, "b": 2}
        assert await cache.adelete_many(iter(["a", "c"])) == 1
        assert await cache.apop("b") == 2
        assert await cache.apop("b", None) is None
        assert await cache.adelete("key")
        await cache.aset("job", 1)
        assert await cache.apopitem() == ("job", 1)
        assert not in_threads
        await cache.aupdate({"a": 1}, b=2)
        await blog.aclear()
        assert await blog.aget("key") is None
        assert await cache.adelete_prefix("a") == 1
        assert await cache.aclear() == 2
        assert await cache.aexpire() == 0
        assert (await cache.acheck()).is_sound
        expected = ["update", "clear", "delete_prefix", "clear", "expire", "check"]
        assert in_threads == expected

    run(main)


def test_errors_are_those_of_the_other_form(run: Run, cache: Cache) -> None:
    async def main() -> None:
        with pytest.raises(KeyError):
            await cache.apop("missing")
        with pytest.raises(KeyError):
            await cache.apopitem()
        cache.set("a", 1)
        with pytest.raises(KeyTypeError):
            await cache.adelete_many(["a", 1.5j, []])
        with pytest.raises(KeyTypeError, match="single key"):
            await cache.adelete_many("a")
        with pytest.raises(KeyTypeError, match="single key"):
            await cache.aget_many("a")
        with pytest.raises(TypeError, match="mapping"):
            await cache.aset_many(["a"])  # type: ignore[arg-type]
        assert await cache.aget("a") == 1
        await cache.aclose()
        with pytest.raises(CacheClosed):
            await cache.aget("a")

    run(main)


def test_a_loop_turns_while_a_lock_is_held(run: Run, path: str, holder: BaseProcess) -> None:
    """If one of them held the loop, nobody would let the holder go, and its lock would time out."""
    ended: list[str] = []
    with Cache(path, lock_timeout=20) as cache:

        async def write(name: str) -> None:
            # Another task may have cleared the cache, or replaced the file during an iteration.
            with contextlib.suppress(KeyError, CacheLost):
                await WRITES[name](cache)
            ended.append(name)

        async def main() -> None:
            async with anyio.create_task_group() as group:
                for name in WRITES:
                    group.start_soon(write, name)
                await ticks(30)
                assert not ended
                assert await cache.aget("entry 5") == 5
                let_go(holder)

        run(main)
    assert set(ended) == set(WRITES)


def test_any_number_of_tasks_waits_with_one_thread(
    run: Run, path: str, holder: BaseProcess
) -> None:
    with Cache(path, lock_timeout=55) as cache:
        before = threading.active_count()

        async def main() -> None:
            async with anyio.create_task_group() as group:
                for number in range(200):
                    group.start_soon(cache.aset, ("task", number), number)
                await ticks(30)
                assert threading.active_count() <= before + 1
                let_go(holder)
            assert len(await cache.aget_many([("task", number) for number in range(200)])) == 200

        run(main)


def test_a_lock_that_is_held_too_long_is_an_error(run: Run, path: str, holder: BaseProcess) -> None:
    with Cache(path, lock_timeout=0.05) as cache:

        async def main() -> None:
            for name, write in WRITES.items():
                with pytest.raises(LockTimeout, match=r"waited .*s for a lock"):
                    await write(cache)
                assert not is_brief(), name
            assert await cache.aget("entry 1") == 1

        run(main)


def test_the_lock_of_a_dead_process_is_taken_over_in_a_thread(
    run: Run, path: str, holder: BaseProcess, in_threads: list[str]
) -> None:
    holder.kill()
    holder.join()
    with Cache(path) as cache:

        async def main() -> None:
            await cache.aset("key", 1)
            await cache.aset("key", 2)

        run(main)
        assert cache.get("key") == 2
        assert cache.check().is_sound
    assert in_threads == ["set"]


def test_a_cancelled_task_has_changed_nothing(run: Run, path: str, holder: BaseProcess) -> None:
    with Cache(path, lock_timeout=20) as cache:

        async def main() -> None:
            with anyio.move_on_after(0.02) as scope:
                await cache.aset("key", 1)
            assert scope.cancelled_caught
            let_go(holder)
            await cache.aset("other", 1)
            assert await cache.aget("key") is None

        run(main)


def test_large_values_are_copied_in_a_thread(
    run: Run, opened: Callable[..., Cache], path: str, in_threads: list[str]
) -> None:
    cache = opened(path, size="64 MB")

    async def main() -> None:
        await cache.aset("large", LARGE)
        assert await cache.aget("large") == LARGE
        entry = await cache.aget_entry("large")
        assert entry is not None
        assert entry.value == LARGE
        assert await cache.aget_many(["large"]) == {"large": LARGE}
        await cache.aset_many({"other": LARGE})
        assert await cache.apop("other") == LARGE
        assert await cache.ahas_key("large")
        assert await cache.adelete("large")

    run(main)
    assert in_threads == ["set", "get", "get_entry", "get_many", "set_many", "pop", "__contains__"]


def test_many_entries_go_to_a_thread(run: Run, cache: Cache, in_threads: list[str]) -> None:
    entries = {number: number for number in range(2000)}

    async def main() -> None:
        await cache.aset_many(entries)
        assert await cache.aget_many(entries) == entries
        assert await cache.adelete_many(entries) == 2000
        # Few keys, but more than a mebibyte.
        await cache.aset_many(dict.fromkeys(range(2), b"x" * 60000))
        await cache.aset_many(dict.fromkeys(range(2, 4), b"x" * 60000))
        assert len(await cache.aget_many([0, 1, 2, 3] * 5)) == 4

    run(main)
    assert in_threads == ["set_many", "get_many", "delete_many", "get_many"]


def test_a_brief_operation_says_how_far_it_came(opened: Callable[..., Cache], path: str) -> None:
    cache = opened(path, size="64 MB")
    cache.set_many(dict.fromkeys(range(100), 1))
    with cache_whose_lock_is_held(path, cache) as (free, held):
        with pytest.raises(Locked) as refusal:
            briefly(0.0, cache.delete_many, [*free, held, *free])
        assert refusal.value.done == (len(free), len(free))

    async def main() -> int:
        return await cache.adelete_many([*free, *range(100)])

    cache.set_many(dict.fromkeys(free, 1))
    assert asyncio.run(main()) == 100


def cache_whose_lock_is_held(path: str, cache: Cache) -> Any:
    """One of the locks of a cache with several is held: keys of others, and one of that lock."""

    @contextlib.contextmanager
    def held() -> Any:
        with stopped_holder(path):
            free, locked = [], []
            for number in range(100):
                try:
                    briefly(0.0, cache.set, number, 1)
                    free.append(number)
                except Locked:
                    locked.append(number)
            assert free
            assert locked
            yield free, locked[0]

    return held()


def test_brief_operations_refuse_long_work(opened: Callable[..., Cache], path: str) -> None:
    cache = opened(path, size="64 MB")
    cache.set("large", LARGE)
    for operation, *arguments in (
        (cache.get, "large"),
        (cache.pop, "large"),
        (cache.set, "other", LARGE),
        (cache.set_many, {"other": LARGE}),
        (cache.clear,),
        (cache.check,),
        (cache.resize, "32 MB"),
        (refuse_if_brief,),
    ):
        with pytest.raises(WouldBlock) as refusal:
            briefly(0.0, operation, *arguments)
        assert not isinstance(refusal.value, Locked)
    assert list(cache) == ["large"]
    refuse_if_brief()


def test_a_trio_program_in_an_asyncio_program(cache: Cache) -> None:
    """Trio's guest mode: both run in one thread, and each task sleeps in its own way."""
    large = cache.path is not None and b"x" * 500_000

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        async def guest() -> str:
            await cache.aset("guest", large)
            await trio.sleep(0)
            return "guest"

        trio.lowlevel.start_guest_run(
            guest,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            done_callback=lambda outcome: done.set_result(outcome.unwrap()),
        )
        await cache.aset("host", large)
        return [await done, "host"]

    assert asyncio.run(main()) == ["guest", "host"]
    assert cache.get("guest") == cache.get("host") == large
