"""Fixtures of the lab's tests."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from lab.disk import remove_memory
from lab.tests.runtimes import EVERY, Hosts

_OWNER = "TUCKBOX_LAB_TEST"
_SECONDS_TO_END = 20.0


@pytest.fixture
def own_folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder for stores with a unique name, because shared memory is named after it."""
    folder = Path(tempfile.mkdtemp(prefix="tuckbox-lab-test-", dir=tmp_path))
    yield folder
    remove_memory(f"{folder.name}-")


@pytest.fixture(params=EVERY)
def hosts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hosts]:
    """Return the hosts of each runtime in turn, or of the one that the module asks for."""
    with Hosts(request.param, tmp_path) as hosts:
        yield hosts


@pytest.fixture
def processes_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], list[psutil.Process]]]:
    """Return a function that lists running processes that this test started, directly or not.

    The test fails at its end if any are left.
    """
    monkeypatch.setenv(_OWNER, str(tmp_path))

    def left() -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                owner = process.environ().get(_OWNER)
                if owner == str(tmp_path) and process.pid != os.getpid():
                    found.append(process)
            except psutil.Error:
                continue
        return found

    yield left
    give_up = time.monotonic() + _SECONDS_TO_END
    while left():
        assert time.monotonic() < give_up, left()
        time.sleep(0.05)
