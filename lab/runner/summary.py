"""Summarises cells: medians of rounds, their spread and their intervals.

Owns every figure that is computed from more than one cell. Must not format or print, nor read a
file: all functions are pure, and the terminal and the page share their results.

`summarise` turns the cells of a suite into one `Summary` per table row: a contestant under a
variant of a part, in one placement. `against_null` says how much of a row is the host's own cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import msgspec

from lab.protocol import ACTIONS, Action, Tally, Verdict
from lab.runner.catalogue import Contestant, Part, PhasesSuite, Placement
from lab.runner.histograms import percentiles_ns
from lab.runner.intervals import Interval, interval
from lab.runner.results import (
    Held,
    Outcome,
    Pass,
    PhaseResult,
    PhasesCell,
    Resources,
    Step,
)

SPREAD_MAX = 0.10
NULL_TIMES_MIN = 3.0

PLACEMENTS: tuple[Placement, ...] = ("one core", "same core", "split cores", "free")


@dataclass(frozen=True)
class Figure:
    """One number over the rounds: median, least, greatest, and the number of rounds.

    `interval` is the interval of the median; None for fewer than six rounds.
    """

    median: float
    least: float
    greatest: float
    rounds: int
    interval: Interval | None

    @property
    def spread(self) -> float | None:
        """The range of the rounds divided by their median; None for one round."""
        if self.rounds < 2 or not self.median:
            return None
        return (self.greatest - self.least) / self.median

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The interval where there is one, else the range; None for one round."""
        if self.interval is not None:
            return self.interval.low, self.interval.high
        return (self.least, self.greatest) if self.rounds > 1 else None


@dataclass(frozen=True)
class ActionSummary:
    """One action of one pass.

    `count`, `miss` and `absent` are medians of the rounds, `wrong` is their sum. PROTOCOL.md
    defines a miss; for a set it is a refusal. Times exist only in a latency pass and only for an
    action that occurred. They are medians of the rounds, except `max_ns`, the largest of all
    rounds. `total_ns` adds the latencies of all workers.
    """

    action: Action
    count: int
    miss: int
    absent: int
    wrong: int
    median_ns: float | None = None
    p90_ns: float | None = None
    p99_ns: float | None = None
    p999_ns: float | None = None
    max_ns: float | None = None
    total_ns: float | None = None


@dataclass(frozen=True)
class PassSummary:
    """One pass of a phase, over the rounds. No figure includes the warm-up.

    `rate`: operations per second: for one worker by the time under the clock, for several by the
        time from the first start to the last end. In a latency pass it includes the cost of reading
        the clock around each operation.
    `operation_ns`: in a throughput pass the median time of a block divided by its operations, which
        is robust against interruptions. Without a full block, or in a latency pass, the mean time
        of one worker per operation. Rows are compared with null by this figure.
    `elapsed_ns`: the time that the rate is computed from.
    `together`: share of the elapsed time in which all workers were at work, 0 to 1.
    `cpu_ns`: CPU time of the clients per operation.
    `hit_ratio`: (gets - misses) / (gets - right misses): the share found of the keys that should
        have been there. None without such gets. `hit_ratio_all`: (gets - misses) / gets.
    `planned`, `done`: operations of all workers, medians. `stopped`: whether any round did fewer
        than planned because it reached its time limit.
    `steps`: medians of the time that the first `count` operations took.
    """

    rate: Figure
    operation_ns: Figure
    elapsed_ns: Figure
    together: float
    cpu_ns: float
    hit_ratio: float | None
    hit_ratio_all: float | None
    planned: int
    done: int
    stopped: bool
    actions: tuple[ActionSummary, ...]
    steps: tuple[Step, ...]

    def action(self, action: Action) -> ActionSummary:
        """Return the summary of an action."""
        return self.actions[ACTIONS.index(action)]


