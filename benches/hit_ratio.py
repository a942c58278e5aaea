"""What the engine keeps, beside what known eviction policies keep: `make hit-ratio`.

Drives the engine itself, not a model of it, with recorded traces at the cache sizes of their
`targets.csv`, and compares its hit ratio with the reference values that come with the traces.

The traces are no part of this repository. They are looked for in `--traces DIR`, in
`TUCKBOX_TRACES`, and in `shared/traces` beside the repository.

A *gap* is how many points of hit ratio the best online policy of a cell is ahead, 0 where it is
not. Cells of unit size bind by the number of entries, with empty values. Sized cells bind by the
bytes of the whole file, metadata included, while the reference policies are charged for nothing
but the values.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import zstandard
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "hit-ratio.md"
RECORD = ROOT / "docs" / "hit-ratio.json"
SHARDS = (1, 4, 16)
#: Column and name in `reference.csv`. LIRS and the others have one row for each cell.
POLICIES = {
    "LRU": "LRU",
    "S3-FIFO": "S3-FIFO",
    "W-TinyLFU": "W-TinyLFU 1%",
    "Caffeine": "Caffeine HEAD",
    "LIRS": "LIRS",
}


@dataclass(frozen=True)
class Cell:
    """One trace at one size, with the reference values of its `targets.csv`."""

    trace: str
    limit: int
    sized: bool
    best: float
    best_policy: str
    best_bytes: float
    optimum: float
    known: dict[str, float] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        """Return the cells that the replay is asked for."""
        if self.sized:
            return [f"bytes:{self.limit}"]
        return [f"entries:{self.limit}:{shards}" for shards in SHARDS]


@dataclass(frozen=True)
class Run:
    """What one replay of one cell came to. Ratios are percentages."""

    hit_ratio: float
    byte_hit_ratio: float
    shards: int
    refused: int
    request_ns: float


@dataclass(frozen=True)
class Result:
    """A cell and its replays, by the number of shards asked for (0: as many as fit the size)."""

    cell: Cell
    runs: dict[int, Run]

    def gap(self, shards: int) -> float:
        """Return the gap in hits, in points."""
        return max(0.0, self.cell.best - self.runs[shards].hit_ratio)

    def byte_gap(self) -> float:
        """Return the gap in bytes of a sized cell, in points."""
        return max(0.0, self.cell.best_bytes - self.runs[0].byte_hit_ratio)


def find_traces(given: Path | None) -> Path:
    """Return the directory with the traces, or end with what to do.

    Raises:
        SystemExit: there is none.
    """
    if given is None and "TUCKBOX_TRACES" in os.environ:
        given = Path(os.environ["TUCKBOX_TRACES"])
    traces = given or ROOT.parent / "shared" / "traces"
    if not (traces / "targets.csv").is_file():
        raise SystemExit(
            f"{traces} has no targets.csv: name the directory of the traces with --traces or "
            "TUCKBOX_TRACES"
        )
    return traces


def read_cells(traces: Path) -> list[Cell]:
    """Return the cells of `targets.csv`, with the known policies of `reference.csv`."""
    known: dict[tuple[str, str], dict[str, float]] = {}
    with (traces / "reference.csv").open(newline="") as rows:
        for row in csv.DictReader(rows):
            ratio = 100 * float(row["hit_ratio"])
            known.setdefault((row["trace"], row["size_abs"]), {})[row["policy"]] = ratio
    cells = []
    with (traces / "targets.csv").open(newline="") as rows:
        for row in csv.DictReader(rows):
            references = known.get((row["trace"], row["size_abs"]), {})
            cells.append(
                Cell(
                    trace=row["trace"],
                    limit=int(row["size_abs"]),
                    # Where all entries count one, hits and hit bytes are the same.
                    sized=row["best_byte_hit_ratio"] != row["best_hit_ratio"],
                    best=100 * float(row["best_hit_ratio"]),
                    best_policy=row["best_online_policy"],
                    best_bytes=100 * float(row["best_byte_hit_ratio"]),
                    optimum=100 * float(row["opt_hit_ratio"]),
                    known={
                        column: references[name]
                        for column, name in POLICIES.items()
                        if name in references
                    },
                )
            )
    return cells


def replay(program: Path, trace: Path, arguments: list[str]) -> Iterator[Run]:
    """Drive the engine with a trace once for each argument, and yield what came out.

    Raises:
        SystemExit: the replay failed; it has said why.
    """
    with (
        trace.open("rb") as packed,
        zstandard.ZstdDecompressor().stream_reader(packed) as requests,
        subprocess.Popen(  # noqa: S603 - the program that the caller built
            [program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process,
    ):
        into, out = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        shutil.copyfileobj(requests, into)
        into.close()
        for line in out:
            found = json.loads(line)
            yield Run(
                hit_ratio=100 * found["hits"] / found["gets"],
                byte_hit_ratio=100 * found["hit_bytes"] / found["bytes"],
                shards=found["shards"],
                refused=found["refused"],
                request_ns=found["request_ns"],
            )
    if process.returncode != 0:
        raise SystemExit(f"{trace.name}: the replay ended with {process.returncode}")


def measure(program: Path, traces: Path, cells: list[Cell], console: Console) -> list[Result]:
    """Replay all cells, trace by trace."""
    results = []
    names = list(dict.fromkeys(cell.trace for cell in cells))
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=sum(len(cell.arguments()) for cell in cells))
        for name in names:
            progress.update(task, description=name)
            chosen = [cell for cell in cells if cell.trace == name]
            arguments = [argument for cell in chosen for argument in cell.arguments()]
            runs = replay(program, traces / f"{name}.csv.zst", arguments)
            for cell in chosen:
                found = {}
                for shards in (0,) if cell.sized else SHARDS:
                    found[shards] = next(runs)
                    progress.advance(task)
                results.append(Result(cell, found))
            # Ends the generator, and with it the process.
            for _ in runs:
                raise SystemExit(f"{name}: more cells than were asked for")
    return results


def mean_and_worst(gaps: Iterable[float]) -> str:
    """Return the mean and the greatest of some gaps."""
    values = list(gaps)
    return f"{statistics.fmean(values):.2f} / {max(values):.1f}" if values else "-"


def known_gaps(results: list[Result], column: str) -> str:
    """Return the mean and the greatest gap of a known policy, over the cells it has a value for."""
    return mean_and_worst(
        max(0.0, result.cell.best - result.cell.known[column])
        for result in results
        if column in result.cell.known
    )


Rows = list[list[str]]


def unit_rows(results: list[Result]) -> tuple[list[str], Rows]:
    """Return heading and rows of the unit-size cells."""
    heading = ["trace", "entries", *POLICIES, "best", "OPT"]
    heading += [f"Tuckbox, {shards} sh." for shards in SHARDS] + ["gap"]
    rows = []
    for result in results:
        cell = result.cell
        row = [cell.trace, f"{cell.limit:,}"]
        row += [f"{cell.known[name]:.2f}" if name in cell.known else "-" for name in POLICIES]
        row += [f"{cell.best:.2f} {cell.best_policy}", f"{cell.optimum:.2f}"]
        row += [f"{result.runs[shards].hit_ratio:.2f}" for shards in SHARDS]
        rows.append([*row, f"{result.gap(1):.2f}"])
    if results:
        row = ["mean / worst gap", ""] + [known_gaps(results, name) for name in POLICIES] + ["", ""]
        row += [mean_and_worst(r.gap(shards) for r in results) for shards in SHARDS]
        rows.append([*row, ""])
    return heading, rows


def sized_rows(results: list[Result]) -> tuple[list[str], Rows]:
    """Return heading and rows of the sized cells."""
    heading = ["trace", "bytes", *POLICIES, "best", "OPT", "Tuckbox", "gap"]
    heading += ["best, bytes", "Tuckbox, bytes", "gap, bytes"]
    rows = []
    for result in results:
        cell, run = result.cell, result.runs[0]
        row = [cell.trace, f"{cell.limit:,}"]
        row += [f"{cell.known[name]:.2f}" if name in cell.known else "-" for name in POLICIES]
        row += [f"{cell.best:.2f} {cell.best_policy}", f"{cell.optimum:.2f}"]
        row += [f"{run.hit_ratio:.2f}", f"{result.gap(0):.2f}", f"{cell.best_bytes:.2f}"]
        rows.append([*row, f"{run.byte_hit_ratio:.2f}", f"{result.byte_gap():.2f}"])
    if results:
        row = ["mean / worst gap", ""] + [known_gaps(results, name) for name in POLICIES]
        row += ["", "", "", mean_and_worst(r.gap(0) for r in results), "", ""]
        rows.append([*row, mean_and_worst(r.byte_gap() for r in results)])
    return heading, rows


def as_markdown(heading: list[str], rows: Rows) -> str:
    """Return a table, its last row emphasised."""
    lines = ["| " + " | ".join(heading) + " |", "|:--" + "|--:" * (len(heading) - 1) + "|"]
    for row in rows:
        last = row is rows[-1]
        cells = [f"**{part}**" if last and part else part for part in row]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def show(console: Console, title: str, heading: list[str], rows: Rows) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left")
    for index, name in enumerate(heading):
        table.add_column(name, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*row, end_section=len(rows) > 1 and row is rows[-2])
    console.print(table)


def write_document(unit: list[Result], sized: list[Result]) -> None:
    """Write the tables to the document, and everything to the record beside it."""
    text = f"""# Hit ratios

