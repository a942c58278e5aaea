"""A container or service whose memory is limited: files in memory count towards its limit."""

from __future__ import annotations

import contextlib
import os
import re
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
import os, sys, warnings, tuckbox
open(sys.argv[1], "w").write(str(os.getpid()))
path = sys.argv[2] or None
warnings.showwarning = lambda message, *rest: print(message)
try:
    with tuckbox.Cache(path, size=sys.argv[3] or None) as cache:
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
def limit() -> Iterator[Path]:
    """The file with the limit of a new group of processes, `LIMIT_BYTES` of memory."""
    for group, name in groups():
        own = group / f"tuckbox-{os.getpid()}"
        with contextlib.suppress(OSError):
            own.mkdir()
            try:
                if (own / name).exists():
                    (own / name).write_text(str(LIMIT_BYTES))
                    yield own / name
                    return
            finally:
                own.rmdir()
    pytest.skip("this machine lets nobody here limit the memory of a group")


def opened_in_group(limit: Path, path: str, size: str) -> str:
    procs = str(limit.with_name("cgroup.procs"))
    command = [sys.executable, "-c", PROGRAM, procs, path, size]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("kind", ["file", "private"])
def test_a_size_beyond_the_containers_memory_is_refused(limit: Path, kind: str) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = f"{folder}/app.tuck" if kind == "file" else ""
        answer = opened_in_group(limit, path, "100 GiB")
        assert "this container or service may use only" in answer, answer
        assert answer.endswith("choose a smaller size")
        assert os.listdir(folder) == []
        assert opened_in_group(limit, path, "128 MiB") == f"opened {128 << 20}"


@pytest.mark.parametrize("kind", ["file", "private"])
def test_the_default_cache_takes_half_of_a_containers_memory(limit: Path, kind: str) -> None:
    swap = re.search(r"SwapTotal: *([0-9]+) kB", Path("/proc/meminfo").read_text())
    assert swap
    limit.write_text(str(LIMIT_BYTES // 2))
    space_bytes = LIMIT_BYTES // 2 + int(swap[1]) * 1024
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = f"{folder}/app.tuck" if kind == "file" else ""
        *warned, opened = opened_in_group(limit, path, "").splitlines()
        if space_bytes >= 128 << 20:
            assert (warned, opened) == ([], f"opened {64 << 20}")
            return
        assert opened == f"opened {space_bytes // 2}"
        assert warned == [
            f"{path or 'the cache'} has a size of {space_bytes // 2:,} bytes, less than the "
            "default: it is kept in memory, and this container or service may use only "
            f"{space_bytes} bytes of memory and swap space, and half of that is left to others; "
            "pass size"
        ]
