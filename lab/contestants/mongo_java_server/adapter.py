"""Documents in a server with MongoDB's protocol, through pymongo."""

from __future__ import annotations

from typing import Any

from pymongo import MongoClient  # type: ignore[import-not-found, import-untyped, unused-ignore]

from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Connect to the server in the settings."""
    client: MongoClient[dict[str, Any]] = MongoClient(settings["host"], int(settings["port"]))
    entries = client["lab"]["entries"]
    find_one, replace_one, delete_one = entries.find_one, entries.replace_one, entries.delete_one

    def get(key: str) -> object:
        document = find_one({"_id": key})
        return None if document is None else document["value"]

    def set_(key: str, value: bytes) -> object:
        return replace_one({"_id": key}, {"value": value}, upsert=True).acknowledged

    def delete(key: str) -> object:
        return delete_one({"_id": key}).deleted_count == 1

    return Store(get=get, set=set_, delete=delete, close=client.close)
