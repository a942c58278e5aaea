"""How many processes can use a cache at once: handles of one process count once."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

import pytest

from processes.children import children
from tuckbox import Cache
from tuckbox.errors import CacheClosed

SIZE = "256 KiB"
PROCESSES_MAX = 32


def test_many_handles_of_one_process_count_as_one(opened: Any, path: str) -> None:
    handles = [opened(path, size=SIZE) for _ in range(10 * PROCESSES_MAX)]
    stats = handles[0].stats()
    assert (stats.processes, stats.processes_max) == (1, PROCESSES_MAX)
    for number, handle in enumerate(handles):
        handle["last"] = number
        assert handles[-1]["last"] == number
    copy = pickle.loads(pickle.dumps(handles[0]))
    assert copy.stats().processes == 1
    copy.close()
    for handle in handles[1:]:
        handle.close()
    assert handles[0]["last"] == len(handles) - 1
    assert handles[0].stats().processes == 1


@pytest.mark.parametrize(
    ("size", "count"), [("64 KiB", 32), ("1 MiB", 128), ("16 MiB", 1024), ("1 GiB", 1024)]
)
def test_stats_tell_how_many_processes_there_may_be(
    opened: Any, path: str, size: str, count: int
) -> None:
    assert opened(path, size=size).stats().processes_max == count


def test_processes_count_while_they_live(opened: Any, path: str) -> None:
    cache, second = opened(path, size=SIZE), opened(path)
    with children(cache, 3):
        assert (cache.stats().processes, second.stats().processes) == (4, 4)
    assert cache.stats().processes == 1


def test_a_process_that_was_killed_does_not_count(opened: Any, path: str) -> None:
    cache = opened(path, size=SIZE)
    program = "import sys, tuckbox; caches = [tuckbox.Cache(sys.argv[1]) for _ in range(9)]\n"
    program += "caches[3].close(); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        assert cache.stats().processes == 2
        process.kill()
        process.wait()
    assert cache.stats().processes == 1


def test_read_only_handles_do_not_count(opened: Any, path: str) -> None:
    cache = opened(path, size=SIZE)
    with Cache(path, read_only=True) as reader:
        assert reader.stats().processes == 1
        cache.close()
        assert reader.stats().processes == 0


def test_one_process_too_many_is_told_what_to_do(opened: Any, path: str) -> None:
    cache = opened(path, size=SIZE)
    cache["key"] = "value"
    with children(cache, PROCESSES_MAX - 1) as living:
        assert {child.answer for child in living} == {"stored"}
        assert cache.stats().processes == PROCESSES_MAX
        with children(cache, 1) as late:
            advice = (
                f"{path} is already used by 32 processes, the maximum for its size; end one of "
                'them, open it with read_only, or resize it to size "1 MiB" or more, for 128 '
                "processes"
            )
            assert late[0].answer == advice
        # All of the advice works.
        reader = "import sys, tuckbox; print(tuckbox.Cache(sys.argv[1], read_only=True)['key'])"
        result = subprocess.run(
            [sys.executable, "-c", reader, path], capture_output=True, text=True, check=True
        )
        assert result.stdout == "value\n"
        # This process has its slot, so further handles are no matter.
        assert opened(path)["key"] == "value"
        os.kill(living[0].pid, signal.SIGKILL)
        os.waitid(os.P_PID, living[0].pid, os.WEXITED | os.WNOWAIT)
        with children(cache, 1) as later:
            assert later[0].answer == "stored"


def test_closing_one_handle_does_not_disturb_another(opened: Any, path: str) -> None:
    """Threads open and close handles of their own while one handle counts and another process
    counts, too: no lock is ever taken from a live process."""
    cache = opened(path, size="8 MiB", lock_timeout=20.0)
    stop = threading.Event()

    def open_and_close() -> None:
        while not stop.is_set():
            with Cache(path, lock_timeout=20.0) as short_lived:
                short_lived.incr("short-lived", default=0)
                short_lived["large"] = b"x" * 300_000

    threads = [threading.Thread(target=open_and_close) for _ in range(3)]
    for thread in threads:
        thread.start()
    child = os.fork()
    if child == 0:
        for _ in range(2_000):
            cache.incr("count", default=0)
        os._exit(0)
    try:
        for _ in range(2_000):
            cache.incr("count", default=0)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cache["count"] == 4_000
    stats = cache.stats()
    assert (stats.takeovers, stats.segments_building, stats.processes) == (0, 0, 1)


def test_a_handler_closes_one_handle_while_it_stores_a_large_value(opened: Any, path: str) -> None:
    cache = opened(path, size="64 MiB")
    value = bytes(15 << 20)

    def handle(*_: object) -> None:
        short_lived.close()

    before = signal.signal(signal.SIGALRM, handle)
    try:
        for turn in range(40):
            short_lived = Cache(path)
            signal.setitimer(signal.ITIMER_REAL, 0.0005 + turn * 1e-4)
            try:
                # The handler may come before, during or after the store.
                with suppress(CacheClosed):
                    short_lived["large"] = value
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            cache["key"] = turn
            stats = cache.stats()
            assert (stats.segments_building, stats.processes) == (0, 1)
            assert cache["key"] == turn
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert cache.stats().takeovers == 0