Made by `make hit-ratio`, which drives the engine itself. What the method is, and what it is not
good at yet, is in [eviction.md](eviction.md).

Hit ratios in per cent. A gap is how many points the best online policy of the reference values is
ahead, 0 where it is not. The figures of other policies came with the traces.

## Entries of one size

The limit is the number of entries. The gap is that with one shard. Cells too small for 4 or 16
shards of 64 entries have fewer.

{as_markdown(*unit_rows(unit)) if unit else "None were measured."}

## Entries of many sizes

The limit is the length of the whole file, index, ghosts and record headers included; the other
policies were charged for the values alone. Hits are of objects, or of bytes where it says so.

{as_markdown(*sized_rows(sized)) if sized else "None were measured."}
"""
    DOCUMENT.write_text(text)
    record = [
        {**asdict(r.cell), "runs": {k: asdict(v) for k, v in r.runs.items()}}
        for r in [*unit, *sized]
    ]
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


def main() -> None:
    """Measure, print, and write unless only a part was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--traces", type=Path, help="the directory of the traces")
    parser.add_argument(
        "--program", type=Path, required=True, help="the engine's example `replay`, built"
    )
    parser.add_argument("--only", nargs="+", metavar="TRACE", help="these alone; writes no file")
    parser.add_argument("--units", action="store_true", help="no sized cells; writes no file")
    given = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 200)
    traces = find_traces(given.traces)
    cells = [
        cell
        for cell in read_cells(traces)
        if (not given.only or cell.trace in given.only) and not (given.units and cell.sized)
    ]
    if not cells:
        raise SystemExit(f"{traces / 'targets.csv'} has none of {', '.join(given.only)}")
    results = measure(given.program, traces, cells, console)
    unit = [result for result in results if not result.cell.sized]
    sized = [result for result in results if result.cell.sized]
    if unit:
        show(console, "Entries of one size: hit ratio, %", *unit_rows(unit))
    if sized:
        show(console, "Entries of many sizes: hit ratio, %", *sized_rows(sized))
    if not given.only and not given.units:
        write_document(unit, sized)
        console.print(f"written: {DOCUMENT.relative_to(ROOT)}, {RECORD.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
