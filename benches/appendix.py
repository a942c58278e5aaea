"""The appendix of the page: the verdicts, and what each row measures.

Owns its tables. Must not judge, nor touch a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benches import words
from benches.counts import Counts
from benches.record import Record, Run
from benches.results import Result, Verdict, results_of, verdict_of
from benches.row import Row
from benches.rows import ROWS
from rig.kept import wrapped

# In the order of the page. None is for rows without a run.
_SAID: dict[Verdict | None, str] = {
    "not met": "**not met**",
    "undecided": "**undecided**",
    "limit shown": "limit shown",
    "met": "met",
    "no goal": "no goal",
    None: "not measured",
}
# Verdicts that are not repeated at each figure.
_QUIET = frozenset({"met", "no goal"})
# A run is disturbed if other programs had more than this share of the machine's time.
_DISTURBED_SHARE = 0.05


def appendix(record: Record, counts: Counts | None) -> str:
    """Return the appendix. `counts` are the kept instruction counts, None without any."""
    rows = [(row, record.rows.get(row.id, [])) for row in ROWS]
    parts = [
        _verdicts(record),
        _not_met(record),
        _not_measured(rows),
        _conditions(record),
        _instructions(counts) if counts else "",
        _machines(rows),
    ]
    return "\n\n".join(filter(None, parts))


def _verdicts(record: Record) -> str:
    found: dict[Verdict | None, list[str]] = {}
    for row in ROWS:
        runs = record.rows.get(row.id)
        name = f"{row.id} ({row.title})"
        found.setdefault(verdict_of(_results(runs)) if runs else None, []).append(name)
    lines = ["### Verdicts", "", "| verdict | rows |", "|:--|:--|"]
    lines += [
        words.cells([said, "; ".join(found[verdict])])
        for verdict, said in _SAID.items()
        if verdict in found and verdict != "no goal"
    ]
    return "\n".join(lines)


def _not_met(record: Record) -> str:
    """Return the goals that are not met or undecided."""
    lines = []
    for row in ROWS:
        for result in _results(record.rows.get(row.id, [])):
            if result.verdict in _QUIET:
                continue
            values = ", ".join(words.value(one) for one in result.figures)
            name = words.full_name(result.latest)
            lines.append(words.cells([row.id, name, values, _judged(result)]))
    heads = ["| row | figure | value, by run | goal |", "|:--|:--|--:|:--|"]
    table = [*heads, *lines] if lines else ["None."]
    return "\n".join(["### Goals that are not met, or undecided", "", *table])


def _not_measured(rows: Sequence[tuple[Row, Sequence[Run]]]) -> str:
    found = dict.fromkeys(
        f"- {row.id}: {phrase}" for row, runs in rows for run in runs for phrase in run.not_measured
    )
    return "\n".join(["### Not measured", "", *found]) if found else ""


def _conditions(record: Record) -> str:
    """Return what each row measures and how often it ran, and where its figures are."""
    lines = ["| row | measures | runs |", "|:--|:--|:--|"]
    for row in ROWS:
        runs = record.rows.get(row.id, [])
        text = f": {row.text}" if row.text else ""
        remarks = "; ".join(_remark(run) for run in runs) or "not measured"
        lines.append(words.cells([row.id, f"{row.title}{text}", remarks]))
    introduction = wrapped(
        "[performance.csv](performance.csv) has every figure of every run: the peers, the interval "
        "and its coverage, the stripped program, the goal and the verdict."
    )
    return "\n".join(["### Rows", "", introduction, "", *lines])


def _judged(result: Result) -> str:
    """Return the goal, and the verdict if the goal is not met; nothing without a goal."""
    goal = words.bound(result.goal, result.latest)
    return goal if result.verdict in _QUIET else f"{goal}, {_SAID[result.verdict]}"


def _rounds(run: Run) -> int | None:
    """Return how many rounds the figures of a run have, None if they differ.

    A figure of a single round has no interval, which says so.
    """
    counts = {len(figure.ours) for figure in run.figures}
    several = counts - {1} or counts
    return several.pop() if len(several) == 1 else None


def _remark(run: Run) -> str:
    changed = " with changes" if run.sources.changes else ""
    said = f"{run.date[:10]}, commit {run.sources.commit}{changed}"
    rounds = _rounds(run)
    if rounds:
        said += f", {rounds} round{'s' if rounds > 1 else ''}"
    return f"{said}, {run.machine.cpu}{_warnings(run)}"


def _warnings(run: Run) -> str:
    said = "; **the quick form: do not quote it**" if run.is_quick else ""
    others = run.disturbance.others + run.disturbance.stolen
    if others > _DISTURBED_SHARE:
        said += f"; **disturbed**: other programs had {others:.0%} of the machine's time"
    return said


def _instructions(counts: Counts) -> str:
    text = wrapped(
        "One operation with a 36-byte key and a 160-byte value, including the loop, counted by "
        "callgrind. Other programs do not affect the counts. `make instructions` counts again. "
        f"{counts.valgrind}, Python {counts.python}, {counts.rustc.partition(' (')[0]}."
    )
    lines = [
        "### Instructions",
        "",
        text,
        "",
        "| operation | instructions |",
        "|:--|--:|",
        *(f"| {name} | {count:,.0f} |" for name, count in counts.instructions.items()),
    ]
    return "\n".join(lines)


def _machines(rows: Sequence[tuple[Row, Sequence[Run]]]) -> str:
    sheets = dict.fromkeys(
        f"{run.machine.cpu}, {run.machine.cores} cores, "
        f"{run.machine.memory_bytes / 2**30:.0f} GiB, {run.machine.kernel}, "
        f"{run.machine.system}, {run.machine.python}; "
        + ", ".join(f"{name} on {kind}" for name, kind in run.files.items())
        for _, runs in rows
        for run in runs
    )
    lines = [wrapped(f"- {sheet}.", indent="  ") for sheet in sheets]
    return "\n".join(["### Machine", "", *lines]) if sheets else ""


def _results(runs: Iterable[Run] | None) -> list[Result]:
    return results_of(run.figures for run in runs or [])
