"""Long values that several writers overwrite again and again push nothing else out.

Their segments are taken and given back all the time; while what lives fits, no entry may be lost
and no write may be refused.
"""

from __future__ import annotations

import multiprocessing
import threading
from typing import Any

import pytest

from processes import workers

WRITERS = 3
TURNS = 2000
CANARIES = 1000


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_overwriting_costs_no_other_entry(opened: Any, path: str, kind: str) -> None:
    cache = opened(path, size="64 MiB", lock_timeout=20)
    for number in range(CANARIES):
        cache["canary", number] = "x" * 60
    failures = []

    def work(number: int) -> None:
        try:
            workers.overwrite(cache, number, TURNS)
        except Exception as error:
            failures.append(error)

    if kind == "threads":
        threads = [threading.Thread(target=work, args=(number,)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        context = multiprocessing.get_context("fork")
        arguments = [(cache, number, TURNS) for number in range(WRITERS)]
        processes = [context.Process(target=workers.overwrite, args=some) for some in arguments]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            if process.exitcode:
                failures.append(process.exitcode)
    assert not failures
    assert sum(("canary", number) in cache for number in range(CANARIES)) == CANARIES
    assert cache.stats().evictions == 0
