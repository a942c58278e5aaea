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
from lab.tests.talking import Conversation

_OWNER = "TUCKBOX_LAB_TEST"
_SECONDS_TO_END = 20.0


@pytest.fixture
def own_folder(tmp_path: Path) -> Iterator[Path]:
    """Give a folder for stores whose name nobody else has, which shared memory is named after."""
    folder = Path(tempfile.mkdtemp(prefix="tuckbox-lab-test-", dir=tmp_path))
    yield folder
    remove_memory(f"{folder.name}-")


@pytest.fixture
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Conversation]]:
    """Give a function that starts a host, as the test's module has it in HOSTS."""
    with request.module.HOSTS(tmp_path) as start:
        yield start


@pytest.fixture
def host(start: Callable[..., Conversation]) -> Conversation:
    """Give a host that has been started."""
    return start()


@pytest.fixture
def processes_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], list[psutil.Process]]]:
    """Give a function that lists what this test, directly or not, has started and still runs.

    The test fails at its end when anything is left.
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
