"""How the runner judges commands that succeed, and commands that do not."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reliability import record
from reliability.tests.conftest import Recorder, commit, family, run
from rig.kept import RecordError


def test_a_good_family_has_a_record(clone: Path) -> None:
    outcome = run(clone, family("good.py", "good.py"))
    assert outcome.is_good
    kept = record.read(clone.parent / "out", "T-X1")
    assert kept == outcome.records[0]
    assert (kept.verdict, kept.trials, kept.trial) == ("good", 60, "tries")
    assert (kept.bound, kept.seeds, kept.failures) == (0.05, [7, 7], [])
    assert kept.sources.changes is None
    assert len(kept.sources.commit) == 12
    assert kept.machine.cores >= 1
    assert [one.run for one in kept.commands] == ["python programs/good.py"] * 2


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("fails.py", "a wrong answer"),
        ("fails_with_status.py", "ended with exit status 1"),
        ("says_why_not.py", "gave no reason"),
        ("silent.py", "printed no result"),
        ("dies.py", "died of SIGKILL"),
        ("is_not_there.py", "exit status 2"),
    ],
)
def test_what_is_not_good_has_failed(clone: Path, program: str, why: str) -> None:
    outcome = run(clone, family(program))
    assert not outcome.is_good
    assert outcome.records[0].verdict == "failed"
    assert why in " ".join(outcome.records[0].failures)
    assert outcome.records[0].bound is None


def test_too_few_trials_are_a_failure(clone: Path) -> None:
    outcome = run(clone, family("good.py", trials=31))
    assert not outcome.is_good
    assert "made 30 trials; at least 31 are required" in outcome.records[0].failures[0]


def test_what_hangs_is_killed_with_all_that_it_started(clone: Path) -> None:
    began = time.monotonic()
    outcome = run(clone, family("hangs.py", seconds_max=10))
    assert time.monotonic() - began < 40
    assert not outcome.is_good
    assert "hung: it was killed after 10 seconds" in outcome.records[0].failures[0]
    for pid in (clone / "pids").read_text().split():
        assert not _runs(int(pid)), f"process {pid} was left"


def _runs(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_what_the_machine_does_not_permit_fails_the_nightly_lane_alone(clone: Path) -> None:
    short = run(clone, family("skips.py"))
    assert short.is_good
    assert short.records[0].verdict == "not run"
    assert short.records[0].commands[0].not_run == "no namespaces here"
    assert not run(clone, family("skips.py"), lane="nightly").is_good


def test_of_a_file_of_records_a_family_takes_its_own(clone: Path) -> None:
    assert run(clone, family("writes.py {records}")).is_good
    other = run(clone, family("writes.py {records}", name="T-X2"))
    assert other.records[0].failures == ["b"]


def test_tests_that_cargo_counts_are_trials(clone: Path) -> None:
    outcome = run(clone, family("counts.py", trials=7, reports="tests"))
    assert outcome.is_good
    assert outcome.records[0].trials == 7
    assert not run(clone, family("counts.py", trials=8, reports="tests")).is_good


def test_a_family_without_commands_is_no_success(clone: Path) -> None:
    listener = Recorder()
    outcome = run(clone, family("good.py"), family(name="T-X2"), listener=listener)
    assert not outcome.is_good
    assert "has no commands" in listener.left_out["T-X2"]
    assert [one.family for one in outcome.records] == ["T-X1"]


def test_the_short_lane_ends_at_a_failure_and_the_nightly_one_goes_on(clone: Path) -> None:
    families = (family("fails.py"), family("good.py", name="T-X2"))
    listener = Recorder()
    outcome = run(clone, *families, listener=listener)
    assert [one.family for one in outcome.records] == ["T-X1"]
    assert "another family failed" in listener.left_out["T-X2"]
    outcome = run(clone, *families, lane="nightly", fail_fast=False)
    assert [one.verdict for one in outcome.records] == ["failed", "good"]
    assert not outcome.is_good


def test_families_that_may_run_two_at_a_time_come_first(clone: Path) -> None:
    listener = Recorder()
    names = [f"T-X{number}" for number in range(5)]
    families = [family("good.py", name=name, side_by_side=name > "T-X2") for name in names]
    outcome = run(clone, *families, listener=listener)
    assert outcome.is_good
    assert sorted(listener.begun[:2]) == names[3:]
    assert listener.begun[2:] == names[:3]
    assert [one.family for one in listener.ended[2:]] == names[:3]
    assert [one.family for one in outcome.records] == names


def test_a_good_record_of_these_sources_is_not_made_again(clone: Path) -> None:
    families = (family("tallies.py"), family("fails.py", name="T-X2"))
    kept = clone.parent / "out"
    for _ in range(2):
        outcome = run(clone, *families, lane="nightly", resume=True, fail_fast=False)
        assert [one.verdict for one in outcome.records] == ["good", "failed"]
    assert (clone / "tally").read_text() == "1"

    # With other sources or in another lane, the family runs again.
    (clone / "new.txt").write_text("an uncommitted change")
    changed = run(clone, families[0], lane="nightly", resume=True)
    assert changed.records[0].sources.changes is not None
    assert (clone / "tally").read_text() == "2"
    assert run(clone, families[0], lane="nightly", resume=True).is_good
    assert (clone / "tally").read_text() == "2"
    commit(clone)
    assert run(clone, families[0], lane="nightly", resume=True).is_good
    assert (clone / "tally").read_text() == "3"
    assert run(clone, families[0], resume=True).is_good
    assert (clone / "tally").read_text() == "4"
    record.path_of(kept, "T-X1").write_text("{}")
    with pytest.raises(RecordError, match="remove the file"):
        run(clone, families[0], resume=True)


def test_records_are_no_change_of_the_sources(clone: Path) -> None:
    (clone / "reliability" / "records").mkdir(parents=True)
    (clone / "reliability" / "records" / "T-X1.json").write_text("{}")
    assert run(clone, family("good.py")).records[0].sources.changes is None


_CATALOGUE = """
[[families]]
id = "T-X1"
name = "first"
promise = "p"
demanded = "d"
not-covered = "n"
nightly.commands = [{ run = "python FOLDER/programs/tallies.py", trials = 1, seconds-max = 60 }]
[[families]]
id = "T-X2"
name = "second"
promise = "p"
demanded = "d"
not-covered = "n"
nightly.commands = [{ run = "python FOLDER/programs/hangs.py", trials = 1, seconds-max = 60 }]
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_running_and_keeps_its_records(
    clone: Path, number: signal.Signals
) -> None:
    root = Path(__file__).resolve().parent.parent.parent
    families = clone / "families.toml"
    families.write_text(_CATALOGUE.replace("FOLDER", str(clone)))
    pids, out = clone / "pids", clone / "out"
    hangs = clone / "programs" / "hangs.py"
    hangs.write_text(hangs.read_text().replace('"pids"', f'"{pids}"'))
    tallies = clone / "programs" / "tallies.py"
    tallies.write_text(tallies.read_text().replace('"tally"', f'"{clone / "tally"}"'))
    command = [sys.executable, "-m", "reliability", "run", "--lane", "nightly"]
    options = ["--catalogue", str(families), "--out", str(out)]
    program = subprocess.Popen(
        [*command, *options], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    deadline = time.monotonic() + 60
    while not (pids.exists() and len(pids.read_text().split()) == 2):
        assert time.monotonic() < deadline
        assert program.poll() is None
        time.sleep(0.02)
    program.send_signal(number)
    said, _ = program.communicate(timeout=30)
    assert program.returncode == 1, said
    assert "was interrupted" in said
    for pid in pids.read_text().split():
        assert not _runs(int(pid)), f"process {pid} was left"
    assert record.read(out, "T-X1") is not None
    assert record.read(out, "T-X2") is None
    assert (clone / "tally").read_text() == "1"
    assert (out / "T-X2.log").exists()
