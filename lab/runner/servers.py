"""Starts the servers that contestants use, a fresh one for each cell, and always stops them.

Owns ports, sockets, templates and readiness. The death of a server becomes a ServerError with its
last output. Must not know the requests.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil  # type: ignore[import-untyped, unused-ignore]

from lab.disk import bytes_occupied
from lab.runner import built
from lab.runner.catalogue import Contestant, Server, StoreLimits
from lab.runner.failures import HostError, NotInstalledError, ServerError, UnavailableError
from lab.runner.guard import Guard
from lab.runner.install.maven import jars
from lab.runner.placeholders import fill, fill_values, limit_words
from lab.runner.processes import Started, start
from lab.runner.workspace import Workspace

LOOPBACK = "127.0.0.1"
# The data is thrown away anyway, and a run has hundreds of servers. A clean end takes some of them
# a second.
GOODBYE_SECONDS_MAX = 0.05
PREPARE_SECONDS_MAX = 120.0

# Another program may take the chosen port first; the server then gets a new one.
_PORTS_TRIED_MAX = 5
_SECONDS_BETWEEN_KNOCKS = 0.01
# A dead server and the failure of its client may be noticed in either order.
_SECONDS_FOR_LAST_WORDS = 0.5
# The kernel limits the path of a socket to 107 bytes.
_SOCKET_PATH_BYTES_MAX = 100

T = TypeVar("T")


def free_port() -> int:
    """Return a port on loopback that is free at this moment."""
    with closing(socket.socket()) as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


class RunningServer:
    """A server that accepts connections. `settings` tell an adapter how to reach it."""

    def __init__(
        self, server: Server, started: Started, settings: dict[str, str], version: str, folder: Path
    ) -> None:
        self.settings = settings
        self.version = version
        self.pid = started.pid
        self._server = server
        self._started = started
        self._folder = folder
        self._bytes_ready = bytes_occupied(folder)

    @property
    def bytes_grown(self) -> int:
        """The bytes that its folder has gained since the server was ready."""
        return max(bytes_occupied(self._folder) - self._bytes_ready, 0)

    async def outlive(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`. Raises ServerError as soon as the server has died."""
        task = asyncio.ensure_future(work)
        death = asyncio.ensure_future(self._started.process.wait())
        try:
            both = {task, death}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            failed = task.done() and isinstance(task.exception(), HostError)
            if death.done() or failed:
                # One may have failed because of the other.
                await asyncio.wait(both, timeout=_SECONDS_FOR_LAST_WORDS)
            if death.done() and not (task.done() and task.exception() is None):
                client = f"; its client failed with: {task.exception()}" if task.done() else ""
                raise ServerError(
                    f"the server {self._server.name} died: {await self._started.cause()}{client}"
                )
            return await task
        finally:
            task.cancel()
            death.cancel()
            await asyncio.gather(task, death, return_exceptions=True)


