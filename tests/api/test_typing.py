"""The annotations say what the code does, for users who check theirs strictly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tuckbox

EXAMPLES = Path(__file__).with_name("typing_examples.py")
PACKAGE = Path(tuckbox.__file__).parent


def checked(*command: str, folder: Path) -> None:
    environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    result = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.timeout(300)
def test_examples_pass_mypy_strict(tmp_path: Path) -> None:
    checked("mypy", "--strict", "--warn-unreachable", str(EXAMPLES), folder=tmp_path)


@pytest.mark.timeout(300)
def test_stub_matches_the_extension(tmp_path: Path) -> None:
    checked("mypy.stubtest", "tuckbox._engine", folder=tmp_path)


def test_package_is_marked_as_typed() -> None:
    assert (PACKAGE / "py.typed").exists()
