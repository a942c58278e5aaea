"""Operations in a second, and the bound that none can exceed.

Owns both. Must not know where the counts and times come from.

An operation that takes c seconds of CPU time cannot be done more than n / c times in a second on n
cores. A rate above that is no measurement: its operations and its time do not belong together.
"""

from __future__ import annotations

from dataclasses import dataclass

_NS = 1_000_000_000
# The CPU clock is read outside of the other clock's readings, once for each stretch of a worker.
_READING_NS = 20_000
_CLOCKS_DIFFER = 0.02


class ImpossibleRateError(ValueError):
    """More CPU time was used than the cores have; the message has the numbers."""


@dataclass(frozen=True)
class Work:
    """What all workers of a pass did together, and what it took.

    `elapsed_ns` is the time in which they did it, `cpu_ns` the CPU time they used in it on `cores`
    cores; `readings` counts how often they read both clocks.
    """

    operations: int
    elapsed_ns: int
    cpu_ns: int
    cores: int
    readings: int = 1

    @property
    def rate(self) -> float:
        """Operations in a second. Raises ImpossibleRateError."""
        self.check()
        return self.operations * _NS / max(self.elapsed_ns, 1)

    def check(self) -> None:
        """Raise ImpossibleRateError when the cores cannot have given so much CPU time."""
        available_ns = self.cores * self.elapsed_ns
        if self.cpu_ns > available_ns * (1 + _CLOCKS_DIFFER) + _READING_NS * self.readings:
            each_ns = self.cpu_ns / max(self.operations, 1)
            rate = self.operations * _NS / max(self.elapsed_ns, 1)
            raise ImpossibleRateError(
                f"{rate:,.0f} operations in a second, of {each_ns:,.0f} ns of CPU time each, are "
                f"more than {self.cores} cores can do: {_NS * self.cores / each_ns:,.0f}"
            )
