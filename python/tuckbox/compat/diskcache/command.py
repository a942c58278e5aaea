"""The commands ``import-diskcache`` and ``export-diskcache``: arguments, progress and report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Union

from tuckbox.compat.diskcache.exporting import Exported, export_diskcache
from tuckbox.compat.diskcache.importing import Imported, import_diskcache

__all__ = ["add_to"]


def add_to(commands: Any) -> None:
    """Add the commands to a parser.

    Args:
        commands: What `argparse.ArgumentParser.add_subparsers` returned.
    """
    parser = commands.add_parser(
        "import-diskcache",
        help="copy a directory of DiskCache into one of tuckbox.compat.diskcache",
        description="Copies all caches in DIR, in order, with expiry and tags, and compares the "
        "copy. Run it again after an interruption: it continues.",
    )
    parser.add_argument("source", metavar="DIR", help="a directory of DiskCache 4 or 5")
    parser.add_argument("target", metavar="TARGET", help="the directory to write to")
    parser.add_argument(
        "--trust-pickles",
        action="store_true",
        help="also copy pickles that import classes or call functions: reading them runs code",
    )
    parser.set_defaults(run=_import)
    parser = commands.add_parser(
        "export-diskcache",
        help="write a directory that DiskCache opens",
        description="Copies all caches of SOURCE, in order, with expiry and tags, and compares the "
        "copy. Run it again after an interruption: it continues. DIR appears at the end.",
    )
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="a directory of tuckbox.compat.diskcache, or a file of Tuckbox",
    )
    parser.add_argument("target", metavar="DIR", help="the directory to create for DiskCache 5")
    parser.set_defaults(run=_export)


def _import(chosen: argparse.Namespace) -> int:
    progress = _Progress()
    caches = import_diskcache(
        chosen.source, chosen.target, trust_pickles=chosen.trust_pickles, progress=progress
    )
    progress.end()
    if _report(caches):
        print(  # noqa: T201
            "A program changed entries during the import. Stop it and run the command again.",
            file=sys.stderr,
        )
        return 1
    return 0


def _export(chosen: argparse.Namespace) -> int:
    progress = _Progress()
    caches = export_diskcache(chosen.source, chosen.target, progress=progress)
    progress.end()
    if _report(caches):
        print(  # noqa: T201
            "A program changed entries during the export, so the directory was not created. Stop "
            "it and run the command again.",
            file=sys.stderr,
        )
        return 1
    return 0


class _Progress:
    """Shows how much is done, if the errors go to a terminal."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._percent = -1

    def __call__(self, done: int, steps: int) -> None:
        percent = 100 * done // max(steps, 1)
        if self._is_shown and percent != self._percent:
            self._percent = percent
            print(f"\r{percent} %", end="", file=sys.stderr, flush=True)  # noqa: T201

    def end(self) -> None:
        """End the line."""
        if self._percent >= 0:
            print(file=sys.stderr)  # noqa: T201


def _report(caches: Sequence[Union[Imported, Exported]]) -> bool:
    """Print what was done. Return whether an entry differs."""
    for cache in caches:
        verified = f"{cache.different} DIFFER" if cache.different else "all verified"
        print(  # noqa: T201
            f"{cache.target}: entries copied: {cache.copied}, already there: {cache.present}, "
            f"{verified}"
        )
        for reason, count in sorted(cache.left_out.items()):
            print(f"  left out: {count}: {reason}")  # noqa: T201
    return any(cache.different for cache in caches)
