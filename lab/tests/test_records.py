"""Records are append-only, survive a torn line, and show which run can be continued."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from lab.runner import records
from lab.runner.history import expected_seconds
from lab.runner.records import (
    FORMAT,
    Ending,
    Header,
    RecordsError,
    Settings,
    begun,
    now,
    resumed,
    unfinished,
)
from lab.runner.results import PhasesCell
from lab.tests.small import contestant, suite
from rig.machine import Disturbance, machine

ENDING = Ending(now(), Disturbance(0.0, 0.0), [], [])


def header(later: int = 0, **settings: object) -> Header:
    asked = msgspec.structs.replace(
        Settings(["run"], "full", 1, ["small"], ["honest"], "memory"), **settings
    )
    started = now() + timedelta(seconds=later)
    return Header(started, machine(), asked, [suite()], [contestant("honest")])


def a_cell(number: int = 1, seconds: float = 2.0) -> PhasesCell:
    one = PhasesCell("small", "main", "short", "honest", "free", number, "measured")
    one.seconds = seconds
    return one


def rounds(run: records.Run) -> list[int]:
    return [cell.round for cell in run.cells if isinstance(cell, PhasesCell)]


def test_what_was_written_is_read_with_its_lines(tmp_path: Path) -> None:
    with begun(header(), tmp_path) as kept:
        kept.add(a_cell(1))
        kept.add(a_cell(2))
        kept.add(ENDING)
    run = records.read(kept.path)
    assert run.header.settings.contestants == ["honest"]
    assert run.header.suites == [suite()]
    assert run.header.contestants == [contestant("honest")]
    assert (rounds(run), run.lines) == ([1, 2], [2, 3])
    assert run.line_of(run.cells[1]) == 3
    assert run.ending == ENDING


def test_a_line_that_was_not_written_to_its_end_is_cut_off(tmp_path: Path) -> None:
    with begun(header(), tmp_path) as kept:
        kept.add(a_cell(1))
    with kept.path.open("ab") as file:
        file.write(msgspec.json.encode(a_cell(2))[:100])
    torn = kept.path.read_bytes()
    run = records.read(kept.path)
    assert rounds(run) == [1]
    with resumed(run) as again:
        again.add(a_cell(3))
    whole = records.read(kept.path)
    assert rounds(whole) == [1, 3]
    assert len(whole.resumptions) == 1
    # The earlier content is unchanged.
    kept_of_it = torn[: torn.rfind(b"\n") + 1]
    assert kept.path.read_bytes().startswith(kept_of_it)


def test_a_damaged_line_in_the_middle_is_told(tmp_path: Path) -> None:
    with begun(header(), tmp_path) as kept:
        kept.add(a_cell(1))
    kept.path.write_bytes(kept.path.read_bytes() + b'{"half a line\n')
    with pytest.raises(RecordsError, match=rf"line 3: .* this lab reads format {FORMAT}"):
        records.read(kept.path)


@pytest.mark.parametrize("content", [b"", b'{"torn'])
def test_a_file_without_a_header_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "20260101T000000-1.jsonl"
    path.write_bytes(content)
    with pytest.raises(RecordsError, match="nothing was recorded"):
        records.read(path)


def test_the_newest_broken_off_run_like_this_one_is_found(tmp_path: Path) -> None:
    paths = []
    for later, finished in ((0, False), (10, False), (20, True)):
        with begun(header(later), tmp_path) as kept:
            kept.add(a_cell())
            if finished:
                kept.add(ENDING)
        paths.append(kept.path)
    found = unfinished(tmp_path, header(30))
    assert found is not None
    assert found.path == paths[1]


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 2},
        {"form": "quick"},
        {"contestants": ["honest", "other"]},
        {"suites": ["small/main"]},
        {"data": "a disk"},
        {"rounds": 3},
    ],
)
def test_a_run_of_other_settings_is_not_gone_on_with(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    with begun(header(), tmp_path):
        pass
    assert unfinished(tmp_path, header(10, **changed)) is None
    # The typed command may differ.
    assert unfinished(tmp_path, header(10, command=["run", "--resume"])) is not None


def test_a_run_of_other_definitions_or_another_machine_is_not_gone_on_with(tmp_path: Path) -> None:
    with begun(header(), tmp_path):
        pass
    other = header(10)
    other.contestants = [contestant("stale")]
    assert unfinished(tmp_path, other) is None
    other = header(10)
    other.machine = msgspec.structs.replace(other.machine, cpu="another")
    assert unfinished(tmp_path, other) is None
    same = header(10)
    same.machine = msgspec.structs.replace(same.machine, load_before=9.5)
    assert unfinished(tmp_path, same) is not None


def test_a_run_that_still_goes_on_is_not_gone_on_with(tmp_path: Path) -> None:
    with begun(header(), tmp_path):
        assert unfinished(tmp_path, header(10)) is None
    run = unfinished(tmp_path, header(10))
    assert run is not None
    with resumed(run), pytest.raises(OSError, match="another run is still writing"), resumed(run):
        pass


def test_files_of_nobody_are_passed_over(tmp_path: Path) -> None:
    with begun(header(), tmp_path) as kept:
        pass
    (tmp_path / "99991231T000000-1.jsonl").write_text("not a record\n")
    (tmp_path / "99991231T000000-2.jsonl").write_bytes(b"")
    found = unfinished(tmp_path, header(10))
    assert found is not None
    assert found.path == kept.path


def test_an_existing_file_is_never_opened_anew(tmp_path: Path) -> None:
    one = header()
    with begun(one, tmp_path) as kept:
        pass
    assert kept.path.name.endswith(f"-{os.getpid()}.jsonl")
    with pytest.raises(FileExistsError), begun(one, tmp_path):
        pass


def test_time_is_expected_as_in_the_newest_run_of_this_form(tmp_path: Path) -> None:
    for later, seconds, form in ((0, 1.0, "full"), (10, 4.0, "full"), (20, 9.0, "quick")):
        with begun(header(later, form=form), tmp_path) as kept:
            kept.add(a_cell(1, seconds))
            kept.add(a_cell(2, seconds + 2))
    # A run without measurements gives no estimate.
    with begun(header(30), tmp_path):
        assert expected_seconds(tmp_path, "full") == {("small", "main", "honest"): 5.0}
    assert expected_seconds(tmp_path, "quick") == {("small", "main", "honest"): 10.0}
    assert expected_seconds(tmp_path, "smoke") == {}
