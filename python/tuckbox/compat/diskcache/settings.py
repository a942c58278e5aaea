"""Names that programs import from DiskCache: constants, settings, policies, warnings and `Timeout`.

Must not know how entries are stored.
"""

from __future__ import annotations

import pickle
from typing import Any, Final, NamedTuple, Optional

__all__ = [
    "DEFAULT_SETTINGS",
    "ENOVAL",
    "EVICTION_POLICY",
    "METADATA",
    "UNKNOWN",
    "Constant",
    "EmptyDirWarning",
    "Policy",
    "Timeout",
    "UnknownFileWarning",
    "policy_of",
]


class Constant(tuple[str]):
    """A named value that is equal only to the constant of the same name.

    Example:
        >>> Constant("ENOVAL")
        ENOVAL
    """

    __slots__ = ()

    def __new__(cls, name: str) -> Constant:
        """Name the constant."""
        return super().__new__(cls, (name,))

    def __repr__(self) -> str:
        """Return the name."""
        return self[0]


ENOVAL: Final = Constant("ENOVAL")
"""Default argument that no caller passes."""
UNKNOWN: Final = Constant("UNKNOWN")
"""Passed to `Disk.filename` where the key or the value is not known."""

DEFAULT_SETTINGS: Final[dict[str, Any]] = {
    "statistics": 0,
    "tag_index": 0,
    "eviction_policy": "least-recently-stored",
    "size_limit": 2**30,
    "cull_limit": 10,
    # Stored and readable, without effect: there is no SQLite.
    "sqlite_auto_vacuum": 1,
    "sqlite_cache_size": 2**13,
    "sqlite_journal_mode": "wal",
    "sqlite_mmap_size": 2**26,
    "sqlite_synchronous": 1,
    "disk_min_file_size": 2**15,
    "disk_pickle_protocol": pickle.HIGHEST_PROTOCOL,
}
"""The settings of a new cache."""

METADATA: Final = ("count", "size", "hits", "misses")
"""What `Cache.reset` can read besides settings."""


class Policy(NamedTuple):
    """How a cache chooses what to evict.

    Example:
        >>> EVICTION_POLICY["least-recently-used"].field
        'access_time'
    """

    field: Optional[str]
    """What is compared: ``"store_time"``, ``"access_time"``, ``"access_count"``, or None. The entry
    with the lowest value is evicted first, and of equal ones the oldest. None evicts nothing."""
    marks_reads: bool = False
    """Whether a read changes the field."""


EVICTION_POLICY: Final[dict[str, Policy]] = {
    "none": Policy(None),
    "least-recently-stored": Policy("store_time"),
    "least-recently-used": Policy("access_time", marks_reads=True),
    "least-frequently-used": Policy("access_count", marks_reads=True),
}
"""The policies by name."""


def policy_of(name: str) -> Policy:
    """Return the policy of a name.

    Raises:
        KeyError: There is no such policy.
        TypeError: It is one of DiskCache's own, in SQL.
    """
    policy: object = EVICTION_POLICY[name]
    if not isinstance(policy, Policy):
        raise TypeError(
            f"EVICTION_POLICY[{name!r}] must be a Policy: there is no SQLite that could run its "
            "statements"
        )
    return policy


class Timeout(Exception):  # noqa: N818 - DiskCache's name.
    """Another thread or process held the lock of the cache for longer than ``timeout``.

    ``args[0]`` of the methods that remove many entries is how many they had removed.
    """


class UnknownFileWarning(UserWarning):
    """`Cache.check` found a file that no entry names."""


class EmptyDirWarning(UserWarning):
    """`Cache.check` found an empty directory."""
