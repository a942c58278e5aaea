"""The verdicts on hit ratios, on results that keep the goals and on some that do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benches import hit_ratio
from benches.hit_ratio import Cell, Result, Run

#: Sizes of a trace's cells, and what the best policy hits there.
SIZES = ((1_000, 40.0), (4_000, 60.0), (16_000, 70.0))


def _run(hits: float) -> Run:
    return Run(hits, hits, shards=1, refused=0, value_bytes=1, request_ns=1)


def _replayed(cell: Cell, run: Run, beside_metadata: Run | None = None) -> Result:
    runs = dict.fromkeys(cell.arguments(), run)
    return Result(cell, runs, dict.fromkeys(hit_ratio.FAVOURS, beside_metadata or run))


def _result(sized: bool, best: float, hits: float) -> Result:
    cell = Cell("trace", 4_000, sized, best, "best", best, 100)
    return _replayed(cell, _run(hits))


def _verdicts(unit_gap: float, sized_gap: float) -> dict[str, set[str]]:
    unit, sized = _result(False, 60, 60 - unit_gap), _result(True, 50, 50 - sized_gap)
    _, rows = hit_ratio.goal_rows([unit], [sized])
    found: dict[str, set[str]] = {}
    for goal, _asked, _value, verdict in rows:
        found.setdefault(goal, set()).add(verdict)
    return found


def test_what_keeps_every_goal_is_met() -> None:
    found = _verdicts(0.5, 0.4)
    assert found == {"H1": {"met"}, "H2": {"met"}, "H3": {"met"}, "": {""}}


def test_a_greater_gap_is_not_met() -> None:
    found = _verdicts(5, 3)
    assert found["H2"] == found["H3"] == {"not met"}
    assert "not met" in found["H1"]


def test_being_ahead_does_not_make_up_for_being_behind() -> None:
    ahead, behind = _result(False, 60, 75), _result(False, 60, 58)
    _, rows = hit_ratio.goal_rows([ahead, behind], [_result(True, 50, 50)])
    assert rows[0] == [*rows[0][:2], "1.00 / 2.0", "not met"]


def test_what_is_charged_for_metadata_is_told_and_not_judged() -> None:
    cell = Cell("trace", 4_000, True, 50, "best", 50, 100)
    result = _replayed(cell, _run(40), beside_metadata=_run(50))
    _, rows = hit_ratio.goal_rows([_result(False, 60, 60)], [result])
    found = [row for row in rows if "bytes: " in row[1] and "bytes" in row[1].rsplit(":", 1)[1]]
    assert [(row[0], row[2], row[3]) for row in found] == [("H2", "0.00", "met"), ("", "10.00", "")]


def test_files_are_made_longer_until_values_take_the_limit() -> None:
    cell = Cell("trace", 4_000, True, 50, "best", 50, 100)
    times = hit_ratio.SMALL_REPETITIONS
    asked: list[list[str]] = []

    def run(arguments: list[str]) -> list[Run]:
        asked.append(arguments)
        # A quarter of what a file is longer than 1,000 bytes is no value.
        lengths = [int(argument.split(":")[1]) for argument in arguments]
        return [replace(_run(50), value_bytes=(n - 1_000) * 3 // 4) for n in lengths]

    first = replace(_run(50), value_bytes=2_250)
    [found] = hit_ratio.beside_metadata([_replayed(cell, first)], run)
    assert len(asked) > 1
    assert asked[0] == [
        f"bytes:7111:{favour}:4000" for favour in hit_ratio.FAVOURS for _ in range(times)
    ]
    taken = {run.value_bytes for run in found.beside_metadata.values()}
    assert max(taken) <= 1.005 * 4_000
    assert min(taken) >= 0.95 * 4_000


def test_small_cells_are_replayed_several_times() -> None:
    assert Cell("trace", 100, False, 1, "", 1, 1).repetitions > 1
    assert _result(False, 1, 1).cell.repetitions == 1
    assert Cell("trace", 1_000_000, True, 1, "", 1, 1).repetitions > 1
    assert Cell("trace", 10_000_000, True, 1, "", 1, 1).repetitions == 1


def test_the_best_policy_has_a_gap_in_less_room() -> None:
    cells = [Cell("trace", limit, True, best, "best", best, 100) for limit, best in SIZES]
    results = [Result(cell, {}) for cell in cells]
    gaps = [
        hit_ratio.gap_of_the_best(results[1], replace(_run(50), value_bytes=room), results, False)
        for room in (500, 1_000, 2_000, 4_000, 5_000)
    ]
    assert [round(gap, 6) for gap in gaps] == [30, 20, 10, 0, 0]


def test_traces_are_where_the_reader_says_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TUCKBOX_TRACES", raising=False)
    with pytest.raises(SystemExit, match="TRACES=DIR"):
        hit_ratio.find_traces(None)
    with pytest.raises(SystemExit, match=r"has no targets\.csv"):
        hit_ratio.find_traces(tmp_path)
    (tmp_path / "targets.csv").touch()
    assert hit_ratio.find_traces(tmp_path) == tmp_path
    monkeypatch.setenv("TUCKBOX_TRACES", str(tmp_path))
    assert hit_ratio.find_traces(None) == tmp_path


def test_the_document_has_summaries_and_the_table_has_all_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"DOCUMENT": "page.md", "CELLS": "cells.csv", "RECORD": "record.json"}
    for name, file in places.items():
        monkeypatch.setattr(hit_ratio, name, tmp_path / file)
    sized = Cell("sizes", 4_000, True, 50, "best", 50, 100)
    results = [_result(False, 60, 58), _replayed(sized, _run(50))]
    hit_ratio.write_document(results, hit_ratio.sections_of(results, None))
    page = (tmp_path / "page.md").read_text()
    assert "| Tuckbox, 4 shards | 2.00 / 2.0 |" in page
    assert "| trace | 4,000 | 60.00 best | 58.00 | 2.00 |" in page
    cells = (tmp_path / "cells.csv").read_text().splitlines()
    assert "Entries of one size,trace,4000,best (best),60.00" in cells
    assert 'Entries of many sizes: objects hit,sizes,4000,"Tuckbox, hits",50.00' in cells
    assert not any(line.endswith("-") for line in cells)
