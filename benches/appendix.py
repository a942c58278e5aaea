"""The appendix of the page: every goal, and every run of every row.

Owns its tables. Must not judge, nor touch a file.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from benches import words
from benches.counts import Counts
from benches.record import Record, Run
from benches.results import Result, Verdict, results_of, verdict_of
from benches.row import Row, spread
from benches.rows import ROWS, overview
from benches.summary import operations_table

# Bold are those that a reader looks for.
_SAID: dict[Verdict, str] = {
    "met": "met",
    "limit shown": "limit shown",
    "undecided": "**undecided**",
    "not met": "**not met**",
    "no goal": "",
}
# A run is called disturbed if others had more than this share of the machine's time.
_DISTURBED_SHARE = 0.05
# Prose is wrapped.
_COLUMNS = 100


def appendix(record: Record, counts: Counts | None) -> str:
    """Return the appendix. `counts` are the instruction counts that are kept, None for none."""
    rows = [(row, record.rows.get(row.id, [])) for row in ROWS]
    parts = [
        _verdicts(record),
        _not_met(record),
        _not_measured(rows),
        _coverages(record),
        *(_section(row, runs) for row, runs in rows),
        _instructions(counts) if counts else "",
        _machines(rows),
    ]
    return "\n\n".join(filter(None, parts))


def _verdicts(record: Record) -> str:
    lines = ["### Verdicts", "", "| row | what | verdict |", "|:--|:--|:--|"]
    for row in ROWS:
        runs = record.rows.get(row.id)
        said = _SAID[verdict_of(_results(runs))] if runs else "not measured"
        lines.append(words.cells([row.id, row.title, said]))
    return "\n".join(lines)


def _not_met(record: Record) -> str:
    """Return the goals that are not met, and those that nobody can say that they are."""
    lines = []
    for row in ROWS:
        for result in _results(record.rows.get(row.id, [])):
            if result.verdict in {"met", "no goal"}:
                continue
            figure = result.latest
            values = ", ".join(words.value(one) for one in result.figures)
            goal = words.bound(result.goal, figure)
            said = _SAID[result.verdict]
            lines.append(words.cells([row.id, words.full_name(figure), values, goal, said]))
    heads = ["| row | figure | value, by run | goal | verdict |", "|:--|:--|--:|:--|:--|"]
    table = [*heads, *lines] if lines else ["None."]
    return "\n".join(["### Goals that are not met, or undecided", "", *table])


def _not_measured(rows: Sequence[tuple[Row, Sequence[Run]]]) -> str:
    found = dict.fromkeys(
        f"- {row.id}: {phrase}" for row, runs in rows for run in runs for phrase in run.not_measured
    )
    return "\n".join(["### Not measured", "", *found]) if found else ""


def _coverages(record: Record) -> str:
    """Return how sure an interval is, for every number of rounds that the record has."""
    by_count = {
        len(figure.ours): spread(figure.ours).coverage
        for runs in record.rows.values()
        for run in runs
        for figure in run.figures
        if len(figure.ours) > 1
    }
    if not by_count:
        return ""
    said = ", ".join(f"{count} rounds {by_count[count]:.1%}" for count in sorted(by_count))
    return f"### All figures\n\nCoverage of the intervals: {said}."


def _section(row: Row, runs: Sequence[Run]) -> str:
    lines = [f"#### {row.id}: {row.title}", "", *_sentence(row.goal_text), ""]
    if not runs:
        lines.append("Not measured.")
    elif row.id == overview.ROW.id:
        # The overview itself has all runs together.
        for number, run in enumerate(runs, start=1):
            lines += [f"Run {number}:", "", *operations_table([run]), ""]
    else:
        lines += _figures(_results(runs))
    return "\n".join([*lines, *(_remark(number, run) for number, run in enumerate(runs, 1))])


def _figures(results: Iterable[Result]) -> list[str]:
    lines = [
        "| figure | Tuckbox | peer | | value | interval | range | rounds | goal | verdict |",
        "|:--|--:|:--|--:|--:|:--|:--|--:|:--|:--|",
    ]
    limits = []
    for result in results:
        for number, figure in enumerate(result.figures):
            run = f", run {number + 1}" if len(result.figures) > 1 else ""
            is_last = number == len(result.figures) - 1
            lines.append(
                words.cells(
                    [
                        words.name(figure) + run,
                        words.amount(figure.ours, figure.unit),
                        figure.peer,
                        words.amount(figure.theirs, figure.unit),
                        words.value(figure),
                        words.interval(figure.values),
                        words.extent(figure.values),
                        f"{len(figure.ours)}",
                        words.bound(result.goal, figure) if is_last else "",
                        _SAID[result.verdict] if is_last else "",
                    ]
                )
            )
            if figure.limit:
                limits.append(
                    words.cells(
                        [
                            words.full_name(figure) + run,
                            figure.limited_by,
                            words.amount(figure.limit, figure.unit),
                            words.limit_value(figure),
                            words.interval(figure.limit_values),
                        ]
                    )
                )
    if limits:
        lines += [
            "",
            "| figure | the stripped program does only this | it takes | value | interval |",
            "|:--|:--|--:|--:|:--|",
            *limits,
        ]
    return [*lines, ""]


def _remark(number: int, run: Run) -> str:
    changed = " with changes" if run.sources.changes else ""
    said = f"- Run {number}: {run.date[:10]}, commit {run.sources.commit}{changed}, "
    said += f"{run.seconds:.0f} s"
    if run.is_quick:
        said += "; **the quick form: do not quote it**"
    others = run.disturbance.others + run.disturbance.stolen
    if others > _DISTURBED_SHARE:
        said += f"; **disturbed**: other programs had {others:.0%} of the machine's time"
    return f"{said}."


def _instructions(counts: Counts) -> str:
    lines = [
        "#### Instructions",
        "",
        "Instructions that callgrind counts for one operation with a 36-byte key and a 160-byte "
        "value, the loop of Python or Rust included. Unlike times, these counts do not depend on "
        f"other programs. `make instructions` counts again. {counts.valgrind}, Python "
        f"{counts.python}, {counts.rustc.partition(' (')[0]}.",
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
    return "\n".join(["#### Machine", "", *(f"- {sheet}." for sheet in sheets)]) if sheets else ""


def _results(runs: Sequence[Run] | None) -> list[Result]:
    return results_of(run.figures for run in runs or [])


def _sentence(text: str) -> list[str]:
    return textwrap.wrap(f"{text[:1].upper()}{text[1:]}.", _COLUMNS)
