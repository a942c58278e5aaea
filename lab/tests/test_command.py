"""The commands as a user types them: exit status, messages, and nothing left behind."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest
from click.testing import CliRunner

from lab.__main__ import main
from lab.runner import records, traces
from lab.runner.catalogue import LAB, REPOSITORY
from lab.runner.plan import name_of
from lab.runner.results import AnyCell, PhasesCell
from lab.tests.marks import ROOT_ONLY
from lab.tests.small import CONTESTANTS

Left = Callable[[], list[psutil.Process]]
WATCHDOG_SECONDS = 180.0
CONTROLS = ("--contestants", str(CONTESTANTS))
SHORT = ("run", "smoke", "--smoke", *CONTROLS)


def command(folder: Path, *arguments: str) -> list[str]:
    """Return the command of a run that writes only into `folder`."""
    (folder / "data").mkdir(exist_ok=True)
    name, *others = arguments
    places = ["--data", str(folder / "data"), "--records", str(folder / "records")]
    return [sys.executable, "-m", "lab", name, *places, *others]


def lab(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lab", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    _, _, _, _, *given = command(folder, *arguments)
    return lab(arguments[0], *given)


def records_of(folder: Path) -> records.Run:
    (path,) = (folder / "records").glob("*.jsonl")
    return records.read(path)


def cells_of(folder: Path) -> list[AnyCell]:
    """Return the cells of a run in progress, whose header may not be written yet."""
    try:
        return records_of(folder).cells
    except records.RecordsError:
        return []


def is_empty(folder: Path) -> bool:
    return list((folder / "data").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--contestant", "tuckbx"], "no contestant 'tuckbx', did you mean 'tuckbox'?"),
        (["djngo"], "there is no suite 'djngo', did you mean 'django'?"),
        (["django/mian"], "there is no part 'django/mian', did you mean 'django/main'?"),
        (["django", "--variant", "short"], "there is no variant 'short'"),
        (["--placement", "elsewhere"], "'elsewhere' is not one of"),
        (["smoke", "--smoke", "--contestant", "null"], "nothing to run"),
        (["smoke", "--full"], "suite 'smoke' has no form 'full', only smoke"),
        (["--seed", "-1"], "-1 is not in the range"),
        (["--colour"], "No such option"),
    ],
)
def test_a_wrong_command_says_what_is_right(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    ended = run(tmp_path, "run", *arguments)
    assert ended.returncode == 2
    # Messages wrap at the default width, because there is no terminal.
    assert " ".join(says.split()) in " ".join(ended.stderr.split())
    assert not (tmp_path / "records").exists()


def test_a_run_of_the_null_contestant(tmp_path: Path) -> None:
    ended = run(tmp_path, "demo", "--contestant", "null", "--seed", "3")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert is_empty(tmp_path)
    found = records_of(tmp_path)
    assert found.header.settings.seed == 3
    assert [one.name for one in found.header.contestants] == ["null"]
    assert found.ending is not None
    assert found.ending.faults == []
    measured = [(cell.variant, cell.round) for cell in found.cells if isinstance(cell, PhasesCell)]
    assert measured == [("1,000 entries", 1)]
    assert f"Records: {found.path}" in ended.stdout
    page = found.path.with_suffix(".html")
    assert f"Report: {page}" in ended.stdout
    assert page.stat().st_size > 0


def test_every_suite_says_where_its_operations_come_from(tmp_path: Path) -> None:
    ended = run(tmp_path, "demo", *CONTROLS, "--contestant", "honest")
    said = " ".join(ended.stdout.split())
    assert "Operations of django: synthetic, drawn from seed 1 by the distributions of" in said
    assert (
        "Requests of web07: recorded in web07.csv.zst, 76,118 requests for the product pages of a "
        "shop, July 2013 (20,484 distinct keys), from cache2k, headissue GmbH, by way of "
        "ben-manes/caffeine, CC BY 4.0, SHA-256 "
        "da92b567cc79a70b0e86da4b418387fca20eb3e0ad4513a59362f5de550a7e41"
    ) in said
    assert all(cell.source.text in said for cell in records_of(tmp_path).cells)


def test_a_damaged_trace_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "web07.csv.zst").write_bytes(b"key,size\n1,1\n")
    monkeypatch.setattr(traces, "FOLDER", tmp_path)
    given = ["--records", str(tmp_path / "records"), "--contestant", "honest"]
    ended = CliRunner().invoke(main, ["demo", *CONTROLS, *given])
    assert ended.exit_code == 2
    assert "is not the trace that the suite names" in ended.output
    assert not (tmp_path / "records").exists()


def test_a_wrong_value_is_exit_status_1_and_the_rest_goes_on(tmp_path: Path) -> None:
    names = ["--contestant", "wrong_key", "--contestant", "honest"]
    ended = run(tmp_path, *SHORT, *names)
    assert ended.returncode == 1
    assert "Fault: wrong_key in smoke/main" in ended.stdout
    assert "wrong values" in ended.stdout
    assert is_empty(tmp_path)
    cells = records_of(tmp_path).cells
    outcomes = {cell.contestant: cell.outcome for cell in cells}
    assert outcomes == {"honest": "measured", "wrong_key": "measured"}


def test_a_cell_says_how_it_is_measured_again(tmp_path: Path) -> None:
    first = run(tmp_path, *SHORT, "--contestant", "honest")
    assert first.returncode == 0, first.stdout + first.stderr
    (cell,) = records_of(tmp_path).cells
    assert cell.repeat[:4] == ["python", "-m", "lab", "run"]
    again = tmp_path / "again"
    again.mkdir()
    ended = run(again, "run", *cell.repeat[4:], "--rounds", "1")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (repeated,) = records_of(again).cells
    assert name_of(repeated) == name_of(cell)
    assert isinstance(repeated, PhasesCell)
    assert isinstance(cell, PhasesCell)
    # The same operations, drawn from the same seed.
    (before,), (after,) = cell.phases, repeated.phases
    assert before.throughput is not None
    assert after.throughput is not None
    counts = [
        {action: stat.tally.count for action, stat in one.actions.items()}
        for one in (before.throughput, after.throughput)
    ]
    assert counts[0] == counts[1]


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    names = ["--contestant", "honest", "--records", str(tmp_path / "file" / "records")]
    ended = run(tmp_path, *SHORT, *names)
    assert ended.returncode == 1
    assert "the run ended early" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert is_empty(tmp_path)


@ROOT_ONLY
def test_a_full_disk_fails_its_rows_and_the_rest_goes_on(
    tmp_path: Path, processes_in: Left
) -> None:
    disk = tmp_path / "data"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tuckbox-lab-test", str(disk)]
    subprocess.run(mount, check=True)
    try:
        names = ["--contestant", "honest", "--contestant", "wrong_key"]
        ended = run(tmp_path, *SHORT, *names)
        assert is_empty(tmp_path)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert ended.returncode == 1
    cells = records_of(tmp_path).cells
    outcomes = {cell.contestant: cell.outcome for cell in cells}
    assert outcomes == {"honest": "failed", "wrong_key": "failed"}
    # Both rows run at once: where the other took the last block, SQLite cannot open ("I/O error").
    assert all(re.search("disk is full|disk I/O error", cell.reason) for cell in cells), cells
    assert processes_in() == []


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a run, and kill it at the end if it still runs."""
    with subprocess.Popen(
        command(folder, *arguments), cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    give_up = time.monotonic() + WATCHDOG_SECONDS
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < give_up
        time.sleep(0.05)


@contextmanager
def hanging(folder: Path, processes_in: Left) -> Iterator[subprocess.Popen[str]]:
    """Start a run in which a worker hangs, and wait until it does."""
    with started(folder, *SHORT, "--contestant", "hangs", "--rounds", "1") as process:
        # Not in the probe's folder, which is removed meanwhile.
        until(lambda: list(folder.glob("data/*/*/chosen")), process)
        # The worker, its child, the guard and the runner.
        until(lambda: len(processes_in()) == 4, process)
        yield process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_leaves_nothing(
    tmp_path: Path, processes_in: Left, number: signal.Signals
) -> None:
    with hanging(tmp_path, processes_in) as process:
        process.send_signal(number)
        output, _ = process.communicate(timeout=WATCHDOG_SECONDS)
    assert process.returncode == 130
    assert "Interrupted" in output
    assert processes_in() == []
    assert is_empty(tmp_path)


def test_an_impatient_interrupt_leaves_nothing_either(tmp_path: Path, processes_in: Left) -> None:
    with hanging(tmp_path, processes_in) as process:
        for _ in range(5):
            process.send_signal(signal.SIGINT)
            time.sleep(0.01)
        process.communicate(timeout=WATCHDOG_SECONDS)
    assert process.returncode == 130
    assert processes_in() == []
    assert is_empty(tmp_path)


def test_a_killed_runner_leaves_nothing(tmp_path: Path, processes_in: Left) -> None:
    with hanging(tmp_path, processes_in) as process:
        process.kill()
        process.wait(WATCHDOG_SECONDS)
    give_up = time.monotonic() + WATCHDOG_SECONDS
    # Neither processes that an adapter started, nor data.
    while processes_in() or not is_empty(tmp_path):
        assert time.monotonic() < give_up, processes_in()
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_broken_off_run_is_gone_on_with(
    tmp_path: Path, processes_in: Left, number: signal.Signals
) -> None:
    arguments = [*SHORT, "--rounds", "9", "--contestant", "honest"]
    with started(tmp_path, *arguments) as process:
        until(lambda: list((tmp_path / "records").glob("*.jsonl")), process)
        until(lambda: cells_of(tmp_path), process)
        process.send_signal(number)
        process.wait(WATCHDOG_SECONDS)
    broken = records_of(tmp_path)
    assert broken.ending is None
    before = broken.path.read_bytes()
    # A full disk or a power cut can leave half a line.
    with broken.path.open("ab") as file:
        file.write(b'{"record":"phases","sui')
    ended = run(tmp_path, *arguments, "--resume")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Continuing " in ended.stdout
    whole = records_of(tmp_path)
    assert whole.path.read_bytes().startswith(before)
    rounds = [cell.round for cell in whole.cells if isinstance(cell, PhasesCell)]
    assert sorted(rounds) == list(range(1, 10))
    assert 1 <= len(broken.cells) < 9
    assert len(whole.resumptions) == 1
    assert whole.ending is not None
    # There is nothing left to continue, so a new run starts.
    again = run(tmp_path, *SHORT, "--contestant", "honest", "--resume")
    assert "No unfinished run has these settings" in again.stdout
    assert len(list((tmp_path / "records").glob("*.jsonl"))) == 2


def test_the_smoke_form_runs_what_is_named(tmp_path: Path) -> None:
    forms = ("tcp", "socket", "missing", "unavailable")
    names = [word for form in forms for word in ("--contestant", f"served:{form}")]
    ended = run(tmp_path, "run", "--smoke", *CONTROLS, *names)
    cells = records_of(tmp_path).cells
    outcomes = {cell.contestant: cell.outcome for cell in cells}
    assert outcomes["served:tcp"] == outcomes["served:socket"] == "measured"
    assert outcomes["served:unavailable"] == "unavailable"
    assert outcomes["served:missing"] == "missing"
    assert all(cell.placement == "free" for cell in cells if isinstance(cell, PhasesCell))
    assert ended.returncode == 1
    assert "served:missing" in ended.stdout


def chosen(folder: Path, *names: str) -> Path:
    """Return a folder of contestants with copies of the named ones."""
    for name in names:
        shutil.copytree(CONTESTANTS / name, folder / "contestants" / name)
    return folder / "contestants"


@pytest.mark.parametrize("words", [["demo"], ["run", "django/main", "--quick"]])
def test_a_peers_fault_is_shown_and_counts_only_if_the_peer_was_named(
    tmp_path: Path, words: list[str]
) -> None:
    folder = chosen(tmp_path, "honest", "raises")
    given = [*words, "--contestants", str(folder)]
    ended = run(tmp_path, *given)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Fault: raises in django/main" in ended.stdout
    last = ended.stdout.splitlines()[-1]
    assert last == "Faults of other caches do not change the exit status: raises."
    ended = run(tmp_path, *given, "--contestant", "honest", "--contestant", "raises")
    assert ended.returncode == 1
    assert "do not change" not in ended.stdout


def test_a_peers_fault_counts_in_the_smoke_form(tmp_path: Path) -> None:
    folder = chosen(tmp_path, "honest", "raises")
    ended = run(tmp_path, "run", "smoke", "--smoke", "--contestants", str(folder))
    assert ended.returncode == 1
    assert "Fault: raises in smoke/main" in ended.stdout


def test_a_fault_of_tuckbox_always_counts(tmp_path: Path) -> None:
    folder = chosen(tmp_path, "honest", "raises")
    with (folder / "raises" / "contestant.toml").open("a", encoding="utf-8") as file:
        file.write('\n[install]\ndistribution = "tuckbox"\n')
    ended = run(tmp_path, "demo", "--contestants", str(folder))
    assert ended.returncode == 1
    assert "Fault: raises in django/main" in ended.stdout
    assert "do not change" not in ended.stdout


def test_a_run_that_measured_nothing_fails(tmp_path: Path) -> None:
    ended = run(tmp_path, "demo", "--contestants", str(chosen(tmp_path, "raises")))
    assert ended.returncode == 1
    assert "Fault: nothing was measured" in ended.stdout


def test_a_missing_contestant_is_no_fault_of_a_demo_unless_it_was_named(tmp_path: Path) -> None:
    folder = chosen(tmp_path, "honest")
    (folder / "odd").mkdir(parents=True)
    missing = (CONTESTANTS / "missing" / "contestant.toml").read_text("utf-8")
    (folder / "odd" / "contestant.toml").write_text(missing, "utf-8")
    (folder / "odd" / "adapter.py").write_text("", "utf-8")
    ended = run(tmp_path, "demo", "--contestants", str(folder))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "no-such-distribution-at-all" in ended.stdout
    ended = run(tmp_path, "demo", "--contestants", str(folder), "--contestant", "odd")
    assert ended.returncode == 1
    assert "Fault: odd: " in ended.stdout


def test_the_list_has_every_suite_and_contestant() -> None:
    ended = lab("list", *CONTROLS)
    assert ended.returncode == 0
    for name in ("django", "fastmmap-2004", "web07", "honest", "served:tcp"):
        assert name in ended.stdout
    facts = [line.split("  ") for line in ended.stdout.splitlines() if "refuses or grows" in line]
    served = next([one.strip() for one in line if one] for line in facts if "served:tcp" in line[0])
    assert served == ["served:tcp", "python", "several machines", "no", "refuses or grows"]


def test_the_report_is_made_again_from_the_newest_records(tmp_path: Path) -> None:
    assert lab("report", "--records", str(tmp_path)).returncode == 2
    run(tmp_path, *SHORT, "--contestant", "honest")
    page = tmp_path / "again.html"
    ended = lab("report", "--records", str(tmp_path / "records"), "--output", str(page))
    assert ended.returncode == 0, ended.stderr
    assert page.stat().st_size > 0
    odd = tmp_path / "odd.jsonl"
    odd.write_text("nothing\n")
    ended = lab("report", str(odd))
    assert ended.returncode == 1
    assert "odd.jsonl" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_what_is_installed_already_is_there() -> None:
    ended = lab("install", "django/main", "--contestant", "null")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_records_are_ignored_by_git() -> None:
    assert "records/" in (LAB / ".gitignore").read_text("utf-8").splitlines()
