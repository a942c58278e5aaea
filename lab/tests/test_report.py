"""The page: complete, safe, within its size, and every figure leads to its records."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.report import html
from lab.report.html.page import page_of
from lab.report.layouts import sheets
from lab.report.layouts.rows import kind
from lab.report.layouts.standing import headlines, standing
from lab.runner import catalogue
from lab.runner.catalogue import PhasesSuite
from lab.runner.records import RecordsError, read
from lab.runner.summary import summarise
from lab.tests import synthetic

VENDOR = Path(html.__file__).parent / "vendor"
BYTES_MAX = 6_000_000
TOKYO = next(one for one in synthetic.phases_suites() if one.name == "tokyo-2009")


class Elements(HTMLParser):
    """The elements of a page: name, attributes, text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[int] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), []))
        self.open.append(len(self.found) - 1)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.found[self.open.pop()][0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        for index in self.open[-1:]:
            self.found[index][2].append(data)

    def named(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attrs, "".join(text)) for name, attrs, text in self.found if name == tag]

    def by_id(self, name: str) -> str:
        return next("".join(text) for _, attrs, text in self.found if attrs.get("id") == name)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write(tmp_path_factory.mktemp("records") / "run.jsonl", rounds=1)


@pytest.fixture(scope="module")
def page(records: Path) -> str:
    output = records.with_suffix(".html")
    html.write(records, output)
    return output.read_text("utf-8")


@pytest.fixture(scope="module")
def elements(page: str) -> Elements:
    return Elements(page)


def unpacked(elements: Elements) -> dict[int, dict[str, Any]]:
    packed = base64.b64decode(elements.by_id("records-data").strip())
    return dict(json.loads(zlib.decompress(packed)))


def test_it_is_one_file_within_its_size(page: str, elements: Elements) -> None:
    assert len(page.encode("utf-8")) < BYTES_MAX
    for tag, attrs, _ in elements.found:
        assert "src" not in attrs, tag
        assert tag != "link" or attrs["href"] == "data:,"
        assert (attrs.get("href") or "#").startswith(("#", "data:,")), attrs
    style = elements.named("style")[0][1]
    assert "url(" not in style
    assert "@import" not in style


def test_every_paragraph_about_the_originals_is_shown(elements: Elements) -> None:
    shown = {" ".join(text.split()) for _, text in elements.named("p")}
    for suite in synthetic.phases_suites():
        for paragraph in suite.audit.split("\n\n"):
            assert " ".join(paragraph.split()) in shown


def test_what_records_say_is_text_and_never_markup(page: str, elements: Elements) -> None:
    assert synthetic.HOSTILE not in page
    # It is present as text: in the name of the processor, in a reason, in a check's example.
    texts = ["".join(text) for _, _, text in elements.found]
    assert any(synthetic.HOSTILE in text for text in texts)
    scripts = {text.strip() for _, text in elements.named("script")}
    assert not any(text.startswith("alert") for text in scripts)
    reasons = [record["reason"] for record in unpacked(elements).values() if record["reason"]]
    assert any(synthetic.HOSTILE in reason for reason in reasons)


def test_every_suite_and_contestant_is_there(records: Path, page: str) -> None:
    run = read(records)
    for suite in run.header.suites:
        assert f'id="suite-{suite.name}"' in page
    for cell in run.cells:
        assert cell.contestant in page


def test_every_published_figure_is_there(elements: Elements) -> None:
    texts = {text.strip() for _, text in elements.named("td")}
    texts |= {text.strip() for _, text in elements.named("th")}
    shown_otherwise = {"Cache::SizeAwareFileCache Storable"}
    for suite in synthetic.phases_suites():
        for table in suite.original:
            for row in table.rows:
                for text in row[1:]:
                    # The time index of phases that are not measured is left out.
                    if row[0] in ("Start", "Stop", "vanish"):
                        continue
                    assert text in texts | shown_otherwise, (suite.name, table.title, text)


