"""Counts the instructions of the hot paths: `python -m benches.instructions`.

Owns the counting; the counts that are kept are `counts`. Times are noise where other programs run;
instructions are not, so that a change which costs some is seen in review.

Programs mark where an operation's passes begin and end by a call that callgrind knows, and it
writes down what it has counted so far: start-up and filling are no part of it. Python's loop is, as
it is in the rows; that of `dict.get` tells how much that is. Everything is run several times,
because every cache file has a random key of its own, by which entries collide in other places; the
median counts.

What valgrind counts are the instructions of user mode on the processor that it shows to programs.
The processor's own counter would count those of the real one, and is not used: virtual machines
seldom have it (`perf stat -e instructions:u` then says "not supported"), and a kept count has to be
measured again anywhere. The difference: valgrind 3.19 shows AVX2 and no AVX-512, so glibc copies
and compares memory by other routines than on newer processors. The engine's hash asks for AVX2
where there are more than 240 bytes, which nothing here has; of the rest, what is compiled is what
runs in both.
"""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benches import counts, hot_path, native
from benches.building import BuildError
from benches.counts import Counts
from rig import kept
from rig.kept import RecordError
from rig.sources import ROOT

_ERRORS = Console(stderr=True)

_RUNS = 3
_NATIVE = [
    "native get",
    "native get, absent",
    "native set",
    "native set of a new key, full cache of 16 MB",
    "native set of a new key, full cache of 64 MB",
]
_SUMMARY = re.compile(r"^(?:summary|totals): (\d+)$", re.MULTILINE)


class CountingError(Exception):
    """Nothing could be counted; the message says why."""


def count(runs: int = _RUNS) -> Counts:
    """Return the counts of all operations. Raises CountingError and BuildError."""
    valgrind = _told(["valgrind", "--version"], "install it: apt-get install valgrind")
    rustc = _told(["rustc", "--version"], "install Rust with rustup")
    native.build()
    counted = [_counted() for _ in track(range(runs), "Counting", console=_ERRORS, transient=True)]
    median = {
        name: round(statistics.median(one[name] for one in counted), 1) for name in counted[0]
    }
    return Counts(valgrind, platform.python_version(), rustc, median)


def operations() -> list[str]:
    """Return the names of what is counted."""
    return [*hot_path.OPERATIONS, *_NATIVE]


def _counted() -> dict[str, float]:
    python = [sys.executable, "-m", "benches.hot_path"]
    return between_marks(python, list(hot_path.OPERATIONS)) | between_marks(
        [str(native.build()), "hot-path"], _NATIVE
    )


def between_marks(program: list[str], names: list[str]) -> dict[str, float]:
    """Return the instructions of an operation, for each stretch of a program between two marks.

    The program is given a folder as its last argument. Raises CountingError.
    """
    with tempfile.TemporaryDirectory(prefix="tuckbox-bench-") as name:
        folder = Path(name)
        command = ["valgrind", "--tool=callgrind", f"--dump-before={hot_path.MARK}"]
        command += [f"--callgrind-out-file={folder / 'counted'}", *program, name]
        # The order of a set's members would be another each time.
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        parts = sorted(folder.glob("counted.*"), key=lambda path: int(path.suffix[1:]))
        if done.returncode or len(parts) != 2 * len(names):
            said = done.stderr.strip()[-2000:]
            raise CountingError(f"{program[-1]} under callgrind met {len(parts)} marks: {said}")
        # What was counted before the first mark, and between two stretches, is no part of any.
        counted = [_instructions(part) for part in parts[1::2]]
    operations = hot_path.PASSES * hot_path.KEYS
    return {name: one / operations for name, one in zip(names, counted, strict=True)}


def _instructions(part: Path) -> int:
    counted = _SUMMARY.search(part.read_text("utf-8"))
    if counted is None:
        raise CountingError(f"callgrind wrote no sum into {part.name}")
    return int(counted[1])


def _told(command: list[str], advice: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CountingError(f"{command[0]} cannot be run: {advice}") from error
    return done.stdout.strip()


def _table(before: Counts | None, now: Counts) -> Table:
    table = Table("operation")
    for name in ("kept", "now", "change"):
        table.add_column(name, justify="right")
    change = counts.changes(before, now)
    for name, instructions in now.instructions.items():
        was = before.instructions.get(name) if before else None
        share = change.get(name)
        told = "" if share is None else f"{share:+.1%}"
        if share is not None and abs(share) >= counts.CHANGE_MIN:
            told = f"[{'red' if share > 0 else 'green'}]{told}[/]"
        table.add_row(
            name,
            "" if was is None else f"{was:,.0f}",
            f"{instructions:,.0f}",
            told,
        )
    return table


def _tools(of: Counts) -> str:
    return f"{of.valgrind}, Python {of.python}, {of.rustc}"


@click.command()
@click.option("--keep", "is_kept", is_flag=True, help="Keep the counts: benches/instructions.json.")
def main(*, is_kept: bool) -> None:
    """Count the instructions of the hot paths, and say what has changed."""
    console = Console()
    try:
        before = counts.read()
        now = count()
    except (BuildError, CountingError, RecordError, native.NativeError) as error:
        raise click.ClickException(str(error)) from error
    console.print(_table(before, now))
    if before and _tools(before) != _tools(now):
        console.print(f"Kept with {_tools(before)}; now {_tools(now)}.", highlight=False)
    if is_kept:
        kept.write(counts.PATH, now)


if __name__ == "__main__":
    main()
