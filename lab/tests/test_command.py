"""The command as a user gives it: exit status, messages, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from lab.runner.catalogue import LAB, REPOSITORY
from lab.tests.small import CONTESTANTS

Left = Callable[[], list[psutil.Process]]
WATCHDOG_SECONDS = 120.0


def command(folder: Path, *arguments: str) -> list[str]:
    """Return the command of a run that keeps all that it writes in `folder`."""
    (folder / "data").mkdir()
    places = ["--data", str(folder / "data"), "--records", str(folder / "records")]
    return [sys.executable, "-m", "lab", "demo", *places, *arguments]


def demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *arguments),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=WATCHDOG_SECONDS,
        check=False,
    )


def records_of(output: str) -> list[dict[str, object]]:
    line = next(line for line in output.splitlines() if line.startswith("Records: "))
    path = Path(line.removeprefix("Records: "))
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def test_an_unknown_contestant_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    run = demo(tmp_path, "--contestant", "memcachd")
    assert run.returncode == 2
    assert "no contestant is called memcachd" in run.stderr
    assert "tuckbox" in run.stderr
    assert "django_locmem" in run.stderr


def test_a_run_of_the_null_contestant(tmp_path: Path) -> None:
    run = demo(tmp_path, "--contestant", "null", "--seed", "3")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Timings for null" in run.stdout
    assert list((tmp_path / "data").iterdir()) == []
    records = records_of(run.stdout)
    assert [record["record"] for record in records] == ["header", *["concurrent"] * 5, "ending"]
    header = msgspec.convert(records[0]["settings"], dict[str, object])
    assert header["seed"] == 3
    assert header["contestants"] == ["null"]
    assert set(msgspec.convert(records[0]["machine"], dict[str, object])) >= {"cpu", "kernel"}


def test_a_wrong_value_is_exit_status_1(tmp_path: Path) -> None:
    run = demo(tmp_path, "--contestants", str(CONTESTANTS), "--contestant", "wrong_key")
    assert run.returncode == 1
    assert "Fault: wrong_key: " in run.stdout
    assert "wrong values" in run.stdout
    assert list((tmp_path / "data").iterdir()) == []


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    run = demo(tmp_path, "--contestant", "null", "--records", str(tmp_path / "file" / "records"))
    assert run.returncode == 1
    assert "the run was broken off" in run.stderr
    assert "Traceback" not in run.stderr
    assert list((tmp_path / "data").iterdir()) == []


@contextmanager
def hanging_demo(folder: Path, processes_in: Left) -> Iterator[subprocess.Popen[str]]:
    """Start a run in which a worker hangs, and wait until it does."""
    hangs = command(folder, "--contestants", str(CONTESTANTS), "--contestant", "hangs")
    with subprocess.Popen(hangs, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as run:
        try:
            give_up = time.monotonic() + WATCHDOG_SECONDS
            while not list(folder.rglob("chosen")):
                assert run.poll() is None
                assert time.monotonic() < give_up
                time.sleep(0.05)
            assert len(processes_in()) >= 8
            yield run
        finally:
            run.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(
    tmp_path: Path, processes_in: Left, number: signal.Signals
) -> None:
    with hanging_demo(tmp_path, processes_in) as run:
        run.send_signal(number)
        output, _ = run.communicate(timeout=WATCHDOG_SECONDS)
    assert run.returncode == 130
    assert "Interrupted" in output
    assert processes_in() == []
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel for a death signal")
def test_hosts_do_not_outlive_a_killed_runner(tmp_path: Path, processes_in: Left) -> None:
    with hanging_demo(tmp_path, processes_in) as run:
        children = [process for process in processes_in() if process.name() == "sleep"]
        run.kill()
        run.wait(WATCHDOG_SECONDS)
    # What an adapter started is beyond the kernel's favour; the lab's own hosts are not.
    for child in children:
        os.kill(child.pid, signal.SIGKILL)
    give_up = time.monotonic() + WATCHDOG_SECONDS
    while processes_in():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def test_records_are_ignored_by_git() -> None:
    assert "records/" in (LAB / ".gitignore").read_text("utf-8").splitlines()
