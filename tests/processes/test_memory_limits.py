"""A container or service whose memory is limited: files in memory count towards its limit."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_BYTES = 192 << 20
PROGRAM = """
import os, sys, tuckbox
open(sys.argv[1], "w").write(str(os.getpid()))
path = sys.argv[2] or None
try:
    with tuckbox.Cache(path, size=sys.argv[3]) as cache:
        print("opened", cache.size)
except tuckbox.errors.InvalidSize as error:
    print(error)
"""


def groups() -> Iterator[tuple[Path, str]]:
    """The control group of this process in each hierarchy that may limit memory, and the name of
    the file with the limit."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, name = line.split(":", 2)
        if "memory" in controllers.split(","):
            yield Path("/sys/fs/cgroup/memory" + name), "memory.limit_in_bytes"
        elif not controllers:
            yield Path("/sys/fs/cgroup" + name), "memory.max"


@pytest.fixture
def procs() -> Iterator[str]:
    """The file that puts a process into a group of its own with `LIMIT_BYTES` of memory."""
    for group, name in groups():
        own = group / f"tuckbox-{os.getpid()}"
        with contextlib.suppress(OSError):
            own.mkdir()
            try:
                if (own / name).exists():
                    (own / name).write_text(str(LIMIT_BYTES))
                    yield str(own / "cgroup.procs")
                    return
            finally:
                own.rmdir()
    pytest.skip("this machine lets nobody here limit the memory of a group")


def opened_in_group(procs: str, path: str, size: str) -> str:
    command = [sys.executable, "-c", PROGRAM, procs, path, size]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("kind", ["file", "private"])
def test_a_size_beyond_the_containers_memory_is_refused(procs: str, kind: str) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = f"{folder}/app.tuck" if kind == "file" else ""
        answer = opened_in_group(procs, path, "100 GiB")
        assert "this container or service may use only" in answer, answer
        assert answer.endswith("choose a smaller size")
        assert os.listdir(folder) == []
        assert opened_in_group(procs, path, "128 MiB") == f"opened {128 << 20}"
