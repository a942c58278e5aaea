"""A clone for each test, with programs that behave in a known way."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reliability import catalogue, runner
from reliability.catalogue import Command, Family, Lane, LaneName
from reliability.record import Record

Families = Callable[..., Family]

_PROGRAMS = {
    "good": """print('{"run": "good", "good": true, "failures": [], "trials": 30,'
              ' "trial": "tries", "seed": 7}')""",
    "fails": """print('{"run": "fails", "good": false, "failures": ["a wrong answer"],'
               ' "trials": 30, "trial": "tries"}')""",
    "fails_with_status": """print('{"run": "x", "good": true, "failures": [], "trials": 30}')
raise SystemExit(1)""",
    "says_why_not": """print('{"run": "x", "good": false, "failures": [], "trials": 30}')""",
    "silent": "print('all is well')",
    "dies": """import os, signal
print('{"run": "x", "good": true, "failures": [], "trials": 30}', flush=True)
os.kill(os.getpid(), signal.SIGKILL)""",
    "hangs": """import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                         start_new_session=True)
pathlib.Path("pids").write_text(f"{os.getpid()} {child.pid}")
time.sleep(600)""",
    "skips": """print('{"run": "x", "good": true, "failures": [], "trials": 0,'
               ' "skipped": "no namespaces here"}')""",
    "writes": """import pathlib, sys
pathlib.Path(sys.argv[1]).write_text(
    '{"run": "a", "family": "T-X1", "good": true, "failures": [], "trials": 30}\\n'
    '{"run": "b", "family": "T-X2", "good": false, "failures": ["b"], "trials": 30}\\n')""",
    "counts": """print("running 3 tests")
print("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out")
print("test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out")""",
    "tallies": """import pathlib
path = pathlib.Path("tally")
path.write_text(f"{int(path.read_text() if path.exists() else 0) + 1}")
print('{"run": "x", "good": true, "failures": [], "trials": 30, "trial": "tries"}')""",
}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with the programs in it, and one commit."""
    root = tmp_path / "clone"
    (root / "programs").mkdir(parents=True)
    for name, text in _PROGRAMS.items():
        (root / "programs" / f"{name}.py").write_text(text)
    (root / ".gitignore").write_text("pids\ntally\n")
    commit(root)
    return root


def commit(root: Path) -> None:
    environment = {
        **os.environ,
        **{f"GIT_{who}_{what}": "test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME",)},
        **{f"GIT_{who}_EMAIL": "test@example.org" for who in ("AUTHOR", "COMMITTER")},
    }
    for words in ("init --quiet", "add --all", "commit --quiet --allow-empty -m x"):
        subprocess.run(["git", *shlex.split(words)], cwd=root, check=True, env=environment)


def family(
    *runs: str,
    name: str = "T-X1",
    trials: int = 20,
    seconds_max: int = 30,
    reports: catalogue.Reports = "json",
    side_by_side: bool = False,
) -> Family:
    commands = tuple(
        Command(f"python programs/{run}", trials, seconds_max, reports) for run in runs
    )
    lane = Lane(commands) if commands else None
    return Family(
        id=name,
        name=f"family {name}",
        promise="Holds.",
        demanded="That it holds.",
        not_covered="The rest.",
        side_by_side=side_by_side,
        short=lane,
        nightly=lane,
    )


class Recorder:
    """A listener that records its calls."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[Record] = []
        self.left_out: dict[str, str] = {}

    def begins(self, family: Family, command: str) -> None:
        self.begun.append(family.id)

    def ends(self, record: Record) -> None:
        self.ended.append(record)

    def leaves_out(self, family: Family, why: str) -> None:
        self.left_out[family.id] = why


def run(
    clone: Path,
    *families: Family,
    lane: LaneName = "short",
    resume: bool = False,
    listener: Recorder | None = None,
    fail_fast: bool = True,
) -> runner.Outcome:
    return runner.run(
        families,
        lane,
        clone.parent / "out",
        resume=resume,
        fail_fast=fail_fast,
        listener=listener or Recorder(),
        root=clone,
    )
