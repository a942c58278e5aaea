"""Commands that run as if the machine had been started once more."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def demand(prefix: tuple[str, ...]) -> None:
    """Continue if this machine permits commands with this prefix."""
    tried = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        if os.environ.get("CI") == "true":
            pytest.fail(f"this machine does not permit {prefix}, and CI is true: {tried.stderr}")
        pytest.skip(f"this machine does not permit {prefix}: {tried.stderr}")


def boot(folder: Path, number: int) -> tuple[str, ...]:
    """Return the prefix of a command that sees another boot id."""
    boot_id = folder / f"boot {number}"
    boot_id.write_text(f"00000000-0000-4000-8000-{number:012}\n")
    mount = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", mount, str(boot_id))
