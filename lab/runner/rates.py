"""Operations per second, and their upper bound.

Owns both. Must not know where the counts and times come from.

An operation that takes c seconds of CPU time can run at most n / c times per second on n cores. A
higher rate is a measuring error: its operations and its time do not belong together.
"""

from __future__ import annotations

from dataclasses import dataclass

_NS = 1_000_000_000
# Each stretch of a worker reads the CPU clock before and after the other clock.
_READING_NS = 20_000
_CLOCKS_DIFFER = 0.02
# In a shorter pass, reading the clocks on a busy machine takes as long as the work.
_COMPARABLE_NS = 100_000


class ImpossibleRateError(ValueError):
    """The workers used more CPU time than the cores have; the message has the numbers."""


@dataclass(frozen=True)
class Work:
    """The work of all workers of a pass, and its cost.

    `elapsed_ns` is the elapsed time, `cpu_ns` the CPU time used on `cores` cores. `readings` counts
    how often the workers read both clocks.
    """

    operations: int
    elapsed_ns: int
    cpu_ns: int
    cores: int
    readings: int = 1

    @property
    def rate(self) -> float:
        """Operations per second. Raises ImpossibleRateError."""
        self.check()
        return self.operations * _NS / max(self.elapsed_ns, 1)

    def check(self) -> None:
        """Raise ImpossibleRateError if the cores cannot have provided so much CPU time.

        A shorter pass than 0.1 ms, which only tests have, counts as one of 0.1 ms.
        """
        available_ns = self.cores * max(self.elapsed_ns, _COMPARABLE_NS)
        if self.cpu_ns > available_ns * (1 + _CLOCKS_DIFFER) + _READING_NS * self.readings:
            each_ns = self.cpu_ns / max(self.operations, 1)
            rate = self.operations * _NS / max(self.elapsed_ns, 1)
            raise ImpossibleRateError(
                f"{rate:,.0f} operations per second with {each_ns:,.0f} ns of CPU time each are "
                f"more than {self.cores} cores can do: {_NS * self.cores / each_ns:,.0f}"
            )
