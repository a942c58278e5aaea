"""The clock and the histogram of its readings.

Owns which clock is read and how durations are kept. Must not know what was timed.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter_ns as clock_ns

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped, unused-ignore]

LATENCY_NS_MIN = 1
LATENCY_NS_MAX = 3_600_000_000_000
SIGNIFICANT_DIGITS = 3

__all__ = ["clock_ns", "decode", "empty", "encode", "timer_cost"]


def empty() -> HdrHistogram:
    """Return a histogram of nanoseconds from 1 ns to an hour, exact to three digits."""
    return HdrHistogram(LATENCY_NS_MIN, LATENCY_NS_MAX, SIGNIFICANT_DIGITS)


def encode(durations_ns: Iterable[int]) -> str:
    """Return the histogram of `durations_ns` in HdrHistogram's V2 encoding, as base64 text."""
    histogram = empty()
    for duration_ns in durations_ns:
        if not histogram.record_value(max(duration_ns, LATENCY_NS_MIN)):
            raise ValueError(f"a duration of {duration_ns} ns is beyond the histogram's hour")
    return str(histogram.encode().decode("ascii"))


def decode(encoded: str) -> HdrHistogram:
    """Return the histogram that `encode` made."""
    return HdrHistogram.decode(encoded.encode("ascii"))


def timer_cost(samples: int = 2_000) -> list[int]:
    """Return how long the clock itself takes, in nanoseconds, `samples` times."""
    return [-(clock_ns() - clock_ns()) for _ in range(samples)]
