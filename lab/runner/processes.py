"""Starts programs so that they end with the runner, whatever happens to it.

Owns how a process is started and ended. Must not know what it is for. Each process leads its own
session, so that an interrupt at the terminal reaches only the runner. It has a mark in its
environment, so that its children can be found.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lab.runner.guard import Guard
from rig import marks
from rig.cores import kept_to

LINE_BYTES_MAX = 64 * 1024 * 1024
_LAST_WORDS_MAX = 300


class Started:
    """A running program. Its error output goes to the file `words`.

    `spawned_ns` is the reading of the monotonic clock just before it was started.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, words: Path, guard: Guard, spawned_ns: int
    ) -> None:
        self.process = process
        self.words = words
        self.spawned_ns = spawned_ns
        self._guard = guard

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its session."""
        return self.process.pid

    async def cause(self) -> str:
        """Wait for its end; return how it ended and its last output."""
        code = await self.process.wait()
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        last = self.last_words()
        return f"{cause}, last output: {last}" if last else cause

    def last_words(self) -> str:
        """Return the last line that it wrote to its error output."""
        lines = [line.strip() for line in self.words.read_text("utf-8", "replace").splitlines()]
        last = next((line for line in reversed(lines) if line), "")
        return last[:_LAST_WORDS_MAX]

    async def end(self, seconds_max: float) -> None:
        """Ask it to end, wait up to `seconds_max`, then kill it and its session."""
        try:
            with suppress(ProcessLookupError):
                self.process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), seconds_max)
        finally:
            await self.kill()

    async def kill(self) -> None:
        """Kill it and everything in its session, and wait until it has ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        await self.process.wait()
        self._guard.forget("session", str(self.pid))


async def start(
    command: Sequence[str],
    *,
    guard: Guard,
    mark: str,
    words: Path,
    folder: Path,
    cores: set[int] | None,
    piped: bool,
) -> Started:
    """Start a program in `folder`, pinned to `cores`. Raises OSError if it cannot be started.

    With `piped`, input and output are pipes. Otherwise there is no input, and the output goes to
    `words` together with the error output.
    """
    with words.open("wb") as output, kept_to(cores):
        spawned_ns = time.monotonic_ns()
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE if piped else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE if piped else output,
            stderr=output,
            cwd=folder,
            env=marks.environment(mark),
            limit=LINE_BYTES_MAX,
            start_new_session=True,
        )
    started = Started(process, words, guard, spawned_ns)
    try:
        guard.watch("session", str(process.pid))
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return started
