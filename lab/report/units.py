"""Formats numbers for people. Must not know what is measured."""

from __future__ import annotations

from math import floor, log10


def duration(nanoseconds: float) -> str:
    """Return a duration in a suitable unit: `87ns`, `36.001µs`, `10.202ms`, `28.962s`."""
    if nanoseconds < 1_000:
        return f"{nanoseconds:.0f}ns"
    for unit, size in (("µs", 1e3), ("ms", 1e6)):
        if nanoseconds < size * 1_000:
            return f"{nanoseconds / size:.3f}{unit}"
    return f"{nanoseconds / 1e9:.3f}s"


def brief(nanoseconds: float) -> str:
    """Return a duration with three digits: `87 ns`, `36.0 µs`, `412 µs`, `10.2 ms`, `29.0 s`."""
    for unit, size in (("ns", 1.0), ("µs", 1e3), ("ms", 1e6)):
        # Rounding must not produce four digits: 999.6 ns is 1.00 µs.
        if nanoseconds < 999.5 * size:
            return f"{digits(nanoseconds / size)} {unit}"
    return f"{digits(nanoseconds / 1e9)} s"


def digits(number: float) -> str:
    """Return a number with three digits, or all digits of a larger one: `0.12`, `8.73`, `4,120`."""
    if number <= 0:
        return "0"
    decimals = max(2 - floor(log10(number)), 0)
    # 9.996 rounds to 10.0, not to 10.00.
    if round(number, decimals) >= 10 ** (3 - decimals):
        decimals = max(decimals - 1, 0)
    return f"{number:,.{min(decimals, 2)}f}"


def rate(operations: float) -> str:
    """Return operations per second, without decimals: `228,927`."""
    return f"{operations:,.0f}"


def size(count: int) -> str:
    """Return a number of bytes in decimal megabytes: `2.048 MB`."""
    return f"{count / 1e6:.3f} MB"


def megabytes(count: float) -> str:
    """Return a number of bytes as decimal megabytes without the unit: `0.7`, `64.2`, `1,074`."""
    return f"{count / 1e6:,.0f}" if count >= 99.95e6 else f"{count / 1e6:.1f}"


def ratio(share: float) -> str:
    """Return a share of one as a percentage with two decimals."""
    return f"{share:.2%}"


def hit_rate(share: float) -> str:
    """Return a share of one with three decimals. Only exactly 1 is shown as 1.000."""
    return f"{min(share, 0.999) if share < 1 else share:.3f}"


def times(factor: float) -> str:
    """Return a factor: `1.04 x`, `3.2 x`, `58 x`."""
    if factor < 1.995:
        return f"{factor:.2f} x"
    return f"{factor:.1f} x" if factor < 9.95 else f"{factor:,.0f} x"


def spread(share: float) -> str:
    """Return a range divided by its median as a whole percentage, `<1%` when it is small."""
    return "<1%" if share < 0.005 else f"{share:.0%}"


def seconds_left(seconds: float) -> str:
    """Return `m:ss`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
