"""The state of the sources: a commit, and the changes since.

Owns the questions to git. Must not judge the answers.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent


class Sources(msgspec.Struct, frozen=True):
    """A commit, and a digest of the uncommitted changes, None without any."""

    commit: str
    changes: str | None


def sources(results: Sequence[str], root: Path = ROOT) -> Sources:
    """Return the current state of the sources, without the files that a run itself changes.

    `results` are the patterns of those files, in git's syntax. Raises
    subprocess.CalledProcessError outside a clone.
    """
    others = ("--", ".", *(f":(exclude){one}" for one in results))
    commit = _git(root, "rev-parse", "--short=12", "HEAD").decode().strip()
    changes = _git(root, "diff", "HEAD", "--binary", *others)
    new = _git(root, "ls-files", "-z", "--others", "--exclude-standard", *others)
    digest = hashlib.sha256(changes)
    for name in filter(None, new.split(b"\0")):
        digest.update(name + b"\0" + (root / os.fsdecode(name)).read_bytes())
    return Sources(commit, digest.hexdigest()[:12] if changes or new else None)


def _git(root: Path, *words: str) -> bytes:
    command = ["git", *words]
    return subprocess.run(command, cwd=root, check=True, capture_output=True).stdout
