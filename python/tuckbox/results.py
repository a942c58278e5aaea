"""What operations of a cache answer with, where that is more than a value.

Knows nothing of how an answer is come by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["CheckReport", "Entry", "Loss", "Stats"]


class Entry(NamedTuple):
    """An entry as ``get_entry`` found it."""

    value: Any
    """The value."""
    expiry: float | None
    """When it expires, in seconds since 1970 (as ``time.time()``); None if it does not."""
    version: int
    """Names this state of the entry, for ``cas``: every change of the value gives it another one.
    28 bits are a count, 35 come from the value, in case the count comes round."""


@dataclass(frozen=True)
class Stats:
    """Numbers about a cache. Counts are sums over all processes since the file was made."""

    entries: int
    """Entries present, including expired ones that were not collected yet."""
    entry_bytes: int
    """Bytes that these entries take, with keys and headers."""
    file_bytes: int
    """Length of the file now."""
    size_bytes: int
    """Length that the file does not exceed."""
    max_entries: int
    """Limit of entries; 0 if there is none."""
    hits: int
    """Reads that found their entry."""
    misses: int
    """Reads that did not."""
    sets: int
    """Entries stored."""
    deletes: int
    """Entries deleted on request."""
    evictions: int
    """Entries that gave way to others."""
    expirations: int
    """Expired entries that were collected."""
    lost_entries: int
    """Entries lost to damage: found damaged and dropped, or counted and not found."""
    takeovers: int
    """Locks taken over from processes that had died."""
    reads_under_lock: int
    """Reads that met a change too often and went on under the lock."""
    reads_given_up: int
    """Reads that gave up and answered that there is no entry."""
    checksum_mismatches: int
    """Entries whose checksum did not match when they were read."""
    shards: int
    """Parts that are written independently of each other."""
    segment_bytes: int
    """Bytes in a segment, the unit in which the file grows."""
    segments: int
    """Segments in the file now. Each is one of the following."""
    segments_free: int
    """Segments that nothing is in."""
    segments_log: int
    """Segments that hold entries."""
    segments_index: int
    """Segments that hold the index."""
    segments_body: int
    """Segments that are filled by one large value each."""
    segments_spare: int
    """Segments kept for moving entries."""
    segments_building: int
    """Segments that some process is filling now."""

    @property
    def bytes_by_use(self) -> dict[str, int]:
        """Every byte of the file by what it is for: their sum is ``file_bytes``.

        ``entries`` are the entries that are present, keys and headers included; ``unused`` is what
        the segments that hold them have left: room not written yet, and what deleted and replaced
        entries left behind. ``tables`` are what comes before the segments.
        """
        holding = (self.segments_log + self.segments_body) * self.segment_bytes
        # The numbers may not all be of the same moment.
        entries = min(self.entry_bytes, holding)
        return {
            "entries": entries,
            "unused": holding - entries,
            "index": self.segments_index * self.segment_bytes,
            "spare": self.segments_spare * self.segment_bytes,
            "building": self.segments_building * self.segment_bytes,
            "free": self.segments_free * self.segment_bytes,
            "tables": self.file_bytes - self.segments * self.segment_bytes,
        }

    @property
    def hit_ratio(self) -> float:
        """Hits among all reads, from 0 to 1; 0 without a read."""
        reads = self.hits + self.misses
        return self.hits / reads if reads else 0.0


class Loss(NamedTuple):
    """Entries that one part of a cache has lost, all for the same reason."""

    shard: int
    """The part."""
    entries: int
    """How many of its entries."""
    reason: str
    """Why they are gone, as a sentence about one of them."""


@dataclass(frozen=True)
class CheckReport:
    """What ``check`` found, and mended.

    Every segment was met exactly once, in one of the places that are counted here.
    """

    entries: int
    """Entries that were proved to be sound."""
    entry_bytes: int
    """Bytes that they take."""
    lost_entries: int
    """Entries that are gone: damaged and dropped now, or counted and not found."""
    losses: tuple[Loss, ...]
    """Of which part they were, and why they are gone."""
    damaged_entries: int
    """Of these, entries that were damaged, and are dropped now."""
    leaked_segments: int
    """Segments that nothing led to, and are free now."""
    wrong_counts: int
    """Counters that were wrong, and are right now."""
    segments_free: int
    """Segments that nothing is in."""
    segments_log: int
    """Segments that hold entries."""
    segments_index: int
    """Segments that hold the index."""
    segments_body: int
    """Segments that are filled by one large value."""
    segments_spare: int
    """Segments kept for moving entries."""
    segments_building: int
    """Segments that some process is filling now."""
    findings: tuple[str, ...]
    """One sentence for each thing found, a hundred at most."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found wrong."""
        return not (self.lost_entries or self.leaked_segments or self.wrong_counts)
