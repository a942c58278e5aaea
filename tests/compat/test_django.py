"""`DjangoCache` follows Django's rules. Runs in a process of its own: Django is set up once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

PROGRAM = Path(__file__).with_name("django_program.py")


@pytest.mark.parametrize(
    "name", [line[4:].partition("(")[0] for line in PROGRAM.read_text().splitlines()
             if line.startswith("def check_")]
)  # fmt: skip
def test_the_backend(dc: ModuleType, tmp_path: Path, name: str) -> None:
    subprocess.run([sys.executable, PROGRAM, dc.__name__, tmp_path, name], check=True, timeout=50)
