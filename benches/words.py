"""How figures are said, in the terminal and on the page.

Owns numbers and their units in words. Must not judge, nor know where they are shown.
"""

from __future__ import annotations

import math
import statistics

from benches.row import Figure, Goal

SIGNS = {"at most": "<=", "at least": ">="}


def number(value: float) -> str:
    """Return a number with three significant digits, or all digits before the point."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(2 - math.floor(math.log10(abs(value))), 0)
    return f"{value:,.{digits}f}"


def amount(samples: tuple[float, ...], unit: str) -> str:
    """Return the median of samples with its unit; nothing for no samples."""
    return f"{number(statistics.median(samples))} {unit}".rstrip() if samples else ""


def bound(goal: Goal | None, figure: Figure) -> str:
    """Return a goal as a sign and a number; nothing for none."""
    if goal is None:
        return ""
    said = f"{goal.bound:,.0f}" if goal.bound == round(goal.bound) else f"{goal.bound:.3g}"
    return f"{SIGNS[goal.sense]} {said}{suffix(figure)}"


def value(figure: Figure) -> str:
    """Return what a figure came to."""
    return f"{number(figure.value)}{suffix(figure)}"


def spread(figure: Figure) -> str:
    """Return the least and the greatest value of the rounds."""
    return f"{number(figure.least)} .. {number(figure.most)}"


def suffix(figure: Figure) -> str:
    """Return what follows the number of a value: a ratio's times sign, or the unit."""
    return f" {figure.unit}".rstrip() if figure.relation == "ours" else " x"


def name(figure: Figure) -> str:
    """Return what was done, and where on its curve if it is a point of one."""
    return figure.what if figure.at is None else f"{figure.what}, {figure.at:,} {figure.along}"


def full_name(figure: Figure) -> str:
    """Return the name and whom it is compared with."""
    return f"{name(figure)}, beside {figure.peer}" if figure.peer else name(figure)
