"""What can be wanted, and what became of it. Owns how a command is run to its end."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_LAST_LINES = 5


@dataclass(frozen=True)
class Needs:
    """What is wanted. `maven` has the jars of each server, each `group:artifact:version`.

    `build` has the names of the folders in `sources/` that are built.
    """

    apt: frozenset[str] = frozenset()
    extensions: frozenset[str] = frozenset()
    pip: frozenset[str] = frozenset()
    maven: dict[str, frozenset[str]] = field(default_factory=dict)
    cargo: bool = False
    build: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Step:
    """One thing that was installed, was there, or is not there: then `reason` says why.

    `unavailable` tells what this machine cannot get from what could be got and failed.
    """

    what: str
    reason: str = ""
    new: bool = True
    unavailable: bool = False

    @property
    def failed(self) -> bool:
        """Whether something went wrong."""
        return bool(self.reason) and not self.unavailable


def last_words(output: str) -> str:
    """Return the last lines of what a command printed, in one line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return "; ".join(lines[-_LAST_LINES:])


def attempt(
    command: Sequence[str], folder: Path | None = None, environment: dict[str, str] | None = None
) -> str:
    """Run a command to its end. Return nothing when it succeeded, else its last lines."""
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        return f"{command[0]} cannot be run: {error.strerror}"
    if ended.returncode == 0:
        return ""
    return last_words(ended.stdout) or f"{command[0]} ended with {ended.returncode}"
