"""Failures with the user's own workloads and traces, in real runs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.runner.catalogue import REPOSITORY
from lab.runner.results import PhasesCell
from lab.tests.marks import ROOT_ONLY
from lab.tests.small import CONTESTANTS
from lab.tests.test_command import (
    CONTROLS,
    WATCHDOG_SECONDS,
    Left,
    cells_of,
    is_empty,
    records_of,
    run,
    started,
    until,
)

WORKLOAD = """
name = "mine"
title = "Mine"
operations = 5_000
rounds = 9

[keys]
count = 1_000

[value]
shape = "fixed"
size = 100

[mix]
get = 0.9
set = 0.1
"""


def workload(folder: Path, **changed: str) -> list[str]:
    """Return the arguments that run a small workload with some lines replaced."""
    text = WORKLOAD
    for name, value in changed.items():
        text = re.sub(f"^{name} = .*$", value, text, flags=re.MULTILINE)
    path = folder / "mine.toml"
    path.write_text(text, "utf-8")
    return ["run", "--workload", str(path)]


def trace(folder: Path, lines: int = 20_000) -> list[str]:
    """Return the arguments that replay a trace of many keys at many capacities."""
    path = folder / "shop.csv"
    requests = "".join(f"{number * number % 4_001},500\n" for number in range(lines))
    path.write_text(f"key,size\n{requests}", "ascii")
    capacities = [word for share in range(3, 10) for word in ("--capacity", f"0.{share}")]
    return ["run", "--trace", str(path), *capacities]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--contestant", "onest"], "there is no contestant 'onest', did you mean 'honest'?"),
        (["--workload", "no.toml"], "'no.toml' does not exist"),
        (["--trace", "no.csv"], "'no.csv' does not exist"),
        (["--trace-format", "zip"], "'zip' is not one of 'csv', 'oracle-general'"),
    ],
)
def test_a_command_with_a_workload_says_what_is_wrong(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    ended = run(tmp_path, *workload(tmp_path), *CONTROLS, *arguments)
    assert ended.returncode == 2
    assert says in " ".join(ended.stderr.split())
    assert not (tmp_path / "records").exists()


def test_a_bad_file_is_a_wrong_command_and_nothing_is_run(tmp_path: Path) -> None:
    for (option, given), says in (
        (["--workload", "count = many"], "mine.toml: Invalid"),
        (["--workload", 'count = "many"'], "mine.toml: Expected `int`, got `str` - at"),
        (["--workload", "count = 1_000\nfly = 1"], "unknown field `fly`"),
        (["--trace", str(bad_trace(tmp_path))], "bad.csv, line 3: it has 1 fields, not 2"),
    ):
        chosen = workload(tmp_path, count=given) if option == "--workload" else []
        chosen = chosen or ["run", option, given]
        ended = run(tmp_path, *chosen, *CONTROLS)
        assert ended.returncode == 2, ended.stdout + ended.stderr
        assert says in " ".join(ended.stderr.split())
        assert "Traceback" not in ended.stderr
    assert not (tmp_path / "records").exists()


def bad_trace(folder: Path) -> Path:
    path = folder / "bad.csv"
    path.write_text("key,size\n1,1\n2\n", "ascii")
    return path


def test_a_workload_that_nobody_can_run_says_why_for_each(tmp_path: Path) -> None:
    names = ["--contestant", "dict", "--contestant", "perl_hash", "--contestant", "null"]
    lasting = workload(tmp_path, rounds="ttl = 60")
    ended = run(tmp_path, *lasting, *names)
    assert ended.returncode == 2
    said = " ".join(ended.stdout.split())
    reason = "Not in mine (its adapter cannot give entries a time to live):"
    assert f"{reason} perl_hash, dict:copied, dict:shared, null." in said
    assert "nothing to run" in ended.stderr
    assert not (tmp_path / "records").exists()


def test_a_server_that_dies_fails_its_row_of_a_workload_and_the_rest_goes_on(
    tmp_path: Path, processes_in: Left
) -> None:
    names = ["--contestant", "served:mortal", "--contestant", "honest"]
    ended = run(tmp_path, *workload(tmp_path), *CONTROLS, *names, "--quick")
    assert ended.returncode == 1
    assert "Fault: served:mortal in mine/main" in ended.stdout
    said = " ".join(ended.stdout.split())
    assert "the server mortal died: signal SIGKILL, last output: tiny: out of luck" in said
    outcomes = {cell.contestant: cell.outcome for cell in records_of(tmp_path).cells}
    assert outcomes == {"honest": "measured", "served:mortal": "failed"}
    assert is_empty(tmp_path)
    assert processes_in() == []


@pytest.mark.parametrize("what", ["workload", "trace"])
def test_an_interrupted_run_keeps_its_cells_and_says_how_to_go_on(
    tmp_path: Path, processes_in: Left, what: str
) -> None:
    if what == "workload":
        arguments = [*workload(tmp_path), *CONTROLS, "--contestant", "honest"]
    else:
        arguments = [*trace(tmp_path), "--contestant", "tuckbox"]
    with started(tmp_path, *arguments) as process:
        until(lambda: list((tmp_path / "records").glob("*.jsonl")), process)
        until(lambda: cells_of(tmp_path), process)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=WATCHDOG_SECONDS)
    assert process.returncode == 130
    broken = records_of(tmp_path)
    assert f"Kept as an unfinished run: {len(broken.cells)} of " in output
    assert processes_in() == []
    assert is_empty(tmp_path)
    seen = followed(output, "to report it")
    assert seen.returncode == 0, seen.stderr
    assert "This run was interrupted" in broken.path.with_suffix(".html").read_text("utf-8")
    gone_on = followed(output, "to continue it")
    assert gone_on.returncode == 0, gone_on.stdout + gone_on.stderr
    assert "Continuing " in gone_on.stdout
    whole = records_of(tmp_path)
    assert len(whole.cells) == (9 if what == "workload" else 7)
    assert whole.cells[: len(broken.cells)] == broken.cells
    assert whole.ending is not None


def followed(output: str, label: str) -> subprocess.CompletedProcess[str]:
    """Run the command that an interrupted run printed."""
    found = re.search(rf"{label}: +(python .*)$", output, flags=re.MULTILINE)
    assert found is not None, output
    return subprocess.run(
        [sys.executable, *shlex.split(found[1])[1:]],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tuckbox-lab-test", str(folder)]
    subprocess.run(mount, check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@ROOT_ONLY
@pytest.mark.parametrize("what", ["workload", "trace"])
def test_a_full_disk_fails_rows_and_leaves_nothing(
    tmp_path: Path, processes_in: Left, what: str
) -> None:
    # The entries of the workload have 136 KB, those of the trace may take 600 KB and more.
    chosen = workload(tmp_path) if what == "workload" else trace(tmp_path)
    names = ["--contestant", "tuckbox", "--contestant", "diskcache"]
    with small_disk(tmp_path / "data", "180k"):
        ended = run(tmp_path, *chosen, *names, "--quick")
        assert is_empty(tmp_path)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    cells = records_of(tmp_path).cells
    assert {cell.outcome for cell in cells} == {"failed"}
    assert all(re.search("full|space|bytes free", cell.reason) for cell in cells), cells
    assert processes_in() == []


@ROOT_ONLY
def test_a_disk_that_the_entries_do_not_fit_on_is_told_before_anything_starts(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "data", "64k"):
        ended = run(tmp_path, *workload(tmp_path), "--contestant", "tuckbox")
    assert ended.returncode == 2
    said = " ".join(ended.stdout.split())
    assert "Not in mine (its entries need 0.136 MB, but" in said
    assert "has only 0.066 MB free: choose another folder with --data): tuckbox." in said
    assert "nothing to run" in ended.stderr


@ROOT_ONLY
def test_records_that_cannot_be_written_any_more_end_the_run_with_what_there_is(
    tmp_path: Path, processes_in: Left
) -> None:
    with small_disk(tmp_path / "records", "32k"):
        arguments = [*workload(tmp_path), *CONTROLS, "--contestant", "honest", "--rounds", "99"]
        ended = run(tmp_path, *arguments)
        kept = [cell.round for cell in records_of(tmp_path).cells if isinstance(cell, PhasesCell)]
    assert ended.returncode == 1
    assert "the run ended early, its data removed: [Errno 28] No space left" in ended.stderr
    assert f"Kept as an unfinished run: {len(kept)} of 99 cells" in ended.stdout
    assert kept == list(range(1, len(kept) + 1)) != []
    assert is_empty(tmp_path)
    assert processes_in() == []


@ROOT_ONLY
def test_without_a_network_install_says_what_it_could_not_get(tmp_path: Path) -> None:
    folder = tmp_path / "contestants"
    shutil.copytree(CONTESTANTS / "honest", folder / "honest")
    definition = folder / "honest" / "contestant.toml"
    with definition.open("a") as file:
        file.write('\n[install]\npip = ["no-such-package-of-anyone==1"]\napt = ["no-such-one"]\n')
    shutil.copytree(CONTESTANTS.parent / "servers", tmp_path / "servers")
    command = [sys.executable, "-m", "lab", "install", "smoke", "--contestants", str(folder)]
    ended = subprocess.run(
        ["unshare", "--net", *command],
        cwd=REPOSITORY,
        env={**os.environ, "PIP_RETRIES": "0"},
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "Debian package no-such-one: " in ended.stdout
    assert "Python package no-such-package-of-anyone==1: " in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr
