"""Warnings about the volume that a file is on: little space, caches of other users. Opens no cache.

A file that other users could replace is in the folder ``.tuckbox-UID`` of its directory, which the
engine creates for this user alone.
"""

from __future__ import annotations

import itertools
import os
import re
import warnings
from pathlib import Path
from typing import Optional

from tuckbox import _engine
from tuckbox.errors import LittleSpaceWarning, SeparateCacheWarning

__all__ = ["warn_of_little_space", "warn_of_separate_caches"]

_OWN_FOLDER = re.compile(r"\.tuckbox-([0-9]+)", re.ASCII)
_NAMES_MAX = 1000
"""How many names in a directory are looked at: it may have millions."""


def warn_of_little_space(path: Optional[str], size_bytes: int) -> None:
    """Give a `LittleSpaceWarning` if a cache has less than the default size because of its place.

    Args:
        path: The absolute path of the file; None for a private cache.
        size_bytes: The size of a cache for which the caller of ``Cache`` chose none.
    """
    fitting_bytes, reason = _engine.Core._default_size(path)  # noqa: SLF001 - Its base class.
    if reason is not None and size_bytes == fitting_bytes:
        message = (
            f"{path or 'the cache'} has a size of {size_bytes:,} bytes, less than the default: "
            f"{reason}"
        )
        # Below the caller are Cache.__init__ and its decorator.
        warnings.warn(message, LittleSpaceWarning, stacklevel=4)


def warn_of_separate_caches(given: str, path: str) -> None:
    """Give a `SeparateCacheWarning` if another user, too, has a folder in the directory of a file.

    Args:
        given: The absolute path that the caller of ``Cache`` gave.
        path: The path of the file.
    """
    directory, own = Path(given).parent, Path(path).parent
    if own == directory or not _OWN_FOLDER.fullmatch(own.name):
        return
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in itertools.islice(entries, _NAMES_MAX)]
    except OSError:
        return
    found = [_OWN_FOLDER.fullmatch(name) for name in names if name != own.name]
    others = sorted(int(match[1]) for match in found if match)
    if others:
        message = (
            f"{path} is for user {os.geteuid()} alone, because others can replace files in "
            f"{directory}; user {others[0]} has a cache of its own there. To share one, run all "
            "processes as one user, or pass group and a directory that only this group can write to"
        )
        warnings.warn(message, SeparateCacheWarning, stacklevel=4)
