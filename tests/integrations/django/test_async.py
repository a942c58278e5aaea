"""The asynchronous methods: what the loop does itself, and what goes to a thread."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import pytest
from django.core.cache.backends.base import BaseCache

import tuckbox.integrations.django as module
from tuckbox.errors import LockTimeout, ValueTooLarge
from tuckbox.integrations.django import TuckboxCache

if TYPE_CHECKING:
    from collections.abc import Callable

    Opened = Callable[..., TuckboxCache]


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the operations that went to a thread."""
    names: list[str] = []
    genuine = module.sync_to_async

    def noted(function: Any, **options: Any) -> Any:
        names.append(function.__name__)
        return genuine(function, **options)

    monkeypatch.setattr(module, "sync_to_async", noted)
    return names


def test_every_operation_of_django_has_its_asynchronous_form() -> None:
    for name, value in vars(BaseCache).items():
        if name.startswith("a") and asyncio.iscoroutinefunction(value):
            assert asyncio.iscoroutinefunction(getattr(TuckboxCache, name)), name


def test_plain_values_need_no_thread(backend: TuckboxCache, in_threads: list[str]) -> None:
    async def use() -> None:
        await backend.aset("key", {"plain": [1]})
        assert await backend.aget("key") == {"plain": [1]}
        assert await backend.aget("missing", "default") == "default"
        assert not await backend.aadd("key", 2)
        assert await backend.aadd("none", None)
        assert await backend.aget("none", "default") is None
        assert await backend.aset_many({"a": 1, "b": "two"}) == []
        assert await backend.aget_many(["a", "b", "c"]) == {"a": 1, "b": "two"}
        assert await backend.aincr("a", 5) == 6
        assert await backend.adecr("a") == 5
        assert await backend.atouch("a", 60)
        assert await backend.ahas_key("a")
        assert await backend.adelete("a")
        assert not await backend.adelete("a")
        await backend.adelete_many(["b"])
        assert await backend.aget_or_set("b", lambda: 3) == 3
        assert await backend.aincr_version("b") == 2
        await backend.aclose()
        assert in_threads == []

    asyncio.run(use())


def test_objects_are_pickled_in_a_thread(backend: TuckboxCache, in_threads: list[str]) -> None:
    async def use() -> None:
        value = OrderedDict(a=1)
        await backend.aset("key", value)
        assert await backend.aget("key") == value
        assert await backend.aadd("other", value)
        assert await backend.aset_many({"many": value, "plain": 1}) == []
        assert await backend.aget_many(["many", "plain"]) == {"many": value, "plain": 1}
        await backend.aset("float", 1.5)
        assert await backend.aincr("float") == 2.5
        with pytest.raises(ValueError, match="not found"):
            await backend.aincr("missing", 1.5)

    asyncio.run(use())
    assert in_threads == ["set", "get", "add", "set_many", "get", "incr", "incr"]


def test_a_default_comes_back_as_it_is(backend: TuckboxCache, in_threads: list[str]) -> None:
    default = bytearray(b"default")
    assert asyncio.run(backend.aget("missing", default)) is default
    assert in_threads == []


def test_errors_are_those_of_the_synchronous_form(opened: Opened) -> None:
    backend = opened(OPTIONS={"size": "64 KiB", "on_error": "raise"})

    async def use() -> None:
        await backend.aset("key", "old")
        with pytest.raises(ValueTooLarge):
            await backend.aset("key", "v" * 10**6)
        assert await backend.aget("key") == "old"
        assert await backend.aset_many({"key": "v" * 10**6, "b": 1}) == ["key"]
        assert await backend.aget_many(["key", "b"]) == {"b": 1}
        with pytest.raises(ValueError, match="not found"):
            await backend.aincr("key")

    asyncio.run(use())


def test_sums_of_many_tasks_are_kept(backend: TuckboxCache) -> None:
    async def use() -> None:
        await backend.aset_many({"ints": 0, "floats": 0.0})
        await asyncio.gather(
            *(backend.aincr("ints") for _ in range(200)),
            *(backend.aincr("floats", 0.5) for _ in range(100)),
        )
        assert await backend.aget_many(["ints", "floats"]) == {"ints": 200, "floats": 50.0}

    asyncio.run(use())


def test_what_a_subclass_does_it_does_on_a_loop_as_well(opened: Opened) -> None:
    class Loud(TuckboxCache):
        def get(self, *arguments: Any, **named: Any) -> Any:
            return f"{super().get(*arguments, **named)}!"

    class Inherited(Loud):
        pass

    async def use(backend: TuckboxCache) -> None:
        await backend.aset("key", "value")
        assert await backend.aget("key") == "value!"
        assert await backend.aget_many(["key"]) == {"key": "value!"}
        assert await backend.ahas_key("key")
        assert await backend.aincr_version("key") == 2

    asyncio.run(use(opened(kind=Loud)))
    asyncio.run(use(opened(kind=Inherited)))
    patched = opened()
    patched.get = lambda *arguments: f"{TuckboxCache.get(patched, *arguments)}!"
    asyncio.run(use(patched))


def test_a_loop_goes_on_while_a_lock_is_held(held: int, opened: Opened) -> None:
    """The set waits until another task lets the holder go on."""
    backend = opened(OPTIONS={"lock_timeout": 50})

    async def release() -> None:
        os.kill(held, signal.SIGCONT)

    async def use() -> None:
        await asyncio.gather(backend.aset("key", "value"), release())
        assert await backend.aget("key") == "value"

    asyncio.run(use())


def test_a_lock_that_is_held_too_long_is_an_error(held: int, opened: Opened) -> None:
    backend = opened(OPTIONS={"lock_timeout": 0.05, "on_error": "raise"})
    for operation, *arguments in (
        (backend.set, "key", 1),
        (backend.set, "key", OrderedDict()),
        (backend.add, "key", 1),
        (backend.set_many, {"key": 1}),
    ):
        with pytest.raises(LockTimeout):
            operation(*arguments)
    assert backend.get("key") is None
    assert not backend.has_key("key")
    with pytest.raises(LockTimeout):
        asyncio.run(backend.aset("key", 1))
