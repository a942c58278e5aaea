"""In-memory file systems for single contestants, mounted on the folder of the store.

Guarantees that they are unmounted. Must not know who uses them.
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
    """Mount the contestant's file system on `folder`, if it has one, and unmount it at the end.

    Raises NotInstalledError if the user is not root, and CellError if mounting fails.
    """
    if not contestant.mount:
        yield
        return
    if os.geteuid() != 0:
        raise NotInstalledError(f"it needs a {contestant.mount} mount, which only root may make")
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