def test_every_figure_leads_to_its_records(records: Path, elements: Elements) -> None:
    run = read(records)
    known = unpacked(elements)
    assert sorted(known) == run.lines
    for line, cell in zip(run.lines, run.cells, strict=True):
        assert known[line]["contestant"] == cell.contestant
        assert known[line]["repeat"] == cell.repeat
    led = {
        int(line)
        for attrs, _ in elements.named("button")
        if attrs.get("class") == "records"
        for line in (attrs["data-lines"] or "").split()
    }
    assert led == set(run.lines)


def test_a_row_leads_to_its_own_records_only(records: Path) -> None:
    run = read(records)
    page = page_of(run)
    known = dict(zip(run.lines, run.cells, strict=True))
    chosen = 0
    for suite in page["suites"]:
        for part in suite["parts"]:
            for table in part["more"]:
                for row in table["rows"]:
                    cells = [known[int(line)] for line in row["lines"].split()]
                    assert cells
                    assert len({cell.contestant for cell in cells}) == 1
                    assert {cell.suite for cell in cells} == {suite["name"]}
                    places = dict(zip(table["pickers"], row["choice"].split(","), strict=False))
                    for picker, place in places.items():
                        if picker.name == "variant" and place:
                            variants = {getattr(cell, "variant", "") for cell in cells}
                            assert variants == {picker.options[int(place)]}
                            chosen += 1
    assert chosen > 100


def test_histograms_stay_in_the_file(elements: Elements) -> None:
    assert "HISTFAAA" not in json.dumps(unpacked(elements))


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    suite = TOKYO
    records = synthetic.write(
        tmp_path / "torn.jsonl", [suite], ended=False, torn=True, rounds=1, replays=False
    )
    html.write(records, records.with_suffix(".html"))
    page = records.with_suffix(".html").read_text("utf-8")
    assert "This run was interrupted or is still running" in page
    assert "unfinished" in page
    assert "no faults" not in page


def test_a_run_without_any_cell_is_a_page(tmp_path: Path) -> None:
    suites = synthetic.phases_suites()
    path = tmp_path / "empty.jsonl"
    path.write_bytes(msgspec.json.encode(synthetic.header(suites, [])) + b"\n")
    html.write(path, tmp_path / "empty.html")
    assert "Which cache should I use?" in (tmp_path / "empty.html").read_text("utf-8")


def test_a_run_in_which_nothing_was_measured_is_a_page(tmp_path: Path) -> None:
    suite = TOKYO
    row = synthetic.contestant(synthetic.FAILED, "moka", "native")
    cells = list(synthetic.cells(suite, [row], rounds=1))
    records = [synthetic.header([suite], [row]), *cells, synthetic.ending()]
    path = tmp_path / "failed.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in records))
    html.write(path, tmp_path / "failed.html")
    page = (tmp_path / "failed.html").read_text("utf-8")
    assert "Without figures" in page
    assert "worker 0 died in run" in page


def test_a_suite_whose_layout_nobody_knows_is_shown(tmp_path: Path) -> None:
    suite = msgspec.structs.replace(TOKYO, layout="plain", name="unheard")
    rows = synthetic.contestants(suite)
    found = sheets(suite, summarise(suite, rows, synthetic.cells(suite, rows, rounds=1)))
    assert [bool(one.charts) and bool(one.corrected.rows) for one in found] == [True]
    assert found[0].tables == ()


def test_what_are_no_records_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text('{"some": "thing"}\n')
    with pytest.raises(RecordsError):
        html.write(path, tmp_path / "other.html")
    assert not (tmp_path / "other.html").exists()


