"""The figures of a run as CSV, one line for each operation of each row.

Owns the columns. Must not compute a figure: they are the page's. Times are in nanoseconds, sizes
in bytes, shares from 0 to 1; an empty field means that there is no figure.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from lab.report.layouts.limits import why_beyond
from lab.report.layouts.rows import Operation, operations
from lab.report.reading import replays_of, source_of, suites_of
from lab.runner.catalogue import Part
from lab.runner.records import read
from lab.runner.results import ReplayCell, capacity_text
from lab.runner.summary import Figure, Summary

Field = str | int | float | None

COLUMNS = (
    "suite",
    "part",
    "variant",
    "contestant",
    "placement",
    "operation",
    "outcome",
    "reason",
    "rounds",
    "rate",
    "rate_least",
    "rate_greatest",
    "rate_interval_low",
    "rate_interval_high",
    "rate_interval_coverage",
    "elapsed_ns",
    "cpu_per_operation_ns",
    "latency_ns_median",
    "latency_ns_p90",
    "latency_ns_p99",
    "latency_ns_p999",
    "latency_ns_max",
    "hit_ratio",
    "wrong",
    "stale",
    "lost",
    "refused",
    "client_bytes",
    "server_bytes",
    "store_bytes",
    "version",
    "server_version",
    "measured_as",
    "bytes_max",
    "bytes_told",
    "bytes_held",
    "equal",
    "miss_ratio",
    "source",
)


def write(records: Path, output: Path) -> None:
    """Write the figures of a file of records to `output`. Raises RecordsError and OSError."""
    run = read(records)
    with output.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for suite in suites_of(run):
            for row in suite.summaries:
                part = next(one for one in suite.suite.parts if one.name == row.part)
                writer.writerows(_lines(part, row))
        for _, cells in replays_of(run):
            writer.writerows(map(_replayed, cells))


def _lines(part: Part, row: Summary) -> Iterator[dict[str, Field]]:
    named: dict[str, Field] = {
        "suite": row.suite,
        "part": row.part,
        "variant": row.variant,
        "contestant": row.contestant.name,
        "placement": row.placement,
        "outcome": row.outcome,
        "reason": row.reason,
        "version": row.version,
        "server_version": row.server_version,
        "source": source_of(row.cells),
    }
    if not row.measured:
        yield named
    if row.held is not None:
        named |= {
            "measured_as": row.held.weighed,
            "bytes_max": row.held.bytes_max,
            "bytes_told": row.held.told,
            "bytes_held": row.held.bytes or None,
            "equal": not why_beyond(part, row),
        }
    for operation in operations(row):
        yield named | _figures(row, operation)


def _figures(row: Summary, operation: Operation) -> dict[str, Field]:
    main, action = operation.phase.main, operation.action
    found: dict[str, Field] = {
        "operation": operation.name,
        "rounds": row.rounds,
        "hit_ratio": main.hit_ratio,
        "wrong": row.verdict.wrong,
        "stale": row.verdict.stale,
        "lost": row.verdict.lost,
        "refused": main.action("set").miss,
        "client_bytes": row.resources.client_bytes_full,
        "server_bytes": row.resources.server_bytes_full or None,
        "store_bytes": row.resources.store_bytes,
    }
    if operation.rated:
        found |= _rated(main.rate)
        found |= {"elapsed_ns": main.elapsed_ns.median, "cpu_per_operation_ns": main.cpu_ns}
    if action is not None:
        found |= {
            "latency_ns_median": action.median_ns,
            "latency_ns_p90": action.p90_ns,
            "latency_ns_p99": action.p99_ns,
            "latency_ns_p999": action.p999_ns,
            "latency_ns_max": action.max_ns,
        }
    return found


def _rated(rate: Figure) -> dict[str, Field]:
    found: dict[str, Field] = {
        "rate": rate.median,
        "rate_least": rate.least,
        "rate_greatest": rate.greatest,
    }
    if rate.interval is not None:
        found |= {
            "rate_interval_low": rate.interval.low,
            "rate_interval_high": rate.interval.high,
            "rate_interval_coverage": rate.interval.coverage,
        }
    return found


def _replayed(cell: ReplayCell) -> dict[str, Field]:
    found: dict[str, Field] = {
        "suite": cell.suite,
        "variant": f"capacity {capacity_text(cell.capacity)}",
        "contestant": cell.contestant,
        "outcome": cell.outcome,
        "reason": cell.reason,
        "wrong": cell.verdict.wrong,
        "version": cell.version,
        "server_version": cell.server_version,
        "measured_as": cell.weighed,
        "source": cell.source.text,
    }
    if cell.outcome == "measured":
        found |= {
            "rounds": 1,
            "hit_ratio": cell.hit_ratio,
            "refused": cell.best.refused,
            "store_bytes": cell.best.bytes_peak,
            "bytes_max": cell.bytes_max,
            "bytes_told": cell.best.limit,
            "bytes_held": cell.best.bytes_measured,
            "miss_ratio": 1 - cell.hit_ratio,
            "equal": cell.equal,
        }
    return found
