"""A program that opens a cache once and measures that: `python -m benches.opening PATH KEY`.

Owns that program, and how it is run in a new process, also one that sees another boot id. Must not
judge.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tuckbox import Cache

from rig.sources import ROOT


class NotPermittedError(Exception):
    """This machine cannot show a program another boot id; the message says why."""


@dataclass(frozen=True)
class Opening:
    """The cost of opening.

    `pages` counts page faults: pages of the file and of other memory touched for the first time.
    """

    open_ms: float
    descriptors: int
    pages: int
    first_get_ms: float
    is_hit: bool


def opening(path: Path, key: str, boot: Path | None = None) -> Opening:
    """Open a cache in a new process, and get a key.

    `boot` is a file with the boot id to show to the process. Raises NotPermittedError, and
    subprocess.CalledProcessError when the program fails.
    """
    command = [sys.executable, "-m", "benches.opening", str(path), key]
    if boot is not None:
        command = [*_in_boot(boot), *command]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return Opening(**json.loads(done.stdout))


def demand_boots(boot: Path) -> None:
    """Raise NotPermittedError unless a program can be shown another boot id."""
    tried = subprocess.run([*_in_boot(boot), "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        raise NotPermittedError(tried.stderr.strip())


def forget(path: Path) -> None:
    """Write a file back and drop it from the page cache, as a reboot does."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _in_boot(boot: Path) -> list[str]:
    mount = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", mount, str(boot)]


def _open(path: str, key: str) -> Opening:
    descriptors, pages = _descriptors(), _pages()
    began = time.perf_counter_ns()
    cache = Cache(path)
    opened = time.perf_counter_ns()
    pages_after, descriptors_after = _pages(), _descriptors()
    get_began = time.perf_counter_ns()
    found = cache.get(key)
    got = time.perf_counter_ns()
    cache.close()
    return Opening(
        open_ms=(opened - began) / 1e6,
        descriptors=descriptors_after - descriptors,
        pages=pages_after - pages,
        first_get_ms=(got - get_began) / 1e6,
        is_hit=found is not None,
    )


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _pages() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_minflt + used.ru_majflt


if __name__ == "__main__":
    json.dump(asdict(_open(*sys.argv[1:])), sys.stdout)