@dataclass(frozen=True)
class PhaseSummary:
    """A measured phase. A pass that the suite does not ask for is None."""

    name: str
    throughput: PassSummary | None
    latency: PassSummary | None

    @property
    def main(self) -> PassSummary:
        """The throughput pass where there is one, else the latency pass."""
        one = self.throughput or self.latency
        assert one is not None
        return one


@dataclass(frozen=True)
class Summary:
    """A row: one contestant under one variant of one part, in one placement, over all rounds.

    `outcome` is that of the last cell, and `reason` says why it is not "measured". Earlier rounds
    may still have given figures. A contestant that failed or is missing is not run again in its
    part: its other rows have the same outcome, no cells, and a reason that says where it happened.

    `phases` are in the suite's order; empty without figures. `start_ns`, `create_ns`, `open_ns`,
    `clear_ns`, `close_ns` and `stop_ns` are medians. `timer` is the encoded histogram of the cost
    of reading the clock. `verdict` adds up all checks, including the probe. `weak` is the share of
    the returned values that were too short for a strong check. `refused` counts refused sets of the
    probe and of preloads. `resources` and the bytes of `held` are medians, field by field. `cells`
    are the records behind the row, in the order of rounds.
    """

    suite: str
    part: str
    variant: str
    contestant: Contestant
    placement: Placement
    outcome: Outcome
    reason: str
    rounds: int
    version: str
    runtime: str
    server_version: str
    timer: str
    start_ns: float
    create_ns: float
    open_ns: float
    clear_ns: float | None
    close_ns: float
    stop_ns: float
    phases: tuple[PhaseSummary, ...]
    verdict: Verdict
    weak: float
    refused: int
    resources: Resources
    held: Held | None
    cells: tuple[PhasesCell, ...]

    @property
    def measured(self) -> bool:
        """Whether at least one round gave figures."""
        return self.rounds > 0

    @property
    def stopped(self) -> bool:
        """Whether a pass reached its time limit before all its operations were done."""
        passes = [one for phase in self.phases for one in (phase.throughput, phase.latency)]
        return any(one is not None and one.stopped for one in passes)

    @property
    def spread(self) -> float:
        """The largest spread of any phase's rate, by its main pass."""
        return max((phase.main.rate.spread or 0.0 for phase in self.phases), default=0.0)

    @property
    def noisy(self) -> bool:
        """Whether its rounds differ too much. Null is not judged: its operations are too short."""
        return self.contestant.stores and self.spread > SPREAD_MAX

    def phase(self, name: str) -> PhaseSummary | None:
        """Return the phase `name`, or None without figures."""
        return next((one for one in self.phases if one.name == name), None)


def summarise(
    suite: PhasesSuite, contestants: Sequence[Contestant], cells: Iterable[PhasesCell]
) -> list[Summary]:
    """Return the rows of all parts of a suite, in the order of its file.

    Within a part they are ordered by variant, then like `contestants`, then by placement. A row
    that was not run is left out, unless a failure explains why.
    """
    of_suite = [cell for cell in cells if cell.suite == suite.name]
    return [
        summary
        for part in suite.parts
        for summary in _summarise_part(suite, part, contestants, of_suite)
    ]


def _summarise_part(
    suite: PhasesSuite,
    part: Part,
    contestants: Sequence[Contestant],
    cells: Sequence[PhasesCell],
) -> Iterable[Summary]:
    of_contestant: dict[str, list[PhasesCell]] = {}
    for cell in cells:
        if cell.part == part.name:
            of_contestant.setdefault(cell.contestant, []).append(cell)
    for variant in part.variants:
        for contestant in contestants:
            own = of_contestant.get(contestant.name, [])
            if not own or not contestant.takes(variant):
                continue
            placements = {cell.placement for cell in own}
            ended = next((cell for cell in own if cell.outcome != "measured"), None)
            for placement in PLACEMENTS:
                if placement not in placements:
                    continue
                here = [
                    cell
                    for cell in own
                    if (cell.variant, cell.placement) == (variant.name, placement)
                ]
                if here:
                    yield _summary(suite, part, variant.name, contestant, placement, here, "")
                elif ended is not None:
                    where = f" ({ended.variant}, {ended.placement}, round {ended.round})"
                    yield _summary(suite, part, variant.name, contestant, placement, [ended], where)


