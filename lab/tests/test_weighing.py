"""Sizes of stores in a suite in phases: equal measured bytes, whatever a limit leaves out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from lab.runner import calibration, phases
from lab.runner.catalogue import Contestant, FormName, PhasesSuite
from lab.runner.plan import CellName, Choice, name_of
from lab.runner.results import Held, PhasesCell
from lab.tests.small import FILL, Unwatched, contestant, session, shipped, suite, variant

# 5,000 values of 200 bytes and their keys are 1.2 MB, twice what a store may use.
BYTES_MAX = 600_000
GET: dict[str, object] = {
    "name": "get",
    "operations": 2_000,
    "shares": {"get": 1.0},
    "passes": ["throughput"],
}


def small(
    bytes_max: int = BYTES_MAX,
    keys: int = 5_000,
    size: int = 200,
    steps: Sequence[Mapping[str, object]] = (FILL, GET),
) -> PhasesSuite:
    return suite(
        1,
        keys=keys,
        key_shape="uuid",
        limits={"entries": 0, "bytes": bytes_max},
        variants=[variant(sizes={"shape": "fixed", "size": size})],
        steps=steps,
        form={"rounds": 2},
    )


def run(
    data: Path,
    row: Contestant,
    of: PhasesSuite,
    recorded: Mapping[CellName, PhasesCell] | None = None,
    form: FormName = "full",
) -> list[PhasesCell]:
    with session(data) as one:
        work = phases.run(one, of, Choice(form, [row]), recorded or {}, Unwatched())
        return asyncio.run(work)


def held(cell: PhasesCell) -> Held:
    """Return a cell's `held`. A missing contestant skips the test, or fails it with CI=true."""
    if cell.outcome == "missing" and os.environ.get("CI") != "true":
        pytest.skip(cell.reason)
    assert (cell.outcome, cell.reason) == ("measured", "")
    assert cell.held is not None
    return cell.held


def hit_ratio(cell: PhasesCell) -> float:
    throughput = cell.phases[-1].throughput
    assert throughput is not None
    get = throughput.actions["get"].tally
    return 1 - get.miss / get.count


@pytest.mark.parametrize(
    "name", ["cachebox", "perl_chi_memory:max_size", "native_quick_cache:copied"]
)
def test_a_limit_that_leaves_out_tables_ends_within_the_bytes(tmp_path: Path, name: str) -> None:
    cells = run(tmp_path, shipped(name), small())
    for cell in cells:
        one = held(cell)
        assert one.weighed == "client"
        assert 0.85 * BYTES_MAX <= one.bytes <= BYTES_MAX
        assert one.told < BYTES_MAX
        # With the suite's own limit, it uses more than that.
        assert one.tries[0].limit == BYTES_MAX
        assert calibration.exceeds(one.tries[0].bytes_measured, BYTES_MAX)
        # The rounds ran under the found limit.
        hits_max = one.tries[0].hits / 5_000
        assert 0 < hit_ratio(cell) < max(hits_max, 0.5)
    # One weighing for all rounds.
    assert len(cells) == 2
    assert cells[0].held == cells[1].held
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["dict:copied", "perl_hash"])
def test_what_takes_no_limit_is_weighed_and_says_why(tmp_path: Path, name: str) -> None:
    first, second = run(tmp_path, shipped(name), small())
    one = held(first)
    assert (one.told, len(one.tries)) == (BYTES_MAX, 1)
    # It uses at least the bytes of every key and value.
    assert one.bytes > 5_000 * 236
    assert "more than the allowed 600,000" in one.reason
    assert hit_ratio(first) == hit_ratio(second) == 1


def test_a_limit_that_does_not_bind_is_told_as_it_is(tmp_path: Path) -> None:
    first, _ = run(tmp_path, shipped("cachebox"), small(bytes_max=16_000_000))
    one = held(first)
    assert not one.binds
    assert (one.told, len(one.tries), one.reason) == (16_000_000, 1, "")
    assert 5_000 * 236 < one.bytes < 3 * 5_000 * 236


@pytest.mark.parametrize("name", ["perl_fastmmap:sized", "redis:socket"])
def test_files_and_servers_are_weighed_too(tmp_path: Path, name: str) -> None:
    bound, *_ = run(tmp_path, shipped(name), small())
    free, *_ = run(tmp_path, shipped(name), small(bytes_max=16_000_000))
    assert held(bound).weighed == shipped(name).weighed_by
    assert 0.5 * BYTES_MAX < held(bound).bytes <= (1 + calibration.TOLERANCE) * BYTES_MAX
    # If the limit does not bind, the cell itself measures the store.
    assert held(free).tries == []
    assert held(free).bytes > 5_000 * 236


def test_files_that_outgrow_the_bytes_in_the_phases_get_the_limit_of_the_suite(
    tmp_path: Path,
) -> None:
    # Its journal grows with each overwrite, which weighing does not do.
    overwrite = {**GET, "name": "set", "shares": {"set": 1.0}}
    of = small(720_896, keys=500, size=1_600, steps=[FILL, overwrite])
    for cell in run(tmp_path, shipped("sqlite"), of):
        one = held(cell)
        assert one.told == 720_896 < one.bytes
        assert one.reason.startswith("with a limit of ")
        assert "after its phases" in one.reason


def test_segments_of_shared_memory_are_weighed(tmp_path: Path) -> None:
    first, _ = run(tmp_path, shipped("perl_sharedmemorycache"), small(16_000_000, keys=500))
    assert held(first).bytes > 500 * 236


def test_a_resumed_run_does_not_weigh_again(tmp_path: Path) -> None:
    of, row = small(), shipped("cachebox")
    first, _ = run(tmp_path, row, of)
    one = held(first)
    one.told, one.tries = 123_456, one.tries[:1]
    _, second = run(tmp_path, row, of, recorded={name_of(first): first})
    assert second.held == one


def test_nothing_is_weighed_for_null_without_a_limit_or_in_smoke(tmp_path: Path) -> None:
    unlimited = small(bytes_max=0)
    for cell in (
        *run(tmp_path, shipped("null"), small()),
        *run(tmp_path, contestant("honest"), unlimited),
        *run(tmp_path, contestant("honest"), small(), form="smoke"),
    ):
        assert (cell.outcome, cell.held) == ("measured", None)


def test_who_cannot_be_weighed_is_measured_all_the_same(tmp_path: Path) -> None:
    # It stores everything in a dictionary, and nothing in the folder that is measured.
    row = shipped("dict:copied", weighed="file")
    first, _ = run(tmp_path, row, small())
    one = held(first)
    assert (one.bytes, one.reason) == (0, "no growth of its file was measured")
