"""Medians, intervals, spread, null, faults, and the refusal to call a noisy run quiet."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from lab.protocol import Tally, Verdict
from lab.runner.catalogue import Contestant, Placement
from lab.runner.histograms import encode
from lab.runner.judgement import faults, noise
from lab.runner.rates import ImpossibleRateError, Work
from lab.runner.results import (
    Outcome,
    Pass,
    PhaseResult,
    PhasesCell,
    ReplayCell,
    Resources,
    Stat,
    Step,
)
from lab.runner.summary import (
    Summary,
    against_null,
    figure,
    null_of,
    summarise,
)
from lab.tests.small import MIX, suite, variant
from rig.machine import Disturbance, Disturbances, machine

CALM = Disturbance(others=0.0, stolen=0.0)
WORKERS = 2
SUITE = suite(WORKERS, steps=[MIX], variants=[variant("small"), variant("large")])


def row(name: str = "one", *, stores: bool = True, host: str = "python") -> Contestant:
    return Contestant(
        title=name.title(),
        what="",
        host=host,
        shared_by="machine",
        survives_restart=True,
        evicts=True,
        counts=[],
        cannot=[],
        suites=["small"],
        stores=stores,
        name=name,
    )


def a_pass(operation_ns: int, *, latency: bool, done: int = 1_000, wrong: int = 0) -> Pass:
    """Return 1,000 operations of two workers: 800 gets with 200 misses, 50 of them right."""
    get = Stat(Tally(done - 200, 200, 50, wrong), operation_ns * 800)
    set_ = Stat(Tally(200), operation_ns * 200)
    if latency:
        get.histogram = encode([operation_ns] * 790 + [operation_ns * 100] * 10)
        set_.histogram = encode([operation_ns] * 200)
    return Pass(
        planned=1_000,
        done=done,
        elapsed_ns=operation_ns * done // WORKERS,
        together_ns=operation_ns * done // WORKERS // 4,
        cpu_ns=operation_ns * done // 2,
        cores=1,
        workers=WORKERS,
        stretches=WORKERS,
        block_operations=256,
        block_ns=0 if latency else operation_ns * 256,
        actions={"get": get, "set": set_, "delete": Stat(Tally())},
        verdict=Verdict(wrong=wrong, stale=2, weak=60, examples=["an example"] if wrong else []),
        steps=[Step(10, operation_ns * 10)] if latency else [],
    )


def cell(
    operation_ns: int = 1_000,
    number: int = 1,
    *,
    name: str = "one",
    of_variant: str = "small",
    placement: Placement = "free",
    outcome: Outcome = "measured",
    reason: str = "",
    done: int = 1_000,
    wrong: int = 0,
    lost: int = 0,
) -> PhasesCell:
    made = PhasesCell("small", "main", of_variant, name, placement, number, outcome, reason)
    made.probe = Verdict(lost=lost)
    made.resources = Resources(client_bytes_full=operation_ns)
    made.open_ns = operation_ns
    if outcome == "measured":
        made.phases = [
            PhaseResult(
                "mix",
                a_pass(operation_ns, latency=False, done=done),
                a_pass(operation_ns, latency=True, done=done, wrong=wrong),
            )
        ]
    return made


def rounds(*operations_ns: int, name: str = "one") -> list[PhasesCell]:
    return [cell(one, number, name=name) for number, one in enumerate(operations_ns, 1)]


def summary(cells: Sequence[PhasesCell], *contestants: Contestant) -> Summary:
    (found,) = (
        one for one in summarise(SUITE, contestants or [row()], cells) if one.variant == "small"
    )
    return found


def test_a_row_has_the_medians_of_its_rounds() -> None:
    found = summary(rounds(1_000, 1_100, 3_000))
    assert (found.outcome, found.rounds, len(found.cells)) == ("measured", 3, 3)
    (phase,) = found.phases
    assert phase.throughput is phase.main
    assert phase.throughput is not None
    assert phase.latency is not None
    # Two workers at 1,100 ns for each operation.
    assert phase.main.rate.median == pytest.approx(2 * 1e9 / 1_100)
    assert phase.main.operation_ns.median == 1_100
    assert phase.main.elapsed_ns.median == 550_000
    assert phase.latency.operation_ns.median == 1_100
    assert phase.main.together == pytest.approx(0.25)
    assert phase.main.cpu_ns == pytest.approx(550)
    assert found.open_ns == 1_100
    assert found.resources.client_bytes_full == 1_100
    assert found.phase("mix") is phase
    assert found.phase("other") is None


def test_an_action_has_percentiles_of_its_rounds_and_the_largest_of_all() -> None:
    latency = summary(rounds(1_000, 1_100, 3_000)).phases[0].latency
    assert latency is not None
    get = latency.action("get")
    assert (get.count, get.miss, get.absent) == (800, 200, 50)
    assert get.median_ns == get.p90_ns == pytest.approx(1_100, rel=0.001)
    assert get.p999_ns == pytest.approx(110_000, rel=0.001)
    assert get.max_ns == pytest.approx(300_000, rel=0.001)
    assert get.total_ns == 880_000
    # An action that did not occur has no times.
    assert latency.action("delete").median_ns is None
    throughput = summary(rounds(1_000)).phases[0].throughput
    assert throughput is not None
    assert throughput.action("get").median_ns is None
    assert [(step.count, step.total_ns) for step in latency.steps] == [(10, 11_000)]


def test_hit_ratios_are_of_what_should_have_been_there() -> None:
    main = summary(rounds(1_000)).phases[0].main
    assert main.hit_ratio == pytest.approx(600 / 750)
    assert main.hit_ratio_all == pytest.approx(600 / 800)


def test_without_gets_there_is_no_hit_ratio() -> None:
    one = cell()
    throughput = one.phases[0].throughput
    assert throughput is not None
    throughput.actions["get"] = Stat(Tally())
    main = summary([one]).phases[0].main
    assert (main.hit_ratio, main.hit_ratio_all) == (None, None)


def test_the_spread_is_the_range_by_the_median() -> None:
    found = figure([100, 110, 150])
    assert (found.median, found.rounds) == (110, 3)
    assert found.spread == pytest.approx(50 / 110)
    assert (found.least, found.greatest, found.bounds) == (100, 150, (100, 150))
    assert figure([0, 0]).spread is None


def test_one_round_has_no_spread_and_no_bounds() -> None:
    found = figure([5])
    assert (found.spread, found.interval, found.bounds) == (None, None, None)


def test_the_bounds_of_six_rounds_are_their_interval() -> None:
    found = figure([6, 1, 5, 2, 4, 3, 9])
    assert found.interval is not None
    assert found.bounds == (found.interval.low, found.interval.high) == (1, 9)


def test_a_rate_that_the_cores_cannot_reach_is_refused() -> None:
    """A sum of the workers' own rates would count each worker as if it ran alone."""
    workers, done, cpu_ns, cores = 8, 100_000, 40, 2
    # Each worker was under the clock for a twelfth of the pass, one after the other.
    clocked_ns = done * cpu_ns // workers
    by_wall = Work(done, 12 * clocked_ns, done * cpu_ns, cores, workers)
    assert by_wall.rate == pytest.approx(done * 1e9 / (12 * clocked_ns))
    by_clock = Work(done, clocked_ns, done * cpu_ns, cores, workers)
    with pytest.raises(ImpossibleRateError, match="200,000,000 operations per second"):
        _ = by_clock.rate
    # The readings of the clocks take as long as a short pass.
    Work(60, 41_000, 62_500, 1).check()
    with pytest.raises(ImpossibleRateError):
        Work(60, 41_000, 130_000, 1).check()
    one = cell()
    throughput = one.phases[0].throughput
    assert throughput is not None
    throughput.elapsed_ns = throughput.cpu_ns // (2 * throughput.cores)
    with pytest.raises(ImpossibleRateError):
        summary([one])


