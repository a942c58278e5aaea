"""The estimated time, and the output without a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lab.report.progress import CellProgress
from lab.report.units import seconds_left
from lab.runner.plan import CellName


def name(contestant: str, number: int, part: str = "main") -> CellName:
    return CellName("suite", part, "variant", contestant, "free", number)


SLOW, FAST = ([name(one, number) for number in (1, 2)] for one in ("slow", "fast"))


def ended(progress: CellProgress, one: CellName, seconds: float, failure: str = "") -> None:
    progress.starts(one.contestant, one.where)
    progress.ended(one.contestant, one.where, seconds, failure)


def test_time_left_is_estimated_from_the_cells_that_ended() -> None:
    console = Console(file=io.StringIO())
    progress = CellProgress(console, [*SLOW, *FAST], {})
    assert progress.seconds_left() is None
    ended(progress, SLOW[0], 9.0)
    # Nothing is known about the fast one yet.
    assert progress.seconds_left() == pytest.approx(9.0 * 3)
    ended(progress, FAST[0], 1.0)
    assert progress.seconds_left() == pytest.approx(10.0)
    ended(progress, SLOW[1], 9.0)
    assert progress.seconds_left() == pytest.approx(1.0)
    assert seconds_left(75.2) == "1:15"


def test_time_left_is_expected_as_in_an_earlier_run() -> None:
    expected = {("suite", "main", "slow"): 20.0, ("suite", "main", "fast"): 2.0}
    progress = CellProgress(Console(file=io.StringIO()), [*SLOW, *FAST], expected)
    assert progress.seconds_left() == pytest.approx(44.0)
    ended(progress, SLOW[0], 10.0)
    assert progress.seconds_left() == pytest.approx(10.0 + 2 * 2.0)


def test_cells_that_run_at_once_share_the_time() -> None:
    progress = CellProgress(Console(file=io.StringIO()), [*SLOW, *FAST], {})
    for one in (SLOW[0], FAST[0]):
        progress.starts(one.contestant, one.where)
    for one in (SLOW[0], FAST[0]):
        progress.ended(one.contestant, one.where, 4.0, "")
    assert progress.seconds_left() == pytest.approx(4.0)


def test_a_skipped_cell_takes_no_time() -> None:
    progress = CellProgress(Console(file=io.StringIO()), SLOW, {})
    ended(progress, SLOW[0], 0.0)
    assert progress.seconds_left() is None


def test_without_a_terminal_each_cell_has_a_line() -> None:
    output = io.StringIO()
    with CellProgress(Console(file=output, width=100), [*SLOW, *FAST], {}) as progress:
        ended(progress, SLOW[0], 9.04)
        ended(progress, FAST[0], 0.0, "it died")
    assert output.getvalue().splitlines() == [
        "slow, suite/main, variant, round 1: 9.0 s",
        "fast, suite/main, variant, round 1: it died",
    ]


def test_on_a_terminal_the_bar_names_what_runs() -> None:
    output = io.StringIO()
    console = Console(file=output, width=200, force_terminal=True)
    with CellProgress(console, [*SLOW, *FAST], {}) as progress:
        progress.starts(SLOW[0].contestant, SLOW[0].where)
    assert "0/4" in output.getvalue()
    assert "slow, suite/main, variant, round 1" in output.getvalue()
