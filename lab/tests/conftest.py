"""Fixtures of the lab's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest


@pytest.fixture
def processes_in(tmp_path: Path) -> Iterator[Callable[[], list[psutil.Process]]]:
    """Give a function that lists the hosts which have a file below `tmp_path` as error output.

    The test fails at its end when one is left.
    """

    def left() -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                target = Path(f"/proc/{process.pid}/fd/2").readlink()
            except OSError:
                continue
            # The kernel marks a removed file: "/path (deleted)".
            if str(target).startswith(str(tmp_path)):
                found.append(process)
        return found

    yield left
    assert left() == []
