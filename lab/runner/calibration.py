"""Finds the limit under which a store occupies a given number of bytes.

Owns that search and what "equal bytes" means. Must not run anything.

What a contestant calls its limit is rarely what it occupies: one leaves out its tables, another
counts in pages, a third includes what the empty server needs. So a limit is tried, the bytes are
measured, and the next limit lies where a straight line through the measurements meets the target.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.runner.results import ReplayCell, Try

TRIES_MAX = 6
# From this share of the target on a measurement is near enough.
_NEAR = 0.97
# What a try aims at, since memory is noisy and more than the target is of no use.
_AIM = 0.985
# A straight line through one or two measurements is trusted so far and no further.
_FACTOR_MAX = 4.0
# Memory is noisy: so much more than the permitted bytes is not yet more.
TOLERANCE = 0.03
# A store that occupies more than this share of its bytes under half the limit does not obey it.
_LEVEL = 0.9


def target(references: Sequence[ReplayCell], nominal: int) -> int:
    """Return how many bytes a contestant may occupy that is compared with measured `references`.

    The smallest measurement there is, which is the one least kind to their rivals. Without any
    there is nothing to be equal to, and the nominal limit stands.
    """
    return min(
        (min(cell.best.bytes_peak, cell.best.bytes_settled) for cell in references),
        default=nominal,
    )


def next_limit(bytes_max: int, step: int, tries: Sequence[Try]) -> int | None:
    """Return the limit to try next, a multiple of `step`; None when no other would be better."""
    if not tries:
        return _stepped(bytes_max, step)
    *before, last = tries
    if last.reason or any(one.bytes_measured == last.bytes_measured for one in before):
        # It cannot live with such a limit, or there is nothing between two of its steps.
        return None
    fitting = [one for one in tries if one.bytes_measured <= bytes_max]
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
        # The line is not straight, or the step is coarse: what lies between is still to be had.
        limit = _stepped((low.limit + high.limit) / 2, step)
        if not low.limit < limit < high.limit:
            return None
    return None if any(one.limit == limit for one in tries) else limit


def best(bytes_max: int, tries: Sequence[Try]) -> int:
    """Return which try counts: of those that fit the one that occupied most, else the smallest.

    Hits are no reason: the choice is made by bytes alone.
    """
    ran = [number for number, one in enumerate(tries) if not one.reason]
    fitting = [number for number in ran if tries[number].bytes_measured <= bytes_max]
    if fitting:
        return max(fitting, key=lambda number: tries[number].bytes_measured)
    return min(ran, key=lambda number: tries[number].bytes_measured)


def excess(cell: ReplayCell) -> str:
    """Return why the bytes of a measured cell are not equal; empty when they are."""
    measured = cell.best.bytes_measured
    if measured <= cell.bytes_max:
        return ""
    least = min(one.limit for one in cell.tries)
    return (
        f"it occupied at least {measured:,} bytes and may occupy {cell.bytes_max:,}; the smallest "
        f"limit tried was {least:,}"
    )


def exceeds(measured: int, bytes_max: int) -> bool:
    """Return whether a store that was measured once occupies more than it may."""
    return measured > (1 + TOLERANCE) * bytes_max


def _is_level(low: Try, high: Try) -> bool:
    """Return whether a much smaller limit makes no difference to the bytes."""
    halved = 2 * low.limit <= high.limit
    return halved and low.bytes_measured > _LEVEL * high.bytes_measured


def _on_line(one: Try, other: Try, wanted: float) -> float | None:
    """Return where the line through two measurements reaches `wanted`; None if it is level."""
    rise = other.bytes_measured - one.bytes_measured
    if rise == 0:
        return None
    return one.limit + (wanted - one.bytes_measured) * (other.limit - one.limit) / rise


def _beyond(nearest: Sequence[Try], wanted: float) -> float | None:
    """Return a limit beyond the first of `nearest`, whose measurements are on one side of `wanted`.

    One measurement is taken to be in proportion to its limit. None when limits make no difference.
    """
    first = nearest[0]
    if first.bytes_measured == 0:
        return None
    proportional = first.limit * wanted / first.bytes_measured
    guess = _on_line(first, nearest[1], wanted) if len(nearest) > 1 else proportional
    if guess is None:
        return None
    if (guess < first.limit) != (proportional < first.limit):
        # By chance more bytes were measured under the smaller limit.
        guess = proportional
    return min(max(guess, first.limit / _FACTOR_MAX), first.limit * _FACTOR_MAX)


def _stepped(limit: float, step: int) -> int:
    return max(int(limit) // step, 1) * step
