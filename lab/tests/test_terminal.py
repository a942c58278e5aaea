"""The tables say what was measured, and fit a terminal of 80 columns."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from lab.hosts.python.timing import encode
from lab.protocol import Tally, Verdict
from lab.report import terminal
from lab.report.progress import CellProgress
from lab.report.units import duration, seconds_left
from lab.runner import catalogue
from lab.runner.results import ConcurrentCell, Pass, ReplayCell
from lab.runner.summary import ContestantSummary, summarise
from lab.tests.small import replay_suite

LAB_CONTESTANTS = catalogue.contestants()


def lines(table: Table) -> list[str]:
    output = io.StringIO()
    Console(width=80, file=output, color_system=None).print(table)
    return output.getvalue().splitlines()


def a_pass(get_ns: int, wrong: int = 0) -> Pass:
    return Pass(
        wall_ns=5_000,
        workers_ns=10_000,
        timed_ns=8_000,
        actions={
            "get": Tally(712_546, 140_750, wrong, get_ns * 3, encode([get_ns] * 3)),
            "set": Tally(71_530, 0, 0, 37_000, encode([37_000])),
            "delete": Tally(7_916, 791, 0, 33_000, encode([33_000])),
        },
        verdict=Verdict(wrong=wrong, stale=2, examples=["an example"] if wrong else []),
    )


def a_summary(name: str = "django_filebased", wrong: int = 0) -> ContestantSummary:
    cells = [
        ConcurrentCell(
            name,
            number,
            "measured",
            version="5.2.19",
            timer=encode([40, 41]),
            throughput=a_pass(get_ns),
            latency=a_pass(get_ns, wrong),
            block_ns=2_560,
            probe=Verdict(lost=1),
        )
        for number, get_ns in enumerate((36_000, 38_000, 90_000), 1)
    ]
    return summarise(LAB_CONTESTANTS[name], cells)


def test_a_row_has_the_columns_of_the_original() -> None:
    table = lines(terminal.timings(a_summary()))
    headings = "Action Count Miss Median P90 P99 Max Total Wrong"
    assert [line.split() for line in table if "Action" in line] == [headings.split()]
    (get,) = (line.split() for line in table if line.strip().startswith("get"))
    # Median of the rounds, and the maximum of all.
    assert get[:3] == ["get", "712,546", "140,750"]
    assert get[3].startswith("38.0")
    assert get[6].startswith("90.0")
    assert get[7:] == ["114.000µs", "0"]
    (total,) = (line.split() for line in table if line.strip().startswith("Total"))
    assert total == ["Total", "791,992", "184.000µs", "0"]


def test_wrong_values_are_in_the_row_and_in_the_total() -> None:
    table = lines(terminal.timings(a_summary(wrong=7)))
    assert [line.split()[-1] for line in table if line.split()[:1] == ["get"]] == ["21"]
    assert [line.split()[-1] for line in table if line.split()[:1] == ["Total"]] == ["21"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("django_locmem", "data lives in each process alone"),
        ("diskcache", "shared by all processes"),
        ("null", "stores nothing"),
    ],
)
def test_a_table_says_how_long_data_lives(name: str, says: str) -> None:
    assert any(says in line for line in lines(terminal.timings(a_summary(name))))


def test_a_failed_contestant_keeps_its_row_with_the_reason() -> None:
    cell = ConcurrentCell("tuckbox", 1, "failed", "worker 3 died in run: signal SIGKILL")
    summary = summarise(LAB_CONTESTANTS["tuckbox"], [cell])
    assert any("failed: worker 3 died in run" in line for line in lines(terminal.timings(summary)))
    assert any(
        line.split() == ["tuckbox", "failed"] for line in lines(terminal.side_by_side([summary]))
    )


def test_the_tables_fit_80_columns() -> None:
    tables = [
        terminal.timings(a_summary()),
        terminal.side_by_side([a_summary(name) for name in LAB_CONTESTANTS]),
        terminal.hit_ratios(replay_suite(["diskcache"]), some_replays()),
    ]
    for table in tables:
        assert "…" not in "\n".join(lines(table))


def test_stale_and_lost_are_beside_wrong() -> None:
    table = lines(terminal.side_by_side([a_summary(wrong=7)]))
    (row,) = (line.split() for line in table if "django_filebased" in line)
    # 3 rounds x 7 wrong; 3 x 2 passes x 2 stale; 3 lost; nothing refused.
    assert row[-4:] == ["21", "12", "3", "0"]


def test_a_row_close_to_null_is_marked() -> None:
    table = lines(terminal.side_by_side([a_summary("tuckbox"), a_summary("null")]))
    assert any("tuckbox *" in line for line in table)


def some_replays() -> list[ReplayCell]:
    def cell(name: str, hits: int, equal: bool) -> ReplayCell:
        return ReplayCell(
            name,
            0.25,
            "measured",
            bytes_max=10_242_000,
            equal=equal,
            requests=10_000,
            hits=hits,
            bytes_peak=14_533_000,
            bytes_settled=10_228_000,
        )

    return [
        cell("diskcache", 6_000, True),
        cell("tuckbox", 6_250, True),
        cell("greedy", 9_000, False),
        ReplayCell("broken", 0.25, "failed", bytes_max=1, equal=False, reason="why"),
    ]


def test_hit_ratios_are_compared_only_where_bytes_are_equal() -> None:
    table = lines(terminal.hit_ratios(replay_suite(["diskcache"]), some_replays()))
    assert any("tuckbox" in line and "62.50%" in line and "+2.50" in line for line in table)
    assert any("greedy" in line and "not equal" in line for line in table)
    assert any("broken" in line and "failed" in line for line in table)
    assert "+30.00" not in "\n".join(table)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(87, "87ns"), (36_001, "36.001µs"), (10_202_000, "10.202ms"), (28_962_000_000, "28.962s")],
)
def test_durations_are_those_of_the_original(nanoseconds: int, text: str) -> None:
    assert duration(nanoseconds) == text


def test_time_left_is_estimated_from_the_cells_that_ended() -> None:
    console = Console(file=io.StringIO())
    progress = CellProgress(console, "suite", ["slow", "fast", "slow", "fast"])
    assert progress.seconds_left() is None
    progress.ended("slow", "round 1", 9.0, "")
    progress.ended("fast", "round 1", 1.0, "")
    assert progress.seconds_left() == pytest.approx(10.0)
    progress.ended("slow", "round 2", 9.0, "")
    assert progress.seconds_left() == pytest.approx(1.0)
    assert seconds_left(75.2) == "1:15"
