"""Transactions, threads, processes, and processes that are killed."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import threading
import time

import pytest

from compat.cache_workers import (
    add_all,
    change_for_ever,
    count,
    die_in_a_transaction,
    hold,
    move,
    work_hard,
)

LARGE = "x" * 40_000
SPAWN = multiprocessing.get_context("spawn")
FORK = multiprocessing.get_context("fork")


class Stop(BaseException):
    pass


@pytest.mark.parametrize("error", [ValueError, Stop, KeyboardInterrupt])
def test_a_transaction_that_fails_is_undone(cache, error):
    cache["a"] = 1
    cache["b"] = LARGE
    cache.set("c", 3, expire=100, tag="red")
    cache.push("first", "q")
    before = list(cache)
    with pytest.raises(error), cache.transact():
        cache["a"] = 2
        cache["d"] = 4
        cache.incr("e")
        cache.touch("c")
        cache.push("second", "q")
        cache.push("new", "r")
        with cache.transact():
            cache["f"] = 1
            cache["a"] = 3
        cache.pull("q")
        cache.evict("red")
        raise error
    assert list(cache) == before
    assert (cache["a"], cache["b"]) == (1, LARGE)
    assert cache.get("c", tag=True) == (3, "red")
    assert cache.get("c", expire_time=True)[1] is not None
    assert cache.pull("q") == ("q-500000000000000", "first")
    assert cache.push("new", "r") == "r-500000000000000"


@pytest.mark.filterwarnings("always")
def test_files_of_a_transaction_that_fails(dc, cache):
    cache["a"] = LARGE
    cache["b"] = LARGE
    with pytest.raises(ValueError, match="stop"), cache.transact():
        cache["a"] = "y" * 40_000
        cache["a"] = "z" * 40_000
        cache.delete("b")
        cache.set("c", LARGE)
        raise ValueError("stop")
    if dc.__name__ == "diskcache":
        # It has left the new files, and may have removed the old ones.
        for _ in range(4):
            cache.check(fix=True)
    else:
        assert (cache["a"], cache["b"]) == (LARGE, LARGE)
        assert list(cache) == ["a", "b"]


def test_an_error_that_an_outer_transaction_catches_undoes_nothing(cache):
    with cache.transact():
        cache["a"] = 1
        with pytest.raises(ValueError, match="stop"), cache.transact():
            cache["b"] = 2
            raise ValueError("stop")
        cache["c"] = 3
    assert list(cache) == ["a", "b", "c"]


def test_a_transaction_excludes_other_threads(dc, cache, tmp_path):
    other = dc.Cache(str(tmp_path / "cache"), timeout=0.01)
    failed = []

    def change():
        for method in (
            lambda: other.set("a", 1),
            lambda: other.set("a", LARGE),
            lambda: other.add("a", 1),
            lambda: other.incr("a"),
            lambda: other.touch("a"),
            lambda: other.pop("b"),
            lambda: other.delete("b"),
            lambda: other.push(1),
            other.pull,
            other.peek,
            other.peekitem,
            other.expire,
            lambda: other.evict("red"),
            other.clear,
        ):
            try:
                method()
            except dc.Timeout:
                failed.append(1)
        failed.append(other.get("b"))
        other.close()

    cache["b"] = 2
    with cache.transact():
        thread = threading.Thread(target=change)
        thread.start()
        thread.join()
    assert failed == [*[1] * 14, 2]


def test_what_was_removed_before_a_timeout_is_told(dc, cache, tmp_path):
    with dc.Cache(str(tmp_path / "cache"), timeout=0.01) as other:
        cache["a"] = 1
        with cache.transact(), pytest.raises(dc.Timeout) as caught:
            other.clear()
        assert caught.value.args == (0,)
        assert other.clear() == 1


def test_retry_waits(dc, cache, tmp_path):
    with dc.Cache(str(tmp_path / "cache"), timeout=0.01) as other:
        thread = threading.Thread(target=lambda: other.set("a", 2, retry=True))
        with cache.transact():
            cache["a"] = 1
            thread.start()
            time.sleep(0.1)
            assert cache["a"] == 1
        thread.join()
        other.close()
    assert cache["a"] == 2


def test_threads_with_one_handle(cache):
    def work():
        for _ in range(50):
            cache.incr("a")
            with cache.transact():
                cache["b"] = cache.get("b", 0) + 1
            cache["c"] = LARGE
            cache.close()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (cache["a"], cache["b"], cache["c"]) == (400, 400, LARGE)


@pytest.mark.parametrize("kind", ["Cache", "FanoutCache"])
def test_processes_count_each_step(dc, tmp_path, kind):
    workers = [
        SPAWN.Process(target=count, args=(dc.__name__, kind, str(tmp_path), 100)) for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    with getattr(dc, kind)(str(tmp_path)) as cache:
        assert (cache["count"], cache["by hand"]) == (300, 300)
        assert cache.check() == []


def test_only_one_process_adds(dc, tmp_path):
    with SPAWN.Pool(3) as pool:
        added = pool.starmap(add_all, [(dc.__name__, str(tmp_path), 100)] * 3)
    assert sum(added) == 100
    with dc.Cache(str(tmp_path)) as cache:
        assert sorted(cache) == list(range(100))
        assert cache.check() == []


def test_an_item_is_pulled_by_one_process(dc, tmp_path):
    with dc.Cache(str(tmp_path)) as cache:
        for number in range(200):
            cache.push(number if number % 20 else f"{number}" * 20_000, "jobs")
        workers = [
            SPAWN.Process(target=move, args=(dc.__name__, str(tmp_path), f"taken {number}", 200))
            for number in range(3)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        taken = [cache[key] for key in cache if key != "taken"]
        assert sorted(map(str, taken)) == sorted(
            str(number if number % 20 else f"{number}" * 20_000) for number in range(200)
        )


def test_a_transaction_excludes_other_processes(dc, tmp_path):
    ready, release = SPAWN.Event(), SPAWN.Event()
    holder = SPAWN.Process(target=hold, args=(dc.__name__, str(tmp_path), ready, release))
    with dc.Cache(str(tmp_path), timeout=0.01) as cache:
        holder.start()
        assert ready.wait(30)
        with pytest.raises(dc.Timeout):
            cache.set("a", 1)
        with dc.FanoutCache(str(tmp_path / "fanout")) as fanout:
            assert fanout.set("a", 1) is True
        release.set()
        holder.join()
        assert cache.set("a", 1) is True


def test_a_forked_child_uses_the_handle(dc, cache):
    cache["a"] = 1

    def child():
        assert cache["a"] == 1
        cache["b"] = 2
        with cache.transact():
            cache.incr("a")

    worker = FORK.Process(target=child)
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    assert (cache["a"], cache["b"]) == (2, 2)


# --- Only the drop-in ---------------------------------------------------------------------------


def ours():
    return importlib.import_module("tuckbox.compat.diskcache")


def test_a_child_that_is_forked_in_a_transaction_does_not_end_it(tmp_path):
    with ours().Cache(str(tmp_path), timeout=0.05) as cache:
        cache["a"] = 1
        with pytest.raises(ValueError, match="stop"), cache.transact():
            cache["a"] = 2
            child = os.fork()
            if not child:
                try:
                    cache.set("b", 1)
                except ours().Timeout:
                    # Only the parent holds the lock; the child leaves the block.
                    os._exit(0)
                finally:
                    os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
            raise ValueError("stop")
        assert list(cache) == ["a"]
        assert cache["a"] == 1
        cache["b"] = 2
        assert cache.check() == []


def test_a_child_that_is_forked_in_a_transaction_removes_none_of_its_files(tmp_path):
    read, write = os.pipe()
    with ours().Cache(str(tmp_path)) as cache:
        cache["a"] = LARGE
        with pytest.raises(ValueError, match="stop"), cache.transact():
            cache["a"] = "changed"
            child = os.fork()
            if not child:
                try:
                    os.read(read, 1)
                    cache["b"] = 2
                finally:
                    os._exit(0)
            raise ValueError("stop")
        os.write(write, b"x")
        os.waitpid(child, 0)
        assert (cache["a"], cache["b"]) == (LARGE, 2)
    os.close(read)
    os.close(write)


@pytest.mark.filterwarnings("always")
def test_the_next_writer_undoes_a_transaction_whose_process_was_killed(tmp_path):
    with ours().Cache(str(tmp_path)) as cache:
        cache["small"] = 1
        cache["large"] = LARGE
        cache.push("first")
        worker = SPAWN.Process(target=die_in_a_transaction, args=(str(tmp_path),))
        worker.start()
        worker.join()
        assert worker.exitcode == -signal.SIGKILL
        cache["after"] = 1
        assert list(cache) == ["small", "large", 500_000_000_000_000, "after"]
        assert (cache["small"], cache["large"]) == (1, LARGE)
        # The value that was replaced in the transaction is in a file that no entry names.
        for found in cache.check(fix=True):
            assert issubclass(found.category, (ours().UnknownFileWarning, ours().EmptyDirWarning))
        cache.check(fix=True)
        assert cache.check() == []


@pytest.mark.parametrize("kind", ["Cache", "FanoutCache"])
def test_processes_that_do_everything_leave_a_sound_cache(tmp_path, kind):
    workers = [
        SPAWN.Process(target=work_hard, args=(str(tmp_path), kind, seed)) for seed in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    with getattr(ours(), kind)(str(tmp_path)) as cache:
        assert [str(found.message) for found in cache.check()] == []
        assert len(cache) == len(list(cache))


@pytest.mark.filterwarnings("always")
def test_kills_at_any_moment_leave_whole_transactions(tmp_path):
    with ours().Cache(str(tmp_path)) as cache:
        for seed in range(12):
            before = cache.get("sum", 0)
            worker = FORK.Process(target=change_for_ever, args=(str(tmp_path), seed))
            worker.start()
            deadline_s = time.monotonic() + 30
            while cache.get("sum", 0) < before + 3 + seed and time.monotonic() < deadline_s:
                time.sleep(0.0005)
            worker.kill()
            worker.join()
            with cache.transact():
                total = cache["sum"]
                assert total >= before + 2 + seed
                for key in range(5):
                    a, b = (cache.get((side, key), tag=True) for side in "ab")
                    assert a[1] == b[1]
                    for value, tag in (a, b):
                        assert tag is None or value in {tag, f"{tag}" * 40_000}
                    assert a[1] is None or a[1] <= total
            items = []
            while True:
                key, value = cache.pull("q")
                if key is None:
                    break
                items.append(value)
            assert items == sorted([*range(before + 1, total + 1)] * 2)
            for found in cache.check(fix=True):
                assert issubclass(
                    found.category, (ours().UnknownFileWarning, ours().EmptyDirWarning)
                )
            cache.check(fix=True)
            assert cache.check() == []
