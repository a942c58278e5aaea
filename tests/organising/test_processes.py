"""Namespaces and tags hold for all processes that share a file."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from processes import workers

METHODS = ["fork", "spawn", "forkserver"]


@pytest.fixture(params=["file", "private"])
def place(request: pytest.FixtureRequest, path: str) -> str | None:
    return path if request.param == "file" else None


@pytest.mark.parametrize("method", METHODS)
def test_a_clear_and_an_eviction_are_seen_by_other_processes(
    opened: Any, place: str | None, method: str
) -> None:
    cache = opened(place, size="8 MiB", lock_timeout=20.0)
    blog = cache.namespace("blog")
    keys = list(range(10))
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        blog.set_many(dict.fromkeys(keys, "old"), tags=["t"])
        assert pool.submit(workers.found, blog, keys).result() == dict.fromkeys(keys, "old")
        assert pool.submit(workers.found, cache, keys).result() == {}
        blog.clear()
        assert pool.submit(workers.found, blog, keys).result() == {}
        blog["new"] = 1
        assert pool.submit(workers.found, blog, ["new"]).result() == {"new": 1}
        pool.submit(workers.clear, cache.namespace("blog")).result()
        assert list(blog) == []
        for soft in (False, True):
            blog.set("k", 1, ttl=60, tags=["t"])
            pool.submit(workers.evict, cache, "t", soft).result()
            assert "k" not in blog
            assert (blog.get_entry("k", stale=True) is not None) is soft


def test_a_forked_child_shares_the_namespace(opened: Any, path: str) -> None:
    blog = opened(path).namespace("blog")
    blog["k"] = 1
    pid = os.fork()
    if pid == 0:
        is_right = blog.get("k") == 1
        blog.clear()
        blog["child"] = is_right
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert dict(blog) == {"child": True}


def test_a_lease_of_another_process_is_refused_after_a_clear(opened: Any, path: str) -> None:
    cache = opened(path)
    blog = cache.namespace("blog")
    _, _, token = blog._begin("k", False)
    pid = os.fork()
    if pid == 0:
        blog.clear()
        os._exit(0)
    os.waitpid(pid, 0)
    assert blog._finish(token, "k", "old", None, None, (), None) is False
    assert "k" not in blog


def test_after_a_clear_no_process_finds_what_was_stored_before(opened: Any, path: str) -> None:
    cache = opened(path, size="8 MiB", lock_timeout=20.0)
    with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("fork")) as pool:
        work = [pool.submit(workers.store_and_clear, cache, "blog", "t", 500) for _ in range(4)]
        assert [one.result() for one in work] == [0] * 4
    assert list(cache.namespace("blog")) == []


def test_what_was_cleared_stays_so_when_the_file_is_opened_again(opened: Any, path: str) -> None:
    cache = opened(path)
    cache.namespace("blog")["k"] = 1
    cache.set("k", 1, tags=["t"])
    cache.namespace("blog").clear()
    cache.evict(tag="t")
    cache.close()
    cache = opened(path)
    assert ("k" in cache.namespace("blog"), "k" in cache) == (False, False)
    cache.namespace("blog")["k"] = 2
    cache.close()
    assert opened(path).namespace("blog")["k"] == 2
