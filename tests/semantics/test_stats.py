"""``stats`` accounts for every byte of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuckbox import Cache

if TYPE_CHECKING:
    from pathlib import Path


def accounted(cache: Cache) -> dict[str, int]:
    stats = cache.stats()
    uses = stats.bytes_by_use
    assert sum(uses.values()) == stats.file_bytes
    return uses


def test_every_byte_has_a_use_as_the_file_fills(tmp_path: Path) -> None:
    path = tmp_path / "cache.tuck"
    with Cache(path, size="8 MiB") as cache:
        empty = accounted(cache)
        assert empty["entries"] == empty["unused"] == 0
        for number in range(60_000):
            cache[number] = b"v" * 200
            if number % 5_000 == 0:
                accounted(cache)
        full = accounted(cache)
        assert path.stat().st_size == sum(full.values())
        # The size of the tables does not depend on the number of segments.
        assert full["tables"] == empty["tables"]
        assert full["entries"] > 0.7 * sum(full.values())
        assert full["index"] > 0
        assert full["spare"] > 0
        report, stats = cache.check(), cache.stats()
        assert report.is_sound
        for use in ("free", "log", "index", "body", "spare", "building"):
            name = f"segments_{use}"
            assert getattr(stats, name) == getattr(report, name), name
        assert stats.entry_bytes == report.entry_bytes


def test_large_values_are_entries_and_deleted_ones_are_not(tmp_path: Path) -> None:
    with Cache(tmp_path / "cache.tuck", size="32 MiB") as cache:
        cache["large"] = b"v" * 5_000_000
        stats = cache.stats()
        assert stats.segments_body == 5_000_000 // stats.segment_bytes
        assert accounted(cache)["entries"] >= 5_000_000
        del cache["large"]
        assert accounted(cache)["entries"] == 0
        assert cache.stats().segments_body == 0
