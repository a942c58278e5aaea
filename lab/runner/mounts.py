"""File systems in memory of a contestant's own, mounted on the folder of its store.

Owns that they are always unmounted. Must not know who uses them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from lab.runner.catalogue import Contestant, StoreLimits
from lab.runner.failures import CellError, NotInstalledError
from lab.runner.guard import Guard, unmount


@asynccontextmanager
async def mounted(
    contestant: Contestant, limits: StoreLimits, folder: Path, guard: Guard
) -> AsyncIterator[None]:
    """Mount what the contestant wants on `folder`, if anything, and unmount it at the end.

    Raises NotInstalledError when this is not root's run, and CellError when it cannot be done.
    """
    if not contestant.mount:
        yield
        return
    if os.geteuid() != 0:
        raise NotInstalledError(f"only root may mount the {contestant.mount} that it needs")
    sized = limits.bytes and contestant.sizing == "limited"
    options = ["-o", f"size={limits.bytes}"] if sized else []
    guard.watch("mount", str(folder))
    process = await asyncio.create_subprocess_exec(
        *("mount", "-t", contestant.mount, *options, "tuckbox-lab", str(folder)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, words = await process.communicate()
    if process.returncode != 0:
        guard.forget("mount", str(folder))
        raise CellError(f"mounting a {contestant.mount} failed: {words.decode(errors='replace')}")
    try:
        yield
    finally:
        if unmount(str(folder)):
            guard.forget("mount", str(folder))
