"""`MemoryFirst`: a cache whose near tier is the memory of this process.

Owns how the near tier is opened, its namespaces, and how it asks for what it does not have. Needs
no extension, so it works where no file can be shared.
"""

from __future__ import annotations

import time
from typing import Any

from tuckbox.loads import MISSING
from tuckbox.memory import cache as memory
from tuckbox.namespaces import Namespace
from tuckbox.tiers.writing import Writing

__all__ = ["MemoryFirst"]


class MemoryFirst(Writing, memory.Cache):  # type: ignore[misc] # For types, one of `tuckbox.Cache`.
    """A cache with the memory of this process in front of another cache. Use `tuckbox.connect`.

    Args:
        far: As for `SharedFirst`.
        path: The name, as for `tuckbox.memory.Cache`.
        max_stale: As for `SharedFirst`.
        on_outage: As for `SharedFirst`.
        tracking: As for `SharedFirst`.
        writes: As for `SharedFirst`.
        **options: As for `tuckbox.memory.Cache`.

    Example:
        >>> cache = MemoryFirst(connect("redis://10.0.0.1"), size="64 MB")
        >>> cache.set("user:42", "Ada")
        >>> cache.get("user:42")
        'Ada'
    """

    _near_get = memory.Cache.get
    _near_begin = memory.Cache._begin
    _near_finish = memory.Cache._finish

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Open the memory. See the class."""
        self._until_us = _Moment()
        super().__init__(*arguments, **options)

    def get(self, key: Any, default: Any = None, **others: Any) -> Any:
        """Return the value of ``key``, or ``default``. See `tuckbox.Cache.get`."""
        until_us = self._served_until()
        value = super().get(key, MISSING, **others)
        if value is not MISSING and self._is_ahead(until_us):
            return value
        return self._missed(key, default)

    def _now_us(self) -> int:
        return time.clock_gettime_ns(_CLOCK) // 1000

    def _serve_until(self, time_us: int) -> None:
        self._until_us.us = time_us

    def _served_until(self) -> int:
        return self._until_us.us

    def _is_ahead(self, moment_us: int) -> bool:
        return self._now_us() < moment_us

    def _serve_with(self, other: Any) -> None:
        self._until_us = other._until_us

    def _near_within(self, name: str) -> Any:
        return memory._Namespace(self, name)  # A namespace without tiers.

    def _within(self, name: str) -> Namespace:
        return _MemoryNamespace(self, name)


class _MemoryNamespace(Namespace, MemoryFirst):  # type: ignore[misc] # As in `tuckbox.memory`.
    """A namespace of such a cache."""


class _Moment:
    """Until when entries are served; shared with namespaces."""

    __slots__ = ("us",)

    def __init__(self) -> None:
        self.us = 0


# Goes on while the machine sleeps.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
