"""A whole run catches each way to be wrong, and accuses the honest contestant of nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from lab.hosts.python.timing import decode
from lab.protocol import ACTIONS, Verdict
from lab.runner.catalogue import Form
from lab.runner.results import ConcurrentCell
from lab.runner.summary import faults, summarise
from lab.tests.small import FORM, PROCESSES, contestant, run_concurrent

Left = Callable[[], list[psutil.Process]]


def run_one(data: Path, name: str, form: Form = FORM) -> ConcurrentCell:
    (cell,) = run_concurrent(data, name, form=form)
    return cell


def verdict_of(cell: ConcurrentCell) -> Verdict:
    assert cell.throughput is not None
    assert cell.latency is not None
    total = Verdict()
    for verdict in (cell.probe, cell.throughput.verdict, cell.latency.verdict):
        total.add(verdict)
    return total


def faults_of(cell: ConcurrentCell) -> str:
    return "; ".join(faults([summarise(contestant(cell.contestant), [cell])], []))


def test_the_honest_one_is_accused_of_nothing(tmp_path: Path, processes_in: Left) -> None:
    cell = run_one(tmp_path, "honest")
    assert cell.outcome == "measured"
    found = verdict_of(cell)
    assert (found.wrong, found.stale, found.lost, cell.refused) == (0, 0, 0, 0)
    assert faults_of(cell) == ""
    assert cell.latency is not None
    assert cell.throughput is not None
    assert sum(cell.latency.actions[action].count for action in ACTIONS) == PROCESSES * 650
    for action in ACTIONS:
        assert cell.latency.actions[action].count == cell.throughput.actions[action].count
    for tally in cell.latency.actions.values():
        # The sum that is kept and the histogram must tell of the same readings.
        mean_ns = decode(tally.histogram).get_mean_value()
        assert tally.total_ns / tally.count == pytest.approx(mean_ns, rel=0.01)
    # All keys are there from the start and come back with the next set: most gets must hit.
    assert cell.latency.actions["get"].miss < cell.latency.actions["get"].count / 3
    # Two workers' probe keys are read by each worker.
    assert cell.probe_keys == PROCESSES * 2 * 64
    assert cell.bytes_occupied > 0


def test_a_flipped_bit_is_a_wrong_value(tmp_path: Path) -> None:
    cell = run_one(tmp_path, "wrong_value")
    assert verdict_of(cell).wrong > 0
    assert "wrong values" in faults_of(cell)


def test_another_keys_value_is_a_wrong_value(tmp_path: Path) -> None:
    cell = run_one(tmp_path, "wrong_key")
    assert verdict_of(cell).wrong > 0
    assert "belong to the key" in faults_of(cell)


def test_an_overwritten_value_is_stale(tmp_path: Path) -> None:
    cell = run_one(tmp_path, "stale")
    found = verdict_of(cell)
    assert found.stale > 0
    assert found.wrong == 0
    assert "stale values" in faults_of(cell)


def test_dropped_writes_are_lost_entries_and_misses(tmp_path: Path) -> None:
    honest = run_one(tmp_path, "honest")
    cell = run_one(tmp_path, "drops_writes")
    assert cell.probe.lost > 0
    assert "lost entries" in faults_of(cell)
    assert cell.latency is not None
    assert honest.latency is not None
    assert cell.latency.actions["get"].miss > honest.latency.actions["get"].miss


def test_refusals_are_counted_and_no_lie(tmp_path: Path) -> None:
    cell = run_one(tmp_path, "refuses")
    assert cell.refused > 0
    assert cell.latency is not None
    assert cell.latency.actions["set"].miss > 0
    assert verdict_of(cell).wrong == verdict_of(cell).stale == 0


def test_a_dying_worker_fails_its_row_and_the_rest_goes_on(
    tmp_path: Path, processes_in: Left
) -> None:
    died, honest = run_concurrent(tmp_path, "dies", "honest")
    assert died.outcome == "failed"
    assert "died in run: signal SIGKILL" in died.reason
    assert "died in run" in faults_of(died)
    assert honest.outcome == "measured"
    assert processes_in() == []


def test_a_hanging_worker_fails_its_row_and_leaves_nothing(
    tmp_path: Path, processes_in: Left
) -> None:
    form = Form(operations=700, warmup=50, rounds=2, cell_seconds_max=8)
    cells = run_concurrent(tmp_path, "hangs", "honest", form=form)
    hung = [cell for cell in cells if cell.contestant == "hangs"]
    # It is not tried again in the second round.
    assert len(hung) == 1
    assert hung[0].outcome == "failed"
    assert "hung in run: no answer in time, killed" in hung[0].reason
    assert [cell.outcome for cell in cells if cell.contestant == "honest"] == ["measured"] * 2
    # Neither a host nor the child that the hanging adapter started is left.
    assert processes_in() == []


def test_an_error_of_the_adapter_is_told(tmp_path: Path) -> None:
    cell = run_one(tmp_path, "raises")
    assert cell.outcome == "failed"
    assert "failed in open: OSError: no cache today" in cell.reason


def test_what_is_not_installed_keeps_its_row(tmp_path: Path) -> None:
    cell = run_one(tmp_path, "missing")
    assert cell.outcome == "missing"
    assert "no-such-distribution-at-all" in cell.reason


@pytest.mark.parametrize("name", ["honest", "dies"])
def test_no_data_is_left(tmp_path: Path, name: str) -> None:
    run_one(tmp_path, name)
    assert list(tmp_path.iterdir()) == []
