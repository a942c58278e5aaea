"""Django's DatabaseCache, created by Django, in a SQLite database in the store's folder."""

from __future__ import annotations

import sys
from pathlib import Path

import django  # type: ignore[import-untyped, unused-ignore]
from django.conf import settings as project  # type: ignore[import-untyped, unused-ignore]
from django.core.cache import CacheHandler  # type: ignore[import-untyped, unused-ignore]
from django.core.management import call_command  # type: ignore[import-untyped, unused-ignore]
from django.db import connections  # type: ignore[import-untyped, unused-ignore]

from lab.hosts.python.contract import Limits, Store

TABLE = "entries"
# See README.md: without the first option, concurrent sets are silently lost.
OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
}


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the database in `folder`, and create the table if it does not exist."""
    _use(Path(folder, "cache.sqlite"))
    call_command("createcachetable", TABLE, verbosity=0)
    configuration = {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": TABLE,
        "OPTIONS": {"MAX_ENTRIES": limits.entries or sys.maxsize},
    }
    cache = CacheHandler({"default": configuration})["default"]
    return Store(get=cache.get, set=cache.set, delete=cache.delete, close=connections.close_all)


def _use(path: Path) -> None:
    """Make `path` the project's database. Django reads its settings once per process."""
    if not project.configured:
        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path), "OPTIONS": OPTIONS}
        project.configure(DATABASES={"default": database})
        django.setup()
    connections["default"].close()
    connections["default"].settings_dict["NAME"] = str(path)
