from __future__ import annotations

import csv
import dataclasses
import io
from pathlib import Path

import msgspec
import pytest

from benches import curves, document, record, words
from benches.counts import Counts
from benches.document import PARTS, begin, end
from benches.record import Record
from benches.results import results_of
from benches.row import Figure, Goal
from benches.rows import ROWS
from benches.tests.synthetic import ABOVE, AROUND, BELOW, figure, run
from benches.tests.synthetic import record as record_of
from rig import kept
from rig.kept import PageError, RecordError

PAGE = "# Cost\n\n" + "".join(
    f"By hand: {part}.\n\n{begin(part)}\nof an earlier run\n{end(part)}\n\n" for part in PARTS
)


def page_of(kept: Record, counts: Counts | None = None) -> str:
    return document.make(PAGE, kept, counts).page


def test_the_page_keeps_what_is_written_by_hand() -> None:
    page = page_of(record_of(run(figure())))
    assert page.startswith("# Cost\n\nBy hand: overview.\n")
    assert all(f"By hand: {part}.\n\n{begin(part)}\n" in page for part in PARTS)
    assert page.endswith(f"{end('appendix')}\n\n")
    assert "of an earlier run" not in page


@pytest.mark.parametrize("part", PARTS)
def test_a_page_without_a_mark_is_refused(part: str) -> None:
    for mark in (begin(part), end(part)):
        with pytest.raises(PageError, match=part):
            document.make(PAGE.replace(mark, ""), record_of())


def lines_of(kept: Record) -> list[dict[str, str]]:
    """Return the table of all figures."""
    return list(csv.DictReader(io.StringIO(document.make(PAGE, kept).files["performance.csv"])))


def test_each_row_has_its_figures_and_its_verdict() -> None:
    kept = record_of(run(figure()))
    page = page_of(kept)
    assert "| S1 | Get, hit: a dict with one value has the same object under every key | " in page
    assert "| 2026-01-02, commit 0123456789ab, 6 rounds, A processor |" in page
    assert "A processor, 2 cores, 16 GiB" in page
    (line,) = lines_of(kept)
    assert {name: line[name] for name in ("row", "figure", "unit", "peer")} == {
        "row": "S1",
        "figure": "same keys",
        "unit": "ns",
        "peer": "dict",
    }
    assert (line["tuckbox"], line["peer_value"]) == ("30.5", "20.0")
    assert (line["value"], line["value_unit"], line["low"], line["high"]) == (
        "1.52",
        "x",
        "1.40",
        "1.65",
    )
    assert (line["goal"], line["verdict"]) == ("<= 2x", "met")


def test_the_number_of_rounds_is_that_of_the_samples() -> None:
    five = figure(ours=BELOW[:5], theirs=(20.0,) * 5, what="five")
    one = figure(ours=(30.0,), theirs=(20.0,), what="one", goal=None)
    lines = {line["figure"]: line for line in lines_of(record_of(run(five, one)))}
    assert (lines["five"]["rounds"], lines["five"]["coverage"]) == ("5", "93.8%")
    # A single round has no spread.
    assert [lines["one"][name] for name in ("rounds", "low", "high")] == ["1", "", ""]


def test_an_absolute_figure_is_its_own_value() -> None:
    (line,) = lines_of(record_of(run(Figure("open", "ms", (1.5, 2.0)))))
    found = [line[name] for name in ("tuckbox", "value", "value_unit", "low", "high")]
    assert found == ["", "1.75", "ms", "1.50", "2.00"]


def test_every_run_is_shown_and_all_of_them_give_the_verdict() -> None:
    kept = record_of(run(figure()), run(figure(ours=ABOVE), commit="ba9876543210", cpu="Z80"))
    columns = "run", "commit", "processor", "tuckbox"
    found = [tuple(line[name] for name in columns) for line in lines_of(kept)]
    assert found == [
        ("1", "0123456789ab", "A processor", "30.5"),
        ("2", "ba9876543210", "Z80", "82.5"),
    ]
    assert {line["verdict"] for line in lines_of(kept)} == {"undecided"}
    page = page_of(kept)
    assert "6 rounds, A processor; 2026-01-02, commit ba9876543210, 6 rounds, Z80 |" in page
    assert "| S1 | same keys, compared with dict | 1.52x, 4.12x | <= 2x, **undecided** |" in page


def test_rows_without_a_record_say_so() -> None:
    page = page_of(record_of(run(figure())))
    assert page.count("| not measured |\n") == len(ROWS) - 1
    assert "| met | S1 (Get, hit) |\n| not measured | overview (Ten operations); S1b " in page
    assert "`python -m benches run --only overview`" in page
    assert "`python -m benches run --only S8`" in page


