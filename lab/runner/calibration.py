"""Finds the limit under which a store uses a given number of bytes.

Owns that search and the meaning of "equal bytes". Must not run anything.

A contestant's limit rarely equals its measured size: one leaves out its tables, another counts in
pages, a third includes the needs of the empty server. So the lab tries a limit and measures the
bytes. A straight line through the measurements gives the next limit.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.runner.results import ReplayCell, Try

TRIES_MAX = 6
# A measurement of at least this share of the target is close enough.
_NEAR = 0.97
# A try aims below the target, because memory is noisy and a try above the target is useless.
_AIM = 0.985
# One step changes a limit by at most this factor.
_FACTOR_MAX = 4.0
# Memory is noisy, so a store may exceed the allowed bytes by this share.
TOLERANCE = 0.03
# A store does not obey its limit if half the limit leaves more than this share of its bytes.
_LEVEL = 0.9


def target(references: Sequence[ReplayCell], nominal: int) -> int:
    """Return how many bytes a contestant may use when it is compared with measured `references`.

    This is the smallest of all their measurements, the strictest for the others. Without
    references it is the nominal limit.
    """
    return min(
        (min(cell.best.bytes_peak, cell.best.bytes_settled) for cell in references),
        default=nominal,
    )


def next_limit(bytes_max: int, step: int, tries: Sequence[Try]) -> int | None:
    """Return the next limit to try, a multiple of `step`; None if no other would be better."""
    if not tries:
        return _stepped(bytes_max, step)
    *before, last = tries
    fitting = [one for one in tries if one.bytes_measured <= bytes_max]
    is_known = any(one.bytes_measured == last.bytes_measured for one in before)
    if last.reason or (is_known and fitting):
        # It fails with such a limit, or there is nothing between two of its steps.
        return None
    exceeding = [one for one in tries if one.bytes_measured > bytes_max]
    low = max(fitting, key=lambda one: one.limit, default=None)
    high = min(exceeding, key=lambda one: one.limit, default=None)
    if low is not None and low.bytes_measured >= _NEAR * bytes_max:
        return None
    ordered = sorted(tries, key=lambda one: one.limit)
    if low is None and len(ordered) > 1 and _is_level(*ordered[:2]):
        return None
    wanted = _AIM * bytes_max
    if low is not None and high is not None:
        guess = _on_line(low, high, wanted)
    elif high is not None:
        guess = _beyond(ordered[:2], wanted)
    else:
        guess = _beyond(ordered[:-3:-1], wanted)
    if guess is None:
        return None
    limit = _stepped(guess, step)
    if low is not None and high is not None and not low.limit < limit < high.limit:
        # The relation is not linear, or the step is coarse: try the middle.
        limit = _stepped((low.limit + high.limit) / 2, step)
        if not low.limit < limit < high.limit:
            return None
    return None if any(one.limit == limit for one in tries) else limit


def best(bytes_max: int, tries: Sequence[Try]) -> int:
    """Return the try to keep: the one that used most without exceeding, else the smallest.

    Only bytes decide, never hits.
    """
    ran = [number for number, one in enumerate(tries) if not one.reason]
    fitting = [number for number in ran if tries[number].bytes_measured <= bytes_max]
    if fitting:
        return max(fitting, key=lambda number: tries[number].bytes_measured)
    return min(ran, key=lambda number: tries[number].bytes_measured)


def excess(cell: ReplayCell) -> str:
    """Return why the bytes of a measured cell are not equal; empty if they are."""
    measured = cell.best.bytes_measured
    if measured <= cell.bytes_max:
        return ""
    least = min(one.limit for one in cell.tries)
    return (
        f"it used at least {measured:,} bytes, more than the allowed {cell.bytes_max:,}; the "
        f"smallest limit tried was {least:,}"
    )


def exceeds(measured: int, bytes_max: int) -> bool:
    """Return whether a store that was measured once exceeds the allowed bytes."""
    return measured > (1 + TOLERANCE) * bytes_max


def _is_level(low: Try, high: Try) -> bool:
    """Return whether a much smaller limit leaves the bytes almost the same."""
    halved = 2 * low.limit <= high.limit
    return halved and low.bytes_measured > _LEVEL * high.bytes_measured


def _on_line(one: Try, other: Try, wanted: float) -> float | None:
    """Return the limit at which the line through two measurements reaches `wanted`.

    None if the line is level.
    """
    rise = other.bytes_measured - one.bytes_measured
    if rise == 0:
        return None
    return one.limit + (wanted - one.bytes_measured) * (other.limit - one.limit) / rise


def _beyond(nearest: Sequence[Try], wanted: float) -> float | None:
    """Return a limit beyond the first of `nearest`, whose measurements are on one side of `wanted`.

    With one measurement, or two that are the same, bytes are assumed to be proportional to the
    limit. None if it stores nothing.
    """
    first = nearest[0]
    if first.bytes_measured == 0:
        return None
    proportional = first.limit * wanted / first.bytes_measured
    guess = _on_line(first, nearest[1], wanted) if len(nearest) > 1 else None
    if guess is None:
        guess = proportional
    if (guess < first.limit) != (proportional < first.limit):
        # Noise: the smaller limit gave more bytes.
        guess = proportional
    return min(max(guess, first.limit / _FACTOR_MAX), first.limit * _FACTOR_MAX)


def _stepped(limit: float, step: int) -> int:
    return max(int(limit) // step, 1) * step
