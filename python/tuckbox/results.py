"""The result types of `get_entry`, `stats`, `check` and `load`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

__all__ = ["CheckReport", "Entry", "Loaded", "Loss", "Stats"]


class Entry(NamedTuple):
    """An entry, as returned by ``get_entry``.

    Example:
        >>> cache.set("visits", 7)
        >>> entry = cache.get_entry("visits")
        >>> entry.value, entry.expiry
        (7, None)
        >>> cache.cas("visits", 8, entry.version)
        True
    """

    value: Any
    """The value."""
    expiry: Optional[float]
    """When the ttl ends, in seconds since 1970 (as ``time.time()``); None means never."""
    version: int
    """The argument for ``cas``. Every change of the value gives the entry a new version. 28 bits
    count writes, and 35 bits are a checksum of the entry, in case the count wraps around."""
    tags: tuple[str, ...] = ()
    """The tags of the entry, sorted."""
    stale: bool = False
    """Whether the entry is stale: its ttl has ended, or one of its tags was evicted softly."""
    made_s: Optional[float] = None
    """How many seconds making the value took; None if it was not stored by its maker."""
    pinned: bool = False
    """Whether the entry is pinned: never evicted."""


@dataclass(frozen=True)
class Stats:
    """Statistics of a cache. Counts cover all processes since the file was created.

    Example:
        >>> cache.set("user:42", "Ada")
        >>> cache.get("user:42")
        'Ada'
        >>> cache.stats().hit_ratio
        1.0
    """

    entries: int
    """Entries in the cache, including expired ones that were not yet removed."""
    entry_bytes: int
    """Bytes used by these entries, including keys and record headers."""
    file_bytes: int
    """Current length of the file."""
    size_bytes: int
    """Maximum length of the file."""
    max_entries: int
    """Maximum number of entries; 0 means no limit."""
    largest_value_bytes: int
    """Maximum length of a value as it is stored. A longer one raises ValueTooLarge."""
    processes: int
    """Processes that use the cache now. A process counts once, however many handles it has, and
    not at all if all of them are read-only."""
    processes_max: int
    """Maximum number of such processes. Opening in one more raises TooManyProcesses."""
    hits: int
    """Reads that found an entry."""
    misses: int
    """Reads that found no entry."""
    sets: int
    """Entries stored."""
    deletes: int
    """Entries deleted on request."""
    evictions: int
    """Entries evicted to make room."""
    expirations: int
    """Expired entries removed."""
    lost_entries: int
    """Entries lost to damage: removed because they were damaged, or counted but not found."""
    discards: int
    """How often the cache was emptied because the machine stopped while it was in use."""
    reopened: int
    """How often this handle opened another file, because its own was removed or replaced."""
    takeovers: int
    """Locks taken over from dead processes."""
    reads_under_lock: int
    """Reads that took the lock because their entry changed too often."""
    reads_given_up: int
    """Reads that returned a miss because their entry changed too often."""
    checksum_mismatches: int
    """Reads that found an entry with a wrong checksum."""
    shards: int
    """Parts of the cache, each with a lock of its own."""
    segment_bytes: int
    """Bytes in a segment, the unit in which the file grows."""
    segments: int
    """Segments in the file. Each is counted in one of the fields below."""
    segments_free: int
    """Free segments."""
    segments_log: int
    """Segments that hold entries."""
    segments_index: int
    """Segments that hold the index."""
    segments_body: int
    """Segments that each hold a part of one large value."""
    segments_spare: int
    """Segments reserved for moving entries."""
    segments_building: int
    """Segments that a process is filling."""
    local_entries: int = 0
    """Objects that this handle keeps in this process, with ``local``."""
    local_bytes: int = 0
    """About how many bytes these objects take."""

    @property
    def bytes_by_use(self) -> dict[str, int]:
        """The use of every byte of the file. The values add up to ``file_bytes``.

        Returns:
            Bytes by use:

            - ``entries``: the entries, including keys and record headers
            - ``unused``: the rest of the segments that hold entries: free space, and the remains
              of deleted and replaced entries
            - ``index``, ``spare``, ``building``, ``free``: the segments of these kinds
            - ``tables``: everything before the first segment
        """
        holding = (self.segments_log + self.segments_body) * self.segment_bytes
        # Other processes may have written between the counts.
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
        """Hits divided by reads, from 0 to 1; 0 if there were no reads."""
        reads = self.hits + self.misses
        return self.hits / reads if reads else 0.0


class Loaded(NamedTuple):
    """How many entries of a dump ``load`` has visited.

    Example:
        >>> cache.set("a", 1)
        >>> cache.dump("./app.dump")
        1
        >>> cache.load("./app.dump")
        Loaded(stored=1, present=0, expired=0, refused=0, unpinned=0, refusals=())
    """

    stored: int
    """The cache has them now."""
    present: int
    """The cache had a value of its own, which was kept: only with ``replace=False``."""
    expired: int
    """They have expired since they were dumped."""
    refused: int
    """The cache cannot hold them: `refusals` says why."""
    unpinned: int = 0
    """How many of the stored entries were pinned in the dump, and can be evicted here: the place
    evicts by rules of its own."""
    refusals: tuple[Refusal, ...] = ()
    """The refused entries by reason."""


class Refusal(NamedTuple):
    """Entries of a dump that were not stored, all for the same reason."""

    entries: int
    """How many there are."""
    reason: str
    """Why, as a sentence about one entry."""


class Loss(NamedTuple):
    """Entries that one shard lost, all for the same reason."""

    shard: int
    """The number of the shard."""
    entries: int
    """How many entries were lost."""
    reason: str
    """Why, as a sentence about one entry."""


@dataclass(frozen=True)
class CheckReport:
    """The result of ``check``: what it found and repaired. Each segment is counted exactly once.

    Example:
        >>> report = cache.check()
        >>> report.is_sound, report.lost_entries
        (True, 0)
    """

    entries: int
    """Entries verified: reachable, with the right checksum."""
    entry_bytes: int
    """Bytes used by these entries, including keys and record headers."""
    lost_entries: int
    """Entries lost: damaged and removed by this check, or counted but not found."""
    losses: tuple[Loss, ...]
    """The lost entries by shard and reason."""
    damaged_entries: int
    """How many of the lost entries were damaged and removed by this check."""
    leaked_segments: int
    """Segments that were not in use and are free again."""
    wrong_counts: int
    """Counters that were wrong and are corrected."""
    segments_free: int
    """Free segments."""
    segments_log: int
    """Segments that hold entries."""
    segments_index: int
    """Segments that hold the index."""
    segments_body: int
    """Segments that each hold a part of one large value."""
    segments_spare: int
    """Segments reserved for moving entries."""
    segments_building: int
    """Segments that a process is filling."""
    findings: tuple[str, ...]
    """One sentence per problem, at most 100."""

    @property
    def is_sound(self) -> bool:
        """Whether the check found no problem."""
        return not (self.lost_entries or self.leaked_segments or self.wrong_counts)
