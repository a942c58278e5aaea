"""How many instructions an operation of the hot paths takes: `python -m benches.instructions`.

Owns the counting, and the file where the counts are kept. Times are noise where other programs run;
instructions are not, so that a change which costs some is seen in review.

An operation's count is a difference: callgrind counts a run of few passes and one of many, and what
the second has more is divided by the operations that it makes more. Start-up and filling cancel.
Python's loop is part of it, as it is in the rows; that of `dict.get` tells how much that is. Each
operation is run several times, because every cache file has a random key of its own, by which
entries collide in other places; the median counts.

What valgrind counts are the instructions of user mode on the processor that it shows to programs.
The processor's own counter would count those of the real one, and is not used: virtual machines
seldom have it (`perf stat -e instructions:u` then says "not supported"), and a kept count has to be
measured again anywhere. The difference: valgrind 3.19 shows AVX2 and no AVX-512, so glibc copies
and compares memory by other routines than on newer processors. The engine itself asks no processor
for its features; what is compiled is what runs in both.
"""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benches import hot_path, native
from benches.places import ROOT

PATH = ROOT / "benches" / "instructions.json"

_FEW, _MANY = 2, hot_path.PASSES_MAX
_RUNS = 3
_COLLECTED = re.compile(r"Collected : (\d+)")
# By what the native program calls them.
_NATIVE = {"native get": "get", "native get, absent": "get-absent", "native set": "set"}
#: A change that is less is as likely the file's random key.
CHANGE_MIN = 0.02


class Counts(msgspec.Struct, frozen=True):
    """Instructions of an operation, by its name, and what they were counted with."""

    valgrind: str
    python: str
    rustc: str
    instructions: dict[str, float]


class CountingError(Exception):
    """Nothing could be counted; the message says why."""


def operations() -> list[str]:
    """Return the names of what is counted."""
    return [*hot_path.OPERATIONS, *_NATIVE]


def count(names: Sequence[str], runs: int = _RUNS) -> Counts:
    """Return the counts of some operations. Raises CountingError and native.NativeError."""
    valgrind = _told(["valgrind", "--version"], "install it: apt-get install valgrind")
    rustc = _told(["rustc", "--version"], "install Rust with rustup")
    if any(name in _NATIVE for name in names):
        native.build()
    found = {}
    for name in track(names, "Counting", console=Console(stderr=True), transient=True):
        found[name] = round(statistics.median(_difference(name) for _ in range(runs)), 1)
    return Counts(valgrind, platform.python_version(), rustc, found)


def kept(path: Path = PATH) -> Counts:
    """Return the counts that are kept. Raises CountingError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Counts)
    except (OSError, msgspec.ValidationError, msgspec.DecodeError) as error:
        raise CountingError(f"{path.name} cannot be read: {error}") from error


def keep(counts: Counts, path: Path = PATH) -> None:
    """Write the counts to the file."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(counts), indent=1) + b"\n")


def changes(before: Counts, now: Counts) -> dict[str, float | None]:
    """Return by how much each count has changed, as a share of what it was; None if it is new."""
    found: dict[str, float | None] = {}
    for name, instructions in now.instructions.items():
        was = before.instructions.get(name)
        found[name] = None if was is None else instructions / was - 1
    return found


def _difference(name: str) -> float:
    few, many = (_collected(name, passes) for passes in (_FEW, _MANY))
    return (many - few) / ((_MANY - _FEW) * hot_path.KEYS)


def _collected(name: str, passes: int) -> int:
    with tempfile.TemporaryDirectory(prefix="tuckbox-bench-") as folder:
        if name in _NATIVE:
            program = [str(native.build()), "hot-path", folder, _NATIVE[name], str(passes)]
        else:
            words = [name, str(passes), folder]
            program = [sys.executable, "-m", "benches.hot_path", *words]
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *program]
        # The order of a set's members would be another each time.
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    collected = _COLLECTED.search(done.stderr)
    if done.returncode or collected is None:
        raise CountingError(f"{name} under callgrind: {done.stderr.strip()[-2000:]}")
    return int(collected[1])


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
    change = changes(before, now) if before else {}
    for name, instructions in now.instructions.items():
        was = before.instructions.get(name) if before else None
        share = change.get(name)
        told = "" if share is None else f"{share:+.1%}"
        if share is not None and abs(share) >= CHANGE_MIN:
            told = f"[{'red' if share > 0 else 'green'}]{told}[/]"
        table.add_row(
            name,
            "" if was is None else f"{was:,.0f}",
            f"{instructions:,.0f}",
            told,
        )
    return table


def _tools(counts: Counts) -> str:
    return f"{counts.valgrind}, Python {counts.python}, {counts.rustc}"


@click.command()
@click.option("--only", multiple=True, type=click.Choice(operations()), help="Repeatable.")
@click.option("--keep", "is_kept", is_flag=True, help="Keep the counts: benches/instructions.json.")
def main(only: tuple[str, ...], *, is_kept: bool) -> None:
    """Count the instructions of the hot paths, and say what has changed."""
    console = Console()
    try:
        before = kept() if PATH.exists() else None
        now = count(only or operations())
    except (CountingError, native.NativeError) as error:
        raise click.ClickException(str(error)) from error
    console.print(_table(before, now))
    if before and _tools(before) != _tools(now):
        console.print(f"Kept with {_tools(before)}; now {_tools(now)}.", highlight=False)
    if is_kept:
        others = before.instructions if before and only else {}
        merged = {**others, **now.instructions}
        ordered = {name: merged[name] for name in operations() if name in merged}
        keep(msgspec.structs.replace(now, instructions=ordered))


if __name__ == "__main__":
    main()
