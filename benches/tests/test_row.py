from __future__ import annotations

import dataclasses

import pytest

from benches.row import Figure, Goal, spread
from benches.tests.synthetic import ABOVE, AROUND, AT_MOST_TWO, BELOW, THEIRS, figure


def test_a_value_is_the_median_of_the_ratios_of_the_rounds() -> None:
    one = figure(ours=(10.0, 40.0, 50.0), theirs=(20.0, 1.0, 40.0))
    assert one.values == (0.5, 40.0, 1.25)
    assert one.value == 1.25


def test_a_speedup_is_theirs_by_ours() -> None:
    one = dataclasses.replace(figure(), relation="theirs / ours")
    assert one.values[0] == 20.0 / 28.0


def test_an_absolute_figure_is_the_median_of_its_samples() -> None:
    one = Figure("open", "ms", (3.0, 1.0, 2.0), goal=Goal("at most", 2))
    assert (one.value, one.values) == (2.0, (3.0, 1.0, 2.0))


def test_a_stripped_program_is_compared_like_tuckbox() -> None:
    assert figure(limit=ABOVE).limit_values == tuple(one / 20 for one in ABOVE)
    assert figure().limit_values == ()


@pytest.mark.parametrize(
    ("values", "decision"),
    [
        (tuple(one / 20 for one in BELOW), "met"),
        (tuple(one / 20 for one in ABOVE), "not met"),
        (tuple(one / 20 for one in AROUND), "undecided"),
        # The bound belongs to the goal.
        ((2.0,) * 6, "met"),
        # Below six rounds there is the range.
        ((1.0, 1.5, 2.1), "undecided"),
        ((1.0, 1.5, 1.9), "met"),
        ((2.1, 2.5), "not met"),
        # One round decides nothing.
        ((1.0,), "undecided"),
        ((9.0,), "undecided"),
    ],
)
def test_the_interval_of_the_rounds_decides(values: tuple[float, ...], decision: str) -> None:
    assert Goal("at most", 2).judge(values) == decision
    turned = {"met": "not met", "not met": "met", "undecided": "undecided"}
    if values != (2.0,) * 6:
        assert Goal("at least", 2).judge(values) == turned[decision]


def test_one_outlier_of_eleven_does_not_make_a_goal_undecided() -> None:
    values = (*(1.0 + number / 100 for number in range(10)), 9.0)
    assert Goal("at most", 2).judge(values) == "met"
    assert Goal("at most", 2).judge((*values[1:], 9.0)) == "undecided"


def test_the_spread_says_how_sure_it_is() -> None:
    five, eleven = spread((5.0, 1.0, 2.0, 3.0, 4.0)), spread(range(11))
    assert (five.low, five.high, five.coverage) == (1.0, 5.0, 0.9375)
    assert (eleven.low, eleven.high) == (1, 9)
    assert spread((3.0,)).coverage == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"ours": ()},
        {"theirs": (1.0, 2.0)},
        {"theirs": ()},
        {"peer": ""},
        {"relation": "ours"},
        {"limit": (1.0,), "limited_by": "it"},
        {"limit": THEIRS},
    ],
)
def test_samples_that_do_not_belong_together_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="same keys"):
        dataclasses.replace(figure(), **changes)  # type: ignore[arg-type]


def test_goals_are_plain_bounds() -> None:
    assert AT_MOST_TWO.is_met_by(2.0)
    assert not AT_MOST_TWO.is_met_by(2.000_001)
