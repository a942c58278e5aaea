"""The names that some arguments of ``Cache`` take."""

from __future__ import annotations

from typing import Literal

__all__ = ["AfterPowerCut", "Favour"]

Favour = Literal["balanced", "hits", "bytes"]
"""The goal of eviction: a balance of both hit ratios, the hit ratio, or the byte hit ratio."""

AfterPowerCut = Literal["keep", "discard"]
"""What happens to the entries if the machine stopped while the cache was in use."""
