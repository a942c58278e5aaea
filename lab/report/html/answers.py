"""The first screen of the page: the answers to all questions, and the one shown first.

Owns how the page spells a question, and how long each bar is. Must not rank anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lab.report.answer import (
    LANGUAGE_NAMES,
    SHARINGS,
    Answer,
    Aside,
    Candidate,
    Question,
    answers,
    default_question,
)
from lab.report.html.packed import as_json
from lab.report.layouts.cells import interval
from lab.report.layouts.rows import kind, ours
from lab.report.units import rate
from lab.runner.catalogue import PhasesSuite
from lab.runner.summary import Summary

View = dict[str, Any]

_SHARINGS = {
    "process": "one process",
    "machine": "one machine",
    "network": "several machines",
}
_TOP = 8
_TOP_TITLES = {False: "Fastest", True: "Fastest for each language"}
_SURVIVES = {False: "no", True: "yes"}


def view(suite: PhasesSuite, summaries: Sequence[Summary], lines: Mapping[int, int]) -> View | None:
    """Return the template's data; None when the suite measured nothing.

    `lines` has the line of each record by the identity of its cell.
    """
    found = answers(suite, summaries)
    if not any(one.ranked for one in found.values()):
        return None
    shown = default_question(suite)
    first = found[shown]
    return {
        "pickers": _pickers(suite, shown),
        "shown": _answer(first, lines),
        "workload": f"Workload: {suite.parts[0].title}, uniform keys, every answer checked",
        "suite": suite.name,
        "json": as_json({_spelled(one): _answer(answer, lines) for one, answer in found.items()}),
    }


def _pickers(suite: PhasesSuite, shown: Question) -> list[View]:
    sizes = [variant.name for variant in suite.parts[0].variants]
    return [
        _picker("language", list(LANGUAGE_NAMES.values()), LANGUAGE_NAMES[shown.language]),
        _picker("shared by", [_SHARINGS[one] for one in SHARINGS], _SHARINGS[shown.sharing]),
        _picker("must survive a restart", list(_SURVIVES.values()), _SURVIVES[shown.survives]),
        _picker("value size", sizes, shown.size),
    ]


def _picker(name: str, options: list[str], first: str) -> View:
    return {"name": name, "options": options, "first": first}


def _spelled(one: Question) -> str:
    """Return the key by which the page's script finds a question: the chosen options in order."""
    language, sharing = LANGUAGE_NAMES[one.language], _SHARINGS[one.sharing]
    return "/".join((language, sharing, _SURVIVES[one.survives], one.size))


def _answer(one: Answer, lines: Mapping[int, int]) -> View:
    rows = (*one.ranked, *one.unbounded)
    longest = max((max(row.rate.bounds or (row.rate.median,)) for row in rows), default=0.0)

    def bar(row: Candidate, tie: str = "") -> View:
        age = row.age if one.question.sharing == "network" else ""
        note = "; ".join(filter(None, (tie, age)))
        return _bar(row, longest, lines, note, first=row in one.tied)

    bars = [bar(row) for row in one.ranked]
    # Readers who have not chosen a language see the best of each.
    in_any_language = one.question.language == "any"
    leaders = [
        bar(first, f"tied with {_listed(rest)}" if rest else "")
        | {"name": f"{LANGUAGE_NAMES[language]}: {first.name}"}
        for language, (first, *rest) in one.leaders.items()
    ]
    top = leaders if in_any_language else bars[:_TOP]
    return {
        "name": _listed(one.tied) or "None of these",
        "tie": len(one.tied) > 1,
        "reason": one.reason,
        "top_title": _TOP_TITLES[in_any_language] if top else "",
        "top": top,
        "rest": bars if in_any_language else bars[_TOP:],
        "rest_title": f"All {len(bars)} ranked" if in_any_language else "Slower caches",
        "unbounded": [bar(row) for row in one.unbounded],
        "asides": [_aside(row, lines) for row in one.asides],
    }


def _listed(rows: Sequence[Candidate]) -> str:
    """Return the names as a list in a sentence: `a, b and c`."""
    *others, last = [row.row.contestant.title for row in rows] or [""]
    return f"{', '.join(others)} and {last}" if others else last


def _bar(
    row: Candidate, longest: float, lines: Mapping[int, int], note: str, *, first: bool
) -> View:
    bounds = row.rate.bounds

    def share(value: float) -> float:
        return round(100 * value / max(longest, 1e-9), 2)

    return {
        "name": row.name,
        "kind": "mine" if ours(row.row.contestant) else kind(row.row),
        "first": first,
        "note": note,
        "rate": f"{rate(row.rate.median)}/s",
        "width": share(row.rate.median),
        "low": None if bounds is None else share(bounds[0]),
        "high": None if bounds is None else share(bounds[1]),
        "interval": interval(row.rate),
        "lines": [lines[id(cell)] for cell in row.row.cells],
    }


def _aside(row: Aside, lines: Mapping[int, int]) -> View:
    return {
        "name": row.name,
        "rate": f"{rate(row.rate.median)}/s" if row.rate is not None else "",
        "reason": row.reason,
        "lines": [lines[id(cell)] for cell in row.row.cells],
    }
