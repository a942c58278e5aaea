"""Every row that is built from source runs checked operations and answers correctly."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from lab.runner import built, catalogue, phases
from lab.runner.catalogue import Contestant, server_of, source
from lab.runner.install.archives import FOLDER_VARIABLE
from lab.runner.judgement import faults
from lab.runner.plan import Choice
from lab.runner.summary import summarise
from lab.tests.small import FILL, MIX, OPERATIONS, WARMUP, Unwatched, session, suite, variant

Left = Callable[[], list[psutil.Process]]

MUST_BE_HERE = os.environ.get("CI") == "true" and bool(os.environ.get(FOLDER_VARIABLE))


def built_by_the_lab(row: Contestant) -> str:
    """Return the name of the source that a row needs; empty if none."""
    return row.install.build or (server_of(row).install.build if row.server else "")


ROWS = {name: row for name, row in catalogue.contestants().items() if built_by_the_lab(row)}


def test_every_source_has_rows() -> None:
    assert {built_by_the_lab(row) for row in ROWS.values()} == set(catalogue.sources())


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_it_obeys_and_answers_rightly(tmp_path: Path, processes_in: Left, row: Contestant) -> None:
    archive = built.archive_of(source(built_by_the_lab(row)))
    if not archive:
        assert not MUST_BE_HERE, "not built, though its source is here"
        pytest.skip("not built")
    variants = [variant(kind, value=kind) for kind in row.values]
    of = suite(1, steps=[FILL, MIX], variants=variants)
    row = msgspec.structs.replace(row, suites=["small"])
    choice = Choice("full", [row], placements=("one core", "same core"))
    with session(tmp_path) as one:
        cells = asyncio.run(phases.run(one, of, choice, {}, Unwatched()))
    assert [(cell.variant, cell.outcome, cell.reason) for cell in cells] == [
        (kind, "measured", "") for kind in row.values
    ]
    assert faults(summarise(of, [row], cells), []) == []
    assert cells[0].probe_keys
    for cell in cells:
        assert archive in (cell.server_version if row.server else cell.version)
        (phase,) = cell.phases
        assert phase.throughput is not None
        assert phase.latency is not None
        for measured in (phase.throughput, phase.latency):
            assert measured.done == OPERATIONS - WARMUP
            # Most gets hit: a store that keeps nothing must not pass.
            gets = measured.actions["get"].tally
            assert gets.count - gets.miss > gets.count / 2
    assert processes_in() == []
