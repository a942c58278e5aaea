"""The guard: a process that cleans up behind a runner that was killed.

Owns what must not stay: processes, mounts, folders, and shared memory named after folders. Must not
know what they are for. The runner tells the guard of each before it uses it, through a pipe that
nobody else has; when the pipe ends without a goodbye, the runner was killed, and the guard removes
what is left of it.

Everything a runner starts has a mark. So even what an adapter has started in a session of its own
is found.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self

import msgspec

from lab.disk import remove_memory
from rig.marks import kill_marked

_GOODBYE_SECONDS_MAX = 10.0

Kind = Literal["session", "mount", "folder"]


class Note(msgspec.Struct):
    """There is something of a kind, or it has gone."""

    kind: Kind
    name: str
    gone: bool = False


class GuardError(OSError):
    """The guard itself has gone: the run cannot promise any more to leave nothing behind."""


class Guard:
    """The runner's end: starts the guard and tells it what there is."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(8)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lab.runner.guard", self.token],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=Path(__file__).resolve().parent.parent.parent,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        # At its end it looks for marked processes once more, and finds none.
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_GOODBYE_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def watch(self, kind: Kind, name: str) -> None:
        """Tell of something that must not stay. Raises GuardError."""
        self._tell(Note(kind, name))

    def forget(self, kind: Kind, name: str) -> None:
        """Tell that it has gone. A guard that has gone too need not know."""
        with suppress(GuardError):
            self._tell(Note(kind, name, gone=True))

    def _tell(self, note: Note) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(note) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise GuardError("the process that cleans up after a crash was killed") from error


def unmount(folder: str) -> bool:
    """Unmount a file system, if need be from under those that still use it. Say whether it went."""
    return any(
        subprocess.run(
            [*command, folder],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode
        == 0
        for command in (["umount"], ["umount", "--lazy"])
    )


def main() -> None:
    """Read notes until the pipe ends, then remove whatever was not reported gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    there: dict[tuple[Kind, str], None] = {}
    decoder = msgspec.json.Decoder(Note)
    for line in sys.stdin.buffer:
        with suppress(msgspec.DecodeError):
            note = decoder.decode(line)
            if note.gone:
                there.pop((note.kind, note.name), None)
            else:
                there[note.kind, note.name] = None
    _remove(there, sys.argv[1])


def _remove(there: dict[tuple[Kind, str], None], token: str) -> None:
    for kind, name in there:
        if kind == "session":
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(int(name), signal.SIGKILL)
    kill_marked(token)
    for kind, name in reversed(there):
        if kind == "mount":
            unmount(name)
    for kind, name in there:
        if kind == "folder":
            shutil.rmtree(name, ignore_errors=True)
            remove_memory(f"{Path(name).name}-")


if __name__ == "__main__":
    main()
