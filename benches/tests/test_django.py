"""The figures that the Django row makes from the lab's cells."""

from __future__ import annotations

from itertools import product

import pytest

from benches.rows.s05_django import PART, VARIANT, LabError, figures_of
from lab.protocol import Action, Tally, Verdict
from lab.runner.catalogue import PhasesSuite
from lab.runner.catalogue.suites import suites
from lab.runner.histograms import encode
from lab.runner.results import Outcome, Pass, PhaseResult, PhasesCell, Stat
from rig.stamps import WrongAnswerError

# Nanoseconds of each of a hundred operations.
TIMES = {"django_tuckbox": 2_000, "django_locmem": 4_000, "django_diskcache": 20_000}
ROUNDS = 3


def cell(
    name: str,
    number: int,
    verdict: Verdict | None = None,
    outcome: Outcome = "measured",
) -> PhasesCell:
    of: dict[Action, int] = {"get": 90, "set": 9, "delete": 1}
    actions = {
        action: Stat(Tally(count=count), count * TIMES[name], encode([TIMES[name]] * count))
        for action, count in of.items()
    }
    latency = Pass(
        planned=100,
        done=100,
        elapsed_ns=1,
        together_ns=1,
        cpu_ns=1,
        cores=2,
        workers=8,
        stretches=8,
        block_operations=256,
        block_ns=0,
        actions=actions,
        verdict=verdict or Verdict(),
    )
    return PhasesCell(
        "django",
        "main",
        "short values",
        name,
        "free",
        number,
        outcome,
        version="1.2",
        phases=[PhaseResult("fill"), PhaseResult("mix", latency=latency)],
    )


def cells() -> list[PhasesCell]:
    return [cell(name, number) for number, name in product(range(ROUNDS), TIMES)]


def test_totals_and_percentiles_are_compared() -> None:
    figures = {(one.what, one.peer): one for one in figures_of(cells(), ROUNDS, "")}
    assert [one.value for one in figures.values()] == pytest.approx([0.5, 10, 0.5, 10], rel=0.01)
    assert all(len(one.ours) == ROUNDS for one in figures.values())
    goals = [one.goal for one in figures.values()]
    assert [goal is not None and goal.is_met_by(0.5) for goal in goals] == [
        True,
        False,
        True,
        False,
    ]
    assert ("p99", "LocMemCache, Django 1.2") in figures


@pytest.mark.parametrize("verdict", [Verdict(wrong=1), Verdict(lost=1), Verdict(stale=1)])
def test_a_wrong_answer_fails_the_row(verdict: Verdict) -> None:
    found = [*cells()[1:], cell("django_tuckbox", 0, verdict)]
    with pytest.raises(WrongAnswerError, match="django_tuckbox, round 0: "):
        figures_of(found, ROUNDS, "")


def test_a_peer_that_shares_nothing_may_lose_and_not_be_wrong() -> None:
    assert figures_of([*cells()[:-1], cell("django_diskcache", 2, Verdict(lost=1))], ROUNDS, "")
    with pytest.raises(WrongAnswerError, match="django_locmem"):
        figures_of([*cells(), cell("django_locmem", 3, Verdict(wrong=1))], ROUNDS, "")


def test_what_was_not_measured_is_told() -> None:
    with pytest.raises(LabError, match="has 2 of 3 rounds: killed"):
        figures_of(cells()[:-1], ROUNDS, "killed")
    with pytest.raises(LabError, match="django_locmem: missing"):
        figures_of([*cells(), cell("django_locmem", 3, outcome="missing")], ROUNDS, "")


def test_the_variant_is_in_the_lab() -> None:
    of = {
        f"{suite.name}/{part.name}": [variant.name for variant in part.variants]
        for suite in suites().values()
        if isinstance(suite, PhasesSuite)
        for part in suite.parts
    }
    assert of[PART].count(VARIANT) == 1
