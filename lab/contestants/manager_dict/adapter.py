"""A proxy of the dictionary that a manager serves."""

from __future__ import annotations

import platform
from multiprocessing.managers import BaseManager, DictProxy
from typing import Any

from lab.hosts.python.contract import Limits, Store

VERSION = platform.python_version()


class Manager(BaseManager):
    """The client side of the manager."""


Manager.register("entries", proxytype=DictProxy)


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Connect to the manager in the settings."""
    manager: Any = Manager(address=settings["socket"], authkey=settings["authkey"].encode())
    manager.connect()
    entries = manager.entries()
    pop = entries.pop

    def delete(key: str) -> bool:
        return pop(key, None) is not None

    def close() -> None:
        """Do nothing: the connection ends with the process, as in other programs."""

    return Store(
        get=entries.get,
        set=entries.__setitem__,
        delete=delete,
        close=close,
        clear=entries.clear,
    )
