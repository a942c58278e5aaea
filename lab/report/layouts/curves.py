"""Miss-ratio curves: the share of requests that miss, by the bytes that a store was measured with.

Owns this chart. Must not know which of these bytes were permitted.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.report.layouts.rows import OURS
from lab.report.model import Kind, LineRow, Lines
from lab.runner.catalogue import Weighed
from lab.runner.results import ReplayCell

KINDS: dict[Weighed, Kind] = {"file": "shared", "client": "alone", "server": "server"}
# Beyond this factor between the fewest and the most bytes, their axis is logarithmic.
_LINEAR_UP_TO = 20.0


def miss_ratios(cells: Sequence[ReplayCell]) -> tuple[Lines, ...]:
    """Return a line for each contestant that was weighed, through a point for each capacity.

    None without measured cells. Who occupied more than it might is there as well: a point lies at
    the bytes that it did occupy.
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
    # The names beside the ends of the lines then have the order of these ends.
    rows.sort(key=lambda row: -row.points[-1][1])
    most = max(point for row in rows for point, _ in row.points)
    fewest = max(min(point for row in rows for point, _ in row.points), 1.0)
    return (
        Lines(
            "Miss ratio by measured bytes",
            "bytes that the store occupied at most",
            "bytes",
            "miss ratio",
            "share",
            tuple(rows),
            notes=(
                "Lower and further to the left is better. A point is a replay at one capacity, at "
                "the bytes that were measured in it, also where these are more than permitted.",
            ),
            across_log=most > _LINEAR_UP_TO * fewest,
            up_log=False,
        ),
    )
