"""Processes in what a container runtime makes: namespaces, mounts, a user without a name.

A container has its own processes and `/proc`, a `/dev/shm` of 64 MB, a root that cannot be written
to, no list of users, and a volume at `/mnt`. `rootless` is a user namespace alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import tuckbox
from reliability.actors import CLONE_NEWUSER, Actor, mount, own_mounts
from tuckbox import Cache, Key

CLONE_NEWIPC, CLONE_NEWPID = 0x08000000, 0x20000000
MS_NOSUID_NODEV, MS_REMOUNT, MS_BIND, MS_RDONLY = 2 | 4, 32, 4096, 1
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
VOLUME, CHECKOUT, PYTHON, PACKAGES = "/mnt", "/srv", "/opt", "/media"
_libc = ctypes.CDLL(None, use_errno=True)
_kept: list[Cache] = []


@dataclass(frozen=True)
class Container:
    """What `docker run --read-only --user USER --volume VOLUME:/mnt` makes."""

    volume: Path
    user: int = 1000
    group: int = 0
    groups: tuple[int, ...] = ()
    shm: str = "size=65536k"

    def start(self) -> Actor:
        return Actor(self._become)

    def _become(self) -> None:
        own_mounts()
        if _libc.unshare(CLONE_NEWIPC | CLONE_NEWPID) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        first = os.fork()
        if first:
            # The first process of the container answers; this one only waits for it.
            os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) & 0xFF)
        mount("proc", "/proc", MS_NOSUID_NODEV)
        mount("tmpfs", "/dev/shm", MS_NOSUID_NODEV, f"mode=1777,{self.shm}")
        bind(str(self.volume), VOLUME)
        # The folders in which these are may be closed to other users.
        bind(str(Path(__file__).parents[2]), CHECKOUT)
        bind(sys.base_prefix, PYTHON)
        bind(sysconfig.get_path("purelib"), PACKAGES)
        for file in ("/etc/passwd", "/etc/group"):
            bind("/dev/null", file)
        mount(None, "/", MS_REMOUNT | MS_BIND | MS_RDONLY)
        os.setgroups(list(self.groups))
        os.setgid(self.group)
        os.setuid(self.user)
        # After the change of user, which takes it back.
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.environ.pop("HOME", None)
        os.chdir("/")


def bind(source: str, target: str) -> None:
    """Show a file or folder at another place, too."""
    if _libc.mount(source.encode(), target.encode(), None, MS_BIND, None) != 0:
        raise OSError(ctypes.get_errno(), f"bind {source} to {target}")


def rootless(user: int) -> Callable[[], None]:
    """Become root in a user namespace in which this user alone is known, as with Podman."""

    def become() -> None:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        # Its maps in /proc belong to it again.
        _libc.prctl(PR_SET_DUMPABLE, 1)
        if _libc.unshare(CLONE_NEWUSER) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"0 {user} 1"),
            ("gid_map", f"0 {user} 1"),
        ):
            # Bytes: this user may not be able to read Python's codecs.
            Path(f"/proc/self/{name}").write_bytes(text.encode())

    return become


# What the processes do.


def start(module: str, *arguments: str, **environment: str) -> int:
    """Start a program in the folder of the guide's files, as the command of an image."""
    with open(f"{VOLUME}/{module}.log", "a", encoding="utf-8") as log:
        process = subprocess.Popen(
            [f"{PYTHON}/bin/python{sysconfig.get_python_version()}", "-m", module, *arguments],
            cwd=f"{CHECKOUT}/docs/guide/deploy",
            env={
                "LD_LIBRARY_PATH": f"{PYTHON}/lib",
                "PYTHONPATH": f"{CHECKOUT}/python:{PACKAGES}:{VOLUME}",
                **environment,
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    return process.pid


def store(path: str, key: str, value: object, **options: Any) -> str:
    """Store in a cache that stays open; return its path."""
    cache = Cache(path, **options)
    _kept.append(cache)
    cache[key] = value
    return str(cache.path)


def fetch(path: str, key: Key, **options: Any) -> object:
    with Cache(path, **options) as cache:
        return cache.get(key)


def refusal(path: str, **options: Any) -> str:
    """Return the error of an opening, or what was opened."""
    try:
        with Cache(path, **options) as cache:
            return f"opened {cache.path}"
    except tuckbox.TuckboxError as error:
        return f"{type(error).__name__}: {error}"


def again(key: str) -> object:
    """Read from the cache that `store` left open."""
    return _kept[-1].get(key)


def listed(folder: str) -> dict[str, tuple[int, str]]:
    """Return owners and modes of what is in a folder."""
    found = {name: os.lstat(f"{folder}/{name}") for name in os.listdir(folder)}
    return {name: (data.st_uid, f"{data.st_mode & 0o777:04o}") for name, data in found.items()}
