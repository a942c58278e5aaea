"""Builds the Rust programs that the benchmarks need.

Owns how cargo is called. Must not know what it builds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


class BuildError(Exception):
    """A program could not be built; the message has the compiler's output."""


def build(folder: Path, target: Path) -> Path:
    """Build a folder unless it is up to date, and return the build folder. Raises BuildError."""
    command = ["cargo", "build", "--quiet", "--release", "--locked"]
    places = ["--manifest-path", str(folder / "Cargo.toml"), "--target-dir", str(target)]
    # Resolved, because cargo rebuilds everything when the interpreter's path changes.
    environment = {**os.environ, "PYO3_PYTHON": str(Path(sys.executable).resolve())}
    try:
        built = subprocess.run(
            [*command, *places], capture_output=True, text=True, check=False, env=environment
        )
    except FileNotFoundError:
        raise BuildError("cargo not found: install Rust with rustup") from None
    if built.returncode:
        raise BuildError(f"{folder.name} could not be built:\n{built.stderr}")
    return target / "release"