def test_verdicts_of_all_rounds_are_added_and_weak_is_a_share() -> None:
    cells = [cell(wrong=3, lost=2), cell(number=2, wrong=4)]
    found = summary(cells)
    assert (found.verdict.wrong, found.verdict.stale, found.verdict.lost) == (7, 8, 2)
    assert found.phases[0].latency is not None
    assert found.phases[0].latency.action("get").wrong == 7
    # 60 in each of four passes, of 600 returned values in each.
    assert found.weak == pytest.approx(0.1)


def test_rows_are_in_the_order_of_the_suite_the_contestants_and_the_placements() -> None:
    placed: list[Placement] = ["split cores", "same core"]
    cells = [
        cell(name=name, of_variant=of_variant, placement=placement)
        for of_variant in ("large", "small")
        for placement in placed
        for name in ("b", "a")
    ]
    found = summarise(SUITE, [row("b"), row("a"), row("never run")], cells)
    assert [(one.variant, one.contestant.name, one.placement) for one in found] == [
        (of_variant, name, placement)
        for of_variant in ("small", "large")
        for name in ("b", "a")
        for placement in ("same core", "split cores")
    ]


def test_what_failed_has_a_row_in_every_variant_with_the_reason() -> None:
    failed = cell(outcome="failed", reason="worker 0 died", number=2)
    small, large = summarise(SUITE, [row()], [cell(), failed])
    # The first round still gave figures.
    assert (small.outcome, small.reason, small.rounds) == ("failed", "worker 0 died", 1)
    assert (large.outcome, large.rounds, large.cells) == ("failed", 0, ())
    assert large.reason == "worker 0 died (small, free, round 2)"
    assert not large.measured
    assert faults([small, large], []) == [
        "one in small/main (small, free, round 2): worker 0 died",
        "one in small/main (small): 4 stale values",
    ]