def test_where_we_stand_names_every_phase_in_which_we_are_not_first() -> None:
    suite = TOKYO
    faster = synthetic.contestant("faster", "Faster", "python")
    mine = synthetic.contestant("tuckbox", "Tuckbox", "python")
    null = synthetic.contestant("null", "Nothing", "python", stores=False)
    cells = list(synthetic.cells(suite, [mine, faster, null], rounds=3))
    mains = {(cell.contestant, cell.round): cell.phases for cell in cells}
    for number in (1, 2, 3):
        pairs = zip(mains["faster", number], mains["tuckbox", number], (0.05, 20.0), strict=True)
        for theirs, own, factor in pairs:
            assert theirs.latency is not None
            assert own.latency is not None
            theirs.latency.elapsed_ns = round(own.latency.elapsed_ns * factor)
            theirs.latency.cpu_ns = theirs.latency.elapsed_ns
    rows = summarise(suite, [mine, faster, null], cells)
    table = standing(rows)
    assert table is not None
    put, get = (
        {column.heading: cell.text for column, cell in zip(table.columns, row.cells, strict=True)}
        for row in table.rows
    )
    assert (put["First in"], put["Rank"], put["Behind"], put["Fastest"]) == (
        "0 of 1",
        "2 of 2",
        "20 x",
        "Faster",
    )
    assert (get["First in"], get["Rank"], get["Fastest"]) == ("1 of 1", "1 of 2", "itself")
    sentences = headlines(rows, "main", "160 bytes")
    assert sentences[0].startswith("put: Faster")
    assert "Tuckbox" in sentences[0]
    assert sentences[1].startswith("get: Tuckbox")


def test_data_that_forks_share_counts_as_shared() -> None:
    suite = catalogue.suites()["choice"]
    assert isinstance(suite, PhasesSuite)
    ours = synthetic.contestant("tuckbox", "Tuckbox", "python")
    forked = msgspec.structs.replace(synthetic.contestant("a", "A", "php"), shared_by="fork")
    alone = msgspec.structs.replace(synthetic.contestant("b", "B", "php"), shared_by="process")
    rows = summarise(suite, [ours, forked, alone], synthetic.cells(suite, [ours, forked, alone]))
    assert [kind(row) for row in rows[:3]] == ["shared", "shared", "alone"]
    table = standing(rows)
    assert table is not None
    shared = next(n for n, one in enumerate(table.columns) if one.heading == "Among shared")
    assert table.rows[0].cells[shared].text.endswith(" of 2")


def test_vendored_files_are_those_that_were_published() -> None:
    told = (VENDOR / "README.md").read_text("utf-8")
    sums = dict(re.findall(r"^\| `([^`]+)` .* `([0-9a-f]{64})` \|$", told, re.MULTILINE))
    scripts = sorted(path.name for path in VENDOR.glob("*.js"))
    assert sorted(sums) == scripts
    for name in scripts:
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == sums[name]


def test_the_title_counts_only_contestants_with_figures(tmp_path: Path) -> None:
    run = read(synthetic.write(tmp_path / "run.jsonl", rounds=1))
    phases = {cell.contestant for cell in run.cells if cell.outcome == "measured"}
    phases -= {name for name, _ in synthetic.NULLS}
    without = f"2 without ({synthetic.FAILED}, {synthetic.UNAVAILABLE})"
    assert f": {len(phases)} contestants with figures, {without}." in page_of(run)["lede"]
    # A contestant with figures in any suite does not count as one without.
    one = run.cells.index(next(cell for cell in run.cells if cell.contestant == synthetic.FAILED))
    run.cells[one].outcome = "measured"
    assert f"1 without ({synthetic.UNAVAILABLE})" in page_of(run)["lede"]


def test_labels_name_contestants_that_take_part() -> None:
    rows = catalogue.contestants()
    for suite in catalogue.suites().values():
        for name in suite.labels if isinstance(suite, PhasesSuite) else ():
            assert name in rows, f"{suite.name} has a label for {name}, which is no contestant"
            assert isinstance(suite, PhasesSuite)
            assert any(rows[name].takes_part(suite.name, part) for part in suite.parts), name
