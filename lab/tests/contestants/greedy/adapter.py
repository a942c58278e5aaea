"""An honest store beside a file of twice the limit."""

from __future__ import annotations

from pathlib import Path

from lab.hosts.python.contract import Limits, Store
from lab.tests.contestants.honest import adapter as honest


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open an honest store and fill the disk."""
    Path(folder, "filler").write_bytes(b"x" * (2 * limits.bytes))
    return honest.open(folder, limits, settings)
