"""Caches that several processes share, on a file, in a database and on a server, and children."""

from __future__ import annotations

import os
import signal
import traceback
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Callable

import anyio
import pytest

from drivers.proxy import LOOPBACK
from drivers.servers import Server
from tuckbox import Cache, connect

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from pathlib import Path

    Main = Callable[[], Coroutine[Any, Any, Any]]
    Open = Callable[[], Any]


@pytest.fixture(params=["asyncio", "trio"])
def run(request: pytest.FixtureRequest) -> Callable[[Main], Any]:
    """Runs a coroutine function on an event loop."""
    return lambda main: anyio.run(main, backend=request.param)


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server("redis", tmp_path_factory.mktemp("redis"), ("--save", "")) as server:
        yield server


@pytest.fixture(params=["shared", "sqlite", "redis"])
def between(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens a handle of a cache that processes share."""
    kind = request.param
    if kind == "shared":
        return lambda: Cache(tmp_path / "cache.tuck", size="4 MiB")
    if kind == "sqlite":
        return lambda: connect(f"sqlite:///{tmp_path}/app.db")
    port = request.getfixturevalue("redis").port
    return lambda: connect(f"redis://{LOOPBACK}:{port}", prefix=tmp_path.name)


@contextmanager
def child(work: Callable[[], Any]) -> Iterator[int]:
    """A forked process that works and then waits to be killed; yields when it has worked."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            work()
            os.write(writer, b"x")
            signal.pause()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writer)
    try:
        with open(reader, "rb") as pipe:
            assert pipe.read(1) == b"x", "the child failed"
        yield pid
    finally:
        with suppress(ChildProcessError, ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
