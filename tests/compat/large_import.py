"""Copies large directories from DiskCache to the drop-in and back, with a kill in each direction.

    .venv/bin/python tests/compat/large_import.py [--folder FOLDER] [rows | files]

*rows* has a million small entries, *files* 10 GB in files of 10 MB and 20,000 small entries. Each
copy is killed by SIGKILL when half is copied, and run again. Then each entry is compared with that
of DiskCache, by `diskcache` itself. Takes minutes and up to 31 GB in FOLDER, so this is not part
of `make test`.

Prints for each run: seconds; processor time; the highest private memory of the process, and
its peak of resident memory, which includes the pages of files that it maps; and the longest time
without progress.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import diskcache as real

from tuckbox.compat import diskcache as dc

if TYPE_CHECKING:
    from collections.abc import Callable

FILE_BYTES = 10_000_000
BATCH = 10_000
MOST_PRIVATE_KB = 200_000
"""Private memory that no copy needs, however many entries there are and however large."""

COPY = """
import resource, sys, time
from tuckbox.compat.diskcache.{module} import {name}

def private_kb():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon:"))

def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

def progress(done, total):
    if done == total or done % {step} == 0:
        print(done, total, private_kb(), cpu_s(), flush=True)

[cache] = {name}(*sys.argv[1:], progress=progress)
assert not cache.left_out and not cache.different, cache
peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print("end", cache.copied, cache.present, peak_kb, cpu_s())
"""


@dataclass
class Run:
    """What one process did."""

    seconds: float
    cpu_s: float
    private_kb: int
    longest_gap_s: float
    end: tuple[int, int, int] | None
    """Entries copied, entries present, peak of resident memory in kB; None if it was killed."""

    def row(self, name: str) -> str:
        """A row of the table."""
        copied, present, peak = (
            ("", "", "")
            if self.end is None
            else (f"{self.end[0]:,}", f"{self.end[1]:,}", f"{self.end[2] / 1e3:.0f}")
        )
        return (
            f"| {name} | {copied} | {present} | {self.seconds:.0f} | {self.cpu_s:.0f} | "
            f"{self.private_kb / 1e3:.0f} | {peak} | {self.longest_gap_s:.1f} |"
        )


def copy(module: str, source: Path, target: Path, step: int, stop: float = 2.0) -> Run:
    """Copy in a process of its own, and kill it when this part of the entries is done."""
    name = {"importing": "import_diskcache", "exporting": "export_diskcache"}[module]
    program = COPY.format(module=module, name=name, step=step)
    start = last = time.monotonic()
    gap, cpu_s, private_kb, end = 0.0, 0.0, 0, None
    with subprocess.Popen(
        [sys.executable, "-c", program, source, target], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            now = time.monotonic()
            gap, last = max(gap, now - last), now
            fields = line.split()
            if fields[0] == "end":
                copied, present, peak_kb = map(int, fields[1:4])
                end, cpu_s = (copied, present, peak_kb), float(fields[4])
                break
            done, total = int(fields[0]), int(fields[1])
            private_kb, cpu_s = max(private_kb, int(fields[2])), float(fields[3])
            if done >= stop * total:
                process.kill()
                break
    if private_kb > MOST_PRIVATE_KB:
        raise SystemExit(f"{name} had {private_kb} kB of private memory")
    expected = -signal.SIGKILL if end is None else 0
    if process.returncode != expected:
        raise SystemExit(f"{name} ended with {process.returncode}")
    return Run(time.monotonic() - start, cpu_s, private_kb, gap, end)


def make_rows(source: Path, entries: int) -> None:
    """Store small entries of all kinds, in batches."""
    rng = random.Random("rows")
    now = time.time()
    with real.Cache(str(source), eviction_policy="none", size_limit=2**40) as cache:
        for start in range(0, entries, BATCH):
            with cache.transact():
                for number in range(start, min(start + BATCH, entries)):
                    key = (f"user:{number}", number, b"%d" % number, ("call", number))[number % 4]
                    value = ("x" * rng.randrange(200), number, [number, None])[number % 3]
                    expire = 10**6 + now % 1000 if number % 5 == 0 else None
                    cache.set(key, value, expire, tag=f"tag {number % 7}" if number % 2 else None)


def make_files(source: Path, total_bytes: int) -> None:
    """Store large values, each with twenty small entries."""
    rng = random.Random("files")
    with real.Cache(str(source), eviction_policy="none", size_limit=2**40) as cache:
        for number in range(total_bytes // FILE_BYTES):
            cache[f"file {number}"] = rng.randbytes(FILE_BYTES)
            with cache.transact():
                for small in range(20):
                    cache[f"small {number} {small}"] = "x" * rng.randrange(100)


def compare(one: dc.Cache | real.Cache, other: real.Cache) -> int:
    """Compare keys in their order, values, expiries and tags. Return how many there are."""
    count = 0
    for key, its in itertools.zip_longest(one, other):
        assert key == its, (key, its)
        value, expiry, tag = one.get(key, expire_time=True, tag=True)
        its_value, its_expiry, its_tag = other.get(its, expire_time=True, tag=True)
        assert type(value) is type(its_value), key
        assert (value, tag) == (its_value, its_tag), key
        assert (expiry is None) is (its_expiry is None), key
        assert expiry is None or abs(expiry - its_expiry) < 2, key
        count += 1
    return count


def trial(folder: Path, name: str, make: Callable[[Path], None], step: int, back: bool) -> None:
    """Make a directory, copy it there and back, and compare."""
    source, imported, exported = (folder / f"{name}-{part}" for part in ("dc", "tuckbox", "back"))
    for path in (source, imported, exported, Path(f"{exported}.exporting")):
        shutil.rmtree(path, ignore_errors=True)
    make(source)
    print(
        "| run | copied | present | seconds | CPU s | private MB | peak MB | longest gap s |\n"
        "|:--|--:|--:|--:|--:|--:|--:|--:|"
    )
    # The half of the entries, in steps: an import copies and compares, an export lists them first.
    ways = [("importing", source, imported, 1 / 4)]
    if back:
        ways.append(("exporting", imported, exported, 1 / 2))
    for module, begin, end, half in ways:
        print(
            copy(module, begin, end, step, stop=half).row(f"{name}, {module}, killed"), flush=True
        )
        print(copy(module, begin, end, step).row(f"{name}, {module}, continued"), flush=True)
    with real.Cache(str(source)) as original:
        with dc.Cache(str(imported)) as there:
            count = compare(there, original)
        if back:
            with real.Cache(str(exported)) as again:
                assert compare(again, original) == count
                assert again.check() == []
    print(f"{name}: {count:,} entries are the same", flush=True)
    for path in (source, imported, exported):
        shutil.rmtree(path, ignore_errors=True)


def main() -> None:
    """Run the trials that are named, or both."""
    parser = argparse.ArgumentParser(description="Imports and exports large directories.")
    parser.add_argument("--folder", type=Path, default=Path("target/large_import"))
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--one-way", action="store_true", help="import only")
    parser.add_argument("trials", nargs="*", choices=["rows", "files"], default=["rows", "files"])
    given = parser.parse_args()
    given.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if "rows" in given.trials:
        make = lambda source: make_rows(source, given.entries)  # noqa: E731
        trial(given.folder, "rows", make, 1000, not given.one_way)
    if "files" in given.trials:
        make = lambda source: make_files(source, int(given.gigabytes * 1e9))  # noqa: E731
        trial(given.folder, "files", make, 20, not given.one_way)


if __name__ == "__main__":
    main()
