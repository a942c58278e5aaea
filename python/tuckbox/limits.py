"""Limits that every kind of cache takes when it is opened. Knows nothing of caches."""

from __future__ import annotations

import math
from typing import Optional

from tuckbox.errors import InvalidArgument, InvalidLockTimeout, InvalidMaxEntries

__all__ = ["checked_choice", "checked_lock_timeout", "checked_max_entries"]

_MAX_ENTRIES_MAX = 2**63 - 1


def checked_max_entries(max_entries: Optional[int]) -> Optional[int]:
    """Return a ``max_entries`` argument. Raises InvalidMaxEntries."""
    if max_entries is None:
        return None
    if isinstance(max_entries, bool) or not isinstance(max_entries, int):
        kind = type(max_entries).__name__
        raise InvalidMaxEntries(f"max_entries must be an int or None, not {kind}")
    if not 0 < max_entries <= _MAX_ENTRIES_MAX:
        raise InvalidMaxEntries(
            f"max_entries must be between 1 and {_MAX_ENTRIES_MAX:,}; None means no limit"
        )
    return max_entries


def checked_choice(name: str, given: Optional[bool]) -> Optional[bool]:
    """Return an ``evict`` or ``ordered`` argument. Raises InvalidArgument."""
    if given is None or isinstance(given, bool):
        return given
    raise InvalidArgument(f"{name} must be True, False or None, not {type(given).__name__}")


def checked_lock_timeout(lock_timeout: float) -> float:
    """Return a ``lock_timeout`` argument in seconds. Raises InvalidLockTimeout."""
    if isinstance(lock_timeout, bool) or not isinstance(lock_timeout, (int, float)):
        kind = type(lock_timeout).__name__
        raise InvalidLockTimeout(f"lock_timeout must be a number of seconds, not {kind}")
    try:
        return float(lock_timeout)
    except OverflowError:
        return math.inf