def _summary(
    suite: PhasesSuite,
    part: Part,
    variant: str,
    contestant: Contestant,
    placement: Placement,
    cells: Sequence[PhasesCell],
    elsewhere: str,
) -> Summary:
    """Return the row of `cells`. `elsewhere` says where they ran if they belong to another row."""
    last = cells[-1]
    own = () if elsewhere else tuple(sorted(cells, key=lambda cell: cell.round))
    with_figures = [cell for cell in own if cell.outcome == "measured"]
    verdict = Verdict()
    answers = 0
    for cell in own:
        verdict.add(cell.probe)
        for one in _passes(cell):
            verdict.add(one.verdict)
            get = one.actions["get"].tally
            answers += get.count - get.miss
    phases = tuple(
        _phase(index, with_figures)
        for index in range(len(with_figures[0].phases) if with_figures else 0)
    )
    return Summary(
        suite=suite.name,
        part=part.name,
        variant=variant,
        contestant=contestant,
        placement=placement,
        outcome=last.outcome,
        reason=last.reason + elsewhere if last.outcome != "measured" else "",
        rounds=len(with_figures),
        version=last.version,
        runtime=last.runtime,
        server_version=last.server_version,
        timer=last.timer,
        start_ns=_median([cell.start_ns for cell in with_figures]),
        create_ns=_median([cell.create_ns for cell in with_figures]),
        open_ns=_median([cell.open_ns for cell in with_figures]),
        clear_ns=_median_or_none([cell.clear_ns for cell in with_figures]),
        close_ns=_median([cell.close_ns for cell in with_figures]),
        stop_ns=_median([cell.stop_ns for cell in with_figures]),
        phases=phases,
        verdict=verdict,
        weak=verdict.weak / max(answers, 1),
        refused=sum(cell.refused for cell in own),
        resources=_resources(with_figures),
        held=_held(with_figures),
        cells=own,
    )


def _passes(cell: PhasesCell) -> Iterable[Pass]:
    for phase in cell.phases:
        for one in (phase.throughput, phase.latency):
            if one is not None:
                yield one


def _phase(index: int, cells: Sequence[PhasesCell]) -> PhaseSummary:
    results = [cell.phases[index] for cell in cells]

    def summary_of(take: Callable[[PhaseResult], Pass | None]) -> PassSummary | None:
        passes = [one for one in map(take, results) if one is not None]
        return _pass(passes) if passes else None

    return PhaseSummary(
        results[0].name,
        throughput=summary_of(lambda result: result.throughput),
        latency=summary_of(lambda result: result.latency),
    )


def _pass(passes: Sequence[Pass]) -> PassSummary:
    steps = zip(*(one.steps for one in passes), strict=False)
    return PassSummary(
        rate=figure([one.work.rate for one in passes]),
        operation_ns=figure([_operation_ns(one) for one in passes]),
        elapsed_ns=figure([one.elapsed_ns for one in passes]),
        together=_median([one.together_ns / max(one.elapsed_ns, 1) for one in passes]),
        cpu_ns=_median([one.cpu_ns / max(one.done, 1) for one in passes]),
        hit_ratio=_median_or_none([_hit_ratio(_get(one), present=True) for one in passes]),
        hit_ratio_all=_median_or_none([_hit_ratio(_get(one), present=False) for one in passes]),
        planned=round(_median([one.planned for one in passes])),
        done=round(_median([one.done for one in passes])),
        stopped=any(one.done < one.planned for one in passes),
        actions=tuple(_action(action, passes) for action in ACTIONS),
        steps=tuple(
            Step(same[0].count, round(_median([step.total_ns for step in same]))) for same in steps
        ),
    )


