"""The conditions in which tests measure rows: few rounds, and one pass in each."""

from __future__ import annotations

from pathlib import Path

import pytest

from benches import turns
from benches.row import Conditions
from lab.runner.catalogue import LAB

TEST_CONTESTANTS = LAB / "tests" / "contestants"


@pytest.fixture
def conditions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Conditions:
    monkeypatch.setattr(turns, "PASSES_MAX", 1)
    tmpfs, disk = tmp_path / "tmpfs", tmp_path / "disk"
    for folder in (tmpfs, disk):
        folder.mkdir(0o700)
    told: list[str] = []
    return Conditions(2, True, tmpfs, disk, progress=told.append, not_measured=told.append)
