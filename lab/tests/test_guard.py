"""The remains of a killed runner are removed; those of a running one are left alone."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from lab.disk import SHARED_MEMORY, bytes_occupied, memory_name
from lab.runner.catalogue import REPOSITORY
from lab.runner.guard import Guard, GuardError
from lab.runner.workspace import workspace

Left = Callable[[], list[psutil.Process]]
WATCHDOG_SECONDS = 30.0

# A runner that has everything a guard knows, and then waits to be killed. Its child also
# starts a process in another session.
RUNNER = """
import subprocess, sys, time
from pathlib import Path
from lab.disk import SHARED_MEMORY, memory_name
from lab.runner.guard import Guard
from lab.runner.workspace import workspace
from rig import marks
with Guard() as guard, workspace(guard, Path(sys.argv[1])) as space:
    environment = marks.environment(f"{guard.token}.1.")
    child = subprocess.Popen(
        ["sh", "-c", "setsid sleep 3600 & sleep 3600"], env=environment, start_new_session=True
    )
    guard.watch("session", str(child.pid))
    Path(SHARED_MEMORY, f"{memory_name(space.fresh('store'))}segment").write_bytes(bytes(4096))
    print(space.folder, flush=True)
    ENDING
"""


def until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + WATCHDOG_SECONDS
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def runner(folder: Path, ending: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER.replace("ENDING", ending), str(folder)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )


def segments(folder: Path) -> list[Path]:
    return list(SHARED_MEMORY.glob(f"*{folder.name}*"))


def test_nothing_outlives_a_killed_runner(tmp_path: Path, processes_in: Left) -> None:
    with runner(tmp_path, "time.sleep(3600)") as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert folder.is_dir()
        assert segments(folder)
        until(lambda: sum(one.name() == "sleep" for one in processes_in()) == 2)
        process.kill()
    until(lambda: not processes_in() and not folder.exists() and not segments(folder))


def test_a_runner_that_leaves_says_goodbye(tmp_path: Path, processes_in: Left) -> None:
    with runner(tmp_path, "child.kill(); child.wait()") as process:
        assert process.wait(WATCHDOG_SECONDS) == 0
    # Marked processes that the runner did not kill have ended too.
    until(lambda: not processes_in())
    assert list(tmp_path.iterdir()) == []


def test_shared_memory_is_counted_and_removed_with_its_folder(tmp_path: Path) -> None:
    with Guard() as guard, workspace(guard, tmp_path) as space:
        ours, others = space.fresh("ours"), space.fresh("others")
        for folder in (ours, others):
            # A library may add its own prefix.
            segment = SHARED_MEMORY / f"lib_{memory_name(folder)}segment"
            segment.write_bytes(bytes(65_536))
        assert bytes_occupied(ours) == 65_536
        space.discard(ours)
        assert bytes_occupied(ours) == 0
        assert bytes_occupied(others) == 65_536
    assert segments(space.folder) == []


def test_a_guard_that_was_killed_is_noticed(tmp_path: Path, processes_in: Left) -> None:
    with Guard() as guard, workspace(guard, tmp_path):
        # Not before it runs its own program.
        until(lambda: len(processes_in()) == 1)
        (process,) = processes_in()
        process.kill()
        process.wait(WATCHDOG_SECONDS)
        with pytest.raises(GuardError, match="cleans up after a crash, was killed"):
            guard.watch("session", "1")
    assert list(tmp_path.iterdir()) == []
