"""One cache for all processes and threads, whether they were forked before or come later."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import pytest
from django.core.cache import caches
from django.test import override_settings

from integrations.django import project, workers
from tuckbox.integrations import handles
from tuckbox.integrations.handles import OpenOptions, shared

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tuckbox.integrations.django import TuckboxCache


def in_child(work: Callable[[], object]) -> None:
    """Run `work` in a forked child that ends at once, and demand that it succeeded."""
    child = os.fork()
    if child == 0:
        # The child must end even if it waits without end.
        signal.alarm(30)
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 0


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_share(backend: TuckboxCache, location: str, method: str) -> None:
    backend.set_many({"ints": 0, "floats": 0.0}, None)
    context = multiprocessing.get_context(method)
    arguments = (location, 3000, context.Barrier(4))
    processes = [context.Process(target=workers.count, args=arguments) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert backend.get_many(["ints", "floats"]) == {"ints": 12_000, "floats": 6000.0}
    for process in processes:
        assert backend.get(f"of:{process.pid}") == OrderedDict(turns=3000)


def test_a_forked_child_goes_on_with_its_parents_handle(
    backend: TuckboxCache, opened: Callable[..., TuckboxCache]
) -> None:
    backend.set("parent", {"plain": 1})
    backend.set("object", OrderedDict(a=1))

    def child() -> None:
        assert opened()._opened() is backend._cache
        assert backend.get("parent") == {"plain": 1}
        assert backend.get("object") == OrderedDict(a=1)
        backend.set("child", OrderedDict(b=2))
        in_child(lambda: backend.set("grandchild", 3))

    in_child(child)
    assert backend.get("child") == OrderedDict(b=2)
    assert backend.get("grandchild") == 3


def test_a_child_that_is_forked_while_a_file_is_opened_can_open_one(tmp_path: Path) -> None:
    with handles._opening:

        def child() -> None:
            shared(OpenOptions(str(tmp_path / "child.tuck")))["key"] = 1

        thread = threading.Thread(target=in_child, args=(child,))
        thread.start()
        thread.join()
    cache = shared(OpenOptions(str(tmp_path / "child.tuck")))
    assert cache["key"] == 1
    cache.close()


def test_threads_that_begin_together_open_a_file_once(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)
    found = []

    def begin() -> None:
        barrier.wait()
        found.append(shared(OpenOptions(str(tmp_path / "threads.tuck"))))

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
    found[0].close()


def test_threads_of_django_share(location: str) -> None:
    settings = {"BACKEND": project.BACKEND, "LOCATION": location}
    with override_settings(CACHES={"default": settings}):
        caches["default"].set("sum", 0, None)
        seen: list[Any] = []

        def request() -> None:
            for _ in range(200):
                caches["default"].incr("sum")
            seen.append(caches["default"])
            caches.close_all()

        threads = [threading.Thread(target=request) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert caches["default"].get("sum") == 1600
        assert len({id(backend) for backend in seen}) == 8
        caches["default"]._cache.close()


def test_backends_that_come_and_go_take_no_files(backend: TuckboxCache, location: str) -> None:
    backend.get("open")
    gc.collect()  # What earlier tests left.
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(300):
        workers.backend_at(location).set("key", 1)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_is_stored_outlives_the_process(
    location: str, opened: Callable[..., TuckboxCache], method: str
) -> None:
    process = multiprocessing.get_context(method).Process(target=workers.store, args=(location,))
    process.start()
    process.join()
    assert process.exitcode == 0
    backend = opened()
    assert backend.get("plain") == [1, "two"]
    assert backend.get("object") == OrderedDict(three=3)
    assert backend.incr("count") == 43
