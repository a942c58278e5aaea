"""Gives the answers of a script and keeps the values of sets; see `Hosts.scripted`."""

from __future__ import annotations

import json
import time
from pathlib import Path

from lab.hosts.python.contract import Limits, Store, Value

_SLOW_SECONDS = 0.2


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the script in the settings."""
    lines = iter(Path(settings["script"]).read_text("ascii").splitlines())

    def says(key: str) -> object:
        line = next(lines)
        if line == "slow":
            time.sleep(_SLOW_SECONDS)
        if line == "raise":
            raise OSError("no value today")
        return bytes.fromhex(line[1:]) if line[0] == "=" else {"yes": True, "no": False}.get(line)

    def set_(key: str, value: Value) -> object:
        kept = value if isinstance(value, bytes) else json.dumps(value).encode()
        Path(folder, key).write_bytes(kept)
        return says(key)

    return Store(get=says, set=set_, delete=says, close=lambda: None)
