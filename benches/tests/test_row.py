from __future__ import annotations

import dataclasses

import pytest

from benches.row import Figure, Goal, verdict_of
from benches.tests.synthetic import AT_MOST_TWO, figure


def test_a_value_is_the_ratio_of_the_medians_and_not_the_median_of_the_ratios() -> None:
    one = figure(ours=(10.0, 40.0, 50.0), theirs=(20.0, 1.0, 40.0))
    assert one.value == 40.0 / 20.0
    assert one.values == (0.5, 40.0, 1.25)
    assert (one.least, one.most) == (0.5, 40.0)


def test_a_speedup_is_theirs_by_ours() -> None:
    one = dataclasses.replace(figure(), relation="theirs / ours")
    assert one.value == 20.0 / 40.0


def test_an_absolute_figure_is_the_median_of_its_samples() -> None:
    one = Figure("open", "ms", (3.0, 1.0, 2.0), "", (), "ours", Goal("at most", 2))
    assert (one.value, one.least, one.most) == (2.0, 1.0, 3.0)
    assert one.is_met


@pytest.mark.parametrize(
    ("goal", "verdict"),
    [
        (Goal("at most", 2.0), "met"),
        (Goal("at most", 1.9), "not met"),
        (Goal("at least", 2.0), "met"),
        (Goal("at least", 2.1), "not met"),
        (None, "told"),
    ],
)
def test_a_goal_includes_its_bound(goal: Goal | None, verdict: str) -> None:
    assert figure(goal=goal).verdict == verdict


def test_a_limit_is_shown_only_by_a_program_that_misses_the_goal_itself() -> None:
    missed = figure(ours=(70.0, 80.0, 90.0))
    assert missed.verdict == "not met"
    slow, fast = (45.0, 50.0, 55.0), (25.0, 30.0, 35.0)
    assert dataclasses.replace(missed, limit=slow, limited_by="it").verdict == "limit shown"
    assert dataclasses.replace(missed, limit=fast, limited_by="it").verdict == "not met"
    assert figure(limit=slow).verdict == "met"


def test_a_row_is_what_its_worst_figure_is() -> None:
    met, told = figure(), figure(goal=None)
    missed = figure(ours=(70.0, 80.0, 90.0))
    limited = figure(ours=(70.0, 80.0, 90.0), limit=(45.0, 50.0, 55.0))
    assert verdict_of([met, told]) == "met"
    assert verdict_of([met, limited, told]) == "limit shown"
    assert verdict_of([limited, missed, met]) == "not met"
    assert verdict_of([told]) == "told"


@pytest.mark.parametrize(
    "changes",
    [
        {"ours": ()},
        {"theirs": (1.0, 2.0)},
        {"theirs": ()},
        {"peer": ""},
        {"relation": "ours"},
        {"limit": (1.0,), "limited_by": "it"},
        {"limit": (1.0, 2.0, 3.0)},
    ],
)
def test_samples_that_do_not_belong_together_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="same keys"):
        dataclasses.replace(figure(), **changes)  # type: ignore[arg-type]


def test_goals_are_plain_bounds() -> None:
    assert AT_MOST_TWO.is_met_by(2.0)
    assert not AT_MOST_TWO.is_met_by(2.000_001)
