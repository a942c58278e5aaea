"""What several processes do at once to the same entries happens once."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from processes import workers

PROCESSES = 4


def test_of_all_processes_one_sets_the_default_and_each_entry_is_popped_once(
    opened: Any, path: str
) -> None:
    cache = opened(path, size="8 MiB", lock_timeout=20.0)
    with ProcessPoolExecutor(PROCESSES, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(workers.default_all, cache, 5000) for _ in range(PROCESSES)]
        answers = [job.result() for job in jobs]
        assert all(answer == answers[0] for answer in answers)
        assert dict(cache) == dict(enumerate(answers[0]))
        jobs = [pool.submit(workers.pop_all, cache) for _ in range(PROCESSES)]
        popped = [pair for job in jobs for pair in job.result()]
    assert sorted(popped) == list(enumerate(answers[0]))
    assert len(cache) == 0
