"""Builds a system from source into the lab's own folder.

Owns the steps of a build and its log. Must not trust an unverified archive.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from lab.runner import built
from lab.runner.catalogue import Source
from lab.runner.install.archives import NoArchiveError, RefusedArchiveError, obtain, unpack
from lab.runner.install.steps import Step, last_words
from lab.runner.placeholders import fill


def build(source: Source) -> Step:
    """Build `source`, unless a finished build exists."""
    what = f"{source.title} {source.version} from source"
    built.FOLDER.mkdir(exist_ok=True)
    path = built.FOLDER / f"{built.prefix(source).name}.log"
    with path.open("a") as log:
        # Another install may be building the same source.
        fcntl.flock(log, fcntl.LOCK_EX)
        if built.archive_of(source):
            return Step(what, new=False)
        log.truncate(0)
        tree = path.with_suffix(".tree")
        for folder in (tree, built.prefix(source)):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        built.note_absence(source, "")
        try:
            archive = _build(source, tree, path)
        except NoArchiveError as error:
            built.note_absence(source, str(error))
            return Step(what, str(error), unavailable=True)
        except (RefusedArchiveError, _BuildError) as error:
            return Step(what, str(error))
        finally:
            shutil.rmtree(tree)
        built.finish(source, archive)
    return Step(what)


class _BuildError(Exception):
    """A command of a build failed."""


def _build(source: Source, tree: Path, log: Path) -> str:
    """Build in `tree` and return the name of the archive that was built."""
    name, archive = obtain(source, tree)
    unpacked = tree / "unpacked"
    unpacked.mkdir()
    top = unpack(archive, unpacked)
    words = {"prefix": str(built.prefix(source)), "cores": str(os.cpu_count() or 1)}
    for command in source.commands:
        _run(fill(command, words), top, log)
    return name


def _run(command: list[str], folder: Path, log: Path) -> None:
    # Without the user's compiler flags and search paths, all builds of a recipe are alike.
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": str(folder)}
    with log.open("a") as output:
        try:
            ended = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except OSError as error:
            raise _BuildError(f"{command[0]} cannot be run: {error.strerror}") from error
    if ended.returncode != 0:
        said = last_words(log.read_text("utf-8", "replace"))
        raise _BuildError(
            f"{command[0]} failed with exit status {ended.returncode}, see {log}; {said}"
        )
