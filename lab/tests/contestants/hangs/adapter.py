"""The first process that reaches its two-hundredth get starts a child and hangs."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from itertools import count
from pathlib import Path

from lab.hosts.python.contract import Limits, Store
from lab.tests.contestants.honest import adapter as honest


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open an honest store that hangs in a get."""
    store = honest.open(folder, limits, settings)
    numbers = count(1)

    def get(key: str) -> object:
        if next(numbers) == 200:
            try:
                Path(folder, "chosen").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                subprocess.Popen(["sleep", "3600"])
                while True:
                    time.sleep(3600)
        return store.get(key)

    return replace(store, get=get)
