"""The rows, in the order of the page: one module each.

Owns the list. Must not measure.
"""

from __future__ import annotations

from benches.row import Row
from benches.rows import (
    cold_disk,
    large_values,
    many_processes,
    overview,
    s01_get,
    s01b_kept,
    s02_miss,
    s03_set,
    s04_peers,
    s05_django,
    s06_codec,
    s07_large,
    s08_growth,
    s09_sharing,
    s10_native,
    s11_tails,
    s12_open,
    s13_memory,
    s14_many,
    s15_full,
    s15b_python,
    s16_tiers,
    s18_random,
    s19_drop_in,
)

ROWS: tuple[Row, ...] = (
    overview.ROW,
    s01_get.ROW,
    s01b_kept.ROW,
    s02_miss.ROW,
    s03_set.ROW,
    s04_peers.ROW,
    s05_django.ROW,
    s06_codec.ROW,
    s07_large.ROW,
    s08_growth.ROW,
    s09_sharing.ROW,
    s10_native.ROW,
    s11_tails.ROW,
    s12_open.ROW,
    s13_memory.ROW,
    s14_many.ROW,
    s15_full.ROW,
    s15b_python.ROW,
    s16_tiers.ROW,
    s18_random.ROW,
    s19_drop_in.ROW,
    many_processes.ROW,
    large_values.ROW,
    cold_disk.ROW,
)


class UnknownRowError(Exception):
    """There is no such row; the message lists the rows."""


def choose(ids: list[str], rows: tuple[Row, ...] = ROWS) -> list[Row]:
    """Return the rows with these ids, in the order of the page; all rows without an id.

    Raises UnknownRowError.
    """
    known = {row.id: row for row in rows}
    for one in ids:
        if one not in known:
            raise UnknownRowError(f"there is no row {one!r}; the rows are {', '.join(known)}")
    return [row for row in rows if not ids or row.id in ids]
