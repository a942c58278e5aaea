"""The needs and outcomes of an installation. Owns how a command is run to its end."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_LAST_LINES = 5


@dataclass(frozen=True)
class Needs:
    """What to install. `maven` has the jars of each server as `group:artifact:version`.

    `build` has the names of folders in `sources/`.
    """

    apt: frozenset[str] = frozenset()
    extensions: frozenset[str] = frozenset()
    pip: frozenset[str] = frozenset()
    maven: dict[str, frozenset[str]] = field(default_factory=dict)
    cargo: bool = False
    build: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Step:
    """One step of an installation. `reason` says why it is still missing, if it is.

    `unavailable` means that it cannot be installed here; otherwise a `reason` is a failure.
    """

    what: str
    reason: str = ""
    new: bool = True
    unavailable: bool = False

    @property
    def failed(self) -> bool:
        """Whether the step failed."""
        return bool(self.reason) and not self.unavailable


def last_words(output: str) -> str:
    """Return the last lines of a command's output, joined into one line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return "; ".join(lines[-_LAST_LINES:])


def attempt(
    command: Sequence[str], folder: Path | None = None, environment: dict[str, str] | None = None
) -> str:
    """Run a command to its end. Return an empty text on success, else its last lines."""
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
    return last_words(ended.stdout) or f"{command[0]} failed with exit status {ended.returncode}"
