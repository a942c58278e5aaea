"""T-C4: a file system whose files are elsewhere is refused, by the kind that the kernel reports.

The mounts are real: a process answers for them through FUSE, under the names of programs that keep
their files elsewhere and of some that do not.
"""

from __future__ import annotations

import os
import signal
import struct
from typing import TYPE_CHECKING, Any

import pytest

import tuckbox
from reliability.actors import Actor, demand, demand_mounts, mount, own_mounts, unmount
from tuckbox import Cache

if TYPE_CHECKING:
    from pathlib import Path

LOOKUP, GETATTR, STATFS, INIT = 1, 3, 17, 26
ENOENT, ENOSYS = 2, 38
DEVICE = "/dev/fuse"


def answer(opcode: int, body: bytes) -> tuple[int, bytes]:
    """What a file system with one empty directory says."""
    if opcode == INIT:
        major, minor, readahead = struct.unpack_from("<III", body)
        return 0, struct.pack(
            "<IIIIHHIIHHI28x", major, min(minor, 31), readahead, *(0,) * 2, 0, 4096, 1, 0, 0, 0
        )
    if opcode == GETATTR:
        times = (0,) * 6
        owner = (os.getuid(), os.getgid())
        attributes = struct.pack(
            "<QQQQQQIIIIIIIIII", 1, 0, 0, *times, 0o40700, 2, *owner, 0, 4096, 0
        )
        return 0, struct.pack("<QII", 0, 0, 0) + attributes
    if opcode == STATFS:
        return 0, struct.pack("<QQQQQIIII24x", *(1 << 20,) * 5, 4096, 255, 4096, 0)
    return (ENOENT if opcode == LOOKUP else ENOSYS), b""


def serve(device: int) -> None:
    """Answer until the file system is unmounted."""
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError:
            return
        _, opcode, unique = struct.unpack_from("<IIQ", request)
        error, body = answer(opcode, request[40:])
        try:
            os.write(device, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)
        except OSError:
            continue


def open_there(folder: str, kind: str) -> tuple[str, str, str]:
    """Mount a file system of a kind, and make a cache in it."""
    device = os.open(DEVICE, os.O_RDWR)
    owner = f"user_id={os.getuid()},group_id={os.getgid()}"
    mount(kind, folder, 0, f"fd={device},rootmode=40000,{owner}")
    server = os.fork()
    if server == 0:
        serve(device)
        os._exit(0)
    # If the server ends, so does the file system, and nobody waits for it.
    os.close(device)
    try:
        Cache(f"{folder}/cache.tuck").close()
    except tuckbox.errors.CacheOpenError as error:
        return type(error).__name__, str(error), error.filename
    else:
        return "ok", "", ""
    finally:
        unmount(folder)
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)


@pytest.mark.family("T-C4")
@pytest.mark.parametrize("kind", ["fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone"])
def test_what_is_elsewhere_is_refused_with_the_reason(
    tmp_path: Path, trials: Any, kind: str
) -> None:
    error, message, name = open_in(tmp_path, kind)
    path = str(tmp_path / "cache.tuck")
    assert (error, name) == ("NetworkFileSystem", path), message
    assert message == (
        f"{path} is on {kind}, which other machines can use too, and they would not share the "
        "cache's memory or locks; choose a directory on a local disk, or in /dev/shm"
    )
    trials.add(1, "cases")


@pytest.mark.family("T-C4")
@pytest.mark.parametrize("kind", ["fuse.bindfs", "fuse"])
def test_what_is_not_is_not(tmp_path: Path, trials: Any, kind: str) -> None:
    """It refuses to make a file, but not for where it is."""
    error, message, _ = open_in(tmp_path, kind)
    assert error == "CacheOpenError", message
    assert "Function not implemented" in message
    trials.add(1, "cases")


def open_in(folder: Path, kind: str) -> tuple[str, str, str]:
    demand_mounts()
    demand("FUSE", is_there=os.access(DEVICE, os.R_OK | os.W_OK))
    folder.chmod(0o700)
    with Actor(own_mounts) as actor:
        found: tuple[str, str, str] = actor.call(open_there, str(folder), kind)
    return found
