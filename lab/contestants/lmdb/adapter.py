"""LMDB with one transaction per operation. It waits for the disk only with the setting `sync`."""

from __future__ import annotations

from collections.abc import Sequence

import lmdb  # type: ignore[import-not-found, import-untyped, unused-ignore]
from lab.hosts.python.contract import Limits, Store

_BYTES_WITHOUT_LIMIT = 1 << 34


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the environment in `folder`, with a map of the size of the limit."""
    waits = settings.get("sync") == "yes"
    environment = lmdb.open(
        folder,
        map_size=limits.bytes or _BYTES_WITHOUT_LIMIT,
        sync=waits,
        metasync=waits,
        writemap=not waits,
    )
    # Killed processes remain registered as readers.
    environment.reader_check()
    begin, full = environment.begin, lmdb.MapFullError

    def get(key: str) -> object:
        with begin() as transaction:
            return transaction.get(key.encode())

    def get_many(keys: Sequence[str]) -> object:
        with begin() as transaction:
            found = ((key, transaction.get(key.encode())) for key in keys)
            return {key: value for key, value in found if value is not None}

    def set_(key: str, value: bytes) -> object:
        try:
            with begin(write=True) as transaction:
                return transaction.put(key.encode(), value)
        except full:
            return False

    def delete(key: str) -> object:
        try:
            with begin(write=True) as transaction:
                return transaction.delete(key.encode())
        except full:
            return False

    entries = environment.open_db(None)

    def clear() -> None:
        with begin(write=True) as transaction:
            transaction.drop(entries, delete=False)

    return Store(
        get=get, set=set_, delete=delete, close=environment.close, clear=clear, get_many=get_many
    )
