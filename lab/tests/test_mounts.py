"""A contestant's own file system is mounted for a cell and always unmounted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from lab.runner import phases
from lab.runner.catalogue import Contestant, PhasesSuite
from lab.runner.plan import Choice
from lab.runner.results import PhasesCell
from lab.tests.marks import ROOT_ONLY
from lab.tests.small import Unwatched, contestant, session, suite


def mounts() -> list[str]:
    return [line.split()[1] for line in Path("/proc/mounts").read_text("utf-8").splitlines()]


def run_mounted(data: Path, row: Contestant, of: PhasesSuite | None = None) -> PhasesCell:
    with session(data) as one:
        choice = Choice("full", [row])
        (cell,) = asyncio.run(phases.run(one, of or suite(1), choice, {}, Unwatched()))
    return cell


@pytest.fixture
def clean(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    assert [one for one in mounts() if one.startswith(str(tmp_path))] == []
    assert list(tmp_path.iterdir()) == []


@ROOT_ONLY
@pytest.mark.parametrize("kind", ["tmpfs", "ramfs"])
def test_a_store_lies_on_what_it_asks_for(clean: Path, kind: str) -> None:
    row = msgspec.structs.replace(contestant("honest"), mount=kind)
    cell = run_mounted(clean, row)
    assert (cell.outcome, cell.reason) == ("measured", "")
    assert cell.resources.store_bytes > 0


@ROOT_ONLY
def test_a_tmpfs_has_the_suites_memory_and_what_is_too_much_fails_the_row(clean: Path) -> None:
    row = msgspec.structs.replace(contestant("honest"), mount="tmpfs")
    small = suite(1, keys=10_000, limits={"entries": 0, "bytes": 1 << 20})
    cell = run_mounted(clean, row, small)
    assert cell.outcome == "failed"
    assert "full" in cell.reason


@ROOT_ONLY
def test_a_worker_that_dies_leaves_no_mount(clean: Path) -> None:
    row = msgspec.structs.replace(contestant("dies"), mount="tmpfs")
    assert run_mounted(clean, row).outcome == "failed"


def test_who_is_not_root_may_not_mount(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    row = msgspec.structs.replace(contestant("honest"), mount="tmpfs")
    cell = run_mounted(clean, row)
    reason = "it needs a tmpfs mount, which only root may make"
    assert (cell.outcome, cell.reason) == ("missing", reason)