def _operation_ns(one: Pass) -> float:
    if one.block_ns:
        return one.block_ns / one.block_operations
    return one.workers * one.elapsed_ns / max(one.done, 1)


def _get(one: Pass) -> Tally:
    return one.actions["get"].tally


def _hit_ratio(get: Tally, *, present: bool) -> float | None:
    asked = get.count - (get.absent if present else 0)
    return (get.count - get.miss) / asked if asked > 0 else None


def _action(action: Action, passes: Sequence[Pass]) -> ActionSummary:
    stats = [one.actions[action] for one in passes]
    counts = ActionSummary(
        action=action,
        count=round(_median([stat.tally.count for stat in stats])),
        miss=round(_median([stat.tally.miss for stat in stats])),
        absent=round(_median([stat.tally.absent for stat in stats])),
        wrong=sum(stat.tally.wrong for stat in stats),
    )
    timed = [stat for stat in stats if stat.histogram]
    if not timed:
        return counts
    rounds = [percentiles_ns(stat.histogram, (50, 90, 99, 99.9, 100)) for stat in timed]
    median_ns, p90_ns, p99_ns, p999_ns, _ = map(_median, zip(*rounds, strict=True))
    return ActionSummary(
        action=action,
        count=counts.count,
        miss=counts.miss,
        absent=counts.absent,
        wrong=counts.wrong,
        median_ns=median_ns,
        p90_ns=p90_ns,
        p99_ns=p99_ns,
        p999_ns=p999_ns,
        max_ns=float(max(of_round[-1] for of_round in rounds)),
        total_ns=_median([stat.total_ns for stat in timed]),
    )


def _resources(cells: Sequence[PhasesCell]) -> Resources:
    def middle(take: Callable[[Resources], int]) -> int:
        return round(_median([take(cell.resources) for cell in cells]))

    return Resources(
        client_bytes_opened=middle(lambda one: one.client_bytes_opened),
        client_bytes_full=middle(lambda one: one.client_bytes_full),
        server_bytes_opened=middle(lambda one: one.server_bytes_opened),
        server_bytes_full=middle(lambda one: one.server_bytes_full),
        server_cpu_ns=middle(lambda one: one.server_cpu_ns),
        store_bytes=middle(lambda one: one.store_bytes),
    )


def _held(cells: Sequence[PhasesCell]) -> Held | None:
    found = [cell.held for cell in cells if cell.held is not None]
    if not found:
        return None
    return msgspec.structs.replace(found[-1], bytes=round(_median([one.bytes for one in found])))


def figure(rounds: Sequence[float]) -> Figure:
    """Return the summary of the figures of at least one round."""
    return Figure(_median(rounds), min(rounds), max(rounds), len(rounds), interval(rounds))


def null_of(summaries: Iterable[Summary], row: Summary) -> Summary | None:
    """Return the row of the null contestant with the same host, part and variant, or None."""
    for one in summaries:
        same = (one.suite, one.part, one.variant) == (row.suite, row.part, row.variant)
        null = one.measured and not one.contestant.stores
        if same and null and one.contestant.host == row.contestant.host:
            return one
    return None


def against_null(row: Summary, null: Summary | None, phase: str) -> float | None:
    """Return the time of an operation of a phase in multiples of the host's own loop.

    Uses `operation_ns` of the main pass. Reports mark a row below NULL_TIMES_MIN, since much of
    its figure is the lab's own cost. None without figures, without null, and for null itself.
    """
    own = row.phase(phase)
    other = null.phase(phase) if null is not None else None
    if own is None or other is None or not row.contestant.stores:
        return None
    return own.main.operation_ns.median / max(other.main.operation_ns.median, 1e-9)


def _median(figures: Sequence[float]) -> float:
    return float(median(figures)) if figures else 0.0


def _median_or_none(figures: Sequence[float | None]) -> float | None:
    there = [one for one in figures if one is not None]
    return float(median(there)) if there else None
