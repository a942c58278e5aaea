"""The report of hit ratios, and the source of operations that every suite shows."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from lab.protocol import Verdict
from lab.report import export, html, terminal
from lab.report.layouts import replay
from lab.report.model import Dots, Lines, Row
from lab.runner.catalogue import ReplaySuite, suites
from lab.runner.results import ReplayCell, Try
from lab.runner.summary import summarise
from lab.tests import synthetic

CAPACITIES = ("5%", "10%", "25%")


def web07() -> ReplaySuite:
    suite = suites()["web07"]
    assert isinstance(suite, ReplaySuite)
    return suite


def rows(cells: Sequence[ReplayCell]) -> list[dict[str, str]]:
    """Return the rows of the table, by heading."""
    table = replay.table(web07(), cells)
    return [_texts([column.heading for column in table.columns], row) for row in table.rows]


def _texts(headings: Sequence[str], row: Row) -> dict[str, str]:
    return dict(zip(headings, (cell.text for cell in row.cells), strict=True))


def notes(cells: Sequence[ReplayCell]) -> str:
    return "\n".join(replay.table(web07(), cells).notes)


def a_cell(name: str, outcome: str = "measured", **fields: object) -> ReplayCell:
    known: dict[str, object] = {
        "capacity": 0.25,
        "weighed": "file",
        "bytes_max": 10_000_000,
        "equal": True,
        "tries": [Try(10_000_000, requests=10, hits=6, bytes_peak=9_900_000)],
    }
    return ReplayCell("web07", name, outcome=outcome, **(known | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
def test_records_in_any_order_are_compared_with_their_references(seed: int) -> None:
    cells = synthetic.replay_cells()
    random.Random(seed).shuffle(cells)
    found = rows(cells)
    assert [row["Capacity"] for row in found] == [one for one in CAPACITIES for _ in range(5)]
    assert "no reference" not in {row["Difference"] for row in found}
    for capacity in CAPACITIES:
        of_capacity = [row for row in found if row["Capacity"] == capacity]
        ratios = [float(row["Hit ratio"].rstrip("%")) for row in of_capacity]
        assert ratios == sorted(ratios, reverse=True)
        (ours,) = (row for row in of_capacity if row["Contestant"] == "tuckbox")
        (lru,) = (row for row in of_capacity if row["Contestant"].startswith("diskcache_lru"))
        points = float(ours["Hit ratio"].rstrip("%")) - float(lru["Hit ratio"].rstrip("%"))
        assert float(ours["Difference"]) == pytest.approx(points, abs=0.02)
    assert found == rows(synthetic.replay_cells())


def test_references_are_marked_and_have_no_difference() -> None:
    for row in rows(synthetic.replay_cells()):
        refers = row["Contestant"].startswith("diskcache")
        assert row["Contestant"].endswith(" (reference)") is refers
        assert (row["Difference"] == "") is refers


def test_who_occupied_more_has_no_difference_but_a_reason() -> None:
    cells = synthetic.replay_cells()
    moka = [row for row in rows(cells) if row["Contestant"] == "native_moka:copied"]
    assert [row["Difference"] for row in moka] == ["not equal"] * 3
    assert {row["Measured as"] for row in moka} == {"client memory"}
    assert "native_moka:copied at 25%: it used at least 10,942,000 bytes" in notes(cells)


def test_without_its_reference_a_capacity_has_no_differences() -> None:
    cells = [cell for cell in synthetic.replay_cells() if not cell.contestant.startswith("disk")]
    assert {row["Difference"] for row in rows(cells)} == {"no reference"}


def test_what_has_no_figures_comes_last_with_its_reason() -> None:
    cells = [
        a_cell("broken", "failed", reason="the server died"),
        a_cell("absent", "unavailable", reason="no such package"),
        a_cell("diskcache"),
    ]
    found = rows(cells)
    assert [row["Contestant"] for row in found] == ["diskcache (reference)", "absent", "broken"]
    assert [row["Peak"] for row in found[1:]] == ["unavailable", "failed"]
    assert "broken at 25%: the server died." in notes(cells)
    assert "absent at 25%: no such package." in notes(cells)


def test_who_could_not_use_all_bytes_is_told_with_the_share() -> None:
    coarse = a_cell("coarse", tries=[Try(1, requests=10, hits=5, bytes_peak=7_800_000)])
    near = a_cell("near", tries=[Try(1, requests=10, hits=5, bytes_peak=9_700_000)])
    told = notes([a_cell("diskcache"), coarse, near])
    assert "coarse at 25%: used 78% of the target" in told
    assert "near at" not in told


def test_a_reason_is_told_once_for_all_capacities() -> None:
    cells = [
        a_cell("absent", "missing", capacity=capacity, reason="it is not installed")
        for capacity in (0.05, 0.25)
    ]
    assert notes(cells).endswith("absent at 5%, 25%: it is not installed.")


def test_wrong_hits_are_shown() -> None:
    wrong = a_cell("liar", verdict=Verdict(wrong=3))
    assert [row["Wrong"] for row in rows([wrong, a_cell("diskcache")])] == ["0", "3"]


def test_every_try_is_listed_and_one_counts() -> None:
    cell = a_cell(
        "cache",
        kept=1,
        tries=[
            Try(10_000_000, requests=10, hits=7, bytes_peak=13_000_000),
            Try(8_000_000, requests=10, hits=6, bytes_peak=9_900_000),
            Try(4_000_000, reason="it did not start"),
        ],
    )
    table = replay.tries([cell])
    found = [_texts([column.heading for column in table.columns], row) for row in table.rows]
    assert [row["Limit given"] for row in found] == ["10.000 MB", "8.000 MB", "4.000 MB"]
    assert [row["Peak"] for row in found] == ["13.000 MB", "9.900 MB", ""]
    assert [row["Hit ratio"] for row in found] == ["70.00%", "60.00%", ""]
    assert [row["Result"] for row in found] == ["", "used", "it did not start"]


def test_the_chart_has_only_what_is_equal() -> None:
    chart, _ = replay.charts(web07(), synthetic.replay_cells())
    assert isinstance(chart, Dots)
    assert chart.marks == CAPACITIES
    values = {row.name: row.values for row in chart.rows}
    assert "native_moka:copied" not in values
    assert values["tuckbox"] == pytest.approx((0.5625, 0.625, 0.8125))
    assert "diskcache (reference)" in values
    assert {row.name: row.kind for row in chart.rows}["redis:socket"] == "server"


def test_a_curve_has_the_bytes_that_were_measured_of_all_who_were_weighed() -> None:
    _, chart = replay.charts(web07(), synthetic.replay_cells())
    assert isinstance(chart, Lines)
    rows = {row.name: row for row in chart.rows}
    assert set(rows) == {cell.contestant for cell in synthetic.replay_cells()}
    # More than the target, drawn at its measured bytes.
    moka = rows["native_moka:copied"]
    assert [occupied for occupied, _ in moka.points] == [2_748_400, 4_796_800, 10_942_000]
    ours = rows["tuckbox"]
    assert [misses for _, misses in ours.points] == pytest.approx((0.4375, 0.375, 0.1875))
    assert (ours.ours, ours.kind, chart.across_log, chart.across_unit) == (
        True,
        "shared",
        False,
        "bytes",
    )
    # A line goes from few bytes to many, and the names are in the order of the line ends.
    assert all(row.points == tuple(sorted(row.points)) for row in chart.rows)
    ends = [row.points[-1][1] for row in chart.rows]
    assert ends == sorted(ends, reverse=True)


def test_a_curve_from_few_bytes_to_very_many_has_a_logarithmic_axis() -> None:
    cells = [
        a_cell("cache", capacity=share, tries=[Try(1, 10, 6, bytes_peak=round(share * 1e8))])
        for share in (0.01, 0.1, 1.0)
    ]
    chart = replay.charts(web07(), cells)[-1]
    assert isinstance(chart, Lines)
    assert chart.across_log
    assert replay.charts(web07(), [a_cell("absent", "missing")]) == ()


def test_the_csv_has_the_points_of_the_curves(tmp_path: Path) -> None:
    records = synthetic.write(tmp_path / "run.jsonl", rounds=1)
    export.write(records, tmp_path / "run.csv")
    with (tmp_path / "run.csv").open(encoding="utf-8", newline="") as file:
        found = [row for row in csv.DictReader(file) if row["suite"] == "web07"]
    expected = {
        (str(cell.best.bytes_measured), str(1 - cell.hit_ratio))
        for cell in synthetic.replay_cells()
    }
    assert {(row["bytes_held"], row["miss_ratio"]) for row in found} == expected


# ------------------------------------------------------------------- where operations come from


def printed(width: int = 100) -> str:
    output = io.StringIO()
    console = Console(width=width, file=output, color_system=None)
    terminal.show_replay(console, web07(), synthetic.replay_cells())
    for suite in synthetic.phases_suites():
        contestants = synthetic.contestants(suite)
        summaries = summarise(suite, contestants, synthetic.cells(suite, contestants, rounds=1))
        terminal.show_phases(console, suite, summaries)
    return " ".join(output.getvalue().split())


def test_the_terminal_says_of_every_suite_where_its_operations_come_from() -> None:
    text = printed()
    assert "Requests of web07: recorded in web07.csv.zst, SHA-256 da92." in text
    for suite in synthetic.phases_suites():
        source = f"synthetic, drawn from seed 1 by the distributions of {suite.name}"
        assert f"Operations of {suite.name}: {source}." in text


def test_the_page_says_of_every_suite_where_its_operations_come_from(tmp_path: Path) -> None:
    records = synthetic.write(tmp_path / "run.jsonl", rounds=1)
    html.write(records, tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text("utf-8")
    assert "Operations: recorded in web07.csv.zst, SHA-256 da92." in page
    for suite in synthetic.phases_suites():
        assert f"drawn from seed 1 by the distributions of {suite.name}." in page
    assert "All tried limits" in page
