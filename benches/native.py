"""The native program: built when it is needed, run, and its answer read.

Owns how it is built and where. Must not know what its figures mean.
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
    """The native program failed; the message has what was said."""


@cache
def build() -> Path:
    """Build the program, unless it is up to date; return where it is. Raises BuildError."""
    return building.build(_FOLDER, _TARGET) / PROGRAM


def begin(*arguments: str | Path, core: int | None = None) -> subprocess.Popen[str]:
    """Build the program and start it, on one core if it is given. Raises BuildError."""
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
    """End the program's input, wait for it, and return what it printed. Raises NativeError."""
    printed, said = process.communicate()
    if process.returncode:
        raise NativeError(said.strip() or f"it ended with status {process.returncode}")
    told: dict[str, Any] = json.loads(printed)
    return told


def run(*arguments: str | Path) -> dict[str, Any]:
    """Run the program, and return what it prints. Raises NativeError and BuildError."""
    return end(begin(*arguments))


def version(package: str) -> str:
    """Return the version of a package that the program is built with. Raises KeyError."""
    locked = tomllib.loads((_FOLDER / "Cargo.lock").read_text("utf-8"))
    return {str(one["name"]): str(one["version"]) for one in locked["package"]}[package]
