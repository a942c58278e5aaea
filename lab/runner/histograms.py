"""Makes histograms of durations, and reads them again from records.

Owns the histogram's range and encoding, and the file of durations that a host writes (PROTOCOL.md).
Must not know what was timed.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped, unused-ignore]

LATENCY_NS_MIN = 1
LATENCY_NS_MAX = 3_600_000_000_000
SIGNIFICANT_DIGITS = 3


def encode(durations_ns: Iterable[int]) -> str:
    """Return the histogram of `durations_ns` in HdrHistogram's V2 encoding, as base64 text.

    Covers 1 ns to one hour with three significant digits; 0 counts as 1 ns. Empty without
    durations. Raises ValueError for more than an hour.
    """
    counts = Counter(durations_ns)
    if not counts:
        return ""
    histogram = HdrHistogram(LATENCY_NS_MIN, LATENCY_NS_MAX, SIGNIFICANT_DIGITS)
    for duration_ns, count in counts.items():
        if not histogram.record_value(max(duration_ns, LATENCY_NS_MIN), count):
            raise ValueError(f"a duration of {duration_ns} ns exceeds the maximum of one hour")
    return str(histogram.encode().decode("ascii"))


def decode(encoded: str) -> HdrHistogram:
    """Return the histogram that `encode` made."""
    return HdrHistogram.decode(encoded.encode("ascii"))


def percentiles_ns(encoded: str, percents: Sequence[float]) -> list[int]:
    """Return the percentiles of a histogram of at least one duration.

    Gives the library's results, but scans the counts only once for all percentiles.
    """
    histogram = decode(encoded)
    last = histogram.get_counts_array_index(histogram.get_max_value())
    sums = list(accumulate(histogram.counts[: last + 1]))
    indices = [
        bisect_left(sums, histogram.get_target_count_at_percentile(percent)) for percent in percents
    ]
    values_ns = [histogram.get_value_from_index(index) for index in indices]
    return [int(histogram.get_highest_equivalent_value(value_ns)) for value_ns in values_ns]


def read_durations(path: Path) -> array[int]:
    """Return the durations in nanoseconds that a host wrote. Raises ValueError and OSError."""
    durations_ns = array("Q")
    content = path.read_bytes()
    if len(content) % durations_ns.itemsize:
        raise ValueError(f"{path.name} is not a file of 64-bit durations: {len(content)} bytes")
    durations_ns.frombytes(content)
    if sys.byteorder == "big":
        durations_ns.byteswap()
    return durations_ns
