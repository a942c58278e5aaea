"""The file of this release, if two releases with different file formats share a path.

During a rolling deploy, one release finds the other's file in its place and uses a sibling file.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from tuckbox.cache import Cache
from tuckbox.errors import VersionMismatch

__all__ = ["file_in_use", "open_file", "sibling"]

_log = logging.getLogger(__name__)


def sibling(path: str) -> str:
    """Return the path of this release's file if ``path`` is the file of another release."""
    return f"{path}.format-{Cache.file_format}"


def file_in_use(path: str) -> str:
    """Return the sibling if it exists, and else ``path``.

    A process that uses the sibling keeps it when ``path`` is removed, so others must, too.
    """
    own = sibling(path)
    # Where others could replace a file, the engine has put it into a folder of this user's own.
    in_own_folder = Path(own).parent / f".tuckbox-{os.geteuid()}" / Path(own).name
    return own if os.path.lexists(own) or os.path.lexists(in_own_folder) else path


def open_file(kind: type[Cache], path: str, **arguments: Any) -> Cache:
    """Open or create the file at ``path``, or its sibling if another release created the file.

    Args:
        kind: The class of the handle.
        path: The absolute path of the file.
        arguments: The other arguments of `Cache`.

    Raises:
        TuckboxError: As raised by `Cache`.
    """
    try:
        return kind(file_in_use(path), **arguments)
    except VersionMismatch as mismatch:
        own = sibling(path)
        _log.warning("%s is used instead of a file of another release: %s", own, mismatch)
        return kind(own, **arguments)
