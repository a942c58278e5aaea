"""What is wrong, or surprising, about the caches of a project. Creates no file and writes to none.

`check_cache` is a system check of Django; `twins` is also asked when a cache is opened.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from django.core.checks import CheckMessage, Error, Info, Warning  # noqa: A004 - Django's names.

from tuckbox.cache import Cache
from tuckbox.errors import DirectoryMissing, FileMissing, TuckboxError, VersionMismatch
from tuckbox.integrations.django_settings import Configuration
from tuckbox.integrations.handles import OpenOptions
from tuckbox.integrations.siblings import file_in_use, sibling
from tuckbox.sizes import parse_size

__all__ = ["RUN_AS_THEM", "check_cache", "twins"]

RUN_AS_THEM = (
    "Run commands as the user that runs the workers (sudo -u USER python manage.py ...), or share "
    "one file: an absolute path as LOCATION, and group in OPTIONS."
)


def check_cache(alias: str, configuration: Configuration) -> Iterator[CheckMessage]:
    """Yield the messages of the system check for one cache.

    Args:
        alias: Its name in CACHES.
        configuration: Its settings.
    """
    options = configuration.open_options
    try:
        path = file_in_use(options.path)
        with Cache(path, read_only=True, group=options.group) as cache:
            yield from _other_values(alias, options, cache)
    except (FileMissing, DirectoryMissing) as error:
        if configuration.folder is not None:
            yield from _strangers(alias, configuration)
        elif isinstance(error, DirectoryMissing):
            yield _cannot_be_opened(alias, error)
    except VersionMismatch as mismatch:
        yield Info(
            f"Another release of Tuckbox uses the file of cache {alias!r}: {mismatch}",
            hint=f"This release will use {sibling(options.path)}.",
            id="tuckbox.I002",
        )
    except TuckboxError as error:
        yield _cannot_be_opened(alias, error)
    for user, twin in twins(configuration):
        yield Warning(
            f"Cache {alias!r} of this user is not that of user {user}, {twin}.",
            hint=f"{RUN_AS_THEM} If that file is not in use, remove it.",
            id="tuckbox.W002",
        )


def twins(configuration: Configuration) -> list[tuple[str, Path]]:
    """Return the named caches of other users that have the name and the SECRET_KEY of this one.

    Only root can see them: ``sudo manage.py shell`` uses the cache of root, not of the workers.

    Returns:
        The users and the files.
    """
    name = Path(configuration.open_options.path).name
    folders = _folders_of_others(configuration)
    return [(user, folder / name) for user, folder in folders if _is_file(folder / name)]


def _cannot_be_opened(alias: str, error: TuckboxError) -> CheckMessage:
    return Error(f"Cache {alias!r} cannot be opened: {error}", id="tuckbox.E001")


def _other_values(alias: str, options: OpenOptions, cache: Cache) -> Iterator[CheckMessage]:
    configured = {
        "size": None if options.size is None else parse_size(options.size),
        "max_entries": options.max_entries,
        "favour": options.favour,
        "after_power_cut": options.after_power_cut,
        "evict": options.evict,
    }
    for name, value in configured.items():
        own = cache.evicts if name == "evict" else getattr(cache, name)
        if name in {"after_power_cut", "evict"}:
            hint = f"To change it, stop the workers, remove {cache.path} and start them."
        else:
            hint = "Restart all workers: the file changes when none has it open with other values."
        if value is not None and value != own:
            yield Warning(
                f"Cache {alias!r} has {name} {own!r}, not {value!r} as in OPTIONS.",
                hint=hint,
                id="tuckbox.W001",
            )


def _strangers(alias: str, configuration: Configuration) -> Iterator[CheckMessage]:
    """Say who else has named caches, if this user has none and cannot look into their folders."""
    users = [
        user for user, folder in _folders_of_others(configuration) if not os.access(folder, os.X_OK)
    ]
    if users:
        yield Info(
            f"Cache {alias!r} of this user is empty; these users have named caches, too: "
            f"{', '.join(users)}.",
            hint=RUN_AS_THEM,
            id="tuckbox.I001",
        )


def _folders_of_others(configuration: Configuration) -> list[tuple[str, Path]]:
    own = configuration.folder
    if own is None:
        return []
    start = own.name.rpartition("-")[0]
    found = []
    for folder in sorted(own.parent.glob(f"{start}-*")):
        with suppress(OSError):
            status = folder.lstat()
            # What has another name was not created by Tuckbox.
            is_folder = stat.S_ISDIR(status.st_mode) and folder.name == f"{start}-{status.st_uid}"
            if is_folder and folder != own:
                found.append((_user(status.st_uid), folder))
    return found


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _is_file(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True
