"""The tables show the measurements in the originals' layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from lab.report.layouts import sheets
from lab.report.model import Cell, Sheet
from lab.report.units import brief, digits, duration, hit_rate, seconds_left, spread, times
from lab.runner.catalogue import PhasesSuite
from lab.runner.summary import Summary, summarise
from lab.tests import synthetic

SUITES = {suite.name: suite for suite in synthetic.phases_suites()}


@pytest.fixture(scope="module")
def summaries() -> dict[str, list[Summary]]:
    """Return rows of one round of every suite."""
    found = {}
    for name, suite in SUITES.items():
        rows = synthetic.contestants(suite)
        found[name] = summarise(suite, rows, synthetic.cells(suite, rows, rounds=1))
    return found


def sheet(suite: PhasesSuite, rows: Sequence[Summary], part: str) -> Sheet:
    (found,) = (one for one in sheets(suite, rows) if one.name == part)
    return found


def texts(cells: Sequence[Cell]) -> list[str]:
    return [cell.text for cell in cells]


def test_2004_has_its_blocks_and_both_years(summaries: dict[str, list[Summary]]) -> None:
    table = sheet(SUITES["fastmmap-2004"], summaries["fastmmap-2004"], "main").tables[0]
    headings = [column.heading for column in table.columns]
    assert headings[3:9] == ["Cmplx", "Set/S", "Get/S", "Mix/S", "GHitR", "MHitR"]
    assert {column.group for column in table.columns if column.published} == {"2004"}
    block = [
        row
        for row in table.rows
        if texts(row.cells[:3]) == ["Cache::FastMmap", "bin", "num_pages 89 page_size 8192"]
    ]
    assert texts(block[0].cells[-5:]) == ["43109", "51545", "49728", "1.000", "1.000"]
    assert texts(block[-1].cells[-5:]) == ["36993", "41094", "39425", "0.692", "0.650"]
    # Measured: a tenth of the requested stored keys were not found.
    assert texts(block[0].cells[7:9]) == ["0.882", "0.900"]


def test_2004_has_complex_data_by_its_own_label(summaries: dict[str, list[Summary]]) -> None:
    table = sheet(SUITES["fastmmap-2004"], summaries["fastmmap-2004"], "main").tables[0]
    (row,) = (
        row
        for row in table.rows
        if [cell.text for cell in row.cells[:4]] == ["BerkeleyDB", "complex", "", "16"]
    )
    assert [cell.text for cell in row.cells[-5:]] == ["7717", "18508", "13999", "1.000", "1.000"]


def test_2005_has_its_rates_and_hit_ratios(summaries: dict[str, list[Summary]]) -> None:
    table = sheet(SUITES["fastmmap-2004"], summaries["fastmmap-2004"], "size-aware").tables[0]
    figures = ["Set/S", "Get/S", "Mix/S", "GHitR", "MHitR"]
    assert [column.heading for column in table.columns[-10:]] == figures * 2
    assert {column.group for column in table.columns[-5:]} == {"2005"}
    (row,) = (row for row in table.rows if row.cells[0].text == "Cache::SizeAwareFileCache")
    assert [cell.text for cell in row.cells[1:4]] == ["complex", "cache_size 1000000", "5"]
    assert [cell.text for cell in row.cells[-5:]] == ["15", "353", "43", "1.000", "1.000"]
    # Measured: of every phase, and of the stored keys.
    today = [cell.text for cell in row.cells[4:9]]
    (summary,) = (
        one
        for one in summaries["fastmmap-2004"]
        if (one.part, one.contestant.name) == ("size-aware", "perl_sizeawarefilecache")
    )
    rates = [f"{phase.main.rate.median:.0f}" for phase in summary.phases]
    assert today == [*rates, "0.882", "0.900"]
    # It has the other limited rows too.
    named = {one.cells[0].text for one in table.rows}
    assert named >= {"Cache::SizeAwareFileCache", "Cache::FileCache", "Tuckbox"}


def test_the_listing_has_both_times_of_each_number_of_files(
    summaries: dict[str, list[Summary]],
) -> None:
    (table,) = sheet(SUITES["django"], summaries["django"], "listing").tables
    rows = [summary for summary in summaries["django"] if summary.part == "listing"]
    assert {row.contestant.name for row in rows} == {"glob1"}
    lines = [[cell.text for cell in row.cells] for row in table.rows]
    published = ["1.602ms", "2.213ms", "8.946ms", "65.869ms", "604.972ms", "6.450s"]
    files = ["1", "10", "100", "1,000", "10,000", "100,000"]
    assert [(line[0], line[-1]) for line in lines] == list(zip(files, published, strict=True))
    medians = [row.phases[0].latency.action("get").median_ns for row in rows if row.phases]  # type: ignore[union-attr]
    assert [row.cells[1].order for row in table.rows] == medians


def test_2009_has_its_time_index_and_shares(summaries: dict[str, list[Summary]]) -> None:
    table = sheet(SUITES["tokyo-2009"], summaries["tokyo-2009"], "main").tables[1]
    block = {
        row.cells[1].text: row.cells
        for row in table.rows
        if row.cells[0].text == "MySQL (php_mariadb:no_index 1c)"
    }
    assert list(block) == [
        *("Start", "create", "connect", "vanish", "put", "get", "close", "Stop", "total")
    ]
    assert texts(block["get"][-2:]) == ["549.693031", "97.77%"]
    parts = [block[name] for name in ("create", "connect", "put", "get", "close")]
    shares = [float(cells[4].text.rstrip("%")) for cells in parts]
    assert sum(shares) == pytest.approx(100, abs=0.05)
    assert block["total"][3].order == sum(cells[3].order or 0.0 for cells in parts)
    # Times that are not part of the total have no share.
    beside = [texts(block[name][2:5]) for name in ("Start", "vanish", "Stop")]
    assert beside == [["", "0.030000", ""], ["", "0.004000", ""], ["", "0.003000", ""]]
    assert texts(block["Stop"][-3:]) == ["1243136700.40104500", "0.000256", "0.00%"]


def test_2009_has_nothing_where_a_store_cannot_be_emptied(
    summaries: dict[str, list[Summary]],
) -> None:
    rows = [replace(row, clear_ns=None) for row in summaries["tokyo-2009"]]
    table = sheet(SUITES["tokyo-2009"], rows, "main").tables[1]
    vanish = [texts(row.cells[2:5]) for row in table.rows if row.cells[1].text == "vanish"]
    assert vanish == [["", "", ""]] * len(vanish)
    assert vanish


def test_2009_says_where_a_phase_met_its_time_limit() -> None:
    suite = SUITES["tokyo-2009"]
    rows = synthetic.contestants(suite)
    cells = list(synthetic.cells(suite, rows, rounds=1))
    for cell in cells:
        if cell.contestant == "php_mariadb:no_index":
            get = cell.phases[1].latency
            assert get is not None
            get.done = 2_500
    main = sheet(suite, summarise(suite, rows, cells), "main")
    ended = [row.cells[-1].text for row in main.tables[0].rows]
    assert sum(text.startswith("get after 2,500 of 10,000") for text in ended) == 2
    assert any(note.startswith("Reached the time limit of a pass") for note in main.notes)


def test_2010_has_the_matrix_slowest_first(summaries: dict[str, list[Summary]]) -> None:
    main = sheet(SUITES["chi-2010"], summaries["chi-2010"], "main")
    keys = {"set:get": "1:10", "values": "medium"}
    own, split, *published = (table for table in main.tables if table.keys == keys)
    assert [column.heading for column in own.columns[2:]] == [row.cells[0].text for row in own.rows]
    rates = [row.cells[1].order or 0 for row in own.rows]
    assert rates == sorted(rates)
    assert own.rows[0].cells[2].text == "--"
    assert own.rows[1].cells[2].text == f"{rates[1] / rates[0] - 1:.0%}"
    assert {"CHI:Mc:lIP", "C:FMmap", "CHI:L1"} <= {row.cells[0].text for row in split.rows}
    # It was published twice.
    assert len(published) == 2
    assert [cell.text for cell in published[0].rows[0].cells[:3]] == ["CHI:Mc:lIP", "4628/s", "--"]


def test_2010_has_every_published_matrix(summaries: dict[str, list[Summary]]) -> None:
    suite = SUITES["chi-2010"]
    main = sheet(suite, summaries["chi-2010"], "main")
    then = [table for table in main.tables if table.title.startswith("2010")]
    assert len(then) == len(suite.original) == 6


def test_2011_says_what_was_kept_refused_and_missing() -> None:
    suite = SUITES["network-2011"]
    rows = synthetic.contestants(suite)
    cells = list(synthetic.cells(suite, rows, rounds=1))
    for cell in cells:
        if (cell.contestant, cell.variant) == ("php_memcache:stock", "2.12 MB"):
            write, read = (phase.latency for phase in cell.phases)
            assert write is not None
            assert read is not None
            write.actions["set"].tally.miss = 550
            read.actions["get"].tally.miss = read.actions["get"].tally.absent = 550
    main = sheet(suite, summarise(suite, rows, cells), "main")
    kept = main.tables[1]
    (row,) = (
        row
        for row in kept.rows
        if row.keys["values"] == "2.12 MB" and row.cells[0].short == "php_memcache:stock 1c"
    )
    assert [cell.text for cell in row.cells[1:6]] == ["550", "550", "0", "550", "0"]
    assert row.cells[2].mark == "weak"
    times_of = [row for row in main.tables[0].rows if row.cells[-1].text == "550 refused"]
    # Once on one core, once on two.
    assert [row.keys["phase"] for row in times_of] == ["write", "write"]


def test_django_has_a_line_for_each_action_and_the_total(
    summaries: dict[str, list[Summary]],
) -> None:
    table = sheet(SUITES["django"], summaries["django"], "main").tables[0]
    headings = [column.heading for column in table.columns]
    assert headings[1:10] == [
        "Action",
        "Count",
        "Miss",
        "Median",
        "P90",
        "P99",
        "Max",
        "Total",
        "Wrong",
    ]
    block = {
        row.cells[1].text: row.cells
        for row in table.rows
        if row.cells[0].text == "locmem, django_locmem"
    }
    assert list(block) == ["get", "set", "delete", "Total"]
    assert texts(block["get"][2:4]) == ["720,000", "72,000"]
    assert texts(block["get"][-7:]) == ["712546", "140750", "36.001µs", "57.936µs", "60.081µs",
        "10.202ms", "28.962s"]  # fmt: skip
    assert [block["Total"][at].text for at in (-7, -1)] == ["791992", "31.936s"]


def test_django_compares_with_the_original_under_its_own_limit() -> None:
    suite = SUITES["django"]
    rows = [one for one in synthetic.contestants(suite) if one.name == "tuckbox"]
    cells = list(synthetic.cells(suite, rows, rounds=1))
    for cell in cells:
        if cell.part == "main" and cell.variant != suite.parts[0].variants[0].name:
            assert cell.phases[0].latency is not None
            cell.phases[0].latency.actions["get"].tally.count = 7
    table = sheet(suite, summarise(suite, rows, cells), "main").tables[0]
    assert [row.cells[1].text for row in table.rows] == ["get", "set", "delete", "Total"]
    assert table.rows[0].cells[2].text == "720,000"


def test_rows_beyond_the_limits_have_a_table_that_says_why(
    summaries: dict[str, list[Summary]],
) -> None:
    main = sheet(SUITES["fastmmap-2004"], summaries["fastmmap-2004"], "main")
    assert main.corrected.title == "Full results, within the limits"
    assert synthetic.GREEDY not in {row.cells[0].short for row in main.corrected.rows}
    assert main.beyond is not None
    assert {row.cells[0].short for row in main.beyond.rows} == {synthetic.GREEDY}
    assert {row.cells[1].text for row in main.beyond.rows} == {"cannot limit bytes"}
    at = [column.heading for column in main.beyond.columns].index("Bytes used")
    assert {row.cells[at].text for row in main.beyond.rows} == {"1.442 MB"}
    assert {row.cells[at + 1].text for row in main.beyond.rows} == {"files"}
    assert any("tolerance of 3%" in note for note in main.corrected.notes)


def test_where_all_keep_within_the_limits_there_is_one_table(
    summaries: dict[str, list[Summary]],
) -> None:
    main = sheet(SUITES["chi-2010"], summaries["chi-2010"], "main")
    assert main.beyond is None
    assert main.corrected.title == "Full results"
    assert any("the limit of 33.554 MB, as measured" in note for note in main.corrected.notes)


def test_who_counts_no_entries_is_beyond_a_limit_of_entries() -> None:
    suite = SUITES["django"]
    (row,) = (one for one in synthetic.contestants(suite) if one.name == "tuckbox")
    row = msgspec.structs.replace(row, counts=["bytes"])
    of_main = [cell for cell in synthetic.cells(suite, [row], 1) if cell.part == "main"]
    found = sheet(suite, summarise(suite, [row], of_main), "main")
    assert {line.keys["variant"] for line in found.corrected.rows} == {"all fit"}
    assert found.beyond is not None
    assert {line.keys["variant"] for line in found.beyond.rows} == {"1,000 entries"}
    why = "cannot limit entries: it may hold all of them"
    assert {line.cells[1].text for line in found.beyond.rows} == {why}


def test_a_rate_with_misses_is_marked(summaries: dict[str, list[Summary]]) -> None:
    table = sheet(SUITES["chi-2010"], summaries["chi-2010"], "main").corrected
    at = [column.heading for column in table.columns].index("Hits")
    marks = {(row.cells[at].text == "", row.cells[at].mark) for row in table.rows}
    assert marks == {(False, "weak"), (True, "")}


def test_a_mix_has_one_rate_and_its_actions_have_none(summaries: dict[str, list[Summary]]) -> None:
    table = sheet(SUITES["django"], summaries["django"], "main").corrected
    headings = [column.heading for column in table.columns]
    rated = {
        row.keys["operation"]: bool(row.cells[headings.index("Rate")].text) for row in table.rows
    }
    assert rated == {"mix": True, "get": False, "set": False, "delete": False}
    timed = {
        row.keys["operation"]: bool(row.cells[headings.index("Median")].text) for row in table.rows
    }
    assert timed == {"mix": False, "get": True, "set": True, "delete": True}


def test_one_round_has_neither_spread_nor_interval(summaries: dict[str, list[Summary]]) -> None:
    table = sheet(SUITES["tokyo-2009"], summaries["tokyo-2009"], "main").corrected
    headings = [column.heading for column in table.columns]
    for heading in ("Spread", "Interval"):
        assert {row.cells[headings.index(heading)].text for row in table.rows} == {""}


def test_six_rounds_have_an_interval_that_names_its_coverage() -> None:
    suite = SUITES["tokyo-2009"]
    rows = synthetic.contestants(suite)
    table = sheet(suite, summarise(suite, rows, synthetic.cells(suite, rows, 6)), "main").corrected
    headings = [column.heading for column in table.columns]
    assert all(row.cells[headings.index("Interval")].text.endswith("(96.9%)") for row in table.rows)


def test_scaling_says_where_a_backend_stopped(summaries: dict[str, list[Summary]]) -> None:
    table = sheet(SUITES["django"], summaries["django"], "scaling").tables[0]
    headings = [column.heading for column in table.columns]
    assert headings[1:-1] == ["1", "10", "100", "1,000", "10,000", "100,000"]
    (row,) = (row for row in table.rows if row.cells[0].short == synthetic.STOPPED)
    assert row.cells[headings.index("1,000")].text != ""
    assert row.cells[headings.index("10,000")].text == ""
    assert row.cells[-1].text == "at 2,500 of 100,000: time limit"


def test_the_cost_at_a_step_is_the_mean_since_the_step_before() -> None:
    suite = SUITES["django"]
    rows = [one for one in synthetic.contestants(suite) if one.name == "tuckbox"]
    cells = [cell for cell in synthetic.cells(suite, rows, rounds=1) if cell.part == "scaling"]
    latency = cells[0].phases[0].latency
    assert latency is not None
    totals = {step.count: step.total_ns for step in latency.steps}
    found = sheet(suite, summarise(suite, rows, cells), "scaling").tables[0].rows[0]
    at_1000 = (totals[1_000] - totals[500]) / 500
    assert found.cells[4].order == pytest.approx(at_1000)


def test_wrong_stale_and_lost_stand_out(summaries: dict[str, list[Summary]]) -> None:
    main = sheet(SUITES["fastmmap-2004"], summaries["fastmmap-2004"], "main")
    (row,) = (row for row in main.resources.rows if row.cells[0].short == synthetic.WRONG)
    # 3 wrong and 2 lost under each of 6 variants.
    assert [cell.text for cell in row.cells[1:4]] == ["18", "0", "12"]
    assert [cell.mark for cell in row.cells[1:4]] == ["fault", "", "fault"]
    corrected = [row for row in main.corrected.rows if row.cells[0].short == synthetic.WRONG]
    headings = [column.heading for column in main.corrected.columns]
    assert {row.cells[headings.index("Wrong")].text for row in corrected} == {"3"}


def test_who_could_not_run_keeps_a_row_with_the_reason(
    summaries: dict[str, list[Summary]],
) -> None:
    absent = sheet(SUITES["network-2011"], summaries["network-2011"], "main").absent
    assert absent is not None
    said = {row.cells[0].short: texts(row.cells[1:]) for row in absent.rows}
    reason = "its last release does not build any more"
    assert said[synthetic.UNAVAILABLE] == ["cannot be installed", reason]
    assert said[synthetic.FAILED][0] == "failed"
    assert said[synthetic.FAILED][1].startswith("worker 0 died in run")


def test_noisy_rows_and_those_near_null_are_named() -> None:
    suite = SUITES["tokyo-2009"]
    rows = synthetic.contestants(suite)
    notes = sheet(suite, summarise(suite, rows, synthetic.cells(suite, rows)), "main").notes
    (noisy,) = (note for note in notes if note.startswith("Noisy"))
    assert "LMDB" in noisy
    assert "Redis" not in noisy
    assert any("Cost of the host's own loop" in note and "python" in note for note in notes)


def test_null_is_never_counted_or_ranked(summaries: dict[str, list[Summary]]) -> None:
    main = sheet(SUITES["tokyo-2009"], summaries["tokyo-2009"], "main")
    nulls = [row for row in main.resources.rows if row.cells[0].mark == "aside"]
    assert nulls
    assert all(cell.text == "" for row in nulls for cell in row.cells[1:5])
    first_null = min(
        index for index, row in enumerate(main.tables[0].rows) if row.cells[0].mark == "aside"
    )
    assert all(row.cells[0].mark == "aside" for row in main.tables[0].rows[first_null:])


@pytest.mark.parametrize(
    ("nanoseconds", "text", "short"),
    [
        (87, "87ns", "87.0 ns"),
        (36_001, "36.001µs", "36.0 µs"),
        (10_202_000, "10.202ms", "10.2 ms"),
        (28_962_000_000, "28.962s", "29.0 s"),
        (999.6, "1000ns", "1.00 µs"),
        (0, "0ns", "0 ns"),
    ],
)
def test_durations(nanoseconds: float, text: str, short: str) -> None:
    assert duration(nanoseconds) == text
    assert brief(nanoseconds) == short


def test_other_figures() -> None:
    assert [digits(one) for one in (0.123, 9.996, 99.96, 412.4, 4_120.4)] == [
        "0.12",
        "10.0",
        "100",
        "412",
        "4,120",
    ]
    # Only exactly 1 is shown as 1.000.
    assert [hit_rate(one) for one in (1.0, 0.9996, 0.6251)] == ["1.000", "0.999", "0.625"]
    assert [times(one) for one in (1.04, 3.21, 58.4)] == ["1.04 x", "3.2 x", "58 x"]
    assert [spread(one) for one in (0.001, 0.123)] == ["<1%", "12%"]
    assert seconds_left(75.2) == "1:15"
