"""A file that is cut short, removed or replaced under a handle is said to be lost; nobody dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

import pytest

from tuckbox import Cache
from tuckbox.errors import CacheLost

if TYPE_CHECKING:
    from pathlib import Path

# A write looks for its file once in a second.
NOTICED_S = 1.1

OPERATIONS = {
    "get": lambda cache: cache.get("absent"),
    "in": lambda cache: "absent" in cache,
    "iteration": list,
    "set": lambda cache: cache.set("key", 1),
    "add": lambda cache: cache.add("other", 1),
    "incr": lambda cache: cache.incr("number", default=0),
    "touch": lambda cache: cache.touch("key", ttl=9),
    "clear": lambda cache: cache.clear(),
    "check": lambda cache: cache.check(),
}


@pytest.mark.parametrize("length", [0, 4096, 20_000])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_file_that_was_cut_is_lost(tmp_path: Path, name: str, length: int) -> None:
    path = tmp_path / "cut.tuck"
    with Cache(path, size="1 MiB") as cache:
        cache.set("key", b"value" * 100)
        os.truncate(path, length)
        with pytest.raises(CacheLost, match="open it again") as caught:
            # What lies before the cut may still be told.
            for _ in range(2):
                OPERATIONS[name](cache)
            cache.set("large", bytes(100_000))
        assert caught.value.filename == str(path)
        with pytest.raises(CacheLost):
            cache.set("key", 1)


@pytest.mark.parametrize(("name", "replaced"), [("set", False), ("incr", True), ("clear", True)])
def test_a_file_that_was_removed_is_lost(tmp_path: Path, name: str, replaced: bool) -> None:
    path = tmp_path / "gone.tuck"
    with Cache(path) as cache, Cache(path) as reader:
        cache.set("key", 1)
        path.unlink()
        if replaced:
            Cache(path).close()
        time.sleep(NOTICED_S)
        with pytest.raises(CacheLost, match="open it again"):
            OPERATIONS[name](cache)
        # A process that only reads makes no system call, so it does not notice. It reads nothing
        # stale.
        assert reader.get("key") is None
    with Cache(path) as cache:
        assert len(cache) == 0


def test_a_file_that_was_moved_away_is_lost_once_another_is_in_its_place(tmp_path: Path) -> None:
    path, kept = tmp_path / "moved.tuck", tmp_path / "kept.tuck"
    with Cache(path) as cache:
        cache.set("key", 1)
        path.rename(kept)
        time.sleep(NOTICED_S)
        cache.set("key", 2)
        with Cache(path) as other:
            time.sleep(NOTICED_S)
            with pytest.raises(CacheLost):
                cache.set("key", 3)
            assert len(other) == 0
    with Cache(kept) as cache:
        assert cache.get("key") == 2


def test_a_program_that_changes_its_directory_keeps_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with Cache("./relative.tuck") as cache:
        monkeypatch.chdir(tmp_path / "elsewhere")
        Cache("./relative.tuck").close()
        time.sleep(NOTICED_S)
        cache.set("key", 1)
        assert cache.get("key") == 1


def test_a_private_cache_is_never_lost() -> None:
    with Cache() as cache:
        cache.set("key", 1)
        time.sleep(NOTICED_S)
        cache.set("key", 2)
        assert cache.get("key") == 2


PROGRAM = """
import faulthandler, mmap, os, signal, sys
from tuckbox import Cache
from tuckbox.errors import CacheLost
cache = Cache(sys.argv[1], size="1 MiB")
cache.set("key", bytes(1000))
{setup}
os.truncate(sys.argv[1], 0)
try:
    cache.set("key", 1)
except CacheLost:
    print("lost")
"""


def run(tmp_path: Path, setup: str) -> subprocess.CompletedProcess[Any]:
    program = PROGRAM.format(setup=textwrap.dedent(setup))
    command = [sys.executable, "-c", program, str(tmp_path / "app.tuck")]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_faulthandler_may_be_enabled_after_the_cache_was_opened(tmp_path: Path) -> None:
    result = run(tmp_path, "faulthandler.enable()")
    assert (result.returncode, result.stdout) == (0, "lost\n"), result.stderr


def test_a_bus_error_that_is_not_about_a_cache_ends_the_program(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_bytes(bytes(4096))
    setup = f"""
    file = open({str(own)!r}, "r+b")
    memory = mmap.mmap(file.fileno(), 4096)
    os.truncate({str(own)!r}, 0)
    memory[0]
    """
    assert run(tmp_path, setup).returncode == -signal.SIGBUS


def test_a_bus_error_that_is_sent_ends_the_program(tmp_path: Path) -> None:
    result = run(tmp_path, "os.kill(os.getpid(), signal.SIGBUS)")
    assert result.returncode == -signal.SIGBUS
