"""The commands, on a row that is really measured: S2, the shortest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from benches import apart, record
from benches.command import main
from benches.rows import ROWS
from benches.tests import synthetic
from rig import kept
from rig.sources import ROOT


def test_a_row_is_measured_in_a_process_of_its_own_and_every_run_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "performance.json"
    arguments = ["run", "--only", "S2", "--quick", "--out", str(out), "--rounds"]

    def measured(*more: str) -> str:
        result = CliRunner().invoke(main, [*arguments, *more], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    assert "S2" in measured("2")
    (row_id,) = record.read(out).rows
    ((first,),) = record.read(out).rows.values()
    assert (row_id, first.is_quick) == ("S2", True)
    assert all(len(figure.ours) == 2 for figure in first.figures)
    assert first.machine.cores >= 1
    assert first.sources.commit
    assert "run 2" in measured("1")
    ((same, second),) = record.read(out).rows.values()
    assert same == first
    assert all(len(figure.ours) == 1 for figure in second.figures)
    measured("1", "--replace")
    ((only,),) = record.read(out).rows.values()
    assert only not in (first, second)


def test_runs_of_another_build_are_pointed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "performance.json"
    kept.write(out, synthetic.record(synthetic.run(synthetic.figure()), row_id="S2"))
    of_s2 = apart.Measured([synthetic.figure()], [])
    monkeypatch.setattr(apart, "measure", lambda *_arguments: of_s2)
    arguments = ["run", "--only", "S2", "--out", str(out)]
    assert "S2: the runs are of different" in CliRunner().invoke(main, arguments).output
    assert "different" not in CliRunner().invoke(main, [*arguments, "--replace"]).output


def test_an_unknown_row_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "performance.json"
    result = CliRunner().invoke(main, ["run", "--only", "S99", "--out", str(out)])
    assert result.exit_code == 1
    assert "no row 'S99'" in result.output
    assert not out.exists()


def test_what_is_no_record_is_not_written_over(tmp_path: Path) -> None:
    out = tmp_path / "performance.json"
    out.write_text("not a record")
    result = CliRunner().invoke(main, ["run", "--only", "S2", "--out", str(out)])
    assert result.exit_code == 1
    assert "is not a record" in result.output
    assert out.read_text() == "not a record"


def test_a_row_that_fails_says_why_and_writes_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise apart.RowError("WrongAnswerError: dict answered number 3 with None")

    monkeypatch.setattr(apart, "measure", fail)
    out = tmp_path / "performance.json"
    result = CliRunner().invoke(main, ["run", "--only", "S2", "--out", str(out)])
    assert result.exit_code == 1
    assert "dict answered number 3" in result.output
    assert "Not measured: S2" in result.output
    assert not out.exists()


def test_a_run_that_is_ended_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benches", "run", "--only", "S12", "--quick"]
    run = subprocess.Popen(
        [*command, "--out", str(tmp_path / "record.json")],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    assert "filling" in run.stdout.readline()
    assert [path.name[:14] for path in tmp_path.iterdir()] == ["tuckbox-bench-"]
    run.terminate()
    run.communicate()
    assert run.returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_the_rows_are_listed_as_they_are_written() -> None:
    result = CliRunner().invoke(main, ["list"])
    assert result.exit_code == 0
    assert "`d[key] = value`" in result.output
    assert all(row.title in result.output for row in ROWS)
