"""Finds or makes the requests of a replay. Must not know who replays them."""

from __future__ import annotations

import io
import random
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import zstandard

from lab.runner.catalogue import REPOSITORY, ReplaySuite
from lab.runner.catalogue.suites import Zipf


@dataclass(frozen=True)
class Requests:
    """The key numbers a replay asks for. `source` says what they are, in words for the reader."""

    keys: list[int]
    distinct: int
    source: str
    generated: bool

    @property
    def hit_ratio_max(self) -> float:
        """The hit ratio of a cache that never forgets."""
        return 1 - self.distinct / len(self.keys)


def requests(suite: ReplaySuite) -> Requests:
    """Return the suite's trace where it lies beside the repository, else its Zipf stream."""
    path = REPOSITORY / suite.trace
    if not path.exists():
        keys = zipf(suite.zipf)
        made = suite.zipf
        source = (
            f"a generated Zipf stream (exponent {made.exponent}, {made.keys:,} keys, "
            f"seed {made.seed}): {suite.trace} is not there"
        )
        return Requests(keys, len(set(keys)), source, generated=True)
    keys = read_trace(path)
    return Requests(keys, len(set(keys)), suite.origin, generated=False)


def read_trace(path: Path) -> list[int]:
    """Return the column `key` of a zstd-compressed CSV file. Raises ValueError without one."""
    with path.open("rb") as file:
        lines = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), "ascii")
        header = next(lines).strip().split(",")
        if header[0] != "key":
            raise ValueError(f"{path} is not a trace: its first column is {header[0]!r}, not 'key'")
        return [int(line.partition(",")[0]) for line in lines]


def zipf(plan: Zipf) -> list[int]:
    """Return key numbers whose frequency falls with the power `exponent` of their rank."""
    weights = list(accumulate(rank**-plan.exponent for rank in range(1, plan.keys + 1)))
    dice = random.Random(plan.seed)
    return dice.choices(range(1, plan.keys + 1), cum_weights=weights, k=plan.requests)
