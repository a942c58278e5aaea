"""The comparison as tables, in the terminal and on the page.

Owns the columns and their texts. Must not judge: it shows what was counted.
"""

from __future__ import annotations

from rich.table import Table

from reliability.peers.comparing import PeersRecord
from reliability.peers.found import Found
from rig.kept import wrapped

TITLES = {
    "T-R1": "Killed under load: four processes, one killed every few milliseconds",
    "T-R6": "Stopped while writing: another process reads and writes meanwhile",
    "T-T1": "Data files cut, zeroed in part, removed or replaced, under four live processes",
    "T-D1": "Disk full: before the cache is created, and while it grows",
    "T-C1": "Data files damaged in a byte or a page, or with a planted pickle",
}

COLUMNS = (
    "trials",
    "processes died",
    "hung",
    "wrong values",
    "entries lost",
    "unusable afterwards",
    "notes",
)

# How figures are shown whose key is no good text.
_LABELS = {
    "processes that could not open it": "processes that could not open the cache",
    "writes that were refused in time": "writes refused in time",
    "workers that went on raising errors, though they opened it again": "workers still "
    "failing after reopening",
    "entries stored while it was full": "stored",
    "entries refused while it was full": "refused",
    "entries evicted to make room, by its own count": "evicted, by its own count",
    "fewest of the entries there, where it opened": "fewest entries found in a file that opened",
}


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
        "; ".join(_notes(found)),
    ]


def _notes(found: Found) -> list[str]:
    parts = [
        f"{what} blocked at {count} stops until the process continued"
        for what, count in found.held_up.items()
        if count
    ]
    if found.code_ran is not None:
        ran = "**ran the planted pickle**"
        parts.append(ran if found.code_ran else "did not run the planted pickle")
    parts += [
        f"{_LABELS.get(what, what)}: {count:,}" for what, count in found.figures.items() if count
    ]
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
            is_text = column == "notes"
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
        "## Compared with other caches",
        wrapped(
            "`make torture-peers` runs short forms of five families on other systems, with the "
            "same oracle. These systems do not promise everything that is tried here: the tables "
            "say what happened. A cache is *unusable* if a new process cannot store and read until "
            f"somebody removes or repairs its files. Files on {record.files}, {record.date[:10]}, "
            f"commit {record.sources.commit}{changed}, seed {record.seed}."
        ),
        "\n".join(
            wrapped(f"- **{name}** {record.versions[name]}: {settings}.", indent="  ")
            for name, settings in record.settings.items()
        ),
    ]
    for family in dict.fromkeys(row.family for row in record.rows):
        rows = [(row.peer, cells(row.found)) for row in record.rows if row.family == family]
        # A column that says nothing of any system is left out.
        shown = [
            number for number in range(len(COLUMNS)) if any(texts[number] for _, texts in rows)
        ]
        lines = [
            f"**{family}. {TITLES[family]}.**",
            "",
            f"| system | {' | '.join(COLUMNS[number] for number in shown)} |",
            f"|:--|{''.join(':--|' if COLUMNS[number] == 'notes' else '--:|' for number in shown)}",
        ]
        lines += [
            f"| {peer} | {' | '.join(texts[number] for number in shown)} |" for peer, texts in rows
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
