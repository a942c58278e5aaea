"""What `Cache.check` compares: entries with files, files with entries, counters with both."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any

from tuckbox.compat.diskcache.entries import FILE_NAME, FILENAME, LOCK_NAME, SIZE, Entries, field_of
from tuckbox.compat.diskcache.settings import EmptyDirWarning, UnknownFileWarning

__all__ = ["check"]


def check(entries: Entries, *, fix: bool) -> None:
    """Warn of everything that is wrong. The caller holds the lock.

    Args:
        entries: The entries.
        fix: Whether to repair it.
    """
    report = entries.file.check()
    for finding in report.findings:
        _warn(f"{entries.file.path}: {finding}")
    known = _check_entries(entries, fix=fix)
    _check_files(entries.directory, known, fix=fix)
    _check_directories(entries.directory, fix=fix)
    for name, (counted, found) in entries.recount(fix=fix).items():
        if counted != found:
            _warn(f"the counter {name} is {counted}, and there are {found}")


def _check_entries(entries: Entries, *, fix: bool) -> set[str]:
    known = set()
    for place, entry in list(entries.rows()):
        filename = field_of(entry, FILENAME)
        if filename is None:
            continue
        path = os.path.join(entries.directory, filename)
        known.add(path)
        try:
            size = os.path.getsize(path)
        except OSError:
            _warn(f"file not found: {path}")
            if fix:
                entries.remove(place, entry)
            continue
        if size != entry[SIZE]:
            _warn(f"wrong file size: {path} has {size} bytes, and {entry[SIZE]} were stored")
            if fix:
                entries.put(place, (*entry[:SIZE], size, *entry[SIZE + 1 :]), entry)
    return known


def _check_files(directory: str, known: set[str], *, fix: bool) -> None:
    own = {os.path.join(directory, name) for name in (FILE_NAME, LOCK_NAME)}
    for parent, _, names in os.walk(directory):
        for path in sorted({os.path.join(parent, name) for name in names} - known - own):
            _warn(f"unknown file: {path}", UnknownFileWarning)
            if fix:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)


def _check_directories(directory: str, *, fix: bool) -> None:
    for path, _, _ in os.walk(directory, topdown=False):
        try:
            is_empty = not os.listdir(path)
        except FileNotFoundError:
            # Other processes remove files without the lock, and directories with them.
            continue
        if is_empty:
            _warn(f"empty directory: {path}", EmptyDirWarning)
            if fix:
                with contextlib.suppress(OSError):
                    os.rmdir(path)


def _warn(message: str, category: Any = UserWarning) -> None:
    warnings.warn(message, category, stacklevel=4)
