"""What tiers cost, computed from the record and from assumptions.

Owns the formulas. Must not measure, nor know how a figure is written.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benches.scale import fleet
from benches.scale.record import Fleet, Measured

SECOND_US = 1e6
#: A near tier is warm again once it hits as often as before, up to so many points.
WARM_POINTS = 1.0


@dataclass(frozen=True)
class Assumptions:
    """What a reader may change: options of the program. Rates are per second."""

    reads: float = 1_000.0
    writes: float = 10.0
    workers: int = 8
    pool: int = 1
    max_stale_s: float = 5.0
    trace: str = "cache2k_orm_busy"
    percent: float = 1.0
    header_bytes: int = 66
    connections_most: int = 10_000


@dataclass(frozen=True)
class Prices:
    """What one of each costs: CPU time in microseconds, or bytes."""

    read_us: float
    write_us: float
    ping_us: float
    #: By the number of connections that a message goes to.
    message_us: dict[int, float]
    message_bytes: int
    applied_us: float
    idle_us: float


@dataclass(frozen=True)
class Cost:
    """What a number of machines cost. Rates are per second; cores are shares of one core."""

    machines: int
    processes: int
    reads: float
    far_reads: float
    far_reads_stale: float
    messages: float
    message_bytes: float
    connections: int
    pings: float
    delay_us: float
    core_without: float
    core: float
    core_stale: float
    machine_cores: float


def prices_of(measured: Measured) -> Prices:
    """Return the medians of what was measured."""
    middle = statistics.median
    return Prices(
        read_us=middle(measured.read_us),
        write_us=middle(measured.write_us),
        ping_us=middle(measured.ping_us),
        message_us={
            one.connections: middle(one.cpu_us) for one in measured.fan_out if one.changes == 1
        },
        message_bytes=measured.message_bytes,
        applied_us=middle(measured.applied_us),
        idle_us=middle(measured.idle_us),
    )


def message_us(prices: Prices, connections: int) -> float:
    """Return the price of a message, from the measurement with the most similar number."""
    nearest = min(prices.message_us, key=lambda count: abs(math.log(connections / count)))
    return prices.message_us[nearest]


def cost(machines: int, share: float, lost: float, assumed: Assumptions, prices: Prices) -> Cost:
    """Return what so many machines cost.

    Args:
        machines: Their number.
        share: The reads that reach the far tier, from 0 to 1, if copies live until they change.
        lost: The near hits that are lost, from 0 to 1, if copies end after `max_stale_s`.
        assumed: The rest of what is assumed.
        prices: What one of each costs.
    """
    processes = machines * assumed.workers
    reads, writes = machines * assumed.reads, machines * assumed.writes
    far, far_stale = reads * share, reads * (share + (1 - share) * lost)
    messages = writes * processes
    each_us = message_us(prices, processes)
    write_cores = writes * prices.write_us / SECOND_US
    pings = processes * 5 / assumed.max_stale_s
    return Cost(
        machines=machines,
        processes=processes,
        reads=reads,
        far_reads=far,
        far_reads_stale=far_stale,
        messages=messages,
        message_bytes=messages * (prices.message_bytes + assumed.header_bytes),
        connections=processes * (assumed.pool + 1),
        pings=pings,
        delay_us=processes * each_us,
        core_without=reads * prices.read_us / SECOND_US + write_cores,
        core=(far * prices.read_us + messages * each_us + pings * prices.ping_us) / SECOND_US
        + write_cores,
        core_stale=far_stale * prices.read_us / SECOND_US + write_cores,
        machine_cores=assumed.workers * (writes * prices.applied_us + prices.idle_us) / SECOND_US,
    )


@dataclass(frozen=True)
class Limits:
    """The most machines before something is used up, by what it is."""

    messages: float
    listening: float
    connections: float

    def first(self) -> str:
        """Return what is used up first."""
        return min(vars(self), key=lambda name: float(getattr(self, name)))


def limits(writes: float, assumed: Assumptions, prices: Prices) -> Limits:
    """Return the limits at a rate of writes per machine.

    They are: one core of the server tells changes, one core of each machine applies them, and the
    server has as many connections as it may.
    """
    # With many processes, a message costs what it does with the most connections.
    each_us = prices.message_us[max(prices.message_us)]
    return Limits(
        messages=math.sqrt(SECOND_US / each_us / (writes * assumed.workers)),
        listening=SECOND_US / (writes * assumed.workers * prices.applied_us),
        connections=assumed.connections_most / (assumed.workers * (assumed.pool + 1)),
    )


# --- Replays ---------------------------------------------------------------------------------


def second_half(parts: Sequence[int]) -> int:
    """Return the sum of the second half of the parts of a trace."""
    return sum(parts[len(parts) // 2 :])


def share_of(one: Fleet) -> float:
    """Return the share of lookups that reach the far tier, in the second half of the trace."""
    return 1 - second_half(one.hits) / second_half(one.gets)


def find(fleets: Sequence[Fleet], **wanted: object) -> Fleet:
    """Return the only replay with these fields; others are as in the plainest replay."""
    fields: dict[str, object] = {"route": "random", "stale": 0, "is_cleared": False, **wanted}
    (found,) = (
        one for one in fleets if all(getattr(one, name) == is_ for name, is_ in fields.items())
    )
    return found


def lost_of(fleets: Sequence[Fleet], trace: str, lookups: float) -> float:
    """Return the share of near hits that is lost if copies end after a number of lookups.

    Interpolated over the logarithm between the replays, and that of the last one beyond them.
    """

    def lost(stale: int) -> float:
        of = {"trace": trace, "percent": fleet.STALE_PERCENT, "machines": fleet.STALE_MACHINES}
        return 1 - (1 - share_of(find(fleets, stale=stale, **of))) / (
            1 - share_of(find(fleets, **of))
        )

    return interpolated(lookups, [(stale, lost(stale)) for stale in fleet.STALES])


def share_at(fleets: Sequence[Fleet], trace: str, percent: float, machines: int) -> float:
    """Return the share of reads that reach the far tier from a number of machines, at random.

    Interpolated over the logarithm between the replays.
    """
    shares = [
        share_of(find(fleets, trace=trace, percent=percent, machines=count))
        for count in fleet.MACHINES
    ]
    return interpolated(machines, list(zip(fleet.MACHINES, shares, strict=True)))


def interpolated(where: float, points: Sequence[tuple[float, float]]) -> float:
    """Return the value between points, over the logarithm, and that of the last one beyond them."""
    inside = min(max(where, points[0][0]), points[-1][0])
    for (low, at_low), (high, at_high) in itertools.pairwise(points):
        if inside <= high:
            return at_low + (at_high - at_low) * math.log(inside / low) / math.log(high / low)
    raise AssertionError("points are in order")


def saving_most(
    fleets: Sequence[Fleet], writes: float, assumed: Assumptions, prices: Prices
) -> int | None:
    """Return the most machines for which tracking saves CPU time of the server.

    None if it does for as many as were replayed.
    """
    changing = replace(assumed, writes=writes)
    for machines in range(1, fleet.MACHINES[-1] + 1):
        share = share_at(fleets, assumed.trace, assumed.percent, machines)
        found = cost(machines, share, 0.0, changing, prices)
        if found.core > found.core_without:
            return machines - 1
    return None


@dataclass(frozen=True)
class Gap:
    """What each machine pays for the clearing of its near tier."""

    more_reads: float
    #: Lookups of a machine until it is warm, None if the trace ends before.
    lookups: float | None


def gap(cleared: Fleet, plain: Fleet) -> Gap:
    """Return what the clearing in the middle of a trace costs each machine."""
    half = len(plain.hits) // 2
    more = sum(plain.hits[half:]) - sum(cleared.hits[half:])
    lookups = 0
    for part in range(half, len(plain.hits)):
        lookups += plain.gets[part]
        behind = (plain.hits[part] - cleared.hits[part]) / plain.gets[part]
        if 100 * behind < WARM_POINTS:
            return Gap(more / plain.machines, lookups / plain.machines)
    return Gap(more / plain.machines, None)
