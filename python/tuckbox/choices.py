"""The names that some arguments of ``Cache`` take."""

from __future__ import annotations

from typing import Literal

__all__ = ["AfterPowerCut", "Favour", "OnOutage", "Writes"]

Favour = Literal["balanced", "hits", "bytes"]
"""The goal of eviction: a balance of both hit ratios, the hit ratio, or the byte hit ratio."""

AfterPowerCut = Literal["keep", "discard"]
"""What happens to the entries if the machine stopped while the cache was in use."""

OnOutage = Literal["miss", "serve", "raise"]
"""What a read does that needs a far tier which does not answer: it is a miss, or served with a copy
of any age, or raises the error."""

Writes = Literal["around", "through", "behind"]
"""What a write does with the near tier: it removes the copy, or leaves one, or is kept there and
reaches the far tier soon after."""
