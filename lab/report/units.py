"""Numbers as people read them. Owns the formats; must not know what is measured."""

from __future__ import annotations


def duration(nanoseconds: float) -> str:
    """Return a duration in the unit that suits it: `87ns`, `36.001µs`, `10.202ms`, `28.962s`."""
    if nanoseconds < 1_000:
        return f"{nanoseconds:.0f}ns"
    for unit, size in (("µs", 1e3), ("ms", 1e6)):
        if nanoseconds < size * 1_000:
            return f"{nanoseconds / size:.3f}{unit}"
    return f"{nanoseconds / 1e9:.3f}s"


def size(count: int) -> str:
    """Return a number of bytes in decimal megabytes: `2.048 MB`."""
    return f"{count / 1e6:.3f} MB"


def ratio(share: float) -> str:
    """Return a share of one as a percentage with two decimals."""
    return f"{share:.2%}"


def seconds_left(seconds: float) -> str:
    """Return `m:ss`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
