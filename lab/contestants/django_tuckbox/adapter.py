"""Tuckbox's backend, created by Django: one file, with a limit in bytes and one in entries."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings as project  # type: ignore[import-untyped, unused-ignore]
from django.core.cache import CacheHandler  # type: ignore[import-untyped, unused-ignore]

from lab.hosts.python.contract import Limits, Store


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the cache file in `folder`."""
    if not project.configured:
        # Every project has one. The backend signs pickled values with it.
        project.configure(SECRET_KEY="of the lab, which has no secrets")  # noqa: S106 - It has none.
    configuration = {
        "BACKEND": "tuckbox.integrations.django.TuckboxCache",
        "LOCATION": str(Path(folder, "cache.tuck")),
        "OPTIONS": {
            "size": limits.bytes or None,
            "max_entries": limits.entries or None,
            "on_error": "raise",
        },
    }
    cache = CacheHandler({"default": configuration})["default"]
    # The first operation opens the file.
    cache.has_key("opened")
    return Store(get=cache.get, set=cache.set, delete=cache.delete, close=cache.close)
