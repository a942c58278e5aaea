"""The first process that reaches its two-hundredth get is killed."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from itertools import count
from pathlib import Path

from lab.hosts.python.contract import Limits, Store
from lab.tests.contestants.honest import adapter as honest


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open an honest store that kills its process in a get."""
    store = honest.open(folder, limits, settings)
    numbers = count(1)

    def get(key: str) -> object:
        if next(numbers) == 200:
            try:
                Path(folder, "chosen").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return store.get(key)

    return replace(store, get=get)
