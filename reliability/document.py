"""Keeps the figures of `docs/reliability.md` what the records say.

Owns the generated part of the page, between two marks. Must not run anything, nor touch the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from reliability import record as records
from reliability.catalogue import Family
from reliability.peers import comparing, tables
from reliability.record import Record
from rig.kept import with_part
from rig.sources import ROOT

PAGE = ROOT / "docs" / "reliability.md"

BEGIN = "<!-- figures: written by `python -m reliability document` from reliability/records -->"
END = "<!-- end of the figures -->"


def generate(page: str, families: Sequence[Family], folder: Path) -> str:
    """Return the page with the figures of the records in `folder`. Raises PageError."""
    kept = {one.id: records.read(folder, one.id) for one in families}
    parts = [
        _figures(families, kept),
        _machines([one for one in kept.values() if one is not None]),
        _peers(folder),
        _demands(families),
        _controls(families),
    ]
    return with_part(page, BEGIN, END, "\n\n".join(filter(None, parts)))


def _figures(families: Sequence[Family], kept: dict[str, Record | None]) -> str:
    rows = [
        "## Figures",
        "",
        "| family | what was tried | trials N | failures | 3/N | took | commit |",
        "|:--|:--|--:|--:|--:|--:|:--|",
    ]
    for family in families:
        rows.append(_row(family, kept[family.id]))
    return "\n".join(rows)


def _row(family: Family, record: Record | None) -> str:
    name = f"| {family.id} | {family.name} "
    if record is None:
        return f"{name}| no record | | | | |"
    verdict = f"{len(record.failures)}"
    if record.verdict == "not run":
        verdict = "not run here"
    shows_bound = record.bound is not None and not family.exhaustive
    bound = f"{record.bound:.1e}" if shows_bound else ""
    changed = " with changes" if record.sources.changes else ""
    return (
        f"{name}| {record.trials:,} {record.trial} | {verdict} | {bound} | {_took(record.seconds)} "
        f"| {record.sources.commit}{changed}, {record.date[:10]}, {record.lane} |"
    )


def _peers(folder: Path) -> str:
    record = comparing.read(folder / comparing.PATH.name)
    return tables.section(record) if record else ""


def _took(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _machines(kept: Sequence[Record]) -> str:
    sheets = dict.fromkeys(
        f"{one.machine.cpu}, {one.machine.cores} cores, "
        f"{one.machine.memory_bytes / 2**30:.0f} GiB, {one.machine.kernel}, "
        f"{one.machine.system}, {one.machine.python}; "
        + ", ".join(f"{name} on {kind}" for name, kind in one.machine.files.items())
        for one in kept
    )
    return "\n".join(f"Run on: {sheet}." for sheet in sheets)


def _demands(families: Iterable[Family]) -> str:
    parts = ["## What each family promises and demands"]
    for one in families:
        parts.append(
            f"**{one.id} {one.name}.** {one.promise} *Demanded:* {one.demanded} "
            f"*Not covered:* {one.not_covered}"
        )
    return "\n\n".join(parts)


def _controls(families: Iterable[Family]) -> str:
    rows = [
        "## What each family was shown to catch",
        "",
        "| family | broken on purpose | caught in |",
        "|:--|:--|:--|",
    ]
    for family in families:
        for one in family.controls:
            rows.append(f"| {family.id} | {one.breaks} | `{one.file}`: `{one.name}` |")
    return "\n".join(rows)
