"""The names that ``Cache(favour=...)`` takes."""

from __future__ import annotations

from typing import Literal

__all__ = ["Favour"]

Favour = Literal["balanced", "hits", "bytes"]
"""What eviction maximises: a balance of both hit ratios, the hit ratio, or the byte hit ratio."""