@pytest.mark.parametrize(
    ("ours", "said"), [(BELOW, ""), (ABOVE, "**not met**"), (AROUND, "**undecided**")]
)
def test_what_is_not_met_is_listed(ours: tuple[float, ...], said: str) -> None:
    page = page_of(record_of(run(figure(ours=ours))))
    listed = page.partition("### Goals that are not met, or undecided\n\n")[2].partition("\n\n")[0]
    assert (said in listed) if said else listed == "None."


def test_a_shown_limit_comes_with_its_program() -> None:
    kept = record_of(run(figure(ours=ABOVE, limit=ABOVE)))
    page = page_of(kept)
    assert "| limit shown | S1 (Get, hit) |" in page
    assert "| <= 2x, limit shown |" in page
    (line,) = lines_of(kept)
    found = [line[name] for name in ("stripped", "stripped_value", "stripped_does", "verdict")]
    assert found == ["82.5", "4.12", "only hash", "limit shown"]


def test_what_is_not_to_be_quoted_says_so() -> None:
    page = page_of(record_of(run(figure(), is_quick=True, others=0.2)))
    said = "the quick form: do not quote it**; **disturbed**: other programs had 20% of the"
    assert f"| 2026-01-02, commit 0123456789ab, 6 rounds, A processor; **{said}" in page


def test_what_could_not_be_measured_is_listed() -> None:
    page = page_of(record_of(run(figure(), not_measured=["APCu is not here"])))
    assert "### Not measured\n\n- S1: APCu is not here" in page
    assert "### Not measured" not in page_of(record_of(run(figure())))


def test_counts_of_instructions_are_there() -> None:
    counts = Counts("valgrind-3", "3.11", "rustc 1 (abc)", {"get": 1234.4})
    page = page_of(record_of(run(figure())), counts)
    assert "| get | 1,234 |" in page
    assert "valgrind-3, Python 3.11, rustc 1." in " ".join(page.split())
    assert "### Instructions" not in page_of(record_of(run(figure())))


def test_growth_is_a_table() -> None:
    same = [figure(at=count, what="get, same keys") for count in (1_000, 10_000)]
    fresh = [figure(ours=ABOVE, at=count, what="get, fresh keys") for count in (1_000, 10_000)]
    page = page_of(record_of(run(*same, *fresh), row_id="S8"))
    assert "takes 30.5 ns among 1,000 entries and 30.5 ns among 10,000:" in page
    assert "| 10,000 | 30.5 ns | 20.0 ns | 82.5 ns | 20.0 ns |" in page


def test_points_of_a_curve_are_drawn_and_the_same_figures_give_the_same_chart() -> None:
    points = [figure(at=count) for count in (1_000, 10_000, 100_000)]
    made = document.make(PAGE, record_of(run(*points), row_id="S3"))
    assert list(made.files) == ["performance.csv", "performance-s3.svg"]
    assert "![Set, overwrite](performance-s3.svg)" in made.page
    assert ',"same keys, 100,000 entries",' in made.files["performance.csv"]
    picture = made.files["performance-s3.svg"]
    assert "<svg" in picture
    # The title of the row, that of each part, the axes with their units, and the curves.
    for text in (
        "Set, overwrite",
        "Time of one operation, log scale",
        "time of one operation (ns)",
        "Tuckbox / peer (x)",
        "entries in the cache",
        "100,000",
        "Tuckbox: same keys",
        "goal: &lt;= 2x",
    ):
        assert f">{text}</text>" in picture, text
    assert curves.draw("Set, overwrite", results_of([points])) == picture
    slower = [dataclasses.replace(point, ours=ABOVE) for point in points]
    assert curves.draw("Set, overwrite", results_of([slower])) != picture


def test_a_curve_of_tuckbox_is_drawn_once_for_several_peers() -> None:
    points = [
        dataclasses.replace(figure(at=count), peer=peer)
        for peer in ("moka", "quick_cache")
        for count in (10, 100)
    ]
    picture = curves.draw("Full", results_of([points]))
    assert picture.count(">Tuckbox: same keys</text>") == 1
    for peer in ("moka", "quick_cache"):
        assert picture.count(f">{peer}: same keys</text>") == 1
        assert f">same keys, compared with {peer}</text>" in picture


def test_bytes_are_drawn_in_powers_of_two() -> None:
    points = [
        dataclasses.replace(figure(at=size << 20), along="bytes of a value", unit="MB/s")
        for size in (1, 16)
    ]
    picture = curves.draw("Large values", results_of([points]))
    for text in ("1 MiB", "2 MiB", "16 MiB", "size of a value", "throughput (MB/s)"):
        assert f">{text}</text>" in picture, text


