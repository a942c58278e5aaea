"""Writes the figures of the records into `docs/explanation/reliability.md`.

Owns the generated part of the page, between two marks. Must not run anything, nor change the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reliability import record as records
from reliability.catalogue import Family
from reliability.peers import comparing, tables
from reliability.record import Record
from rig.kept import with_part, wrapped
from rig.sources import ROOT

PAGE = ROOT / "docs" / "explanation" / "reliability.md"

BEGIN = "<!-- figures: written by `python -m reliability document` from reliability/records -->"
END = "<!-- end of the figures -->"


def generate(page: str, families: Sequence[Family], folder: Path) -> str:
    """Return the page with the figures of the records in `folder`. Raises PageError."""
    kept = {one.id: records.read(folder, one.id) for one in families}
    parts = [
        _figures(families, kept),
        _machines([one for one in kept.values() if one is not None]),
        _peers(folder),
        _families(families),
    ]
    return with_part(page, BEGIN, END, "\n\n".join(filter(None, parts)))


def _figures(families: Sequence[Family], kept: dict[str, Record | None]) -> str:
    rows = [
        "## Figures",
        "",
        "Records of the nightly lane, unless noted.",
        "",
        "| family | what is tried | trials N | failures | 3/N | took | commit |",
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
    lane = "" if record.lane == "nightly" else f", {record.lane} lane"
    trials = f"{record.trials:,} {record.trial.replace(' + ', ', ')}"
    return (
        f"{name}| {trials} | {verdict} | {bound} | {_took(record.seconds)} "
        f"| {record.sources.commit}{changed}, {record.date[:10]}{lane} |"
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
    return "\n".join(wrapped(f"- Run on {sheet}.", indent="  ") for sheet in sheets)


def _families(families: Sequence[Family]) -> str:
    parts = [
        "## The families",
        "*Caught* lists the negative controls. `reliability/families.toml` has all commands, and "
        "the tests of the controls.",
    ]
    for one in families:
        said = f"**{one.id} {one.name}.** {one.promise} *Tested:* {one.demanded}"
        if one.controls:
            breaks = dict.fromkeys(control.breaks for control in one.controls)
            said += f" *Caught:* {'; '.join(breaks)}."
        if one.not_covered:
            said += f" *Not covered:* {one.not_covered}"
        parts.append(said)
    return "\n\n".join(map(wrapped, parts))
