"""Every figure of every run as a table of comma-separated values.

Owns its columns. Must not judge, nor touch a file.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence

from benches import words
from benches.record import Record, Run
from benches.results import results_of
from benches.row import Figure, spread
from benches.rows import ROWS

COLUMNS = (
    "row",
    "title",
    "figure",
    "run",
    "date",
    "commit",
    "processor",
    "rounds",
    "disturbed",
    "unit",
    "tuckbox",
    "peer",
    "peer_value",
    "value",
    "value_unit",
    "low",
    "high",
    "coverage",
    "stripped",
    "stripped_value",
    "stripped_does",
    "goal",
    "verdict",
)


def table(record: Record) -> str:
    """Return a line for each figure of each run, in the order of the page.

    `value` is the median of the rounds, `low` and `high` are its interval with that coverage; a
    single round has none. `verdict` is over all runs of the figure.
    """
    text = io.StringIO()
    lines = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    lines.writeheader()
    for row in ROWS:
        runs = record.rows.get(row.id, [])
        for result in results_of(run.figures for run in runs):
            for number, run in enumerate(runs, start=1):
                for figure in (one for one in run.figures if one.key == result.latest.key):
                    lines.writerow(
                        {
                            "row": row.id,
                            "title": row.title,
                            "run": number,
                            **_source(run),
                            **_measured(figure),
                            "goal": words.bound(result.goal, result.latest),
                            "verdict": result.verdict,
                        }
                    )
    return text.getvalue()


def _source(run: Run) -> dict[str, str]:
    others = run.disturbance.others + run.disturbance.stolen
    changes = " with changes" if run.sources.changes else ""
    return {
        "date": run.date[:10],
        "commit": f"{run.sources.commit}{changes}",
        "processor": run.machine.cpu,
        "disturbed": f"{others:.0%}",
    }


def _measured(figure: Figure) -> dict[str, object]:
    found: dict[str, object] = {
        "figure": words.name(figure),
        "rounds": len(figure.ours),
        "unit": figure.unit,
        "tuckbox": _median(figure.ours) if figure.peer else "",
        "peer": figure.peer,
        "peer_value": _median(figure.theirs),
        "value": _number(figure.value),
        "value_unit": words.suffix(figure).strip(),
        "stripped": _median(figure.limit),
        "stripped_does": figure.limited_by,
    }
    if len(figure.values) > 1:
        around = spread(figure.values)
        found |= {
            "low": _number(around.low),
            "high": _number(around.high),
            "coverage": f"{around.coverage:.1%}",
        }
    if figure.limit:
        found["stripped_value"] = _number(statistics.median(figure.limit_values))
    return found


def _number(value: float) -> str:
    return words.number(value).replace(",", "")


def _median(samples: Sequence[float]) -> str:
    return _number(statistics.median(samples)) if samples else ""
