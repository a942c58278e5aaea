"""Which cache to use: the best one for each language, range of sharing, durability and size.

Owns the ranking and the sentence that gives its reason. Must not know how either is shown, nor
measure anything: rates are those of the suite that has an `[answer]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product, takewhile
from typing import Literal, NamedTuple

from lab.report.layouts.rows import title
from lab.report.units import rate, times
from lab.runner.catalogue import PhasesSuite, SharedBy
from lab.runner.summary import Figure, Summary

Language = Literal["any", "python", "perl", "php", "native"]
Sharing = Literal["process", "machine", "network"]

# Which contestants do for a question, by who shares their data. The workers of a web server are
# forked from one process as a rule, so that what only forks share will do on one machine.
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
    """What a cache is wanted for: `size` is a variant of the suite, `survives` a restart."""

    language: Language
    sharing: Sharing
    survives: bool
    size: str


@dataclass(frozen=True)
class Candidate:
    """A contestant at one size of values, with its server where it is fastest."""

    row: Summary
    rate: Figure

    @property
    def name(self) -> str:
        """What the page calls it."""
        forks = self.row.contestant.shared_by == "fork"
        return f"{title(self.row)} (one process and its forks)" if forks else title(self.row)


@dataclass(frozen=True)
class Answer:
    """What answers a question.

    `ranked` are caches, the fastest first; the first `tied` cannot be told apart. `leaders` has the
    fastest of each language. `unbounded` are stores that do not evict: whoever uses one must limit
    it. `reason` says in a sentence or two why the first is first.
    """

    question: Question
    ranked: tuple[Candidate, ...]
    tied: int
    leaders: dict[Language, Candidate]
    unbounded: tuple[Candidate, ...]
    reason: str

    @property
    def first(self) -> Candidate | None:
        """The fastest cache, None where none fits."""
        return self.ranked[0] if self.ranked else None


def questions(suite: PhasesSuite) -> list[Question]:
    """Return every question that the suite can answer."""
    sizes = [variant.name for variant in suite.parts[0].variants]
    return [Question(*one) for one in product(LANGUAGES, SHARINGS, (False, True), sizes)]


def default_question(suite: PhasesSuite) -> Question:
    """Return the question that is asked before the reader chooses."""
    assert suite.answer is not None
    return Question(DEFAULT_LANGUAGE, DEFAULT_SHARING, survives=False, size=suite.answer.default)


def answers(suite: PhasesSuite, summaries: Sequence[Summary]) -> dict[Question, Answer]:
    """Return the answer to every question. `suite` has an answer plan."""
    candidates = {
        variant.name: _candidates(suite, summaries, variant.name)
        for variant in suite.parts[0].variants
    }
    return {one: _answer(one, candidates[one.size]) for one in questions(suite)}


def _candidates(suite: PhasesSuite, summaries: Sequence[Summary], variant: str) -> list[Candidate]:
    """Return the contestants that keep everything they are given, the fastest first."""
    assert suite.answer is not None
    best: dict[str, Candidate] = {}
    for row in summaries:
        phase = row.phase(suite.answer.phase)
        if (row.part, row.variant) != (suite.parts[0].name, variant) or phase is None:
            continue
        if not row.contestant.stores or row.verdict.wrong:
            continue
        found = Candidate(row, phase.main.rate)
        before = best.get(row.contestant.name)
        if before is None or before.rate.median < found.rate.median:
            best[row.contestant.name] = found
    return sorted(best.values(), key=lambda one: -one.rate.median)


def _answer(question: Question, candidates: Sequence[Candidate]) -> Answer:
    fitting = [one for one in candidates if _fits(one, question)]
    ranked = tuple(one for one in fitting if one.row.contestant.evicts)
    unbounded = tuple(one for one in fitting if not one.row.contestant.evicts)
    tied = len(list(takewhile(lambda one: one is ranked[0] or _is_tied(ranked[0], one), ranked)))
    leaders: dict[Language, Candidate] = {}
    for language in LANGUAGES:
        fastest = next((one for one in ranked if one.row.contestant.host == language), None)
        if fastest is not None:
            leaders[language] = fastest
    return Answer(question, ranked, tied, leaders, unbounded, _reason(ranked, tied))


def _fits(one: Candidate, question: Question) -> bool:
    contestant = one.row.contestant
    wide = contestant.shared_by in _WILL_DO[question.sharing]
    spoken = question.language in ("any", contestant.host)
    return wide and spoken and (contestant.survives_restart or not question.survives)


def _is_tied(first: Candidate, other: Candidate) -> bool:
    """Return whether the rounds cannot tell who is faster: their bounds overlap.

    One round has no bounds: then nothing is said of ties.
    """
    ours_, theirs = first.rate.bounds, other.rate.bounds
    return ours_ is not None and theirs is not None and theirs[1] >= ours_[0]


def _reason(ranked: Sequence[Candidate], tied: int) -> str:
    if not ranked:
        return "No contestant of this run fits."
    first = ranked[0]
    what = first.row.contestant.what.rstrip(".")
    figure = f"{rate(first.rate.median)} operations a second"
    if tied > 1:
        return f"A tie: the rounds cannot tell which is faster. {first.name}: {what}."
    if len(ranked) == 1:
        return f"It is the only one that fits, with {figure}. {what}."
    second = ranked[1]
    ahead = times(first.rate.median / max(second.rate.median, 1e-9))
    return f"{figure}, {ahead} those of {second.name}. {what}."