def test_a_page_or_chart_that_is_not_what_the_record_says_is_found(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    made = document.make(PAGE, record_of(run(figure(at=10), figure(at=100)), row_id="S9"))
    assert document.stale(made, page) == ["performance.md", "performance.csv", "performance-s9.svg"]
    document.write(made, page)
    assert document.stale(made, page) == []
    page.write_text(page.read_text() + "x")
    assert document.stale(made, page) == ["performance.md"]


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "performance.json"
    extremes = (-1e-9, 1.5e30, 0.0, 2.0, 3.0, 4.0)
    figures = [
        figure(),
        figure(goal=None, what="no goal"),
        figure(limit=BELOW, what="limit"),
        figure(ours=extremes, what="extremes"),
        figure(ours=(1.5,), theirs=(2.0,), what="one round"),
    ]
    made = record_of(run(*figures), run(figure(), not_measured=["a", "1, 2"]))
    kept.write(path, made)
    assert record.read(path) == made
    assert record.read(tmp_path / "none.json").rows == {}


def test_the_samples_of_a_figure_are_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "performance.json"
    kept.write(path, record_of(run(figure())))
    assert '"ours": [28.0, 29.0, 30.0, 31.0, 32.0, 33.0],\n' in path.read_text()


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "performance.json"
    path.write_text('{"rows": {"S1": [{}]}}')
    with pytest.raises(RecordError, match=r"performance\.json is not a record"):
        record.read(path)
    written = msgspec.json.encode(record_of(run(figure())))
    path.write_bytes(written.replace(b"[28.0,29.0,30.0,31.0,32.0,33.0]", b"[28.0]"))
    with pytest.raises(RecordError, match="same rounds"):
        record.read(path)


def test_two_figures_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        run(figure(), figure(ours=ABOVE))


def test_a_run_is_added_to_the_earlier_ones() -> None:
    first, second, other = run(figure()), run(figure(ours=ABOVE)), run(figure())
    kept = Record({"S3": [other], "S1": [first]})
    order = ["S1", "S2", "S3"]
    after = record.with_run(kept, "S1", second, order)
    assert after.rows == {"S1": [first, second], "S3": [other]}
    assert list(after.rows) == ["S1", "S3"]
    replaced = record.with_run(after, "S1", second, order, replace=True)
    assert replaced.rows == {"S1": [second], "S3": [other]}
    # A row that is no more is not kept.
    assert list(record.with_run(after, "S1", second, ["S1"]).rows) == ["S1"]


def test_runs_of_several_builds_or_machines_are_mixed() -> None:
    assert not record.is_mixed([run(figure()), run(figure())])
    assert record.is_mixed([run(figure()), run(figure(), commit="ba9876543210")])
    assert not record.is_mixed([])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0"),
        (0.012345, "0.0123"),
        (1.0, "1.00"),
        (12.345, "12.3"),
        (123.45, "123"),
        (1234567.8, "1,234,568"),
        (-1.5, "-1.50"),
    ],
)
def test_numbers_have_three_significant_digits(value: float, said: str) -> None:
    assert words.number(value) == said


@pytest.mark.parametrize(
    ("nanoseconds", "said"),
    [(89.4, "89.4 ns"), (1_010.0, "1.01 us"), (54_884.0, "54.9 us"), (2.5e6, "2.50 ms")],
)
def test_durations_have_the_unit_that_suits_them(nanoseconds: float, said: str) -> None:
    assert words.duration([nanoseconds]) == said


def test_the_range_of_durations_names_a_unit_once() -> None:
    assert words.durations([1_100.0, 950.0, 900.0]) == "900 ns to 1.10 us"
    assert words.durations([110.0, 90.0]) == "90.0\u2013110 ns"


def test_an_interval_is_readable_next_to_a_minus_sign() -> None:
    assert words.interval((3.0, 1.0)) == "1.00\u20133.00"
    assert words.interval((3.0, -1.0)) == "-1.00 to 3.00"


@pytest.mark.parametrize(
    ("place", "along", "said"),
    [
        (1, "processes", "1 process"),
        (64, "processes", "64 processes"),
        (1_000, "entries", "1,000 entries"),
        (512, "bytes of a value", "512 B"),
        (1 << 20, "bytes of a value", "1 MiB"),
        (256 << 20, "bytes of a value", "256 MiB"),
        (3 << 29, "bytes of a value", "1.5 GiB"),
    ],
)
def test_places_on_a_curve_have_their_unit(place: int, along: str, said: str) -> None:
    assert words.at(place, along) == said


def test_absolute_figures_have_their_unit() -> None:
    one = Figure("open", "ms", (1.5,), goal=Goal("at most", 2))
    assert words.value(one) == "1.50 ms"
    assert words.bound(one.goal, one) == "<= 2 ms"
    seventh = dataclasses.replace(one, goal=Goal("at most", 1 / 7))
    assert words.bound(seventh.goal, seventh) == "<= 0.143 ms"
    many = dataclasses.replace(one, goal=Goal("at least", 10_000))
    assert words.bound(many.goal, many) == ">= 10,000 ms"
    plain = Figure("descriptors", "", (2.0,), goal=Goal("at most", 3))
    assert (words.value(plain), words.amount(plain.ours, plain.unit)) == ("2.00", "2.00")
    assert words.bound(plain.goal, plain) == "<= 3"
