"""An honest store with a file of twice the limit. A setting says which limit is too small."""

from __future__ import annotations

from pathlib import Path

from lab.hosts.python.contract import Limits, Store
from lab.tests.contestants.honest import adapter as honest


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open an honest store and fill the disk."""
    if limits.bytes < int(settings.get("refuses_below", 0)):
        raise ValueError(f"{limits.bytes} bytes are too little")
    Path(folder, "filler").write_bytes(b"x" * (2 * limits.bytes))
    return honest.open(folder, limits, settings)
