"""The comparison as tables, at the terminal and on the page.

Owns the columns and their words. Must not judge: it says what was counted.
"""

from __future__ import annotations

from rich.table import Table

from reliability.peers.comparing import PeersRecord
from reliability.peers.found import Found

TITLES = {
    "T-R1": "Killed while working: four processes, one killed every few milliseconds",
    "T-R6": "Stopped while writing: another process reads and writes meanwhile",
    "T-T1": "Cut, zeroed in part, removed, replaced: the data files, under four live processes",
    "T-D1": "Disk full: before the cache is made, and while it grows",
    "T-C1": "Damaged: a byte or a page changed, and a pickle planted by who may write the files",
}

COLUMNS = (
    "trials",
    "processes died",
    "hung",
    "wrong values",
    "entries lost",
    "unusable afterwards",
    "besides",
)


def cells(found: Found) -> list[str]:
    """Return what was counted, a text for each of the columns."""
    if found.not_run:
        return ["not run", *[""] * (len(COLUMNS) - 2), found.not_run]
    died = ", ".join(f"{count} {signal}" for signal, count in found.died.items())
    lost = f"{found.lost:,}" if found.trial in ("kills", "stops", "full disks") else ""
    return [
        f"{found.trials:,} {found.trial}",
        died or "0",
        f"{found.hung}",
        f"{found.wrong:,}",
        lost,
        f"{found.unusable}" if found.trial != "stops" else "",
        "; ".join(_besides(found)),
    ]


def _besides(found: Found) -> list[str]:
    parts = [
        f"{what} held up at {count} stops until the process went on"
        for what, count in found.held_up.items()
        if count
    ]
    if found.code_ran is not None:
        parts.append("**ran the planted pickle**" if found.code_ran else "ran no planted pickle")
    parts += [f"{count:,} {what}" for what, count in found.figures.items() if count]
    if found.errors:
        parts.append("errors: " + ", ".join(found.errors))
    return parts


def tables(record: PeersRecord) -> list[Table]:
    """Return a table for each family, for the terminal."""
    made = []
    for family in dict.fromkeys(row.family for row in record.rows):
        table = Table(title=f"{family}  {TITLES[family]}", title_justify="left")
        table.add_column("system", overflow="fold")
        for column in COLUMNS:
            is_text = column == "besides"
            table.add_column(column, justify="left" if is_text else "right", overflow="fold")
        for row in record.rows:
            if row.family == family:
                texts = [text.replace("**", "") for text in cells(row.found)]
                table.add_row(row.peer, *texts, style="" if row.found.is_clean else "yellow")
        made.append(table)
    return made


def section(record: PeersRecord) -> str:
    """Return the section of the page."""
    changed = " with changes" if record.sources.changes else ""
    parts = [
        "## Beside others",
        "`make torture-peers` puts the same oracle and lite forms of five families on what people "
        f"use today. Files on {record.files}, {record.date[:10]}, commit {record.sources.commit}"
        f"{changed}, seed {record.seed}. These systems do not all promise what is tried here; the "
        "table says what happens, not what was promised. *Unusable* is a cache that a new process "
        "cannot store in and read from until somebody removes or mends its files.",
        "\n".join(
            f"- **{name}** {record.versions[name]}: {settings}."
            for name, settings in record.settings.items()
        ),
    ]
    for family in dict.fromkeys(row.family for row in record.rows):
        lines = [
            f"**{family}. {TITLES[family]}.**",
            "",
            f"| system | {' | '.join(COLUMNS)} |",
            f"|:--|{'--:|' * (len(COLUMNS) - 1)}:--|",
        ]
        lines += [
            f"| {row.peer} | {' | '.join(cells(row.found))} |"
            for row in record.rows
            if row.family == family
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
