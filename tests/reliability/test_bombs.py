"""T-S2: a value that promises more than it holds is refused at once, and takes no memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from reliability.conftest import Trials

pytestmark = pytest.mark.family("T-S2")


def read_bombs(path: str, kind: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, os.path.join(os.path.dirname(__file__), "bombs.py"), path, "--kind", kind],
        capture_output=True,
        text=True,
        check=False,
    )


def test_bombs_do_not_go_off(path: str, trials: Trials) -> None:
    done = read_bombs(path, "Cache")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    trials.add(found["bombs"], "bombs")
    trials.figure("memory_growth_bytes_max", found["most_bytes"])
    trials.figure("value_bytes_max", found["value_bytes_max"])


@pytest.mark.parametrize("kind", ["Trusting", "Recursive"])
def test_a_reader_that_trusts_is_caught(path: str, kind: str) -> None:
    done = read_bombs(path, kind)
    assert done.returncode != 0
    assert "AssertionError" in done.stderr, done.stderr
