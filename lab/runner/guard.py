"""The guard: a process that cleans up after a runner that was killed.

Owns what must be removed: processes, mounts, folders, and shared memory named after folders. Must
not know what they are for. The runner tells the guard about each of them before using it, through a
pipe that no other process holds. When the pipe ends, the guard removes everything that the runner
has not reported as removed.

Everything that a runner starts carries a mark, so the guard also finds processes that an adapter
started in other sessions.
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
    """Something of a kind exists, or has been removed."""

    kind: Kind
    name: str
    gone: bool = False


class GuardError(OSError):
    """The guard has died, so the run can no longer guarantee to leave nothing behind."""


class Guard:
    """The runner's side: starts the guard and tells it what exists."""

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
        # The guard looks for marked processes once more at its end.
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_GOODBYE_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def watch(self, kind: Kind, name: str) -> None:
        """Register something that must be removed. Raises GuardError."""
        self._tell(Note(kind, name))

    def forget(self, kind: Kind, name: str) -> None:
        """Report that it was removed. A dead guard does not need to know."""
        with suppress(GuardError):
            self._tell(Note(kind, name, gone=True))

    def _tell(self, note: Note) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(note) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise GuardError("the guard, which cleans up after a crash, was killed") from error


def unmount(folder: str) -> bool:
    """Unmount a file system, lazily if it is still in use. Return whether it worked."""
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
    """Read notes until the pipe ends, then remove everything not reported as removed."""
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
