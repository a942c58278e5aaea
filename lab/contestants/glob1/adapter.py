"""Lists a folder with `glob.glob1` on each get, and counts the names."""

from __future__ import annotations

import platform
from glob import glob1
from pathlib import Path
from tempfile import mkdtemp

from lab.hosts.python.contract import Limits, Store

VERSION = platform.python_version()

_SUFFIX = ".djcache"


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Create a folder for the files of the keys that this process stores."""
    path = mkdtemp(dir=folder)
    listed = Path(path)
    values: dict[str, object] = {}

    def get(key: str) -> object:
        count = len(glob1(path, f"*{_SUFFIX}"))
        if count != len(values):
            raise RuntimeError(f"{count:,} of {len(values):,} files are listed")
        return values.get(key)

    def set_(key: str, value: bytes) -> None:
        (listed / f"{key}{_SUFFIX}").touch()
        values[key] = value

    def delete(key: str) -> bool:
        (listed / f"{key}{_SUFFIX}").unlink(missing_ok=True)
        return values.pop(key, None) is not None

    return Store(get=get, set=set_, delete=delete, close=values.clear)
