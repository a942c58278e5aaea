"""Medians, spread, faults, and the refusal to call a noisy run quiet."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from lab.protocol import Verdict
from lab.runner.machine import Disturbance, Disturbances, machine
from lab.runner.results import ReplayCell
from lab.runner.summary import faults, noise
from lab.tests.test_terminal import a_summary

CALM = Disturbance(others=0.0, stolen=0.0)


def test_the_spread_is_the_range_of_the_totals_by_their_median() -> None:
    summary = a_summary()
    # Totals of the rounds: 178, 184 and 340 microseconds.
    assert summary.total_ns == 184_000
    assert summary.spread == pytest.approx((340 - 178) / 184)


def test_a_run_with_spread_is_noisy() -> None:
    (reason,) = noise([a_summary()], CALM)
    assert "django_filebased differs by 88% between rounds" in reason


def test_a_run_without_spread_is_quiet() -> None:
    assert noise([replace(a_summary(), spread=0.02)], CALM) == []


def test_too_few_rounds_are_never_quiet() -> None:
    (reason,) = noise([replace(a_summary(), spread=0.0, rounds=1)], CALM)
    assert "fewer than 3 rounds" in reason


@pytest.mark.parametrize(
    ("disturbance", "says"),
    [
        (Disturbance(others=0.30, stolen=0.0), "other programs used 30% of the machine"),
        (Disturbance(others=0.0, stolen=0.05), "the hypervisor took 5% of the machine"),
    ],
)
def test_a_disturbed_run_is_noisy(disturbance: Disturbance, says: str) -> None:
    assert noise([replace(a_summary(), spread=0.0)], disturbance) == [says]


def test_nulls_spread_is_not_judged() -> None:
    assert noise([a_summary("null")], CALM) == []


def test_what_is_excused_is_no_fault_but_a_wrong_value_always_is() -> None:
    # django_filebased is excused for what it loses, not for what is stale or wrong.
    (fault,) = faults([a_summary(wrong=1)], [])
    assert "3 wrong values" in fault
    assert "12 stale values" in fault
    assert "lost" not in fault
    (fault,) = faults([a_summary("diskcache")], [])
    assert "3 lost entries" in fault


def test_a_missing_contestant_is_one_fault_however_often_it_is_missed() -> None:
    cells = [
        ReplayCell("gone", capacity, "missing", 1, False, reason="not installed")
        for capacity in (0.05, 0.1)
    ]
    assert faults([], cells) == ["gone: not installed"]


def test_wrong_values_of_a_replay_are_faults() -> None:
    cell = ReplayCell("liar", 0.05, "measured", 1, True, verdict=Verdict(wrong=2, examples=["x"]))
    assert faults([], [cell]) == ["liar at 5%: 2 wrong values, for one: x"]


def test_the_machine_sheet_is_filled_in() -> None:
    sheet = msgspec.to_builtins(machine())
    for field in ("cpu", "kernel", "system", "python", "libraries", "cores", "memory_bytes"):
        assert sheet[field]


def test_disturbances_are_shares() -> None:
    disturbance = Disturbances().until_now()
    assert 0 <= disturbance.others <= 1
    assert 0 <= disturbance.stolen <= 1
