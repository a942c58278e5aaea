"""Who kept within the limits of a suite, by what was measured, and why others did not.

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
    """Return why a row is no equal of those that keep within the limits; empty for one that is."""
    contestant, held = row.contestant, row.held
    if not contestant.stores:
        return ""
    if _entries_binding(part, row) and "entries" not in contestant.counts:
        return "counts no entries: it may hold all of them"
    if held is None:
        return ""
    if not held.bytes:
        return f"not measured: {held.reason}" if held.binds else ""
    if not exceeds(held.bytes, held.bytes_max):
        return ""
    if contestant.sizing == "stock":
        return "runs as it comes: is told no limit"
    if "bytes" not in contestant.counts:
        return "takes no limit in bytes"
    return held.reason or "holds more than the limit that it is told"


def bytes_held(row: Summary) -> Cell:
    """Return the bytes that a store held; nothing where there is no limit."""
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
    # Then each worker has a store of its own.
    one_of = part.processes > 1 and not row.contestant.is_shared
    of = f" of one of {part.processes} workers" if one_of else ""
    return Cell(MEASURED_AS[row.held.weighed] + of)


def told(row: Summary) -> Cell:
    """Return the limit that a contestant was told, where it is not the suite's."""
    held = row.held
    if held is None or held.told == held.bytes_max:
        return Cell("")
    return Cell(size(held.told), held.told)


def notes(part: Part, rows: Sequence[Summary]) -> Iterator[str]:
    """Yield what there is to say of the limits of a part."""
    measured = [row for row in rows if row.held is not None]
    helds = [row.held for row in measured if row.held is not None]
    if not helds:
        return
    limits = ", ".join(size(count) for count in sorted({one.bytes_max for one in helds}))
    entries = {count for row in measured if (count := _entries_binding(part, row))}
    if any(why_beyond(part, row) for row in measured):
        counted = "".join(f", and {count:,} entries" for count in sorted(entries))
        yield (
            f"The limit is {limits}, as measured, with a tolerance of {TOLERANCE:.0%}{counted}. A "
            f"table of its own has the contestants that held more or cannot be limited like that."
        )
    elif any(one.binds for one in helds):
        yield f"Every store kept within {limits}, as measured."
    else:
        most = max(helds, key=lambda one: one.bytes)
        yield f"The limit of {limits} binds nobody: no store held more than {size(most.bytes)}."
    yield (
        "Bytes held: blocks of all files of the store after the last phase, or by how much the "
        "memory of client or server grew when the store was filled."
    )
    unmeasured = distinct([f"{title(row)}: {_reason(row.held)}" for row in measured if _lacks(row)])
    if unmeasured:
        yield f"Bytes not measured: {'; '.join(unmeasured)}."


def _entries_binding(part: Part, row: Summary) -> int:
    """Return how many entries a store may hold, 0 where that is no fewer than there are."""
    variant = next(one for one in part.variants if one.name == row.variant)
    entries = part.limits_of(variant).entries
    return entries if entries < part.keys_of(variant) else 0


def _lacks(row: Summary) -> bool:
    return row.held is not None and not row.held.bytes


def _reason(held: Held | None) -> str:
    return held.reason if held is not None else ""
