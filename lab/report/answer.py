"""Which cache to use: the best one for each language, sharing scope, durability and value size.

Owns the ranking and the sentence that explains it. Must not know how either is shown, nor measure
anything: the rates come from the suite that has an `[answer]`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple

from lab.report.layouts.rows import title
from lab.report.units import rate, times
from lab.runner.catalogue import PhasesSuite, SharedBy
from lab.runner.intervals import SAMPLES_MIN
from lab.runner.results import Outcome
from lab.runner.summary import Figure, Summary

Language = Literal["any", "python", "perl", "php", "native"]
Sharing = Literal["process", "machine", "network"]

# Which contestants satisfy a question, by who can share their data. Web servers usually fork their
# workers from one process, so data shared by forks counts as shared on one machine.
_WILL_DO: dict[Sharing, tuple[SharedBy, ...]] = {
    "process": ("process", "fork", "machine", "network"),
    "machine": ("fork", "machine", "network"),
    "network": ("network",),
}

LANGUAGES: tuple[Language, ...] = ("any", "python", "perl", "php", "native")
SHARINGS: tuple[Sharing, ...] = ("process", "machine", "network")

LANGUAGE_NAMES: dict[Language, str] = {
    "any": "any",
    "python": "Python",
    "perl": "Perl",
    "php": "PHP",
    "native": "native code",
}

DEFAULT_LANGUAGE: Language = "any"
DEFAULT_SHARING: Sharing = "machine"


class Question(NamedTuple):
    """What the reader needs. `size` is a variant of the suite; `survives` means a restart."""

    language: Language
    sharing: Sharing
    survives: bool
    size: str


@dataclass(frozen=True)
class Candidate:
    """A contestant at one value size, with its server in its fastest placement."""

    row: Summary
    rate: Figure

    @property
    def name(self) -> str:
        """Its name on the page."""
        forks = self.row.contestant.shared_by == "fork"
        return f"{title(self.row)} (one process and its forks)" if forks else title(self.row)

    @property
    def age(self) -> str:
        """How old its values may be for other machines; empty if each comes from the server."""
        stale_for_s = self.row.contestant.stale_for_s
        if math.isinf(stale_for_s):
            return "no limit on the age of values"
        return f"values up to {stale_for_s:g} s old" if stale_for_s else ""


@dataclass(frozen=True)
class Aside:
    """A contestant that fits but is not ranked: it did less work than the others, or has no rate.

    `rate` is None without figures.
    """

    row: Summary
    rate: Figure | None
    reason: str

    @property
    def name(self) -> str:
        """Its name on the page."""
        return title(self.row)


@dataclass(frozen=True)
class Answer:
    """The answer to a question.

    `ranked` are caches that did all of the work, the fastest first. `tied` are the first and those
    whose intervals overlap with it; `leaders` has the same for each language. `unbounded` are
    stores that do not evict, so their users must limit them. `asides` fit but are not ranked.
    `reason` says in one or two sentences why the first is first.
    """

    question: Question
    ranked: tuple[Candidate, ...]
    tied: tuple[Candidate, ...]
    leaders: dict[Language, tuple[Candidate, ...]]
    unbounded: tuple[Candidate, ...]
    asides: tuple[Aside, ...]
    reason: str

    @property
    def first(self) -> Candidate | None:
        """The fastest cache; None when none fits."""
        return self.ranked[0] if self.ranked else None


def questions(suite: PhasesSuite) -> list[Question]:
    """Return every question that the suite can answer."""
    sizes = [variant.name for variant in suite.parts[0].variants]
    return [Question(*one) for one in product(LANGUAGES, SHARINGS, (False, True), sizes)]


def default_question(suite: PhasesSuite) -> Question:
    """Return the question that the page shows first."""
    assert suite.answer is not None
    return Question(DEFAULT_LANGUAGE, DEFAULT_SHARING, survives=False, size=suite.answer.default)


def answers(suite: PhasesSuite, summaries: Sequence[Summary]) -> dict[Question, Answer]:
    """Return the answer to every question. `suite` must have an `[answer]`."""
    entrants = {
        variant.name: _entrants(suite, summaries, variant.name)
        for variant in suite.parts[0].variants
    }
    return {one: _answer(one, entrants[one.size]) for one in questions(suite)}


def _entrants(
    suite: PhasesSuite, summaries: Sequence[Summary], variant: str
) -> list[Candidate | Aside]:
    """Return each contestant once, in its fastest placement; the ranked ones come first."""
    found: dict[str, Candidate | Aside] = {}
    for row in summaries:
        here = (row.suite, row.part, row.variant) == (suite.name, suite.parts[0].name, variant)
        if here and row.contestant.stores:
            one = _entrant(suite, row)
            before = found.get(row.contestant.name)
            if before is None or _order(one) < _order(before):
                found[row.contestant.name] = one
    return sorted(found.values(), key=_order)


def _entrant(suite: PhasesSuite, row: Summary) -> Candidate | Aside:
    assert suite.answer is not None
    phase = row.phase(suite.answer.phase)
    found = phase.main.rate if phase is not None else None
    reason = _shortfall(row)
    return Candidate(row, found) if found and not reason else Aside(row, found, reason)


def _order(one: Candidate | Aside) -> tuple[bool, float]:
    return isinstance(one, Aside), -(one.rate.median if one.rate is not None else 0.0)


_OUTCOMES: dict[Outcome, str] = {
    "stopped": "filling the store exceeded the time limit",
    "failed": "failed",
    "missing": "not installed",
    "unavailable": "cannot be installed",
}


def _shortfall(row: Summary) -> str:
    """Return why a row did less work than the others in any round; empty when it did everything.

    Everything fits into the limit of this workload. A refused set or a missed get of a stored key
    is therefore work that the other contestants did.
    """
    if row.outcome != "measured":
        return f"{_OUTCOMES[row.outcome]}: {row.reason}" if row.reason else _OUTCOMES[row.outcome]
    verdict = row.verdict
    asked = answered = sets = 0
    refused = row.refused
    for cell in row.cells:
        for phase in cell.phases:
            for one in (phase.throughput, phase.latency):
                if one is not None:
                    get, set_ = one.actions["get"].tally, one.actions["set"].tally
                    asked += get.count - get.absent
                    answered += get.count - get.miss
                    sets += set_.count
                    refused += set_.miss
    said = [
        f"{count:,} {what}"
        for count, what in (
            (verdict.wrong, "wrong values"),
            (verdict.stale, "stale values"),
            (verdict.lost, "entries lost"),
            (refused, "sets refused"),
        )
        if count
    ]
    if answered < asked:
        said.append(f"{asked - answered:,} of {asked:,} gets of stored keys missed")
    return ", ".join(said)


def _answer(question: Question, entrants: Sequence[Candidate | Aside]) -> Answer:
    fitting = [one for one in entrants if _fits(one.row, question)]
    served = [one for one in fitting if isinstance(one, Candidate)]
    ranked = tuple(one for one in served if one.row.contestant.evicts)
    unbounded = tuple(one for one in served if not one.row.contestant.evicts)
    leaders: dict[Language, tuple[Candidate, ...]] = {}
    for language in LANGUAGES:
        spoken = [one for one in ranked if one.row.contestant.host == language]
        if spoken:
            leaders[language] = _tied(spoken)
    tied = _tied(ranked)
    asides = tuple(one for one in fitting if isinstance(one, Aside))
    reason = _reason(question, ranked, tied)
    return Answer(question, ranked, tied, leaders, unbounded, asides, reason)


def _fits(row: Summary, question: Question) -> bool:
    contestant = row.contestant
    wide = contestant.shared_by in _WILL_DO[question.sharing]
    spoken = question.language in ("any", contestant.host)
    return wide and spoken and (contestant.survives_restart or not question.survives)


def _tied(ranked: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return the first and those whose bounds overlap with its own.

    One round has no bounds, so it shows no ties.
    """
    own = ranked[0].rate.bounds if ranked else None
    return tuple(
        one
        for place, one in enumerate(ranked)
        if place == 0 or (own and (theirs := one.rate.bounds) and theirs[1] >= own[0])
    )


