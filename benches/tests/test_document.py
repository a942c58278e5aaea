from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from benches import curves, document, record, words
from benches.counts import Counts
from benches.document import BEGIN, END, DocumentError
from benches.record import RecordError
from benches.row import Figure, Goal
from benches.rows import ROWS
from benches.tests.synthetic import figure, row
from benches.tests.synthetic import record as record_of

PAGE = f"# Cost\n\nMethod.\n\n{BEGIN}\nof an earlier run\n{END}\n\nThe rest.\n"


def test_the_page_keeps_what_is_written_by_hand() -> None:
    page = document.make(PAGE, record_of(row(figure()))).page
    assert page.startswith(f"# Cost\n\nMethod.\n\n{BEGIN}\n")
    assert page.endswith(f"\n{END}\n\nThe rest.\n")
    assert "of an earlier run" not in page


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(DocumentError, match="lines"):
        document.make("# Cost\n", record_of())


def test_each_row_has_its_figures_and_its_verdict() -> None:
    page = document.make(PAGE, record_of(row(figure()))).page
    line = "| same keys | 40.0 ns | dict | 20.0 ns | 2.00 x | 1.25 .. 2.00 | <= 2 x | met |"
    assert line in page
    assert "| S1 | A get that hits |" in page
    assert "3 rounds, 2 s, 0123456789ab, 2026-01-02." in page
    assert "A processor, 2 cores, 16 GiB" in page


def test_rows_without_a_record_say_so() -> None:
    page = document.make(PAGE, record_of(row(figure()))).page
    assert page.count("| no record |") == len(ROWS) - 1
    assert "- S2: no record" in page
    assert "Nothing: every goal" not in page


def test_that_nothing_is_missed_is_said_when_all_rows_are_there() -> None:
    rows = [row(figure(), row_id=one.id) for one in ROWS]
    assert "Nothing: every goal above is met." in document.make(PAGE, record_of(*rows)).page
    missed = row(figure(ours=(70.0, 80.0, 90.0)), row_id=ROWS[0].id)
    assert "Nothing" not in document.make(PAGE, record_of(missed, *rows[1:])).page


def test_what_is_missed_is_listed_as_such() -> None:
    missed = figure(ours=(70.0, 80.0, 90.0))
    page = document.make(PAGE, record_of(row(figure(), missed))).page
    assert "**not met**" in page
    assert "- S1, same keys, beside dict: 4.00 x where <= 2 x is wanted (not met)" in page


def test_a_shown_limit_is_told_with_its_program() -> None:
    limited = figure(ours=(70.0, 80.0, 90.0), limit=(45.0, 50.0, 55.0))
    page = document.make(PAGE, record_of(row(limited))).page
    assert "| limit shown |" in page
    assert "- same keys, beside dict: a loop that only hashes takes 50.0 ns, 2.50 x" in page


def test_what_is_not_to_be_quoted_says_so() -> None:
    page = document.make(PAGE, record_of(row(figure(), is_quick=True, others=0.2))).page
    assert "the quick form: not to be quoted" in page
    assert "others had 20% of the machine's time" in page


def test_what_could_not_be_measured_is_listed() -> None:
    page = document.make(PAGE, record_of(row(figure(), not_measured=["APCu is not here"]))).page
    assert "## Not measured\n\n- S1: APCu is not here" in page
    assert "Not measured" not in document.make(PAGE, record_of(row(figure()))).page


def test_counts_of_instructions_are_told() -> None:
    counts = Counts("valgrind-3", "3.11", "rustc 1 (abc)", {"get": 1234.4})
    page = document.make(PAGE, record_of(row(figure())), counts).page
    assert "| get | 1,234 |" in page
    assert "valgrind-3, Python 3.11, rustc 1." in page
    assert "## Instructions" not in document.make(PAGE, record_of(row(figure()))).page


def test_points_of_a_curve_are_drawn_and_the_same_figures_give_the_same_picture() -> None:
    points = [figure(at=count) for count in (1_000, 10_000, 100_000)]
    one = row(*points, row_id="S8")
    made = document.make(PAGE, record_of(one))
    assert list(made.pictures) == ["performance-s8.svg"]
    assert "![A get that hits](performance-s8.svg)" in made.page
    assert "| same keys, 100,000 entries |" in made.page
    picture = made.pictures["performance-s8.svg"]
    assert "<svg" in picture
    assert "Tuckbox, same keys" in picture
    assert curves.draw(one) == picture
    slower = row(*(dataclasses.replace(point, ours=(99.0,) * 3) for point in points))
    assert curves.draw(slower) != picture


def test_a_page_or_picture_that_is_not_what_the_record_says_is_found(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    made = document.make(PAGE, record_of(row(figure(at=10), figure(at=100), row_id="S8")))
    assert document.stale(made, page) == ["performance.md", "performance-s8.svg"]
    document.write(made, page)
    assert document.stale(made, page) == []
    page.write_text(page.read_text() + "x")
    assert document.stale(made, page) == ["performance.md"]


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "performance.json"
    kept = record_of(row(figure(), figure(goal=None), figure(limit=(1.0, 2.0, 3.0))))
    record.write(path, kept)
    assert record.read(path) == kept
    assert record.read(tmp_path / "none.json").rows == {}


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "performance.json"
    path.write_text('{"rows": {"S1": {}}}')
    with pytest.raises(RecordError, match=r"performance\.json is no record"):
        record.read(path)
    path.write_bytes(
        msgspec.json.encode(record_of(row(figure()))).replace(b"[30.0,40.0,50.0]", b"[30.0]")
    )
    with pytest.raises(RecordError, match="same rounds"):
        record.read(path)


def test_a_measured_row_takes_the_place_of_its_earlier_record_alone() -> None:
    kept = record_of(row(figure(), row_id="S3"), row(figure(), row_id="S1"))
    new = row(figure(goal=None), row_id="S1")
    after = record.with_row(kept, new, ["S1", "S2", "S3"])
    assert list(after.rows) == ["S1", "S3"]
    assert after.rows["S1"] == new
    assert after.rows["S3"] == kept.rows["S3"]
    assert list(record.with_row(after, new, ["S1"]).rows) == ["S1"]


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


def test_absolute_figures_have_their_unit() -> None:
    one = Figure("open", "ms", (1.5,), "", (), "ours", Goal("at most", 2))
    assert words.value(one) == "1.50 ms"
    assert words.bound(one.goal, one) == "<= 2 ms"
    seventh = dataclasses.replace(one, goal=Goal("at most", 1 / 7))
    assert words.bound(seventh.goal, seventh) == "<= 0.143 ms"
    many = dataclasses.replace(one, goal=Goal("at least", 10_000))
    assert words.bound(many.goal, many) == ">= 10,000 ms"
    plain = Figure("descriptors", "", (2.0,), "", (), "ours", Goal("at most", 3))
    assert (words.value(plain), words.amount(plain.ours, plain.unit)) == ("2.00", "2.00")
    assert words.bound(plain.goal, plain) == "<= 3"
