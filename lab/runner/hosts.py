"""Starts hosts, talks to them, and makes sure that none is left.

Owns the processes: how one dies, hangs or refuses becomes a HostError that says so plainly. Must
not know what the requests mean. Each host leads a session of its own, so that an interrupt at the
terminal reaches the runner alone, and killing it takes along whatever the adapter started.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from lab.protocol import AnyReply, AnyRequest, Failed
from lab.runner.catalogue import REPOSITORY, Host

LINE_BYTES_MAX = 64 * 1024 * 1024
GOODBYE_SECONDS_MAX = 5.0

R = TypeVar("R", bound=AnyReply)


class HostError(Exception):
    """A worker died, hung, or could not obey."""


class NotInstalledError(Exception):
    """The contestant is not there to be measured."""


class HostProcess:
    """One running host."""

    def __init__(self, worker: int, process: asyncio.subprocess.Process, errors: Path) -> None:
        self.worker = worker
        self.awaited = ""
        self._process = process
        self._errors = errors
        self._decoder: msgspec.json.Decoder[AnyReply] = msgspec.json.Decoder(AnyReply)

    async def ask(self, request: AnyRequest, kind: type[R]) -> R:
        """Send `request` and return the answer. Raises HostError or NotInstalledError."""
        step = str(request.__struct_config__.tag)
        self.awaited = step
        reply = await self._exchange(request, step)
        self.awaited = ""
        if isinstance(reply, Failed):
            if reply.missing:
                raise NotInstalledError(reply.reason)
            raise HostError(f"worker {self.worker} failed in {step}: {reply.reason}")
        if not isinstance(reply, kind):
            raise HostError(f"worker {self.worker} answered {step} with {type(reply).__name__}")
        return reply

    async def _exchange(self, request: AnyRequest, step: str) -> AnyReply:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
            await self._process.stdin.drain()
            line = await self._process.stdout.readline()
        except (BrokenPipeError, ConnectionResetError):
            line = b""
        if not line:
            raise HostError(f"worker {self.worker} died in {step}: {await self._cause()}")
        try:
            return self._decoder.decode(line)
        except msgspec.DecodeError as error:
            raise HostError(f"worker {self.worker} answered {step} with {error}") from error

    async def _cause(self) -> str:
        code = await self._process.wait()
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        lines = self._errors.read_text("utf-8", "replace").strip().splitlines()
        return f"{cause}, last words: {lines[-1]}" if lines else cause

    async def leave(self) -> None:
        """End the host's input, which asks it to go, and give it a moment to do so."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await asyncio.wait_for(self._process.wait(), GOODBYE_SECONDS_MAX)

    async def kill(self) -> None:
        """Kill the host and everything in its session, and wait until it has ended."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()


@asynccontextmanager
async def hosts(host: Host, count: int, errors: Path) -> AsyncIterator[list[HostProcess]]:
    """Start `count` hosts, whose error output goes to files in `errors`.

    Each is a new process by exec, not a fork of the runner: like a worker that a process manager
    starts it inherits no state, and any runtime can be one. At the end all have gone.
    """
    started: list[HostProcess] = []
    try:
        for worker in range(count):
            # One by one, so that those that were started are known when one cannot be.
            started.append(await _start(host, worker, errors / f"worker-{worker}.txt"))
        yield started
        await asyncio.gather(*(process.leave() for process in started))
    except TimeoutError as error:
        raise HostError(_hung(started)) from error
    finally:
        await asyncio.shield(asyncio.gather(*(process.kill() for process in started)))


async def ask_all(
    processes: Sequence[HostProcess], requests: Sequence[AnyRequest], kind: type[R]
) -> list[R]:
    """Ask each process its request at the same time; return the answers in order.

    Raises the first failure at once, without waiting for the others.
    """
    return list(
        await asyncio.gather(
            *(
                process.ask(request, kind)
                for process, request in zip(processes, requests, strict=True)
            )
        )
    )


async def _start(host: Host, worker: int, errors: Path) -> HostProcess:
    fill = {"python": sys.executable, "parent": str(os.getpid())}
    command = [part.format(**fill) for part in host.command]
    with errors.open("wb") as error_output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=error_output,
            cwd=REPOSITORY,
            limit=LINE_BYTES_MAX,
            start_new_session=True,
        )
    return HostProcess(worker, process, errors)


def _hung(processes: Sequence[HostProcess]) -> str:
    waiting = [process for process in processes if process.awaited]
    if not waiting:
        return "a worker would not leave when asked, and was killed"
    workers = ", ".join(str(process.worker) for process in waiting)
    plural = "s" if len(waiting) > 1 else ""
    steps = ", ".join(sorted({process.awaited for process in waiting}))
    return f"worker{plural} {workers} hung in {steps}: no answer in time, killed"
