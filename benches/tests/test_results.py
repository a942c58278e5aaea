"""The results of several runs together."""

from __future__ import annotations

import dataclasses

import pytest

from benches.results import Result, results_of, verdict_of
from benches.row import Figure, Goal
from benches.tests.synthetic import ABOVE, AROUND, BELOW, THEIRS, figure

MET, MISSED, OPEN = figure(ours=BELOW), figure(ours=ABOVE), figure(ours=AROUND)


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [
        ((MET,), "met"),
        ((MISSED,), "not met"),
        ((OPEN,), "undecided"),
        ((MET, MET), "met"),
        ((MISSED, MISSED), "not met"),
        # Not only the last run counts.
        ((MISSED, MET), "undecided"),
        ((OPEN, MET), "undecided"),
        ((MET, MET, MISSED), "undecided"),
    ],
)
def test_every_run_has_to_say_the_same(figures: tuple[Figure, ...], verdict: str) -> None:
    assert Result(figures).verdict == verdict


def test_a_figure_without_a_goal_has_no_verdict() -> None:
    assert Result((figure(goal=None),)).verdict == "no goal"


def test_the_goal_of_the_last_run_judges_all() -> None:
    strict = dataclasses.replace(MET, goal=Goal("at most", 1))
    assert Result((MET, strict)).verdict == "not met"


def test_a_limit_is_shown_only_by_a_program_that_misses_the_goal_itself() -> None:
    slow, fast, unsure = (figure(ours=ABOVE, limit=limit) for limit in (ABOVE, BELOW, AROUND))
    assert Result((slow,)).verdict == "limit shown"
    assert Result((fast,)).verdict == "not met"
    assert Result((unsure,)).verdict == "not met"
    assert Result((slow, fast)).verdict == "not met"
    assert Result((slow, MISSED)).verdict == "not met"
    assert Result((figure(ours=AROUND, limit=ABOVE),)).verdict == "undecided"
    assert Result((figure(ours=BELOW, limit=ABOVE),)).verdict == "met"


def test_a_row_is_what_its_worst_figure_is() -> None:
    met, none = Result((MET,)), Result((figure(goal=None),))
    missed, unsure = Result((MISSED,)), Result((OPEN,))
    limited = Result((figure(ours=ABOVE, limit=ABOVE),))
    assert verdict_of([met, none]) == "met"
    assert verdict_of([met, limited, none]) == "limit shown"
    assert verdict_of([limited, unsure, met]) == "undecided"
    assert verdict_of([unsure, missed, met]) == "not met"
    assert verdict_of([none]) == "no goal"


def test_figures_of_several_runs_are_put_together_by_their_names() -> None:
    other, point = figure(what="fresh keys"), figure(at=10)
    newer = dataclasses.replace(MET, peer="another dict")
    found = results_of([[MET, point], [MISSED, other], [newer]])
    assert [result.figures for result in found] == [(MET, MISSED), (point,), (other,), (newer,)]


def test_rounds_of_all_runs_are_pooled() -> None:
    pooled = Result((figure(limit=BELOW), figure(ours=ABOVE, limit=ABOVE))).pooled
    assert pooled.ours == BELOW + ABOVE
    assert pooled.theirs == THEIRS * 2
    assert pooled.limit == BELOW + ABOVE
    assert Result((figure(limit=BELOW), MET)).pooled.limit == ()
