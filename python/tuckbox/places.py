"""Where the file of a cache is: what the first argument of ``Cache`` means. Opens no file.

A str without a slash is a name and not a relative path: in a service, the working directory is
often ``/``. A name is in ``/dev/shm``, although systemd may remove it at a logout (`logouts.py`):
``$XDG_RUNTIME_DIR`` is removed at every last logout, and services have none; ``/run/lock`` has 5 MB
on Debian; ``/tmp`` is often a disk, and private to some services.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import NamedTuple, Optional, Union

from tuckbox.errors import (
    AccessDenied,
    CacheOpenError,
    DirectoryMissing,
    FileMissing,
    InvalidPath,
)

__all__ = [
    "MEMORY",
    "Place",
    "is_in_memory",
    "is_name",
    "make_private",
    "name_of",
    "place_of",
    "prepare",
    "private_folder",
]

MEMORY = Path("/dev/shm")  # noqa: S108 - The folder in it is private: see `make_private`.
"""A file system in memory, in which every user may create files."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_FILE_SUFFIX = ".tuck"
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Place(NamedTuple):
    """A file for a cache."""

    path: str
    """The absolute path of the file."""
    folder: Optional[Path]
    """The folder to create with `make_private` if the user gave a name; None for a path."""


def place_of(path: Union[str, os.PathLike[str]]) -> Place:
    """Return the file that a user means.

    Args:
        path: A str without a slash is a name in this user's private folder in memory. Anything
            else is the path of a file: ``~`` is expanded, and a relative path begins in the working
            directory.

    Returns:
        The file, which need not exist.

    Raises:
        InvalidPath: The argument is empty, an address, ends with a slash, or is not a valid name.
        DirectoryMissing: The path is relative, and the working directory was removed.
        TypeError: The argument is not a path.

    Example:
        >>> place_of("/var/cache/app.tuck").path
        '/var/cache/app.tuck'
    """
    given = os.fsdecode(path)
    _refuse_what_is_no_path(given)
    expanded = os.path.expanduser(given)
    if given.startswith("~") and expanded == given:
        raise InvalidPath(
            f"the home directory in {given!r} is unknown; give an absolute path, or "
            f"{'./' + given!r} if the name begins with '~'"
        )
    if isinstance(path, str) and "/" not in expanded:
        _refuse_what_is_no_name(given)
        folder = private_folder()
        return Place(os.fspath(folder / given), folder)
    # The engine refuses a directory that exists.
    if expanded.endswith("/") and not os.path.isdir(expanded):
        raise InvalidPath(f"{given!r} ends with '/'; give the path of a file")
    try:
        return Place(os.path.abspath(expanded), None)
    except FileNotFoundError as error:
        message = f"the working directory was removed, so give an absolute path, not {given!r}"
        raise DirectoryMissing(error.errno, message, given) from None


def name_of(path: Union[str, os.PathLike[str]]) -> Optional[str]:
    """Return the name that a user means, or None for a path. See `place_of`.

    Raises:
        InvalidPath: The argument is empty, an address, or is not a valid name.
        TypeError: The argument is not a path.
    """
    given = os.fsdecode(path)
    _refuse_what_is_no_path(given)
    if not isinstance(path, str) or any(one in given for one in ("/", os.sep)) or given[0] == "~":
        return None
    _refuse_what_is_no_name(given)
    return given


def prepare(place: Place, *, read_only: bool) -> str:
    """Create the folder of a name, unless it will only be read.

    Args:
        place: A file, as returned by `place_of`.
        read_only: Whether the file will be opened with ``read_only``.

    Returns:
        The path of the file.

    Raises:
        FileMissing: The folder, which should be read, does not exist.
        CacheOpenError: As `make_private`.
    """
    path, folder = place
    if folder is not None and not read_only:
        make_private(folder)
    elif folder is not None and not folder.exists():
        message = f"{path} does not exist, and read_only does not create it"
        raise FileMissing(errno.ENOENT, f"{message}; open it without read_only first", path)
    return path


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a cache in memory."""
    return _NAME.fullmatch(text) is not None


def private_folder() -> Path:
    """Return the folder of this user's caches in memory, which need not exist."""
    return MEMORY / f"tuckbox-{os.geteuid()}"


def is_in_memory(path: str) -> bool:
    """Return whether an absolute path is that of a name."""
    return Path(path).parent == private_folder()


def make_private(folder: Path) -> None:
    """Create a folder that only this user can enter, or check that an existing one is.

    Raises:
        AccessDenied: Other users can enter it, or it is not a folder of this user.
        DirectoryMissing: Its parent folder does not exist.
        CacheOpenError: The system refused to create it.
    """
    advice = "give an absolute path instead of a name"
    try:
        folder.mkdir(mode=0o700)
    except FileNotFoundError as error:
        message = f"{folder.parent} does not exist; {advice}"
        raise DirectoryMissing(error.errno, message, os.fspath(folder)) from None
    except FileExistsError:
        found = folder.lstat()
        is_private = (
            stat.S_ISDIR(found.st_mode)
            and found.st_uid == os.geteuid()
            and not stat.S_IMODE(found.st_mode) & 0o077
        )
        if not is_private:
            message = (
                f"{folder} is not a directory that only this user can enter (mode 0700); remove it "
                f"if you know who created it, or {advice}"
            )
            raise AccessDenied(None, message, os.fspath(folder)) from None
    except OSError as error:
        message = f"cannot create {folder}: {error.strerror}; {advice}"
        raise CacheOpenError(error.errno, message, os.fspath(folder)) from None


def _refuse_what_is_no_name(given: str) -> None:
    if not is_name(given):
        raise InvalidPath(
            f"{given!r} is not a valid name: use up to 100 letters (A-Z), digits, '.', '_' and "
            f"'-'; for a file in the working directory, give {'./' + given!r}"
        )
    if given.endswith(_FILE_SUFFIX):
        raise InvalidPath(
            f"{given!r} would be the name of a cache in memory, which does not end with "
            f"{_FILE_SUFFIX!r}; for a file in the working directory, give {'./' + given!r}"
        )


def _refuse_what_is_no_path(given: str) -> None:
    if not given:
        raise InvalidPath(
            "path is empty; omit it for a cache of this process and its children, or give a name "
            "such as 'pages' for a cache of all processes of this user"
        )
    if given == ":memory:":
        raise InvalidPath(
            "':memory:' is not a path; Cache() is in memory, for this process and its children, "
            "and Cache('pages') is in memory, for all processes of this user"
        )
    if _ADDRESS.match(given):
        raise InvalidPath(
            f"{given!r} is an address, but Tuckbox has no server; give a name such as 'pages', or "
            "the path of a file"
        )
