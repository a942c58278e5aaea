"""Starts hosts, talks to them, and makes sure that none is left running.

Owns the conversation: a host that dies, hangs or refuses becomes a HostError. Must not know what
the requests mean.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from lab.protocol import AnyReply, AnyRequest, Failed
from lab.runner import built
from lab.runner.catalogue import REPOSITORY, Contestant, Host, StoreLimits
from lab.runner.failures import HostError, NotInstalledError
from lab.runner.guard import Guard
from lab.runner.install.cargo import BUILT
from lab.runner.install.extensions import EXTENSIONS
from lab.runner.placeholders import fill, limit_words
from lab.runner.processes import Started, start

# A runtime that frees ten million entries one by one needs most of this time.
GOODBYE_SECONDS_MAX = 60.0

R = TypeVar("R", bound=AnyReply)


class HostProcess:
    """One running host. `awaited` is the step whose reply is pending, or empty.

    `stop_ns` is the time between the request to end and the end.
    """

    def __init__(self, worker: int, started: Started) -> None:
        self.worker = worker
        self.awaited = ""
        self.stop_ns = 0
        self.started = started
        self._decoder: msgspec.json.Decoder[AnyReply] = msgspec.json.Decoder(AnyReply)

    async def ask(self, request: AnyRequest, kind: type[R], step: str = "") -> R:
        """Send `request` and return the answer. Raises HostError or NotInstalledError.

        `step` is the name for messages; if empty, the request's own name.
        """
        step = step or str(request.__struct_config__.tag)
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
        process = self.started.process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(request) + b"\n")
            await process.stdin.drain()
            line = await process.stdout.readline()
        except (BrokenPipeError, ConnectionResetError):
            line = b""
        if not line:
            raise HostError(f"worker {self.worker} died in {step}: {await self.started.cause()}")
        try:
            return self._decoder.decode(line)
        except msgspec.DecodeError as error:
            raise HostError(f"worker {self.worker} answered {step} with {error}") from error

    async def leave(self) -> None:
        """End the host's input, which asks it to exit, and wait until it has exited."""
        assert self.started.process.stdin is not None
        asked_ns = time.monotonic_ns()
        self.started.process.stdin.close()
        await asyncio.wait_for(self.started.process.wait(), GOODBYE_SECONDS_MAX)
        self.stop_ns = time.monotonic_ns() - asked_ns


@asynccontextmanager
async def hosts(
    host: Host,
    contestant: Contestant,
    limits: StoreLimits,
    count: int,
    *,
    guard: Guard,
    mark: str,
    words: Path,
    cores: set[int] | None,
) -> AsyncIterator[list[HostProcess]]:
    """Start `count` hosts for a contestant, and end them all at the end.

    Their error output goes to files in `words`. Each is a new process by exec, not a fork of the
    runner, so it inherits no state and can be written in any language.
    """
    command = command_of(host, contestant, limits)
    started: list[HostProcess] = []
    try:
        for worker in range(count):
            # One by one, so that the started ones are known if one fails to start.
            try:
                process = await start(
                    command,
                    guard=guard,
                    mark=mark,
                    words=words / f"worker-{worker}.txt",
                    folder=REPOSITORY,
                    cores=cores,
                    piped=True,
                )
            except FileNotFoundError:
                raise NotInstalledError(
                    f"{_program(command)}; run: python -m lab install"
                ) from None
            started.append(HostProcess(worker, process))
        yield started
        await asyncio.gather(*(process.leave() for process in started))
    except TimeoutError as error:
        raise HostError(_hung(started)) from error
    finally:
        await asyncio.shield(asyncio.gather(*(process.started.kill() for process in started)))


def command_of(host: Host, contestant: Contestant, limits: StoreLimits) -> list[str]:
    """Return the command that starts a host for a contestant. Raises CatalogueError."""
    words = {
        "python": sys.executable,
        "parent": str(os.getpid()),
        "folder": contestant.folder,
        "name": Path(contestant.folder).name,
        "built": str(BUILT / "release"),
    }
    known = {
        "extensions": str(EXTENSIONS),
        **limit_words(limits),
        **built.words(contestant.install.build),
    }
    arguments = fill(contestant.arguments, known)
    command: list[str] = []
    for part in host.command:
        command += arguments if part == "{arguments}" else fill([part], words)
    return command


async def ask_all(
    processes: Sequence[HostProcess],
    requests: Sequence[AnyRequest],
    kind: type[R],
    step: str = "",
) -> list[R]:
    """Send each process its request at the same time; return the answers in order.

    Raises the first failure at once, without waiting for the others.
    """
    return list(
        await asyncio.gather(
            *(
                process.ask(request, kind, step)
                for process, request in zip(processes, requests, strict=True)
            )
        )
    )


def _program(command: Sequence[str]) -> str:
    path = Path(command[0])
    if path.is_relative_to(BUILT):
        return "its program is not built"
    return f"{path} is not on the PATH"


def _hung(processes: Sequence[HostProcess]) -> str:
    waiting = [process for process in processes if process.awaited]
    if not waiting:
        return "a worker did not exit when asked, and was killed"
    workers = ", ".join(str(process.worker) for process in waiting)
    plural = "s" if len(waiting) > 1 else ""
    steps = ", ".join(sorted({process.awaited for process in waiting}))
    return f"worker{plural} {workers} hung in {steps}: no answer in time, killed"
