"""Warnings about the place of a cache: little space, caches of other users. Opens no cache."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tuckbox import _engine

__all__ = ["little_space", "separate_users"]

_MEMORY = "/dev/shm/"  # noqa: S108 - Nothing is created here.
_OWN_FOLDER = re.compile(r"\.tuckbox-([0-9]+)", re.ASCII)


def little_space(path: str | None, size_bytes: int) -> str | None:
    """Return a warning if a new cache has less than the default size because of its place.

    Args:
        path: The path of the file; None for a private cache.
        size_bytes: The size of a cache for which the program chose none.

    Returns:
        What happened, and what to do about it. None if there is enough space.
    """
    fitting_bytes, reason = _engine.Core._default_size(path)  # noqa: SLF001 - Its base class.
    if reason is None or size_bytes != fitting_bytes:
        return None
    more = ""
    if path is not None and path.startswith(_MEMORY):
        more = ", or give the container a larger /dev/shm (docker run --shm-size=1g)"
    return (
        f"{path or 'this cache'} has a size of {size_bytes:,} bytes, less than the default: "
        f"{reason}, and half of that is left to others; pass size to choose another{more}"
    )


def separate_users(given: str, path: str) -> str | None:
    """Return a warning if other users have caches of their own next to this user's.

    Where others could replace a file, the file is in a folder of its user.

    Args:
        given: The path that the program gave.
        path: The path of the file.

    Returns:
        What happened, and what to do about it. None if there is no other such folder.
    """
    own = Path(path).parent
    parent = own.parent
    if _OWN_FOLDER.fullmatch(own.name) is None or Path(given).parent == own:
        return None
    try:
        found = [_OWN_FOLDER.fullmatch(one.name) for one in parent.iterdir() if one != own]
    except OSError:
        return None
    others = sorted(int(match[1]) for match in found if match)
    if not others:
        return None
    return (
        f"{path} is used by user {os.geteuid()} alone, because others can replace files in "
        f"{parent}; user {others[0]} has a cache of its own there. To share one, run all "
        "processes as one user, or pass group and a directory that only this group can write to"
    )
