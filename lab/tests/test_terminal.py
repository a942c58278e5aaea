"""The output of a run: a short table for each suite and the answer, without truncation."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import pytest
from rich.console import Console

from lab.report import brief, terminal
from lab.report.model import Table
from lab.runner.catalogue import PhasesSuite
from lab.runner.summary import Summary, summarise
from lab.tests import synthetic

SUITES = {suite.name: suite for suite in synthetic.phases_suites()}


@pytest.fixture(scope="module")
def summaries() -> dict[str, list[Summary]]:
    """Return rows of six rounds of every suite."""
    found = {}
    for name, suite in SUITES.items():
        rows = synthetic.contestants(suite)
        found[name] = summarise(suite, rows, synthetic.cells(suite, rows, rounds=6))
    return found


Show = Callable[[Console, PhasesSuite, Sequence[Summary]], None]


def printed(show: Show, suite: PhasesSuite, rows: Sequence[Summary], width: int) -> str:
    output = io.StringIO()
    show(Console(width=width, file=output, color_system=None), suite, rows)
    return output.getvalue()


def short(suite: PhasesSuite, rows: Sequence[Summary]) -> Table:
    found = brief.table(suite, rows)
    assert found is not None
    return found


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("name", SUITES)
def test_nothing_is_cut_off(summaries: dict[str, list[Summary]], name: str, width: int) -> None:
    text = printed(terminal.show_phases, SUITES[name], summaries[name], width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    words = set(text.split())
    table = short(SUITES[name], summaries[name])
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            if column.figures:
                assert set(cell.text.split()) <= words, cell.text


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_has_one_short_table_that_names_us(
    summaries: dict[str, list[Summary]], name: str
) -> None:
    table = short(SUITES[name], summaries[name])
    assert len(table.rows) <= brief.ROWS_MAX + 2
    assert any(row.ours for row in table.rows)
    rates = [row.cells[1].order or 0.0 for row in table.rows if row.cells[0].mark != "aside"]
    assert rates == sorted(rates, reverse=True)


def test_a_mix_has_its_latencies_and_several_phases_have_their_rates(
    summaries: dict[str, list[Summary]],
) -> None:
    django = [one.heading for one in short(SUITES["django"], summaries["django"]).columns]
    assert django[1:7] == ["Ops/s", "Spread", "get median", "get P99", "set median", "set P99"]
    tokyo = [one.heading for one in short(SUITES["tokyo-2009"], summaries["tokyo-2009"]).columns]
    assert tokyo[1:4] == ["put/s", "get/s", "Spread"]


def test_faults_stand_out(summaries: dict[str, list[Summary]]) -> None:
    table = short(SUITES["fastmmap-2004"], summaries["fastmmap-2004"])
    (row,) = (row for row in table.rows if row.cells[0].short == synthetic.WRONG)
    # 3 wrong values and 2 lost entries.
    assert (row.cells[-1].text, row.cells[-1].mark) == ("5", "fault")


def test_the_answer_names_the_best_of_each_language(
    summaries: dict[str, list[Summary]],
) -> None:
    text = printed(terminal.show_answer, SUITES["choice"], summaries["choice"], 100)
    assert "Shared by all processes on one machine, values of 160 bytes: Tuckbox" in text
    (python,) = (line for line in text.splitlines() if line.startswith("Python "))
    assert "Tuckbox" in python
    assert "96.9%" in python