def _reason(question: Question, ranked: Sequence[Candidate], tied: Sequence[Candidate]) -> str:
    if not ranked:
        return "No cache in this run fits."
    first = ranked[0]
    what = first.row.contestant.what.rstrip(".")
    price = _price(ranked) if question.sharing == "network" else ""
    if len(tied) > 1:
        return f"A tie: the intervals overlap. {first.name}: {what}.{price}"
    figure = f"{rate(first.rate.median)} operations per second"
    if len(ranked) == 1:
        said = f"The only cache that fits, at {figure}."
    else:
        second = ranked[1]
        ahead = times(first.rate.median / max(second.rate.median, 1e-9))
        said = f"{figure}, {ahead} the rate of {second.name}."
    return f"{said} {what}.{price}{_caution(first.rate)}"


def _price(ranked: Sequence[Candidate]) -> str:
    """Return how old the values of the first may be, and the fastest with fresher values."""
    first, *fresher = ranked
    said = f" Price: {first.age}." if first.age else ""
    while fresher := [one for one in fresher if _stale_for_s(one) < _stale_for_s(first)]:
        tied = _tied(fresher)
        first = fresher[0]
        names = " and ".join(one.name for one in tied) + (" (a tie)" if len(tied) > 1 else "")
        said += f" With {first.age or 'every value from the server'}: {names}, "
        said += f"{rate(first.rate.median)}/s."
    return said


def _stale_for_s(one: Candidate) -> float:
    return one.row.contestant.stale_for_s


def _caution(first: Figure) -> str:
    if first.rounds == 1:
        return " One round only: no interval, so ties cannot be detected."
    if first.interval is None:
        return f" Fewer than {SAMPLES_MIN} rounds: no interval, so ties compare the ranges."
    return ""
