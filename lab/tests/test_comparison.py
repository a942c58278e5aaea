"""Two files of records: which rows count as faster, and which as undecided."""

from __future__ import annotations

import csv
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from lab.__main__ import main
from lab.report import export
from lab.report.comparison import compare, differences
from lab.report.export import COLUMNS
from lab.runner.records import Run, read
from lab.runner.results import PhasesCell
from lab.tests import synthetic

TOKYO = [one for one in synthetic.phases_suites() if one.name == "tokyo-2009"]


def written(path: Path, *, factor: float = 1.0, rounds: int = 6, seed: int = 1) -> Path:
    """Write a run whose Tuckbox rows take `factor` times as long as usual."""
    synthetic.write(path, TOKYO, rounds=rounds)
    run = read(path)
    for cell in run.cells:
        if isinstance(cell, PhasesCell) and cell.contestant == "tuckbox":
            for phase in cell.phases:
                assert phase.latency is not None
                phase.latency.elapsed_ns = round(phase.latency.elapsed_ns * factor)
                phase.latency.cpu_ns = 0
    run.header.settings.seed = seed
    records: list[msgspec.Struct] = [run.header, *run.cells]
    path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in records))
    return path


def pair(folder: Path, factor: float, rounds: int = 6) -> tuple[Run, Run]:
    first = written(folder / "a.jsonl", rounds=rounds)
    second = written(folder / "b.jsonl", factor=factor, rounds=rounds)
    return read(first), read(second)


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.5, "faster"), (2.0, "slower"), (1.01, "undecided")]
)
def test_a_row_has_a_verdict_by_its_interval(tmp_path: Path, factor: float, verdict: str) -> None:
    found = compare(*pair(tmp_path, factor))
    own = [one for one in found if one.contestant == "tuckbox"]
    assert {one.verdict for one in own} == {verdict}
    for one in own:
        assert one.low is not None
        assert one.high is not None
        assert one.coverage == pytest.approx(2 * 0.96875 - 1)
        assert one.low < one.ratio < one.high
        assert one.ratio == pytest.approx(1 / factor, rel=0.001)
    assert {one.verdict for one in found if one not in own} == {"undecided"}


def test_the_largest_change_comes_first(tmp_path: Path) -> None:
    assert compare(*pair(tmp_path, 3.0))[0].contestant == "tuckbox"
    (tmp_path / "a.jsonl").unlink()
    (tmp_path / "b.jsonl").unlink()
    assert compare(*pair(tmp_path, 0.3))[0].contestant == "tuckbox"


def test_few_rounds_are_undecided_however_far_apart(tmp_path: Path) -> None:
    found = compare(*pair(tmp_path, 5.0, rounds=5))
    assert {one.verdict for one in found} == {"undecided"}
    assert {one.low for one in found} == {None}


def test_runs_that_differ_in_more_than_time_say_so(tmp_path: Path) -> None:
    first, second = pair(tmp_path, 1.0)
    assert differences(first, second) == []
    second.header.settings.seed = 2
    second.header.settings.form = "full"
    second.header.settings.data = "/somewhere on a disk"
    second.header.machine = msgspec.structs.replace(second.header.machine, cpu="another")
    said = differences(first, second)
    assert len(said) == 4


def test_the_command_prints_verdicts_and_counts(tmp_path: Path) -> None:
    written(tmp_path / "a.jsonl")
    written(tmp_path / "b.jsonl", factor=0.5, seed=2)
    arguments = ["compare", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert "Warning: The seeds differ" in done.output
    assert "2 faster, 0 slower" in done.output
    assert "lmdb" not in done.output
    assert "lmdb" in CliRunner().invoke(main, [*arguments, "--all"]).output


def test_runs_without_a_common_rate_say_that_hit_ratios_are_not_compared(tmp_path: Path) -> None:
    records = str(synthetic.write(tmp_path / "a.jsonl", []))
    done = CliRunner().invoke(main, ["compare", records, records])
    assert done.exit_code == 1
    assert "no rates in common; hit ratios of replays" in done.output


def test_the_command_refuses_what_are_no_records(tmp_path: Path) -> None:
    broken = tmp_path / "x.jsonl"
    broken.write_text("no record\n", "utf-8")
    done = CliRunner().invoke(main, ["compare", str(broken), str(broken)])
    assert done.exit_code == 1
    assert "line 1" in done.output


def test_every_row_is_in_the_csv(tmp_path: Path) -> None:
    records = synthetic.write(tmp_path / "a.jsonl", TOKYO)
    export.write(records, tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert tuple(lines[0]) == COLUMNS
    put = [line for line in lines if (line["contestant"], line["operation"]) == ("tuckbox", "put")]
    assert len(put) == 1
    assert float(put[0]["rate"]) > 0
    assert put[0]["rate_interval_low"] == ""
    failed = [line for line in lines if line["contestant"] == synthetic.FAILED]
    assert {line["outcome"] for line in failed} == {"failed"}
    assert {line["operation"] for line in failed} == {""}
    assert any(line["suite"] == "web07" and float(line["hit_ratio"]) > 0 for line in lines)
