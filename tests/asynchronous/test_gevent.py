"""Programs that gevent has patched: plain operations let other greenlets run."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from tuckbox import Cache

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

BEGIN = """
from gevent import monkey
monkey.patch_all()
import os, signal, sys
import gevent
from tuckbox import Cache
from tuckbox.errors import LockTimeout

path, holder = sys.argv[1], int(sys.argv[2])

def let_go():
    # Other greenlets run thirty times, and then the holder of the lock goes on.
    for _ in range(30):
        gevent.sleep(0.001)
    ticked.append(True)
    os.kill(holder, signal.SIGCONT)

ticked = []
"""


def run_patched(code: str, path: str, holder: int = 0) -> None:
    program = BEGIN + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, path, str(holder)],
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "operation",
    [
        "cache.set('key', 1)",
        "cache.__setitem__('key', 1)",
        "cache.set_many({'a': 1, 'b': 2})",
        "cache.delete_many(['entry 1', 'entry 2'])",
        "cache.set('key', b'x' * 200_000)",
        "cache.get_and_touch('entry 1', 60)",
        "cache.evict(tag='t')",
        "cache.delete_prefix('entry 1')",
        "cache.namespace('n').set('key', 1)",
        "cache.namespace('n').clear()",
        "cache.clear()",
    ],
)
def test_a_hub_turns_while_a_lock_is_held(path: str, holder: BaseProcess, operation: str) -> None:
    """If the hub were held, nobody would let the holder go, and the lock would time out."""
    assert holder.pid is not None
    code = f"""
        cache = Cache(path, lock_timeout=20)
        other = gevent.spawn(let_go)
        {operation}
        assert ticked
    """
    run_patched(code, path, holder.pid)


def test_a_lock_that_is_held_too_long_is_an_error(path: str, holder: BaseProcess) -> None:
    code = """
        cache = Cache(path, lock_timeout=0.1)
        tasks = [gevent.spawn(cache.incr, "entry 1") for _ in range(50)]
        gevent.joinall(tasks)
        assert all(isinstance(task.exception, LockTimeout) for task in tasks), tasks
        assert cache.get("entry 1") == 1
    """
    run_patched(code, path, holder.pid or 0)


def test_operations_are_the_same(path: str) -> None:
    code = """
        class Own(Cache):
            pass

        large = b"x" * (1 << 20)
        with Own(path, size="64 MB") as cache, Cache(path) as other:
            cache["key"] = large
            assert cache["key"] == cache.get("key") == large
            assert cache.get_many(["key"]) == {"key": large}
            assert cache.pop("key") == large
            cache.set_many({"a": 1, "b": 2}, ttl=60)
            assert cache.delete_many(key for key in ["a", "c"]) == 1
            assert other.delete_many(keys=["b"]) == 1
            assert cache.setdefault("a", 1) == cache.incr("a") - 1
            threads = [gevent.get_hub().threadpool.spawn(cache.incr, "sum") for _ in range(20)]
            gevent.wait(threads)
            assert cache.get("sum") == 20
            assert cache.check().is_sound
            assert sorted(cache) == ["a", "sum"]
    """
    run_patched(code, path)


def test_without_gevent_nothing_changes(cache: Cache) -> None:
    assert "_cooperates" not in vars(Cache)
    assert "set" not in vars(Cache)


def test_greenlets_run_one_maker(path: str) -> None:
    code = """
        from tuckbox import memory

        made = []

        def make():
            made.append(True)
            gevent.sleep(0.05)
            return "made"

        # The shared file as soon as it has leases.
        for kind in [memory.Cache, *([Cache] if hasattr(Cache, "get_or_set") else [])]:
            with kind() as cache:
                made.clear()
                tasks = [gevent.spawn(cache.get_or_set, "key", make) for _ in range(100)]
                gevent.joinall(tasks)
                assert [task.value for task in tasks] == ["made"] * 100, tasks
                assert len(made) == 1
    """
    run_patched(code, path)
