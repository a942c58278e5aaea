"""The clocks, and the cost of reading them.

Owns the choice of clocks. Must not know what was timed.
"""

from __future__ import annotations

from time import perf_counter_ns as clock_ns
from time import process_time_ns as cpu_ns

__all__ = ["clock_ns", "cpu_ns", "timer_cost"]


def timer_cost(samples: int = 1_000) -> list[int]:
    """Return the cost of reading the clock in nanoseconds, measured `samples` times."""
    return [-(clock_ns() - clock_ns()) for _ in range(samples)]
