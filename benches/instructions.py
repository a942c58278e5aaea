"""Counts the instructions of the hot paths: `python -m benches.instructions`.

Owns the counting; `counts` owns the kept counts. Other programs disturb times but not instruction
counts, so a review sees every change that costs instructions.

Programs call a marker function before and after an operation's passes, and callgrind dumps its
counts there. Start-up and filling do not count. Python's loop does, as in the rows; `dict.get`
shows its share. The result is the median of several runs, because the random hash key of each file
changes which entries collide.

Valgrind counts user-mode instructions of an emulated processor. The counter of the real processor
is not used, because virtual machines seldom have one. Valgrind 3.19 emulates AVX2 but not AVX-512,
so glibc uses other routines to copy and compare memory than on newer processors. The engine's hash
uses AVX2 only for more than 240 bytes, which nothing here has.
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
    """The instructions could not be counted; the message says why."""


def count(runs: int = _RUNS) -> Counts:
    """Return the counts of all operations. Raises CountingError and BuildError."""
    valgrind = _output(["valgrind", "--version"], "install it: apt-get install valgrind")
    rustc = _output(["rustc", "--version"], "install Rust with rustup")
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
    """Return the instructions of each named operation of a program, one between each two marks.

    The program gets a folder as its last argument. Raises CountingError.
    """
    with tempfile.TemporaryDirectory(prefix="tuckbox-bench-") as name:
        folder = Path(name)
        command = ["valgrind", "--tool=callgrind", f"--dump-before={hot_path.MARK}"]
        command += [f"--callgrind-out-file={folder / 'counted'}", *program, name]
        # Without this, the order of a set's members is random.
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        parts = sorted(folder.glob("counted.*"), key=lambda path: int(path.suffix[1:]))
        if done.returncode or len(parts) != 2 * len(names):
            said = done.stderr.strip()[-2000:]
            raise CountingError(
                f"{program[-1]} under callgrind reached {len(parts)} marks instead of "
                f"{2 * len(names)}: {said}"
            )
        # Drop what was counted before the first mark, and between operations.
        counted = [_instructions(part) for part in parts[1::2]]
    operations = hot_path.PASSES * hot_path.KEYS
    return {name: one / operations for name, one in zip(names, counted, strict=True)}


def _instructions(part: Path) -> int:
    counted = _SUMMARY.search(part.read_text("utf-8"))
    if counted is None:
        raise CountingError(f"{part.name}, written by callgrind, has no total")
    return int(counted[1])


def _output(command: list[str], advice: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CountingError(f"cannot run {command[0]}: {advice}") from error
    return done.stdout.strip()


def _table(before: Counts | None, now: Counts) -> Table:
    table = Table("operation")
    for name in ("kept", "now", "change"):
        table.add_column(name, justify="right")
    change = counts.changes(before, now)
    for name, instructions in now.instructions.items():
        was = before.instructions.get(name) if before else None
        share = change.get(name)
        shown = "" if share is None else f"{share:+.1%}"
        if share is not None and abs(share) >= counts.CHANGE_MIN:
            shown = f"[{'red' if share > 0 else 'green'}]{shown}[/]"
        table.add_row(
            name,
            "" if was is None else f"{was:,.0f}",
            f"{instructions:,.0f}",
            shown,
        )
    return table


def _tools(of: Counts) -> str:
    return f"{of.valgrind}, Python {of.python}, {of.rustc}"


@click.command()
@click.option("--keep", "is_kept", is_flag=True, help="Write benches/instructions.json.")
def main(*, is_kept: bool) -> None:
    """Count the instructions of the hot paths, and compare them with the kept counts."""
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
