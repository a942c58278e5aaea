"""The kernel holds a large file in shared memory in huge pages, in every process that uses it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tuckbox import Cache

if TYPE_CHECKING:
    from collections.abc import Iterator

HUGE_BYTES = 2 << 20
HUGE_ORDER = 9
# In a line of /proc/buddyinfo: where the counts of free blocks begin, from one page on.
FIRST_COUNT = 4
VALUE = bytes(1000)
COUNT = 20_000


def pages_of(path: str) -> tuple[int, int]:
    """The KiB of a file that this process has in its page tables, and in huge pages of them."""
    inode = str(os.stat(path).st_ino)
    all_kib = huge_kib = 0
    is_file = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *rest = line.split()
        if not name.endswith(":"):
            # Not the path: a file is created without a name.
            is_file = rest[3] == inode
        elif is_file and name == "Rss:":
            all_kib += int(rest[0])
        elif is_file and name == "ShmemPmdMapped:":
            huge_kib += int(rest[0])
    return all_kib, huge_kib


@pytest.fixture
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield folder


def can_be_huge() -> bool:
    """Whether this kernel is known to give huge pages to files that ask, and has enough of them."""
    version = re.match(r"(\d+)\.(\d+)", os.uname().release)
    settings = Path("/sys/kernel/mm/transparent_hugepage")
    if version is None or tuple(map(int, version.groups())) < (6, 18) or not settings.exists():
        return False
    is_denied = "[deny]" in (settings / "shmem_enabled").read_text()
    pages = Path("/proc/buddyinfo").read_text().splitlines()
    free = sum(int(count) for line in pages for count in line.split()[FIRST_COUNT + HUGE_ORDER :])
    page_bytes = int((settings / "hpage_pmd_size").read_text())
    return not is_denied and page_bytes == HUGE_BYTES and free > 100


def read_all(path: str) -> None:
    """Read all entries, and say in which pages they are."""
    with Cache(path) as cache:
        assert all(cache.get(number) == VALUE for number in range(COUNT))
        sys.stdout.write(" ".join(map(str, pages_of(path))))


def test_a_file_that_grew_has_huge_pages_in_each_process(folder: str) -> None:
    path = f"{folder}/cache.tuck"
    with Cache(path, size="64 MiB") as cache:
        for number in range(COUNT):
            cache[number] = VALUE
        own = pages_of(path)
        read = f"from tests.processes.test_huge_pages import read_all; read_all({path!r})"
        reader = subprocess.run(
            [sys.executable, "-c", read], capture_output=True, text=True, check=True
        )
        assert cache.check().is_sound
    others = tuple(map(int, reader.stdout.split()))
    for all_kib, huge_kib in (own, others):
        assert all_kib > 20_000
        # All but the end of the file, and what the kernel was using.
        assert huge_kib > all_kib * 0.5 or not can_be_huge()
