"""Which rows kept within the limits of a suite, by measurement, and why others did not.

Owns that judgement and its words. Must not know which table shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lab.report.layouts.rows import distinct, title
from lab.report.model import Cell
from lab.report.units import size
from lab.runner.calibration import TOLERANCE, exceeds
from lab.runner.catalogue import Part, Weighed
from lab.runner.results import Held
from lab.runner.summary import Summary

MEASURED_AS: Mapping[Weighed, str] = {
    "file": "files",
    "client": "client memory",
    "server": "server memory",
}


def why_beyond(part: Part, row: Summary) -> str:
    """Return why a row does not count as within the limits; empty if it does."""
    contestant, held = row.contestant, row.held
    if not contestant.stores:
        return ""
    if _entries_binding(part, row) and "entries" not in contestant.counts:
        return "cannot limit entries: it may hold all of them"
    if held is None:
        return ""
    if not held.bytes:
        return f"not measured: {held.reason}" if held.binds else ""
    if not exceeds(held.bytes, held.bytes_max):
        return ""
    if contestant.sizing == "stock":
        return "stock configuration: has no limit"
    if "bytes" not in contestant.counts:
        return "cannot limit bytes"
    return held.reason or "uses more than its limit"


def bytes_held(row: Summary) -> Cell:
    """Return the measured bytes of a store; empty without a limit."""
    held = row.held
    if held is None:
        return Cell("")
    if not held.bytes:
        return Cell("not measured", mark="weak")
    return Cell(size(held.bytes), held.bytes)


def measured_as(part: Part, row: Summary) -> Cell:
    """Return how the bytes were measured."""
    if row.held is None:
        return Cell("")
    # Each worker then has its own store.
    one_of = part.processes > 1 and not row.contestant.is_shared
    of = f" of one of {part.processes} workers" if one_of else ""
    return Cell(MEASURED_AS[row.held.weighed] + of)


def told(row: Summary) -> Cell:
    """Return the limit that a contestant was given, where it is not the suite's."""
    held = row.held
    if held is None or held.told == held.bytes_max:
        return Cell("")
    return Cell(size(held.told), held.told)


def notes(part: Part, rows: Sequence[Summary]) -> Iterator[str]:
    """Yield the notes about the limits of a part."""
    measured = [row for row in rows if row.held is not None]
    helds = [row.held for row in measured if row.held is not None]
    if not helds:
        return
    limits = ", ".join(size(count) for count in sorted({one.bytes_max for one in helds}))
    entries = {count for row in measured if (count := _entries_binding(part, row))}
    if any(why_beyond(part, row) for row in measured):
        counted = "".join(f", and {count:,} entries" for count in sorted(entries))
        yield (
            f"The limit is {limits} as measured, with a tolerance of {TOLERANCE:.0%}{counted}. "
            f"Contestants that used more, or that cannot be limited, are in a separate table."
        )
    elif any(one.binds for one in helds):
        yield f"Every store kept within the limit of {limits}, as measured."
    else:
        most = max(helds, key=lambda one: one.bytes)
        yield f"The limit of {limits} has no effect: no store used more than {size(most.bytes)}."
    yield (
        "Bytes used: blocks of all files of the store after the last phase, or the growth of the "
        "client's or server's memory while the store was filled."
    )
    unmeasured = distinct([f"{title(row)}: {_reason(row.held)}" for row in measured if _lacks(row)])
    if unmeasured:
        yield f"Bytes not measured: {'; '.join(unmeasured)}."


def _entries_binding(part: Part, row: Summary) -> int:
    """Return the limit in entries; 0 if all entries fit."""
    variant = next(one for one in part.variants if one.name == row.variant)
    entries = part.limits_of(variant).entries
    return entries if entries < part.keys_of(variant) else 0


def _lacks(row: Summary) -> bool:
    return row.held is not None and not row.held.bytes


def _reason(held: Held | None) -> str:
    return held.reason if held is not None else ""
