"""Dash: the manager of background callbacks, whose jobs are processes that share the cache."""

import sys
import time
from typing import Any

import diskcache
from dash import DiskcacheManager


def work(set_progress: Any, n: int) -> list[int]:
    set_progress(("1", "2"))
    return [n, n + 1]


def fail(set_progress: Any, n: int) -> None:
    raise ValueError(f"no {n}")


def slow(set_progress: Any, n: int) -> None:
    set_progress("started")
    time.sleep(600)


def wait(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("a job did not report within 60 seconds")
        time.sleep(0.02)


def run(manager: Any, key: str, function: Any) -> int:
    return manager.call_job_fn(key, manager.make_job_fn(function, True, key), {"n": 5}, {})


def first() -> None:
    try:
        DiskcacheManager({})
    except ValueError as error:
        print(error)
    for name, cache in (
        ("one", diskcache.Cache("one")),
        ("shards", diskcache.FanoutCache("shards", shards=4)),
    ):
        manager = DiskcacheManager(cache, cache_by=[lambda: 1], expire=3600)
        print(name, manager.get_or_create_signing_secret(lambda: "secret"))
        print(manager.get_or_create_signing_secret(lambda: "another"))
        job = run(manager, "done", work)
        wait(lambda manager=manager: manager.result_ready("done"))
        print(manager.get_progress("done"), manager.get_progress("done"))
        print(manager.get_result("done", job), manager.job_running(job))
        _, expiry = cache.get("done", expire_time=True)
        print(3500 < expiry - time.time() <= 3600)
        job = run(manager, "failed", fail)
        wait(lambda manager=manager: manager.result_ready("failed"))
        print(manager.get_result("failed", job)["background_callback_error"]["msg"])
        job = run(manager, "slow", slow)
        wait(lambda cache=cache, manager=manager: manager._make_progress_key("slow") in cache)
        print(manager.job_running(job))
        manager.terminate_job(job)
        print(manager.job_running(job), manager.result_ready("slow"))
        cache.close()


def second() -> None:
    for cache in (diskcache.Cache("one"), diskcache.FanoutCache("shards", shards=4)):
        manager = DiskcacheManager(cache, cache_by=[lambda: 1])
        print(
            manager.get_or_create_signing_secret(lambda: "third"), manager.get_result("done", None)
        )
        manager.clear_cache_entry("done")
        print(manager.get_result("done", None) is manager.UNDEFINED)
        cache.close()


if __name__ == "__main__":
    first() if sys.argv[1] == "first" else second()
