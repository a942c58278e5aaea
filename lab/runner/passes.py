"""Merges the answers and durations of all workers into one pass.

Owns that sum, and the check that a host's figures are consistent. Must not ask any host.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, compress
from pathlib import Path
from statistics import median

from lab.protocol import ACTIONS, Ran, Tally, Verdict
from lab.runner.failures import HostError
from lab.runner.histograms import encode, read_durations
from lab.runner.inputs import Pace, PlannedPass
from lab.runner.rates import ImpossibleRateError
from lab.runner.results import Pass, Stat, Step
from lab.stream import VERB_NAMES


def merge(
    planned: PlannedPass, pace: Pace, ran: Sequence[Ran], durations: Sequence[Path] = ()
) -> Pass:
    """Return the passes of all workers as one: counts and sums added, histograms of all readings.

    `durations` has the file of each worker of a latency pass. Raises HostError if a host's figures
    are contradictory or impossible, OSError if a file cannot be read.
    """
    for worker, one in enumerate(ran):
        _check_counts(planned, worker, one)
        _check_times(pace, worker, one)
    merged = Pass(
        planned=len(ran) * (planned.operations - planned.warmup),
        done=sum(_counted(planned, one) for one in ran),
        elapsed_ns=_elapsed_ns(ran),
        together_ns=_together_ns(ran),
        cpu_ns=sum(one.cpu_ns for one in ran),
        cores=pace.cores,
        workers=pace.workers,
        stretches=sum(-(-_counted(planned, one) // pace.stretch) for one in ran),
        block_operations=pace.block,
        block_ns=_block_ns(ran),
        actions={action: Stat(Tally()) for action in ACTIONS},
        verdict=Verdict(),
    )
    try:
        merged.work.check()
    except ImpossibleRateError as error:
        raise HostError(f"the host's times are impossible: {error}") from error
    for one in ran:
        merged.verdict.add(one.verdict)
        for action in ACTIONS:
            tally, own = merged.actions[action].tally, one.actions[action]
            tally.count += own.count
            tally.miss += own.miss
            tally.absent += own.absent
            tally.wrong += own.wrong
    if durations:
        _add_durations(merged, planned, ran, durations)
    return merged


def _elapsed_ns(ran: Sequence[Ran]) -> int:
    if len(ran) == 1:
        return ran[0].elapsed_ns
    started = [one for one in ran if one.elapsed_ns]
    if not started:
        return 0
    return max(one.ended_ns for one in started) - min(one.started_ns for one in started)


def _together_ns(ran: Sequence[Ran]) -> int:
    if len(ran) == 1:
        return ran[0].elapsed_ns
    return max(min(one.ended_ns for one in ran) - max(one.started_ns for one in ran), 0)


def _counted(planned: PlannedPass, ran: Ran) -> int:
    return max(ran.done - planned.warmup, 0)


def _block_ns(ran: Sequence[Ran]) -> int:
    blocks_ns = [block_ns for one in ran for block_ns in one.blocks_ns]
    return round(median(blocks_ns)) if blocks_ns else 0


def _check_counts(planned: PlannedPass, worker: int, ran: Ran) -> None:
    told = sum(tally.count for tally in ran.actions.values())
    if set(ran.actions) != set(ACTIONS) or told != _counted(planned, ran):
        raise HostError(
            f"worker {worker} reports {ran.done:,} operations, {planned.warmup:,} of them "
            f"warm-up, but its counts add up to {told:,}"
        )
    if ran.done > planned.operations:
        raise HostError(f"worker {worker} did more operations than its stream has: {ran.done:,}")


def _check_times(pace: Pace, worker: int, ran: Ran) -> None:
    between_ns = ran.ended_ns - ran.started_ns
    if not 0 <= ran.elapsed_ns <= between_ns:
        raise HostError(
            f"worker {worker} reports {ran.elapsed_ns:,} ns under the clock, but "
            f"{between_ns:,} ns passed"
        )
    if pace.workers > 1 and ran.elapsed_ns != between_ns:
        raise HostError(f"worker {worker} paused while others were measured")


def _add_durations(
    merged: Pass, planned: PlannedPass, ran: Sequence[Ran], durations: Sequence[Path]
) -> None:
    by_verb = [array("Q") for _ in VERB_NAMES]
    steps_ns = dict.fromkeys(planned.phase.steps, 0)
    for worker, (one, path) in enumerate(zip(ran, durations, strict=True)):
        try:
            durations_ns = read_durations(path)
        except ValueError as error:
            raise HostError(f"worker {worker}: {error}") from error
        verbs = planned.verbs[worker][planned.warmup : one.done : planned.phase.batch]
        if len(durations_ns) != len(verbs):
            raise HostError(
                f"worker {worker} wrote {len(durations_ns):,} durations for {len(verbs):,} "
                f"operations or batches"
            )
        for verb, of_verb_ns in enumerate(by_verb):
            of_verb_ns.extend(compress(durations_ns, map(verb.__eq__, verbs)))
        sums_ns = list(accumulate(durations_ns)) if steps_ns else []
        for count in list(steps_ns):
            if count <= len(sums_ns):
                steps_ns[count] += sums_ns[count - 1]
            else:
                del steps_ns[count]
    for verb, of_verb_ns in enumerate(by_verb):
        stat = merged.actions[ACTIONS[verb]]
        stat.total_ns = sum(of_verb_ns)
        stat.histogram = encode(of_verb_ns)
    merged.steps = [Step(count, total_ns) for count, total_ns in sorted(steps_ns.items())]


assert VERB_NAMES == ACTIONS
