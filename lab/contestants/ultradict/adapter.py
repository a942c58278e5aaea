"""UltraDict with a lock in shared memory, for processes that are not forks of each other."""

from __future__ import annotations

import secrets
from pathlib import Path

import atomics  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: F401
import UltraDict  # type: ignore[import-not-found, import-untyped, unused-ignore]

from lab.disk import memory_name
from lab.hosts.python.contract import Limits, Store

_BUFFER_BYTES = 1 << 20


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the dictionary of `folder`, and create it if it does not exist."""
    prefix = memory_name(Path(folder))

    class Named(UltraDict.UltraDict):  # type: ignore[misc]
        # Full dumps have random names by default, which the lab could not remove after a kill.
        @staticmethod
        def get_memory(*, create: bool = True, name: str | None = None, size: int = 0) -> object:
            name = name or f"{prefix}{secrets.token_hex(4)}"
            return UltraDict.UltraDict.get_memory(create=create, name=name, size=size)

    entries = Named(
        name=f"{prefix}dict", buffer_size=_BUFFER_BYTES, shared_lock=True, auto_unlink=False
    )

    def delete(key: str) -> bool:
        try:
            del entries[key]
        except KeyError:
            return False
        return True

    return Store(
        get=entries.get,
        set=entries.__setitem__,
        delete=delete,
        close=entries.close,
        clear=entries.clear,
    )
