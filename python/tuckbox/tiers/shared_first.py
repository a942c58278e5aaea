"""`SharedFirst`: a cache whose near tier is a shared file.

Owns how the near tier is opened, and its namespaces.
"""

from __future__ import annotations

from typing import Any

from tuckbox import _engine
from tuckbox import cache as shared
from tuckbox.namespaces import Namespace
from tuckbox.tiers.writing import Writing

__all__ = ["SharedFirst"]


class SharedFirst(Writing, shared.Cache, _engine.Near):
    """A cache with a shared file in front of another cache. Use `tuckbox.connect`.

    Args:
        far: The cache behind: one that `tuckbox.connect` returns. Closed with this.
        path: As for `tuckbox.Cache`.
        max_stale: How old a copy may be, in seconds, unless the far tier tells what changes.
        on_outage: What reads do that need a far tier which does not answer.
        tracking: Whether the far tier is to tell what changes, if it can. If not, every copy ends
            after ``max_stale``.
        writes: What a write does with the near tier, as for `tuckbox.connect`.
        **options: As for `tuckbox.Cache`.

    Example:
        >>> cache = SharedFirst(connect("redis://10.0.0.1"), "pages", size="1 GB")
        >>> cache.set("user:42", "Ada")
        >>> cache.get("user:42")
        'Ada'
    """

    _near_get = _engine.Core.get
    _near_begin = _engine.Core._begin
    _near_finish = _engine.Core._finish

    def _near_within(self, name: str) -> Any:
        return shared._Namespace(self, name)  # A namespace without tiers.

    def _within(self, name: str) -> Namespace:
        return _SharedNamespace(self, name)


class _SharedNamespace(Namespace, SharedFirst):  # type: ignore[misc] # Either `__reduce__` raises.
    """A namespace of such a cache."""
