"""Writes directories of DiskCache 5.6.3 from those of the drop-in, or from a plain Tuckbox file.

Owns when an export is finished: the target appears when it is complete and compared. Must not know
how either side stores entries.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import stat
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Callable, Final, NamedTuple, Union

from tuckbox.compat.diskcache.database import DATABASE, Database
from tuckbox.compat.diskcache.directories import MISSING
from tuckbox.compat.diskcache.disk import make_directory
from tuckbox.compat.diskcache.sources import ExportFailed, Source, open_sources

__all__ = ["ExportFailed", "Exported", "export_diskcache"]

_COPIED: Final = "copied"
_PRESENT: Final = "present"
_SUFFIX: Final = ".exporting"
_NOTE: Final = "export.json"
_DATA: Final = "data"
_STEPS: Final = 3


class Exported(NamedTuple):
    """What `export_diskcache` did with one cache."""

    source: str
    """The directory or file that was read."""
    target: str
    """The directory of the cache in the target."""
    copied: int
    """Entries that were written."""
    present: int
    """Entries that an interrupted export had written already."""
    left_out: dict[str, int]
    """By reason, how many entries were not copied."""
    different: int
    """Entries that differ after the export, because a program changed the source."""


def export_diskcache(
    source: Union[str, os.PathLike[str]],
    target: Union[str, os.PathLike[str]],
    *,
    progress: Callable[[int, int], object] = lambda _done, _all: None,
) -> list[Exported]:
    """Write a directory that DiskCache 5.6.3 opens, and compare it with the source.

    Keeps order, expiry, tags, settings, times and counts of reads. Works in ``TARGET.exporting``,
    which becomes the target when everything is the same. An export that was interrupted, or met
    changes of the source, continues there. Nothing is unpickled, and nothing is written to the
    source.

    Args:
        source: A directory of the drop-in, with all caches in it, or a file of `tuckbox.Cache`.
        target: The directory to create. It may exist if it is empty.
        progress: Called with how many steps are done, and about how many there are: three for each
            entry, which is listed, copied and compared.

    Returns:
        What was done, for each cache; a `FanoutCache` is one cache. If ``different`` is not 0 in
        one of them, the target was not created.

    Raises:
        ExportFailed: The source has no cache, or a transaction that was not ended; the target is
            in use, is not empty, or is in the source; or what was written is damaged.
        UnsafeFile: Another user could change the source.
        TuckboxError: A file of the source cannot be opened.
        OSError: The target cannot be written.

    Example:
        >>> cache = diskcache.Cache("./tuckbox")
        >>> cache.set("user:42", "Ada")
        True
        >>> [done] = export_diskcache("./tuckbox", "./diskcache")
        >>> done.copied, done.left_out
        (1, {})
    """
    source, target = os.path.realpath(source), os.path.realpath(target)
    _check_target(source, target)
    with ExitStack() as stack:
        sources = list(open_sources(source, stack))
        data = stack.enter_context(_unfinished(source, target))
        parts = [part for each in sources for part in each.parts]
        total = _STEPS * sum(len(part.file) for part in parts)
        done = 0

        def visited() -> None:
            nonlocal done
            done += 1
            progress(done, total)

        for part in parts:
            part.scan(visited)
        total = _STEPS * sum(len(part.order) for part in parts)
        folders = [os.path.normpath(os.path.join(data, each.place)) for each in sources]
        owned = {own for each, folder in zip(sources, folders) for own in each.folders(folder)}
        exported = [
            _export(each, folder, owned, visited)._replace(
                target=os.path.normpath(os.path.join(target, each.place))
            )
            for each, folder in zip(sources, folders)
        ]
        if not any(each.different for each in exported):
            _finish(data, target)
    return exported


# --- The target ---------------------------------------------------------------------------------


def _check_target(source: str, target: str) -> None:
    if os.path.commonpath([source, target]) in {source, target}:
        raise ExportFailed(f"{target} and {source} must be separate")
    if os.path.ismount(target):
        raise ExportFailed(f"{target} is a mount point; give a directory in it")
    if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        unfinished = target + _SUFFIX
        if os.path.isdir(unfinished) and os.listdir(unfinished) == [_NOTE]:
            # The export was killed after its last step but one.
            shutil.rmtree(unfinished)
        raise ExportFailed(f"{target} is there and is not an empty directory; give another one")


@contextmanager
def _unfinished(source: str, target: str) -> Generator[str]:
    """Yield the directory to write to, which no other process writes to meanwhile."""
    folder = target + _SUFFIX
    note = os.path.join(folder, _NOTE)
    foreign = ExportFailed(
        f"{folder} is not an unfinished export of {source}; remove it, or give another directory "
        "to write to"
    )
    make_directory(folder)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise foreign
    if os.listdir(folder) and not os.path.lexists(note):
        raise foreign
    fd = os.open(note, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ExportFailed(f"another process is writing to {folder}; wait for it") from None
        written = os.pread(fd, os.fstat(fd).st_size, 0)
        mine = json.dumps({"source": source}).encode()
        data = os.path.join(folder, _DATA)
        if not written and set(os.listdir(folder)) == {_NOTE}:
            os.pwrite(fd, mine, 0)
        elif written != mine:
            raise foreign
        yield data
    finally:
        os.close(fd)


def _finish(data: str, target: str) -> None:
    """Make the target appear."""
    parent = os.path.dirname(target)
    os.rename(data, target)
    fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    shutil.rmtree(os.path.dirname(data))


# --- Copying ------------------------------------------------------------------------------------


def _export(
    source: Source, folder: str, others: set[str], visited: Callable[[], object]
) -> Exported:
    """Write a cache, and compare it."""
    outcomes: Counter[str] = Counter()
    folders = source.folders(folder)
    resumed = [os.path.exists(os.path.join(each, DATABASE)) for each in folders]
    with ExitStack() as stack, _failures(folder):
        databases = [
            stack.enter_context(closing(Database(each, resumed=there)))
            for each, there in zip(folders, resumed)
        ]
        for number, part in enumerate(source.parts):
            for place_number, place in part.order:
                visited()
                outcomes[_copy(source, databases, number, place_number, place)] += 1
            outcomes[part.not_listed_because] += max(part.not_listed, 0)
        for number, (part, database) in enumerate(zip(source.parts, databases)):
            database.commit()
            if resumed[number]:
                database.remove_strays()
                database.remove_unknown_files(others)
            database.finish(part.settings())
        different = _compare(source, databases, visited)
    copied, present = outcomes.pop(_COPIED, 0), outcomes.pop(_PRESENT, 0)
    return Exported(source.path, folder, copied, present, dict(+outcomes), different)


@contextmanager
def _failures(folder: str) -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise ExportFailed(
            f"{folder} cannot be written: {error}. Run the command again; if that fails, too, "
            f"remove the directory that ends in {_SUFFIX} before"
        ) from error


def _copy(
    source: Source, databases: list[Database], number: int, place_number: int, place: Any
) -> str:
    """Write an entry if it is not there. Return what was done, or why it is left out."""
    row = source.parts[number].row(place_number, place)
    if isinstance(row, str):
        return row
    try:
        written = databases[source.shard_of(number, row)].put(row)
    except FileNotFoundError:
        return MISSING
    return _COPIED if written else _PRESENT


def _compare(source: Source, databases: list[Database], visited: Callable[[], object]) -> int:
    """Return how many entries differ."""
    different = 0
    for number, part in enumerate(source.parts):
        for place_number, place in part.order:
            visited()
            row = part.row(place_number, place)
            if not isinstance(row, str) and not databases[source.shard_of(number, row)].has(row):
                different += 1
    return different + sum(database.count_strays() for database in databases)
