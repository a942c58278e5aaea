"""What eviction can favour, by name. Owns the names alone; the engine does the rest."""

from __future__ import annotations

from typing import Literal

__all__ = ["Favour"]

Favour = Literal["balanced", "hits", "bytes"]
"""Many reads that hit and many bytes that need not be made again; the reads; the bytes."""
