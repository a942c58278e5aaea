"""A process that was stopped while it held a lock of a cache."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from typing import TYPE_CHECKING

from tuckbox import Cache
from tuckbox.errors import LockTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.process import BaseProcess

TRIES = 400


def check_for_ever(path: str) -> None:
    """To check a cache takes the lock of each shard for as long as it takes."""
    with Cache(path, lock_timeout=60) as cache:
        while True:
            cache.check()


def is_locked(cache: Cache) -> bool:
    """Whether a write to `cache`, which has one shard and a short time limit, times out."""
    try:
        cache.set("probe", 1)
    except LockTimeout:
        return True
    return False


@contextlib.contextmanager
def stopped_holder(path: str) -> Iterator[BaseProcess]:
    """A child that is stopped while it holds the only lock of the cache at `path`.

    Give the cache some thousand entries, so that it is locked most of the time. The child is killed
    in the end.
    """
    context = multiprocessing.get_context("fork")
    holder = context.Process(target=check_for_ever, args=(path,), daemon=True)
    holder.start()
    assert holder.pid is not None
    try:
        with Cache(path, lock_timeout=0.02) as probe:
            for _ in range(TRIES):
                time.sleep(0.005)
                os.kill(holder.pid, signal.SIGSTOP)
                os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
                if is_locked(probe) and is_locked(probe):
                    break
                os.kill(holder.pid, signal.SIGCONT)
            else:
                raise AssertionError("the holder was never stopped with the lock")
        yield holder
    finally:
        holder.kill()
        holder.join()
