"""Miss-ratio curves: the share of requests that miss, by the measured bytes of the store.

Owns this chart. Must not know how many bytes were allowed.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.report.layouts.rows import OURS
from lab.report.model import Kind, LineRow, Lines
from lab.runner.catalogue import Weighed
from lab.runner.results import ReplayCell

KINDS: dict[Weighed, Kind] = {"file": "shared", "client": "alone", "server": "server"}
# The byte axis is logarithmic when its largest value exceeds its smallest by this factor.
_LINEAR_UP_TO = 20.0


def miss_ratios(cells: Sequence[ReplayCell]) -> tuple[Lines, ...]:
    """Return a line for each measured contestant, with a point for each capacity.

    Empty without measured cells. Includes contestants that exceeded the limit: each point lies at
    the bytes that were measured.
    """
    measured = [cell for cell in cells if cell.outcome == "measured"]
    if not measured:
        return ()
    found: dict[str, list[ReplayCell]] = {}
    for cell in sorted(measured, key=lambda one: (one.contestant, one.best.bytes_measured)):
        found.setdefault(cell.contestant, []).append(cell)
    rows = [
        LineRow(
            name,
            KINDS[own[0].weighed],
            tuple((float(one.best.bytes_measured), 1 - one.hit_ratio) for one in own),
            records=tuple(own),
            ours=name == OURS,
        )
        for name, own in found.items()
    ]
    # The names at the right of the chart then have the order of the line ends.
    rows.sort(key=lambda row: -row.points[-1][1])
    most = max(point for row in rows for point, _ in row.points)
    fewest = max(min(point for row in rows for point, _ in row.points), 1.0)
    return (
        Lines(
            "Miss ratio by measured bytes",
            "most bytes that the store used",
            "bytes",
            "miss ratio",
            "share",
            tuple(rows),
            notes=(
                "Lower and further left is better. Each point is a replay at one capacity, drawn "
                "at its measured bytes even if they exceed the limit.",
            ),
            across_log=most > _LINEAR_UP_TO * fewest,
            up_log=False,
        ),
    )
