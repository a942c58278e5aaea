"""How figures are written, in the terminal and on the page.

Owns the format of numbers and units. Must not judge, nor know where they are shown.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from benches.row import Figure, Goal, spread

SIGNS = {"at most": "<=", "at least": ">="}

# The largest unit below which a duration has fewer than four digits before the point.
_UNITS_NS = (("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9))


def number(value: float) -> str:
    """Return a number with three significant digits, or all digits before the point."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(2 - math.floor(math.log10(abs(value))), 0)
    return f"{value:,.{digits}f}"


def amount(samples: Sequence[float], unit: str) -> str:
    """Return the median of samples with its unit; nothing without samples."""
    if not samples:
        return ""
    return f"{number(statistics.median(samples))}{_before(unit)}{unit}"


def duration(samples_ns: Sequence[float]) -> str:
    """Return the median of nanoseconds, in a suitable unit."""
    median = statistics.median(samples_ns)
    unit, size = _unit(median)
    return f"{number(median / size)} {unit}"


def durations(samples_ns: Sequence[float]) -> str:
    """Return the least and the greatest of nanoseconds, in suitable units."""
    least, most = duration([min(samples_ns)]), duration([max(samples_ns)])
    unit = f" {_unit(max(samples_ns))[0]}"
    if least.endswith(unit):
        return f"{least.removesuffix(unit)}{_DASH}{most}"
    return f"{least} to {most}"


def bound(goal: Goal | None, figure: Figure) -> str:
    """Return a goal as a sign and a number; nothing without a goal."""
    if goal is None:
        return ""
    said = f"{goal.bound:,.0f}" if goal.bound == round(goal.bound) else f"{goal.bound:.3g}"
    return f"{SIGNS[goal.sense]} {said}{suffix(figure)}"


def value(figure: Figure) -> str:
    """Return the value of a figure."""
    return f"{number(figure.value)}{suffix(figure)}"


def interval(values: Sequence[float]) -> str:
    """Return the interval of the median of some rounds; nothing for one round."""
    around = spread(values)
    return _span(around.low, around.high) if len(values) > 1 else ""


def suffix(figure: Figure) -> str:
    """Return what follows the number of a value: "x" for a ratio, otherwise the unit."""
    unit = figure.unit if figure.relation == "ours" else "x"
    return f"{_before(unit)}{unit}"


def name(figure: Figure) -> str:
    """Return what was done, with the place on its curve if it has one."""
    return figure.what if figure.at is None else f"{figure.what}, {at(figure.at, figure.along)}"


def full_name(figure: Figure) -> str:
    """Return the name and the peer."""
    return f"{name(figure)}, compared with {figure.peer}" if figure.peer else name(figure)


def at(place: int, along: str) -> str:
    """Return a place on a curve: a count, or bytes in their binary unit."""
    if not is_bytes(along):
        return f"{place:,} {along if place != 1 else _SINGULAR.get(along, along)}"
    units = ("B", "KiB", "MiB", "GiB")
    power = min((max(place, 1).bit_length() - 1) // 10, len(units) - 1)
    return f"{place / 2 ** (10 * power):g} {units[power]}"


def is_bytes(along: str) -> bool:
    """Return whether the places on a curve are sizes, such as "bytes of the file"."""
    return along.startswith("bytes")


def cells(texts: Sequence[str]) -> str:
    """Return a line of a table in Markdown."""
    escaped = (text.replace("|", "\\|") for text in texts)
    return f"| {' | '.join(escaped)} |"


_SINGULAR = {"entries": "entry", "processes": "process"}
_DASH = "\u2013"


def _before(unit: str) -> str:
    return "" if unit in {"", "x"} else " "


def _span(low: float, high: float) -> str:
    # Next to a minus sign, a dash would be hard to read.
    return f"{number(low)}{_DASH if low >= 0 else ' to '}{number(high)}"


def _unit(nanoseconds: float) -> tuple[str, float]:
    found = _UNITS_NS[0]
    for unit, size in _UNITS_NS[1:]:
        if nanoseconds >= size:
            found = (unit, size)
    return found
