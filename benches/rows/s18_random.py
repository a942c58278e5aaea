"""S18: gets of random keys among a million entries, where nearly every get waits for memory.

Owns the comparison. S8 has the measurement.
"""

from __future__ import annotations

from benches.data import keys
from benches.row import Conditions, Figure, Goal, Row
from benches.rows import s08_growth

COUNT = 1_000_000
_COUNT_QUICK = 100_000


def measure(conditions: Conditions) -> list[Figure]:
    """Measure gets with the same keys and with fresh keys."""
    count = min(COUNT, _COUNT_QUICK) if conditions.is_quick else COUNT
    conditions.progress(f"making {count:,} keys and values")
    gets = s08_growth.gets(conditions, keys(count), s08_growth.values_of(count), verified=True)
    stripped = "stripped program"
    compared = (
        ("fresh keys", gets.fresh, "dict", gets.fresh_dict, Goal("at most", 0.7)),
        ("fresh keys", gets.fresh, stripped, gets.fresh_stripped, None),
        ("same keys", gets.same, "dict", gets.same_dict, None),
    )
    figures = [
        Figure(f"get, {what}", "ns", ours, peer, theirs, "ours / theirs", goal)
        for what, ours, peer, theirs, goal in compared
    ]
    limited = Figure(
        "get, same keys",
        "ns",
        gets.same,
        stripped,
        gets.same_stripped,
        "ours / theirs",
        Goal("at most", 1.1),
        limit=gets.same_verified,
        limited_by="the same, and compare the key and verify the record's checksum",
    )
    return [*figures, limited]


ROW = Row(
    id="S18",
    title="Random gets of a million entries",
    text="the stripped program hashes the key, finds its slot and copies the value",
    measure=measure,
)
