"""What the tests of event loops share."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any, Callable

import anyio
import pytest

from reliability.holders import stopped_holder
from tuckbox import Cache, loops

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from multiprocessing.process import BaseProcess

    Main = Callable[[], Coroutine[Any, Any, Any]]


@pytest.fixture(params=["asyncio", "trio"])
def run(request: pytest.FixtureRequest) -> Callable[[Main], Any]:
    """Runs a coroutine function on an event loop."""
    return lambda main: anyio.run(main, backend=request.param)


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the operations that went to a thread."""
    names: list[str] = []
    genuine = loops.in_thread

    async def noted(function: Any, *args: Any, **kwargs: Any) -> Any:
        names.append(function.__name__)
        return await genuine(function, *args, **kwargs)

    for module in ("tuckbox.aio", "tuckbox.calls"):
        monkeypatch.setattr(f"{module}.in_thread", noted)
    return names


@pytest.fixture
def holder(path: str) -> Iterator[BaseProcess]:
    """A process that is stopped while it holds the only lock of the cache at `path`."""
    with Cache(path, size="1 MB") as cache:
        cache.set_many({f"entry {number}": number for number in range(3000)})
    with stopped_holder(path) as process:
        yield process


def let_go(holder: BaseProcess) -> None:
    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGCONT)


async def ticks(count: int) -> None:
    """Return after the event loop has turned so many times."""
    for _ in range(count):
        await anyio.sleep(0.001)
