"""The appendix of the page: every goal, and every run of every row.

Owns its tables. Must not judge, nor touch a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from benches import words
from benches.counts import Counts
from benches.record import Record, Run
from benches.results import Result, Verdict, results_of, verdict_of
from benches.row import Row, spread
from benches.rows import ROWS, overview
from benches.summary import operations_table
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
# Columns of text.
_LEFT = frozenset({"figure", "peer", "interval", "goal"})
# A run is disturbed if other programs had more than this share of the machine's time.
_DISTURBED_SHARE = 0.05


def appendix(record: Record, counts: Counts | None) -> str:
    """Return the appendix. `counts` are the kept instruction counts, None without any."""
    rows = [(row, record.rows.get(row.id, [])) for row in ROWS]
    usual = _usual([runs for _, runs in rows])
    parts = [
        _verdicts(record),
        _not_met(record),
        _not_measured(rows),
        _introduction(record, usual),
        *(_section(row, runs, usual) for row, runs in rows),
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


def _introduction(record: Record, usual: str) -> str:
    """Return what applies to all rows: the usual run, and the coverage of the intervals."""
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
    text = f"Unless a row says otherwise: one run, {usual}. " if usual else ""
    text += f"Goals without a verdict are met. Coverage of the intervals: {said}."
    return f"### All figures\n\n{wrapped(text)}"


def _usual(rows: Iterable[Sequence[Run]]) -> str:
    """Return the most frequent remark on a row's only run, "" if there is none.

    Remarks with a warning do not count: a warning is shown at each row.
    """
    single = [runs[0] for runs in rows if len(runs) == 1]
    remarks = Counter(_remark(run) for run in single if not _warnings(run))
    return remarks.most_common(1)[0][0] if remarks else ""


def _section(row: Row, runs: Sequence[Run], usual: str) -> str:
    parts = [f"#### {row.id}: {row.title}"]
    if row.text:
        parts.append(wrapped(f"{row.text[:1].upper()}{row.text[1:]}."))
    if not runs:
        parts.append("Not measured.")
    elif _is_only_drawn(runs):
        parts.append("See the chart; its figures are in `performance.json`.")
    elif row.id != overview.ROW.id:
        parts += _figures(runs)
    elif len(runs) == 1:
        parts.append("See the top of the page.")
    else:
        # The table at the top of the page pools the rounds of all runs.
        for number, run in enumerate(runs, start=1):
            parts += [f"Run {number}:", "\n".join(operations_table([run]))]
    remarks = [_remark(run) for run in runs]
    if remarks and remarks != [usual]:
        numbered = enumerate(remarks, start=1)
        parts.append("\n".join(f"- Run {number}: {remark}." for number, remark in numbered))
    return "\n\n".join(parts)


def _is_only_drawn(runs: Sequence[Run]) -> bool:
    """Return whether the chart has every figure of a row, and no figure a goal."""
    return all(result.latest.at is not None and result.goal is None for result in _results(runs))


def _figures(runs: Sequence[Run]) -> list[str]:
    """Return the table of a row, and what its stripped programs do."""
    results = _results(runs)
    peers = {figure.peer for result in results for figure in result.figures}
    # A peer that is the only one is in the head of its column.
    only = next(iter(peers)) if len(peers) == 1 else ""
    shows_rounds = any(_rounds(run) is None for run in runs)
    rows: list[dict[str, str]] = []
    does: dict[str, list[str]] = {}
    for result in results:
        for number, figure in enumerate(result.figures):
            run = f", run {number + 1}" if len(result.figures) > 1 else ""
            is_last = number == len(result.figures) - 1
            rows.append(
                {
                    "figure": words.name(figure) + run,
                    # An absolute figure is itself the value.
                    "Tuckbox": words.amount(figure.ours, figure.unit) if figure.peer else "",
                    "peer": "" if only else figure.peer,
                    only: words.amount(figure.theirs, figure.unit),
                    "value": words.value(figure),
                    "interval": words.interval(figure.values),
                    "stripped": words.amount(figure.limit, figure.unit),
                    "its value": words.limit_value(figure) if figure.limit else "",
                    "rounds": f"{len(figure.ours)}" if shows_rounds else "",
                    "goal": _judged(result) if is_last else "",
                }
            )
            if figure.limit and is_last:
                does.setdefault(figure.limited_by, []).append(words.name(figure))
    return ["\n".join(_table(rows)), *_stripped(does)]


def _judged(result: Result) -> str:
    """Return the goal, and the verdict if the goal is not met; nothing without a goal."""
    goal = words.bound(result.goal, result.latest)
    return goal if result.verdict in _QUIET else f"{goal}, {_SAID[result.verdict]}"


def _stripped(does: dict[str, list[str]]) -> list[str]:
    """Return a paragraph about the stripped programs, given the figures of what each does."""
    if not does:
        return []
    usual, *others = does
    said = f"The stripped program only does this: {usual}."
    said += "".join(f" For *{', '.join(does[other])}*: {other}." for other in others)
    return [wrapped(said)]


def _table(rows: Sequence[dict[str, str]]) -> list[str]:
    """Return a table without the columns that are empty in every row."""
    shown = [head for row in rows[:1] for head in row if any(one[head] for one in rows)]
    return [
        words.cells(shown),
        f"|{'|'.join(':--' if head in _LEFT else '--:' for head in shown)}|",
        *(words.cells([row[head] for head in shown]) for row in rows),
    ]


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
    return said + _warnings(run)


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
        "#### Instructions",
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
    return "\n".join(["#### Machine", "", *lines]) if sheets else ""


def _results(runs: Iterable[Run] | None) -> list[Result]:
    return results_of(run.figures for run in runs or [])
