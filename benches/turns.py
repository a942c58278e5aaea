"""Times contestants that take turns, so that a disturbance of the machine affects all of them.

Owns clocks, rounds and the order of turns. Must not know what is timed. In each round, every
contestant gets about the same time, in passes that are spread over the round. The order rotates
each round. A sample is the median of a contestant's passes in a round. One pass of each before the
first round is a warm-up. Python's cycle collector is off, as in `timeit`.
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
# The time of a contestant's passes in a round. It has at least one pass, however long.
ROUND_SECONDS = 0.06
ROUND_SECONDS_QUICK = 0.02


def _nothing() -> None:
    return None


def _believe(_given: object) -> None:
    return None


@dataclass(frozen=True)
class Turn:
    """The work of a contestant in its turn.

    Attributes:
        operations: How many operations a pass has. Samples are nanoseconds per operation.
        work: The pass, the only part that is timed. It gets what `prepare` returned.
        prepare: Makes what a pass needs, untimed.
        check: Verifies the answers, untimed, after the contestant's last pass of a round. It gets
            what `prepare` returned for that pass, and raises WrongAnswerError.
    """

    operations: int
    work: Callable[[Any], object]
    prepare: Callable[[], Any] = _nothing
    check: Callable[[Any], object] = _believe


def take_turns(conditions: Conditions, turns: Sequence[Turn]) -> list[tuple[float, ...]]:
    """Return the samples of each turn, one a round, in nanoseconds per operation.

    Raises what the turns raise.
    """
    return list(zip(*rounds_of(conditions, turns), strict=True))


def rounds_of(conditions: Conditions, turns: Sequence[Turn]) -> Iterator[tuple[float, ...]]:
    """Yield the samples of `turns` for each round, in nanoseconds per operation.

    Between two rounds the caller can measure contestants that are not in this process. Raises what
    the turns raise.
    """
    with uncollected():
        passes = [_passes(conditions, _warm_up(turn)) for turn in turns]
        for number in range(conditions.rounds):
            taken = dict(_round(turns, number, passes))
            yield tuple(taken[index] for index in range(len(turns)))


@contextmanager
def uncollected() -> Iterator[None]:
    """Turn Python's cycle collector off for the time being."""
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
    """Make a pass that does not count, and check it. Return its seconds."""
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
            # A contestant with fewer passes skips steps evenly, but never the last.
            done = (step + 1) * passes[index] // steps
            if done == step * passes[index] // steps:
                continue
            given = turns[index].prepare()
            times[index].append(time_ns(turns[index].work, given))
            if done == passes[index]:
                turns[index].check(given)
    for index, found in times.items():
        yield index, statistics.median(found) / turns[index].operations
