"""A whole run detects every kind of fault, and reports none for the honest contestant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from lab.protocol import ACTIONS, Verdict
from lab.runner.catalogue import PhasesSuite
from lab.runner.histograms import decode
from lab.runner.judgement import faults
from lab.runner.results import Pass, PhasesCell
from lab.runner.summary import Summary, summarise
from lab.tests.small import (
    FILL,
    MIX,
    OPERATIONS,
    PROCESSES,
    WARMUP,
    Watching,
    contestant,
    run_suite,
    suite,
    variant,
)

Left = Callable[[], list[psutil.Process]]


def run_one(data: Path, name: str, of: PhasesSuite | None = None) -> PhasesCell:
    (cell,) = run_suite(data, name, of=of)
    return cell


def passes_of(cell: PhasesCell) -> tuple[Pass, Pass]:
    """Return both passes of the only measured phase."""
    (phase,) = cell.phases
    assert phase.throughput is not None
    assert phase.latency is not None
    return phase.throughput, phase.latency


def row_of(cell: PhasesCell) -> Summary:
    (row,) = summarise(suite(), [contestant(cell.contestant)], [cell])
    return row


def verdict_of(cell: PhasesCell) -> Verdict:
    return row_of(cell).verdict


def faults_of(cell: PhasesCell) -> str:
    return "; ".join(faults([row_of(cell)], []))


def test_the_honest_one_is_accused_of_nothing(tmp_path: Path, processes_in: Left) -> None:
    cell = run_one(tmp_path, "honest")
    assert (cell.outcome, cell.reason) == ("measured", "")
    found = verdict_of(cell)
    assert (found.wrong, found.stale, found.lost, cell.refused) == (0, 0, 0, 0)
    assert faults_of(cell) == ""
    throughput, latency = passes_of(cell)
    counted = PROCESSES * (OPERATIONS - WARMUP)
    for one in (throughput, latency):
        assert (one.planned, one.done) == (counted, counted)
        assert sum(one.actions[action].tally.count for action in ACTIONS) == counted
        assert 0 <= one.together_ns < one.elapsed_ns
        assert one.cpu_ns > 0
        assert (one.workers, one.stretches) == (PROCESSES, PROCESSES)
    assert throughput.block_ns > 0
    for stat in latency.actions.values():
        # The sum and the histogram must come from the same readings.
        histogram = decode(stat.histogram)
        assert histogram.get_total_count() == stat.tally.count
        mean_ns = stat.total_ns / stat.tally.count
        assert mean_ns == pytest.approx(histogram.get_mean_value(), rel=0.01)
    # All keys exist from the start and return with the next set, so most gets must hit.
    get = latency.actions["get"].tally
    assert get.miss < get.count / 3
    # Each worker reads the probe keys of two workers.
    assert cell.probe_keys == PROCESSES * 2 * 64
    used = cell.resources
    assert used.store_bytes > 0
    # A Python process needs some megabytes itself.
    assert used.client_bytes_full > PROCESSES << 20
    assert used.client_bytes_opened > PROCESSES << 20
    assert decode(cell.timer).get_total_count() == PROCESSES * 1_000
    assert min(cell.create_ns, cell.open_ns, cell.close_ns) > 0


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


def test_an_emptied_store_that_keeps_entries_is_stale(tmp_path: Path) -> None:
    empties = suite(empties=True)
    honest, keeps = run_suite(tmp_path, "honest", "keeps_entries", of=empties)
    assert honest.clear_ns is not None
    assert honest.clear_ns > 0
    assert faults(summarise(empties, [contestant("honest")], [honest]), []) == []
    # One worker empties the shared store. It knows only its own keys, and leaves five of them,
    # of which the fourth was deleted before.
    others = (PROCESSES - 1) * 48
    assert keeps.probe.stale == others + 4
    assert keeps.probe.lost == 0
    assert "remain after the store was emptied" in keeps.probe.examples[0]
    assert faults(summarise(empties, [contestant("keeps_entries")], [keeps]), []) != []


def test_what_cannot_empty_its_store_has_no_time_for_it(tmp_path: Path) -> None:
    (cell, *_) = run_suite(tmp_path, "served:tcp", of=suite(1, empties=True))
    assert (cell.outcome, cell.clear_ns) == ("measured", None)
    assert cell.probe.stale == 0


def test_dropped_writes_are_lost_entries_and_misses(tmp_path: Path) -> None:
    honest = run_one(tmp_path, "honest")
    cell = run_one(tmp_path, "drops_writes")
    assert cell.probe.lost > 0
    assert "lost entries" in faults_of(cell)
    misses = [passes_of(one)[1].actions["get"].tally.miss for one in (honest, cell)]
    assert misses[1] > misses[0]


def test_refusals_are_counted_and_no_lie(tmp_path: Path) -> None:
    cell = run_one(tmp_path, "refuses")
    assert cell.refused > 0
    assert passes_of(cell)[1].actions["set"].tally.miss > 0
    assert verdict_of(cell).wrong == verdict_of(cell).stale == 0


def test_a_dying_worker_fails_its_row_and_the_rest_goes_on(
    tmp_path: Path, processes_in: Left
) -> None:
    died, honest = run_suite(tmp_path, "dies", "honest")
    assert died.outcome == "failed"
    assert "died in run of mix (throughput): signal SIGKILL" in died.reason
    assert "died in run" in faults_of(died)
    assert honest.outcome == "measured"
    assert processes_in() == []


def test_a_hanging_worker_fails_its_row_and_leaves_nothing(
    tmp_path: Path, processes_in: Left
) -> None:
    watching = Watching()
    short = suite(form={"rounds": 2, "cell_seconds_max": 20.0})
    cells = run_suite(tmp_path, "hangs", "honest", of=short, watcher=watching)
    hung = [cell for cell in cells if cell.contestant == "hangs"]
    # It does not run again in the second round.
    assert len(hung) == 1
    assert [name for name, _ in watching.skipped] == ["hangs"]
    assert hung[0].outcome == "failed"
    assert "hung in run of mix (throughput): no answer in time, killed" in hung[0].reason
    assert [cell.outcome for cell in cells if cell.contestant == "honest"] == ["measured"] * 2
    # Neither a host nor the child of the hanging adapter is left.
    assert processes_in() == []


def test_an_error_of_the_adapter_is_told(tmp_path: Path) -> None:
    cell = run_one(tmp_path, "raises")
    assert cell.outcome == "failed"
    assert "failed in open: OSError: no cache today" in cell.reason


def test_what_is_not_installed_keeps_its_row(tmp_path: Path) -> None:
    cell = run_one(tmp_path, "missing")
    assert cell.outcome == "missing"
    assert "no-such-distribution-at-all" in cell.reason
    assert "no-such-distribution-at-all" in faults_of(cell)


def test_a_pass_that_meets_its_limit_says_where(tmp_path: Path) -> None:
    # Without a warm-up, the first block counts, even if it was slow.
    endless = {**MIX, "operations": 200_000, "shares": {"set": 1.0}, "block": 16, "warmup": 0}
    short = suite(1, steps=[endless], form={"phase_seconds_max": 0.05})
    cell = run_one(tmp_path, "honest", short)
    assert cell.outcome == "measured"
    for one in passes_of(cell):
        assert 0 < one.done < one.planned == 200_000
        assert sum(stat.tally.count for stat in one.actions.values()) == one.done
    (row,) = summarise(short, [contestant("honest")], [cell])
    assert row.stopped
    assert faults([row], []) == []


def test_a_fill_that_meets_its_limit_says_where_and_is_not_tried_with_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A small share of the cell's time, so that loading all keys has enough time.
    monkeypatch.setattr("lab.runner.cell.PRELOAD_SHARE_MAX", 0.02)
    watching = Watching()
    fill = {**FILL, "operations_per_key": 1}
    many = [variant("many", keys=300_000), variant("more", keys=400_000), variant("few", keys=50)]
    short = suite(1, steps=[fill, MIX], variants=many)
    stopped, measured = run_suite(tmp_path, "honest", of=short, watcher=watching)
    assert (stopped.variant, stopped.outcome) == ("many", "stopped")
    assert "fill reached " in stopped.reason
    assert "of 300,000 operations within 1.2 s" in stopped.reason
    assert (measured.variant, measured.outcome) == ("few", "measured")
    assert [where for _, where in watching.skipped] == ["small/main, more, round 1"]
    rows = summarise(short, [contestant("honest")], [stopped, measured])
    assert [(row.variant, row.outcome) for row in rows] == [
        ("many", "stopped"),
        ("more", "stopped"),
        ("few", "measured"),
    ]
    assert faults(rows, []) == []


@pytest.mark.parametrize("name", ["honest", "dies"])
def test_no_data_is_left(tmp_path: Path, name: str) -> None:
    run_one(tmp_path, name)
    assert list(tmp_path.iterdir()) == []
