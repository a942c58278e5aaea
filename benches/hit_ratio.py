"""Compare the hit ratios of the engine with those of known eviction policies: `make hit-ratio`.

Replays recorded traces through the engine itself, not a model of it, at the cache sizes of their
`targets.csv`. The reference values come with the traces.

The traces are not part of this repository. `--traces DIR` or `TUCKBOX_TRACES` names their folder.

A *gap* is how many points of hit ratio the best online policy of a cell is ahead of the engine, 0
if it is not. The reference policies are charged only for entries, or only for bytes of values. So
cells of one size are limited by the number of entries, with empty values; those of at least 1,000
entries are also replayed in files of a number of bytes. Cells of many sizes are replayed in files
of the same number of bytes, metadata included, and in files that are longer by everything that is
not a value. Synthetic streams (`made_streams.py`) have overwrites, deletes and expiries, which the
traces lack.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import textwrap
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import zstandard
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benches import made_streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "explanation" / "hit-ratio.md"
RECORD = ROOT / "docs" / "explanation" / "hit-ratio.json"
CELLS = ROOT / "docs" / "explanation" / "hit-ratio.csv"
SHARDS = (1, 4, 16)
FAVOURS = ("balanced", "hits", "bytes")
#: Every file has a random hash key, which matters most in small cells. Cells of fewer entries than
#: the second number, or of many sizes and fewer bytes than the third, are replayed several times;
#: the median by objects hit counts.
SMALL_REPETITIONS, SMALL_BELOW_ENTRIES, SMALL_BELOW_BYTES = 5, 2_000, 4_000_000
#: File lengths in per cent of keys and values: no space for metadata; Tokyo Cabinet, the leanest
#: peer, which does not evict; the items of memcached, the leanest peer that evicts; memcached with
#: slab waste.
PAYLOAD_PERCENTS = (100, 119, 130, 155)
#: The file length that the goal is judged at.
PAYLOAD_JUDGED = 130
PAYLOAD_ENTRIES_LEAST = 1_000
SUMMARY = "mean / worst gap"
#: A policy without a figure for the cell.
UNKNOWN = "-"
#: The document has all cells with a greater gap, in points.
GAP_SHOWN = 1.0
#: How much more than the limit the values may take in a file with metadata extra, and how often the
#: file is made again to reach that.
VALUES_MOST, LONGER_FILES_MOST = 1.005, 4
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

    @property
    def repetitions(self) -> int:
        """How often the cell is replayed."""
        small_below = SMALL_BELOW_BYTES if self.sized else SMALL_BELOW_ENTRIES
        return SMALL_REPETITIONS if self.limit < small_below else 1

    def arguments(self) -> list[str]:
        """Return the cells that the replay is asked for."""
        if self.sized:
            return [f"bytes:{self.limit}:{favour}" for favour in FAVOURS]
        found = [f"entries:{self.limit}:{shards}" for shards in SHARDS]
        if self.limit >= PAYLOAD_ENTRIES_LEAST:
            found += [f"payload:{self.limit}:{percent}" for percent in PAYLOAD_PERCENTS]
        return found


@dataclass(frozen=True)
class Run:
    """What one replay of one cell came to. Ratios are percentages."""

    hit_ratio: float
    byte_hit_ratio: float
    shards: int
    refused: int
    value_bytes: int
    request_ns: float


@dataclass(frozen=True)
class Result:
    """A cell and its replays, by what the replay was asked for; see `Cell.arguments`."""

    cell: Cell
    runs: dict[str, Run]
    #: The replays of a sized cell in files that are longer by what is no value, by favour.
    beside_metadata: dict[str, Run] = field(default_factory=dict)

    def gap(self, run: Run) -> float:
        """Return the gap in hits, in points."""
        return max(0.0, self.cell.best - run.hit_ratio)

    def byte_gap(self, run: Run) -> float:
        """Return the gap in bytes of a sized cell, in points."""
        return max(0.0, self.cell.best_bytes - run.byte_hit_ratio)

    def with_shards(self, shards: int) -> Run:
        """Return the replay of a unit-size cell with so many shards asked for."""
        return self.runs[f"entries:{self.cell.limit}:{shards}"]

    def with_payload(self, percent: int) -> Run:
        """Return the replay of a unit-size cell in so many per cent of its keys and values."""
        return self.runs[f"payload:{self.cell.limit}:{percent}"]

    def favouring(self, favour: str) -> Run:
        """Return the replay of a sized cell that favours this."""
        return self.runs[f"bytes:{self.cell.limit}:{favour}"]


def find_traces(given: Path | None) -> Path:
    """Return the directory with the traces, or end with what to do.

    Raises:
        SystemExit: none was named, or it has no traces.
    """
    named = given or os.environ.get("TUCKBOX_TRACES")
    if not named:
        raise SystemExit("name the directory of the traces: make hit-ratio TRACES=DIR")
    traces = Path(named)
    if not (traces / "targets.csv").is_file():
        raise SystemExit(f"{traces} has no targets.csv, so it is no directory of traces")
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
        subprocess.Popen(
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
                value_bytes=found["value_bytes"],
                request_ns=found["request_ns"],
            )
    if process.returncode != 0:
        raise SystemExit(f"{trace.name}: the replay ended with {process.returncode}")


def measure(program: Path, traces: Path, cells: list[Cell], console: Console) -> list[Result]:
    """Replay all cells, trace by trace."""
    results = []
    names = list(dict.fromkeys(cell.trace for cell in cells))
    with Progress(console=console, transient=True) as progress:
        total = sum(
            (len(cell.arguments()) + cell.sized * len(FAVOURS)) * cell.repetitions for cell in cells
        )
        task = progress.add_task("", total=total)

        def run(name: str, arguments: list[str]) -> Iterator[Run]:
            for found in replay(program, traces / f"{name}.csv.zst", arguments):
                progress.advance(task)
                yield found

        for name in names:
            progress.update(task, description=name)
            chosen = [cell for cell in cells if cell.trace == name]
            arguments = [
                argument
                for cell in chosen
                for argument in cell.arguments()
                for _ in range(cell.repetitions)
            ]
            runs: dict[str, list[Run]] = {}
            for argument, came_to in zip(arguments, run(name, arguments), strict=True):
                runs.setdefault(argument, []).append(came_to)
            found = [
                Result(cell, {a: _middle(runs[a]) for a in cell.arguments()}) for cell in chosen
            ]
            results += beside_metadata(found, functools.partial(run, name))
    return results


def _middle(runs: list[Run]) -> Run:
    return sorted(runs, key=lambda run: run.hit_ratio)[len(runs) // 2]


def beside_metadata(
    results: list[Result], run: Callable[[list[str]], Iterable[Run]]
) -> list[Result]:
    """Return the results of a trace with the replays in which values have the room of the limit.

    How long a file has to be for that is found by trying: what is no value grows with the file.
    """
    limits = {
        (place, favour): result.cell.limit
        for place, result in enumerate(results)
        if result.cell.sized
        for favour in FAVOURS
    }
    lengths = {
        (place, favour): longer_file(limit, limit, results[place].favouring(favour).value_bytes)
        for (place, favour), limit in limits.items()
    }
    runs: dict[tuple[int, str], Run] = {}
    for _ in range(LONGER_FILES_MOST):
        asked = [which for which in lengths for _ in range(results[which[0]].cell.repetitions)]
        if not asked:
            break
        found: dict[tuple[int, str], list[Run]] = {}
        # What is longer than the limit has no place in the other policies' room either.
        arguments = [f"bytes:{lengths[which]}:{which[1]}:{limits[which]}" for which in asked]
        for which, came_to in zip(asked, run(arguments), strict=True):
            found.setdefault(which, []).append(came_to)
        runs |= {which: _middle(same) for which, same in found.items()}
        lengths = {
            which: longer_file(limits[which], length, runs[which].value_bytes)
            for which, length in lengths.items()
            if runs[which].value_bytes > VALUES_MOST * limits[which]
        }
    return [
        replace(result, beside_metadata={f: runs[place, f] for f in FAVOURS if (place, f) in runs})
        for place, result in enumerate(results)
    ]


def longer_file(limit: int, length: int, value_bytes: int) -> int:
    """Return how long a file is in which values take the limit, from what they took in another."""
    return length * limit // max(1, value_bytes)


def gap_of_the_best(result: Result, run: Run, results: list[Result], in_bytes: bool) -> float:
    """Return the gap that the best policy has itself, in the room which a replay had for values.

    Hit ratios are interpolated between the cells of the trace over the logarithm of the size, and
    below the smallest go on as they do above it.
    """

    def of(cell: Cell) -> float:
        return cell.best_bytes if in_bytes else cell.best

    cells = sorted(
        (other.cell for other in results if other.cell.trace == result.cell.trace),
        key=lambda cell: cell.limit,
    )
    room = min(max(1, run.value_bytes), result.cell.limit)
    pairs = list(itertools.pairwise(cells))
    if not pairs:
        return 0.0
    below, above = next((pair for pair in pairs if pair[1].limit >= room), pairs[-1])
    slope = (of(above) - of(below)) / math.log(above.limit / below.limit)
    return max(0.0, of(result.cell) - of(below) - slope * math.log(room / below.limit))


def metadata_rows(results: list[Result]) -> tuple[list[str], Rows]:
    """Return heading and rows of the gaps that metadata alone would cause."""
    heading = ["cells", "Tuckbox", "the best policy in the space that metadata leaves"]
    sized = [result for result in results if result.cell.sized]
    large = [r for r in results if not r.cell.sized and r.cell.limit >= PAYLOAD_ENTRIES_LEAST]
    rows = []
    for favour in FAVOURS:
        for of, in_bytes in (("objects", False), ("bytes", True)):
            runs = [(r, r.favouring(favour)) for r in sized]
            found = mean_and_worst(r.byte_gap(run) if in_bytes else r.gap(run) for r, run in runs)
            best = mean_and_worst(gap_of_the_best(r, run, results, in_bytes) for r, run in runs)
            rows.append([f"many sizes, {favour}: {of}", found, best])
    for percent in PAYLOAD_PERCENTS:
        runs = [(r, r.with_payload(percent)) for r in large]
        found = mean_and_worst(r.gap(run) for r, run in runs)
        best = mean_and_worst(gap_of_the_best(r, run, results, False) for r, run in runs)
        rows.append([f"one size, in {percent} % of the bytes", found, best])
    return heading, rows


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


def known_columns(cell: Cell) -> list[str]:
    """Return what the known policies hit in a cell."""
    return [f"{cell.known[name]:.2f}" if name in cell.known else UNKNOWN for name in POLICIES]


def unit_rows(results: list[Result]) -> tuple[list[str], Rows]:
    """Return heading and rows of the unit-size cells."""
    heading = ["trace", "entries", *POLICIES, "best", "OPT"]
    heading += [f"Tuckbox, {shards} shard{'s'[: shards > 1]}" for shards in SHARDS] + ["gap"]
    rows = []
    for result in results:
        cell = result.cell
        row = [cell.trace, f"{cell.limit:,}", *known_columns(cell)]
        row += [f"{cell.best:.2f} {cell.best_policy}", f"{cell.optimum:.2f}"]
        row += [f"{result.with_shards(shards).hit_ratio:.2f}" for shards in SHARDS]
        rows.append([*row, f"{result.gap(result.with_shards(1)):.2f}"])
    row = [SUMMARY, ""] + [known_gaps(results, name) for name in POLICIES] + ["", ""]
    row += [mean_and_worst(r.gap(r.with_shards(shards)) for r in results) for shards in SHARDS]
    return heading, [*rows, [*row, ""]]


def behind_rows(results: list[Result]) -> tuple[list[str], Rows]:
    """Return heading and rows of the unit-size cells with the greatest gaps."""
    found = sorted(results, key=lambda r: -r.gap(r.with_shards(1)))
    rows = [
        [
            result.cell.trace,
            f"{result.cell.limit:,}",
            f"{result.cell.best:.2f} {result.cell.best_policy}",
            f"{result.with_shards(1).hit_ratio:.2f}",
            f"{result.gap(result.with_shards(1)):.2f}",
        ]
        for result in found
        if result.gap(result.with_shards(1)) > GAP_SHOWN
    ]
    return ["trace", "entries", "best", "Tuckbox", "gap"], rows


def payload_rows(results: list[Result]) -> tuple[list[str], Rows]:
    """Return heading and rows of the unit-size cells in files of a number of bytes."""
    heading = ["trace", "entries", "best"]
    heading += [f"Tuckbox, {percent} %" for percent in PAYLOAD_PERCENTS]
    results = [result for result in results if result.cell.limit >= PAYLOAD_ENTRIES_LEAST]
    rows = []
    for result in results:
        cell = result.cell
        row = [cell.trace, f"{cell.limit:,}", f"{cell.best:.2f}"]
        rows.append(
            row + [f"{result.with_payload(percent).hit_ratio:.2f}" for percent in PAYLOAD_PERCENTS]
        )
    row = [SUMMARY, "", ""]
    row += [
        mean_and_worst(r.gap(r.with_payload(percent)) for r in results)
        for percent in PAYLOAD_PERCENTS
    ]
    return heading, [*rows, row]


def sized_rows(results: list[Result], in_bytes: bool) -> tuple[list[str], Rows]:
    """Return heading and rows of the sized cells: objects that were hit, or bytes."""
    names = [f"Tuckbox, {favour}" for favour in FAVOURS]
    names += [f"{name}, metadata extra" for name in names]
    heading = ["trace", "bytes"] + ([] if in_bytes else [*POLICIES])
    heading += ["best"] + ([] if in_bytes else ["OPT"]) + names
    rows = []
    for result in results:
        cell = result.cell
        row = [cell.trace, f"{cell.limit:,}"]
        if in_bytes:
            row += [f"{cell.best_bytes:.2f}"]
        else:
            row += known_columns(cell)
            row += [f"{cell.best:.2f} {cell.best_policy}", f"{cell.optimum:.2f}"]
        row += [
            f"{run.byte_hit_ratio if in_bytes else run.hit_ratio:.2f}" for run in sized_runs(result)
        ]
        rows.append(row)
    row = [SUMMARY, ""]
    row += [""] if in_bytes else [*(known_gaps(results, name) for name in POLICIES), "", ""]
    for index in range(len(names)):
        runs = [(result, sized_runs(result)[index]) for result in results]
        row.append(mean_and_worst(r.byte_gap(run) if in_bytes else r.gap(run) for r, run in runs))
    return heading, [*rows, row]


def sized_runs(result: Result) -> list[Run]:
    """Return the replays of a sized cell, in the order of the table."""
    return [result.favouring(favour) for favour in FAVOURS] + [
        result.beside_metadata[favour] for favour in FAVOURS
    ]


def goal_rows(unit: list[Result], sized: list[Result]) -> tuple[list[str], Rows]:
    """Return heading and rows of the goals: what was asked, what came out, and the verdict."""
    rows: Rows = []

    def add(goal: str, asked: str, value: str, is_met: bool) -> None:
        rows.append([goal, asked, value, "met" if is_met else "not met"])

    def judge(goal: str, what: str, gaps: list[float], mean: float, worst: float) -> None:
        asked = f"{what}: mean gap at most {mean}, worst at most {worst}"
        found = statistics.fmean(gaps)
        add(goal, asked, mean_and_worst(gaps), found <= mean and max(gaps) <= worst)

    by_shards = {n: [r.gap(r.with_shards(n)) for r in unit] for n in SHARDS}
    one = statistics.fmean(by_shards[1])
    judge("H1", "one size, one shard", by_shards[1], 0.6, 4)
    for shards in SHARDS[1:]:
        found = statistics.fmean(by_shards[shards])
        asked = f"with {shards} shards, mean gap within 0.2 of that"
        add("H1", asked, f"{found:.2f}", found <= one + 0.2)
    for favour, asked_gap, of in (
        ("balanced", 2.8, "objects"),
        ("balanced", 1.0, "bytes"),
        ("hits", 1.5, "objects"),
        ("bytes", 0.5, "bytes"),
    ):
        asked = f"{favour}: mean gap in {of} at most {asked_gap}"

        def mean(runs: Iterable[tuple[Result, Run]], of: str = of) -> float:
            return statistics.fmean(
                r.byte_gap(run) if of == "bytes" else r.gap(run) for r, run in runs
            )

        charged_alike = mean((r, r.beside_metadata[favour]) for r in sized)
        add("H2", f"many sizes, {asked}", f"{charged_alike:.2f}", charged_alike <= asked_gap)
        within = mean((r, r.favouring(favour)) for r in sized)
        told = f"the same, metadata within the limit: {favour}: {of}"
        rows.append(["", told, f"{within:.2f}", ""])
    large = [r for r in unit if r.cell.limit >= PAYLOAD_ENTRIES_LEAST]
    for percent in PAYLOAD_PERCENTS:
        gaps_there = [r.gap(r.with_payload(percent)) for r in large]
        what = f"one size, in {percent} % of the bytes"
        if percent == PAYLOAD_JUDGED:
            judge("H3", what, gaps_there, 0.6, 4)
        else:
            rows.append(["", what, mean_and_worst(gaps_there), ""])
    return ["goal", "asked, in points of hit ratio", "value", "verdict"], rows


def as_markdown(heading: list[str], rows: Rows) -> str:
    """Return a table."""
    lines = ["| " + " | ".join(heading) + " |", "|:--" + "|--:" * (len(heading) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def show(console: Console, title: str, heading: list[str], rows: Rows) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left")
    for index, name in enumerate(heading):
        table.add_column(name, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*row, end_section=len(rows) > 1 and row is rows[-2])
    console.print(table)


@dataclass(frozen=True)
class Section:
    """A table with its heading and what it says."""

    title: str
    text: str
    heading: list[str]
    rows: Rows

    @property
    def has_cells(self) -> bool:
        """Whether the table has a row for each cell, and a summary at its end."""
        return bool(self.rows) and self.rows[-1][0] == SUMMARY

    def summary(self) -> tuple[list[str], Rows]:
        """Return heading and rows for the document: of a table with cells, its summary alone."""
        if not self.has_cells:
            return self.heading, self.rows
        policies = zip(self.heading[1:], self.rows[-1][1:], strict=True)
        return ["policy", SUMMARY], [[name, gaps] for name, gaps in policies if gaps]


def sections_of(results: list[Result], streams: tuple[list[str], Rows] | None) -> list[Section]:
    """Return the tables of what was measured."""
    unit = [result for result in results if not result.cell.sized]
    sized = [result for result in results if result.cell.sized]
    found = []
    if unit and sized:
        found.append(
            Section(
                "The goals",
                "The other policies are charged for entries only, or for values only where sizes "
                "vary. H1 and H2 charge Tuckbox in the same way; H3 charges it for the whole file, "
                'metadata included. Rows without a verdict have no goal; "What metadata costs" '
                "shows what the best policies would reach there.",
                *goal_rows(unit, sized),
            )
        )
    if unit:
        found.append(
            Section(
                "Entries of one size",
                f"{len(unit)} cells, limited by the number of entries. Cells too small for 4 or 16 "
                "shards of 64 entries have fewer shards. Cells of fewer than "
                f"{SMALL_BELOW_ENTRIES:,} entries, or of many sizes below "
                f"{SMALL_BELOW_BYTES / 1e6:.0f} MB, show the median of {SMALL_REPETITIONS} replays "
                "by objects hit.",
                *unit_rows(unit),
            )
        )
        found.append(
            Section(f"Cells with a gap above {GAP_SHOWN:.0f} point", "", *behind_rows(unit))
        )
    if any(result.cell.limit >= PAYLOAD_ENTRIES_LEAST for result in unit):
        found.append(
            Section(
                "Entries of one size in real memory",
                "The same cells with keys of 36 bytes and values of 160. The only limit is the "
                "file length, given as a percentage of the keys and values: 100 % leaves no space "
                "for metadata. Tokyo Cabinet, the leanest peer, takes 119 % but does not evict. "
                "Memcached is the leanest peer that evicts: its items take 130 %, and 155 % with "
                "slab waste. The best policy is charged only for the number of entries.",
                *payload_rows(unit),
            )
        )
    if sized:
        found.append(
            Section(
                "Entries of many sizes: objects hit",
                "The limit is the length of the whole file, metadata included. The other policies "
                'are charged for values only. In the "metadata extra" columns, the file is longer '
                "by everything that is not a value, and refuses values that are longer than the "
                "limit, as the other policies do.",
                *sized_rows(sized, in_bytes=False),
            )
        )
        found.append(
            Section("Entries of many sizes: bytes hit", "", *sized_rows(sized, in_bytes=True))
        )
    if unit and sized:
        found.append(
            Section(
                "What metadata costs",
                "Mean and worst gap of Tuckbox, and of the best policy of each cell in the space "
                "that Tuckbox leaves for values. The latter is interpolated between the cells of "
                "the trace over the logarithm of the size, and extrapolated below the smallest. No "
                "eviction policy can close it.",
                *metadata_rows(results),
            )
        )
    if streams is not None:
        found.append(
            Section(
                "Synthetic streams",
                "Streams with overwrites, deletes, expiries and other patterns that the recorded "
                "traces lack (`benches/made_streams.py`). LRU and S3-FIFO replay the same "
                "requests.",
                *streams,
            )
        )
    return found


def write_cells(sections: list[Section]) -> None:
    """Write a line for each cell and policy: the table, trace, limit, policy and hit ratio."""
    with CELLS.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["table", "trace", "limit", "policy", "hit_ratio_percent"])
        for section in sections:
            if section.has_cells:
                for trace, limit, *values in section.rows[:-1]:
                    cell = [section.title, trace, limit.replace(",", "")]
                    for policy, value in zip(section.heading[2:], values, strict=True):
                        # The best policy's value has its name behind it.
                        number, _, name = value.partition(" ")
                        if number != UNKNOWN:
                            lines.writerow(
                                [*cell, f"{policy} ({name})" if name else policy, number]
                            )


def write_document(results: list[Result], sections: list[Section]) -> None:
    """Write the summaries to the document, all cells to the table, everything to the record."""
    parts = [
        """# Hit ratios

Generated by `make hit-ratio`, which replays traces through the engine. [eviction.md](eviction.md)
describes the policy and its weaknesses.

Hit ratios are in per cent. A gap is how many points the best online policy is ahead of Tuckbox, 0
if it is not. The figures of the other policies come with the traces. A cell is a trace at one cache
size: [hit-ratio.csv](hit-ratio.csv) has them all."""
    ]
    for section in sections:
        text = "\n".join(textwrap.wrap(section.text, 100))
        table = as_markdown(*section.summary())
        parts.append("\n\n".join(part for part in (f"## {section.title}", text, table) if part))
    DOCUMENT.write_text("\n\n".join(parts) + "\n")
    write_cells(sections)
    RECORD.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")


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
    is_whole = not given.only and not given.units
    streams = made_streams.measure(given.program) if is_whole else None
    sections = sections_of(results, streams)
    for section in sections:
        show(console, section.title, section.heading, section.rows)
    if is_whole:
        write_document(results, sections)
        written = ", ".join(str(path.relative_to(ROOT)) for path in (DOCUMENT, CELLS, RECORD))
        console.print(f"written: {written}")


if __name__ == "__main__":
    main()
