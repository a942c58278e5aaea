"""The clock, and what reading it costs.

Owns which clock is read. Must not know what was timed.
"""

from __future__ import annotations

from time import perf_counter_ns as clock_ns
from time import process_time_ns as cpu_ns

__all__ = ["clock_ns", "cpu_ns", "timer_cost"]


def timer_cost(samples: int = 1_000) -> list[int]:
    """Return how long the clock itself takes, in nanoseconds, `samples` times."""
    return [-(clock_ns() - clock_ns()) for _ in range(samples)]