def test_what_was_not_run_and_did_not_fail_has_no_row() -> None:
    assert [one.variant for one in summarise(SUITE, [row()], [cell()])] == ["small"]


def test_a_pass_that_ended_early_is_marked() -> None:
    found = summary([cell(), cell(number=2, done=700)])
    assert found.stopped
    assert found.phases[0].main.stopped
    assert found.phases[0].main.done == 850
    assert not summary([cell()]).stopped


def test_null_is_that_of_the_same_host() -> None:
    contestants = [
        row("fast"),
        row("slow"),
        row("other", host="perl"),
        row("null", stores=False),
    ]
    cells = [
        *rounds(290, name="fast"),
        *rounds(310, name="slow"),
        *rounds(290, name="other"),
        *rounds(100, name="null"),
    ]
    found = {one.contestant.name: one for one in summarise(SUITE, contestants, cells)}
    rows = list(found.values())
    assert null_of(rows, found["fast"]) is found["null"]
    assert against_null(found["fast"], found["null"], "mix") == pytest.approx(2.9)
    assert against_null(found["slow"], found["null"], "mix") == pytest.approx(3.1)
    # Perl's null did not run, so there is no comparison.
    assert null_of(rows, found["other"]) is None
    assert against_null(found["other"], None, "mix") is None
    assert against_null(found["null"], found["null"], "mix") is None


SIX_ROUNDS = rounds(1_000, 1_010, 1_020, 1_010, 1_000, 1_020)


def test_a_run_with_spread_is_noisy() -> None:
    found = summary(rounds(1_000, 1_100, 1_300, 1_000, 1_000, 1_000))
    assert found.noisy
    (reason,) = noise([found], CALM)
    assert "1 of 1 rows differ by more than 10% between rounds" in reason
    assert "one in small/main (small, free) by" in reason


def test_a_run_without_spread_is_quiet() -> None:
    assert noise([summary(SIX_ROUNDS)], CALM) == []


def test_too_few_rounds_are_never_quiet() -> None:
    (reason,) = noise([summary(SIX_ROUNDS[:5])], CALM)
    assert "fewer than 6 rounds" in reason


@pytest.mark.parametrize(
    ("disturbance", "says"),
    [
        (Disturbance(others=0.30, stolen=0.0), "other programs used 30% of the machine"),
        (Disturbance(others=0.0, stolen=0.05), "the hypervisor took 5% of the machine"),
    ],
)
def test_a_disturbed_run_is_noisy(disturbance: Disturbance, says: str) -> None:
    assert noise([summary(SIX_ROUNDS)], disturbance) == [says]


def test_nulls_spread_is_not_judged() -> None:
    found = summary(rounds(10, 20, 30, name="null"), row("null", stores=False))
    assert noise([found], CALM) == []


def test_what_is_excused_is_no_fault_but_a_wrong_value_always_is() -> None:
    cells = [cell(wrong=1, lost=3)]
    (fault,) = faults([summary(cells)], [])
    assert fault == (
        "one in small/main (small): 1 wrong values, 4 stale values, 3 lost entries, for example: "
        "an example"
    )
    excused = msgspec.structs.replace(row(), excused=["stale", "lost"])
    (fault,) = faults([summary(cells, excused)], [])
    assert fault.startswith("one in small/main (small): 1 wrong values, for example:")


def test_a_missing_contestant_is_one_fault_however_often_it_is_missed() -> None:
    rows = summarise(SUITE, [row()], [cell(outcome="missing", reason="not installed")])
    assert len(rows) == 2
    replays = [
        ReplayCell("web", "one", capacity, "missing", "file", 1, reason="not installed")
        for capacity in (0.05, 0.1)
    ]
    assert faults(rows, replays) == ["one: not installed"]
    assert faults(rows, replays, missing_is_fault=False) == []


@pytest.mark.parametrize("outcome", ["unavailable", "stopped"])
def test_what_cannot_be_helped_is_no_fault(outcome: Outcome) -> None:
    rows = summarise(SUITE, [row()], [cell(outcome=outcome, reason="no such thing any more")])
    assert faults(rows, []) == []


def test_wrong_values_of_a_replay_are_faults() -> None:
    verdict = Verdict(wrong=2, examples=["x"])
    liar = ReplayCell("web", "liar", 0.05, "measured", "file", 1, equal=True, verdict=verdict)
    assert faults([], [liar]) == ["liar in web at 5%: 2 wrong values, for example: x"]


def test_null_has_no_faults() -> None:
    assert faults([summary([cell(name="null")], row("null", stores=False))], []) == []


def test_the_machine_sheet_is_filled_in() -> None:
    sheet = msgspec.to_builtins(machine())
    for field in ("cpu", "kernel", "system", "python", "libraries", "cores", "memory_bytes"):
        assert sheet[field]


def test_disturbances_are_shares() -> None:
    disturbance = Disturbances().until_now()
    assert 0 <= disturbance.others <= 1
    assert 0 <= disturbance.stolen <= 1
