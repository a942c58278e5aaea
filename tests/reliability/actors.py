"""Processes that act as another user, or in a mount namespace of their own.

What cannot be had on this machine is skipped, and fails on one that runs tests for others.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from typing_extensions import Self

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_RDONLY, MS_REMOUNT, MS_REC, MS_PRIVATE = 1, 32, 16384, 1 << 18
ANSWER_TIMEOUT_S = 45

_libc = ctypes.CDLL(None, use_errno=True)
_fork = multiprocessing.get_context("fork")


@contextlib.contextmanager
def common_folder() -> Iterator[Path]:
    """Make a folder that every user can enter. Pytest's own folders are closed to others, and
    each run closes them again."""
    with tempfile.TemporaryDirectory(prefix="tuckbox-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


class ActorDied(AssertionError):
    """A process ended in the middle of its work."""


def demand(what: str, *, is_there: bool) -> None:
    """Skip the test unless this machine has something; fail where nothing may be skipped."""
    if is_there:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"this machine does not permit it: {what}")
    pytest.skip(f"this machine does not permit it: {what}")


class Actor:
    """A child that calls functions for us, after it has become what `become` makes of it."""

    def __init__(self, become: Callable[[], None]) -> None:
        self._ours, theirs = _fork.Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._ours.close()
            try:
                become()
                _serve(theirs)
            finally:
                os._exit(70)
        theirs.close()

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Have it call a function; what that raises is raised here."""
        try:
            self._ours.send((function, arguments, options))
            if not self._ours.poll(ANSWER_TIMEOUT_S):
                os.kill(self.pid, signal.SIGKILL)
                raise ActorDied(f"{function.__name__}{arguments} hangs")
            good, answer = self._ours.recv()
        except (EOFError, OSError):
            raise ActorDied(f"{function.__name__}{arguments}: {self._end()}") from None
        if not good:
            raise AssertionError(answer)
        return answer

    def _end(self) -> str:
        status, self.pid = os.waitpid(self.pid, 0)[1], 0
        if os.WIFSIGNALED(status):
            return signal.Signals(os.WTERMSIG(status)).name
        return f"it ended with status {os.WEXITSTATUS(status)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ours.close()
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _serve(pipe: Any) -> None:
    import traceback

    while True:
        try:
            function, arguments, options = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            pipe.send((True, function(*arguments, **options)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))


def user(uid: int, gid: int) -> Callable[[], None]:
    """Become a user of one group."""

    def become() -> None:
        if os.geteuid() == 0:
            os.setgroups([gid])
            os.setgid(gid)
            os.setuid(uid)

    return become


def _checked(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(kind: str | None, target: str, flags: int, options: str = "") -> None:
    """Mount, or change a mount."""
    source = None if kind is None else kind.encode()
    _checked(_libc.mount(source, target.encode(), source, flags, options.encode()), "mount")


def unmount(target: str) -> None:
    """Undo a mount, at once, whoever uses it."""
    _checked(_libc.umount2(target.encode(), 2), "umount")


def own_mounts() -> None:
    """Go into a mount namespace of our own, and a user namespace if that takes one."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        _checked(_libc.unshare(CLONE_NEWNS), "unshare")
    else:
        _checked(_libc.unshare(CLONE_NEWNS | CLONE_NEWUSER), "unshare")
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"0 {uid} 1"),
            ("gid_map", f"0 {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
                stream.write(text)
    mount(None, "/", MS_REC | MS_PRIVATE)


def demand_mounts() -> None:
    """Skip the test where no mount namespace is available."""
    pid = os.fork()
    if pid == 0:
        try:
            own_mounts()
        except OSError:
            os._exit(1)
        os._exit(0)
    demand("a mount namespace", is_there=os.waitpid(pid, 0)[1] == 0)
