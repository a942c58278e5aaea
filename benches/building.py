"""Programs in Rust that the benchmarks need, built when they are.

Owns how cargo is asked. Must not know what is built.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


class BuildError(Exception):
    """A program could not be built; the message has what was said."""


def build(folder: Path, target: Path) -> Path:
    """Build what is in a folder, unless it is up to date; return where. Raises BuildError."""
    command = ["cargo", "build", "--quiet", "--release", "--locked"]
    places = ["--manifest-path", str(folder / "Cargo.toml"), "--target-dir", str(target)]
    # The resolved path: cargo rebuilds everything when the interpreter's name changes.
    environment = {**os.environ, "PYO3_PYTHON": str(Path(sys.executable).resolve())}
    try:
        built = subprocess.run(
            [*command, *places], capture_output=True, text=True, check=False, env=environment
        )
    except FileNotFoundError:
        raise BuildError("cargo is not there: install Rust with rustup") from None
    if built.returncode:
        raise BuildError(f"{folder.name} could not be built:\n{built.stderr}")
    return target / "release"
