"""Hit ratios at equal measured bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.disk import bytes_occupied
from lab.runner import traces
from lab.runner.plan import name_of
from lab.runner.replay import is_equal, limit
from lab.runner.results import ReplayCell
from lab.tests.small import replay_suite, run_replay


def measured(name: str, peak: int, settled: int) -> ReplayCell:
    return ReplayCell(
        "small",
        name,
        0.5,
        "measured",
        bytes_max=1_000,
        equal=False,
        requests=10,
        hits=5,
        bytes_peak=peak,
        bytes_settled=settled,
    )


def test_the_limit_is_the_smallest_measurement_of_all_references() -> None:
    first, second = measured("a", peak=900, settled=500), measured("b", peak=450, settled=800)
    assert limit([first, second], nominal=1_000) == 450


def test_without_a_reference_the_limit_is_nominal() -> None:
    assert limit([], nominal=1_000) == 1_000


@pytest.mark.parametrize(
    ("peak", "settled", "equal"), [(500, 500, True), (501, 500, False), (400, 501, False)]
)
def test_equal_means_no_more_at_any_time(peak: int, settled: int, equal: bool) -> None:
    reference = measured("reference", peak=900, settled=500)
    assert is_equal(measured("ours", peak, settled), [reference]) is equal


def test_a_failed_cell_is_equal_to_nothing() -> None:
    failed = ReplayCell("small", "ours", 0.5, "failed", bytes_max=1, equal=False)
    assert not is_equal(failed, [measured("reference", 900, 500)])


def test_a_cache_that_never_forgets_hits_all_that_can_be_hit(tmp_path: Path) -> None:
    (cell,) = run_replay(tmp_path, "honest", references=["honest"])
    requests = traces.requests(replay_suite(["honest"]))
    assert cell.hits == len(requests.keys) - requests.distinct
    assert cell.hit_ratio == pytest.approx(requests.hit_ratio_max)
    assert cell.verdict.wrong == 0
    assert cell.bytes_settled > requests.distinct * 500
    assert list(tmp_path.iterdir()) == []


def test_others_get_what_the_reference_was_measured_to_occupy(tmp_path: Path) -> None:
    reference, greedy = run_replay(tmp_path, "greedy", "honest", references=["honest"])
    # References run first, wherever they stand.
    assert (reference.contestant, greedy.contestant) == ("honest", "greedy")
    assert greedy.bytes_max == min(reference.bytes_peak, reference.bytes_settled)
    assert reference.equal
    assert greedy.bytes_settled > 2 * greedy.bytes_max
    assert not greedy.equal


def test_a_wrong_answer_and_a_failure_are_told(tmp_path: Path) -> None:
    cells = run_replay(tmp_path, "wrong_value", "raises", "missing", references=["honest"])
    wrong, failed, missing = cells
    assert wrong.verdict.wrong > 0
    assert failed.outcome == "failed"
    assert "no cache today" in failed.reason
    assert missing.outcome == "missing"
    assert not any(cell.equal for cell in cells)


def test_dropped_writes_show_in_the_hit_ratio(tmp_path: Path) -> None:
    honest, drops = run_replay(tmp_path, "honest", "drops_writes", references=["honest"])
    assert drops.hit_ratio < honest.hit_ratio


def test_what_was_recorded_is_not_replayed_again(tmp_path: Path) -> None:
    (reference,) = run_replay(tmp_path, "honest", references=["honest"])
    reference.bytes_peak = reference.bytes_settled = 123_456
    again, greedy = run_replay(
        tmp_path,
        "greedy",
        "honest",
        references=["honest"],
        recorded={name_of(reference): reference},
    )
    assert again is reference
    # Also after a break the others get what the reference was measured to occupy.
    assert greedy.bytes_max == 123_456


def test_bytes_are_those_of_blocks(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "one").write_bytes(b"x")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    assert 0 < bytes_occupied(tmp_path) < 1 << 20
