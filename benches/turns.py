"""Times contestants that take turns, so that whatever disturbs the machine disturbs all of them.

Owns clocks, rounds and the order of turns. Must not know what is timed. In each round every
contestant has so many passes that they take about as long as the others', spread over the round and
in an order that moves on by one each round; its sample is the median of its passes. Before the
first round each has one pass that does not count. Python's cycle collector is off meanwhile, as in
`timeit`.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benches.row import Conditions

PASSES_MAX = 25
# What the passes of one contestant take in one round, where that is more than one pass.
ROUND_SECONDS = 0.06
ROUND_SECONDS_QUICK = 0.02


def _nothing() -> None:
    return None


def _believe(_given: object) -> None:
    return None


@dataclass(frozen=True)
class Turn:
    """What a contestant does when it is its turn.

    Attributes:
        operations: How many operations a pass is; samples are nanoseconds of one of them.
        work: The pass: what is timed, and nothing else is. It is given what `prepare` returned.
        prepare: Makes what a pass needs, off the clock.
        check: Verifies, off the clock and once a round, after the contestant's last pass, that the
            answers were right. It is given what `prepare` returned for that pass, and raises
            WrongAnswerError.
    """

    operations: int
    work: Callable[[Any], object]
    prepare: Callable[[], Any] = _nothing
    check: Callable[[Any], object] = _believe


def take_turns(conditions: Conditions, turns: Sequence[Turn]) -> list[tuple[float, ...]]:
    """Return for each of `turns` its samples, one a round, in nanoseconds an operation.

    Raises what the turns raise.
    """
    return list(zip(*rounds_of(conditions, turns), strict=True))


def rounds_of(conditions: Conditions, turns: Sequence[Turn]) -> Iterator[tuple[float, ...]]:
    """Yield for each round the samples of `turns`, in nanoseconds an operation.

    What the caller does between two rounds is a part of the round for the contestants that have no
    turn in this process. Raises what the turns raise.
    """
    with uncollected():
        passes = [_passes(conditions, _warm_up(turn)) for turn in turns]
        for number in range(conditions.rounds):
            taken = dict(_round(turns, number, passes))
            yield tuple(taken[index] for index in range(len(turns)))


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep Python's cycle collector from coming in between."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def time_ns(work: Callable[[Any], object], given: object = None) -> int:
    """Return the nanoseconds that one call of `work` takes."""
    began = time.perf_counter_ns()
    work(given)
    return time.perf_counter_ns() - began


def _warm_up(turn: Turn) -> float:
    """Have a pass that does not count, and check it. Return its seconds."""
    given = turn.prepare()
    nanoseconds = time_ns(turn.work, given)
    turn.check(given)
    return nanoseconds / 1e9


def _passes(conditions: Conditions, pass_seconds: float) -> int:
    aim = ROUND_SECONDS_QUICK if conditions.is_quick else ROUND_SECONDS
    return min(max(round(aim / max(pass_seconds, 1e-9)), 1), PASSES_MAX)


def _round(turns: Sequence[Turn], number: int, passes: list[int]) -> Iterator[tuple[int, float]]:
    """Yield each contestant's index and its sample of the round with this number."""
    order = [(number + step) % len(turns) for step in range(len(turns))]
    times: dict[int, list[int]] = {index: [] for index in order}
    steps = max(passes)
    for step in range(steps):
        for index in order:
            # Those with fewer passes sit out most steps, evenly, and have one in the last.
            done = (step + 1) * passes[index] // steps
            if done == step * passes[index] // steps:
                continue
            given = turns[index].prepare()
            times[index].append(time_ns(turns[index].work, given))
            if done == passes[index]:
                turns[index].check(given)
    for index, found in times.items():
        yield index, statistics.median(found) / turns[index].operations
