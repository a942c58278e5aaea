"""Compiles the native contestants, by cargo."""

from __future__ import annotations

import os

from lab.runner.catalogue import LAB
from lab.runner.install.steps import Step, attempt

BUILT = LAB / "target"


def compile_all() -> Step:
    """Compile every native contestant that has changed."""
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--bins"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(BUILT)}
    return Step("native contestants", attempt(command, LAB, environment))
