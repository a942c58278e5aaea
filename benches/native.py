"""Builds and runs the native program, and reads its output.

Owns how and where it is built. Must not know what its figures mean.
"""

from __future__ import annotations

import json
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from benches import building
from rig.cores import kept_to
from rig.sources import ROOT

_FOLDER = ROOT / "benches" / "native"
_TARGET = ROOT / "target" / "benches"
PROGRAM = "tuckbox-bench"


class NativeError(Exception):
    """The native program failed; the message has its error output."""


@cache
def build() -> Path:
    """Build the program unless it is up to date, and return its path. Raises BuildError."""
    return building.build(_FOLDER, _TARGET) / PROGRAM


def begin(*arguments: str | Path, core: int | None = None) -> subprocess.Popen[str]:
    """Build the program and start it, pinned to `core` if given. Raises BuildError."""
    command = [build(), *arguments]
    with kept_to(None if core is None else {core}):
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def end(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Close the program's input, wait for it to end, and return its output. Raises NativeError."""
    printed, said = process.communicate()
    if process.returncode:
        raise NativeError(said.strip() or f"it ended with status {process.returncode}")
    result: dict[str, Any] = json.loads(printed)
    return result


def run(*arguments: str | Path) -> dict[str, Any]:
    """Run the program and return its output. Raises NativeError and BuildError."""
    return end(begin(*arguments))


def version(package: str) -> str:
    """Return the version of a package in the program. Raises KeyError."""
    locked = tomllib.loads((_FOLDER / "Cargo.lock").read_text("utf-8"))
    return {str(one["name"]): str(one["version"]) for one in locked["package"]}[package]