class Servers:
    """The servers of one run, with their templates and versions.

    `data` is the place for their stores, `desk` the place for their output.
    """

    def __init__(self, guard: Guard, data: Workspace, desk: Workspace) -> None:
        self._guard = guard
        self._data = data
        self._desk = desk
        self._versions: dict[str, str] = {}
        self._templates: dict[str, Path] = {}
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def running(
        self,
        server: Server,
        contestant: Contestant,
        limits: StoreLimits,
        *,
        mark: str,
        cores: set[int] | None,
    ) -> AsyncIterator[RunningServer]:
        """Start a server with an empty store and stop it at the end.

        Raises NotInstalledError, UnavailableError and ServerError.
        """
        words = {"program": program_of(server), "python": sys.executable}
        words |= {"server": server.folder, "jars": jars_of(server), **limit_words(limits)}
        template, version = await self._prepared(server, words, mark)
        desk = self._desk.fresh(server.name)
        folder = self._data.fresh(server.name)
        sockets = self._socket_folder(desk)
        try:
            if template is not None:
                await asyncio.to_thread(
                    shutil.copytree, template, folder, symlinks=True, dirs_exist_ok=True
                )
            words |= {"folder": str(folder), "template": str(template or "")}
            words |= {"socket": str(sockets / "s")}
            started, where = await self._start(server, contestant, words, mark, desk, cores)
            try:
                settings = {**fill_values(server.settings, words), **where}
                yield RunningServer(server, started, settings, version, folder)
            finally:
                await asyncio.shield(started.end(GOODBYE_SECONDS_MAX))
        finally:
            if sockets != desk:
                shutil.rmtree(sockets, ignore_errors=True)
                self._guard.forget("folder", str(sockets))
            self._data.discard(folder)
            self._desk.discard(desk)

    def _socket_folder(self, desk: Path) -> Path:
        """Return a private folder whose path is short enough for a socket in it."""
        if len(os.fsencode(desk)) + 2 <= _SOCKET_PATH_BYTES_MAX:
            return desk
        folder = Path(tempfile.mkdtemp(prefix="lab-", dir="/tmp"))
        self._guard.watch("folder", str(folder))
        return folder

    async def _start(
        self,
        server: Server,
        contestant: Contestant,
        words: dict[str, str],
        mark: str,
        desk: Path,
        cores: set[int] | None,
    ) -> tuple[Started, dict[str, str]]:
        """Return a server that is ready, and the settings that say where it is."""
        for attempt in range(1, _PORTS_TRIED_MAX + 1):
            port = free_port() if contestant.transport == "tcp" else None
            command = fill(
                command_of(server, contestant.transport, contestant.sizing),
                {**words, "port": str(port)},
            )
            started = await start(
                command,
                guard=self._guard,
                mark=mark,
                words=desk / f"words-{attempt}.txt",
                folder=Path(words["folder"]),
                cores=cores,
                piped=False,
            )
            try:
                ready = await _ready(started, port, Path(words["socket"]), server.ready_seconds_max)
            except BaseException:
                await asyncio.shield(started.kill())
                raise
            if ready:
                if port is None:
                    return started, {"socket": words["socket"]}
                return started, {"host": LOOPBACK, "port": str(port)}
            dead = started.process.returncode is not None
            cause = await started.cause() if dead else started.last_words()
            await asyncio.shield(started.kill())
            if not dead:
                within = f"{server.ready_seconds_max:g} s"
                said = f", last output: {cause}" if cause else ""
                raise ServerError(f"the server {server.name} was not ready within {within}{said}")
            if port is None or not _is_taken(port):
                raise ServerError(f"the server {server.name} did not start: {cause}")
        raise ServerError(
            f"the server {server.name} found each of {_PORTS_TRIED_MAX} ports in use: {cause}"
        )

    async def _prepared(
        self, server: Server, words: dict[str, str], mark: str
    ) -> tuple[Path | None, str]:
        """Return a server's template, if it has one, and its version; both made once per run."""
        async with self._lock:
            if server.name not in self._versions:
                desk = self._desk.fresh(f"{server.name}-prepare")
                try:
                    if server.prepare:
                        template = self._data.fresh(f"{server.name}-template")
                        await self._prepare(server, words, mark, desk, template)
                        self._templates[server.name] = template
                    self._versions[server.name] = await self._version(server, words, mark, desk)
                finally:
                    self._desk.discard(desk)
            return self._templates.get(server.name), self._versions[server.name]

    async def _prepare(
        self, server: Server, words: dict[str, str], mark: str, desk: Path, template: Path
    ) -> None:
        for command in server.prepare:
            filled = fill(command, {**words, "template": str(template)})
            what = f"{filled[0]}, which prepares the server {server.name},"
            code, said = await self._finish(filled, mark, desk, what)
            if code != 0:
                self._data.discard(template)
                last = said[-1] if said else "no output"
                raise ServerError(f"{what} failed with exit status {code}: {last}")

    async def _version(self, server: Server, words: dict[str, str], mark: str, desk: Path) -> str:
        if not server.version:
            return ""
        what = f"the version command of the server {server.name}"
        _, said = await self._finish(fill(server.version, words), mark, desk, what)
        version = said[0] if said else ""
        return built.version_of(version, server.install.build)

    async def _finish(
        self, command: list[str], mark: str, desk: Path, what: str
    ) -> tuple[int, list[str]]:
        """Run a command to its end. Return its exit status and the lines of its output."""
        try:
            started = await start(
                command,
                guard=self._guard,
                mark=mark,
                words=desk / "words.txt",
                folder=desk,
                cores=None,
                piped=False,
            )
        except FileNotFoundError:
            raise NotInstalledError(f"{command[0]} is not on the PATH") from None
        try:
            code = await asyncio.wait_for(started.process.wait(), PREPARE_SECONDS_MAX)
        except TimeoutError:
            raise ServerError(f"{what} took more than {PREPARE_SECONDS_MAX:g} s") from None
        finally:
            await asyncio.shield(started.kill())
        lines = started.words.read_text("utf-8", "replace").splitlines()
        return code, [line.strip() for line in lines if line.strip()]


def command_of(server: Server, transport: str, sizing: str) -> list[str]:
    """Return the command that starts a server, with its placeholders."""
    where = server.tcp if transport == "tcp" else server.socket
    sized = server.limited if sizing == "limited" else server.stock
    as_root = server.root if os.geteuid() == 0 else []
    # Sizing comes last, because it may be an argument instead of an option.
    return [*server.command, *as_root, *(where or []), *(sized or [])]


def program_of(server: Server) -> str:
    """Return the path of the server's program: the lab's own build, else the one on the PATH."""
    (named,) = fill([server.program], {"python": sys.executable})
    found = built.program(server) or shutil.which(named)
    if not found:
        raise _absent(server, f"{named} is not on the PATH")
    return found


def jars_of(server: Server) -> str:
    """Return the class path of the server's jars; empty if it has none."""
    if not server.install.maven:
        return ""
    found = jars(server.name)
    if not found:
        raise _absent(server, f"the jars of {server.name} are missing")
    return found


def _absent(server: Server, what: str) -> NotInstalledError | UnavailableError:
    if absent := built.why_server_absent(server):
        return UnavailableError(f"{what}: {absent}")
    return NotInstalledError(f"{what}; run: python -m lab install")


async def _ready(started: Started, port: int | None, path: Path, seconds_max: float) -> bool:
    """Wait until the server accepts a connection. False if it died or the time was over."""
    death = asyncio.ensure_future(started.process.wait())
    try:
        async with asyncio.timeout(seconds_max):
            while not death.done():
                if await _accepts(port, path) and _listens(started.pid, port):
                    return True
                await asyncio.wait({death}, timeout=_SECONDS_BETWEEN_KNOCKS)
    except TimeoutError:
        pass
    finally:
        death.cancel()
        await asyncio.gather(death, return_exceptions=True)
    return False


async def _accepts(port: int | None, path: Path) -> bool:
    try:
        if port is None:
            _, writer = await asyncio.open_unix_connection(path)
        else:
            _, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


def _listens(pid: int, port: int | None) -> bool:
    """Return whether our server listens on the port, and not another program."""
    if port is None:
        # No other program can create a socket in our folder.
        return True
    try:
        leader = psutil.Process(pid)
        processes = [leader, *leader.children(recursive=True)]
        return any(
            one.status == psutil.CONN_LISTEN and one.laddr.port == port
            for process in processes
            for one in process.net_connections("tcp")
        )
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        # A server under another user hides its connections. Accepting one must be enough.
        return True


def _is_taken(port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
        return False
