"""The recipes hold among threads and processes, on a `Cache` and on a `FanoutCache`."""

from __future__ import annotations

import math
import multiprocessing
import threading
from typing import TYPE_CHECKING

import pytest

from compat.workers import add_to_average, count_up

if TYPE_CHECKING:
    from types import ModuleType

LOCKS = ("Lock", "RLock", "BoundedSemaphore")


@pytest.fixture(params=["Cache", "FanoutCache"])
def cache(request, dc: ModuleType, tmp_path):
    return getattr(dc, request.param)(str(tmp_path))


def test_an_average_is_that_of_all_numbers(dc, cache):
    average = dc.Averager(cache, "key")
    assert average.get() is None
    assert average.pop() is None
    for number in (1, 2, 6):
        average.add(number)
    assert average.get() == 3
    assert average.pop() == 3
    assert average.get() is None


def test_an_average_misses_no_number_of_another_thread(dc, cache):
    average = dc.Averager(cache, "key")
    threads = []

    class Slow(float):
        def __radd__(self, total):
            # Another thread adds a number after this one has read the sum.
            threads.append(threading.Thread(target=average.add, args=(2,)))
            threads[0].start()
            threads[0].join(0.1)
            return total + float(self)

    average.add(Slow(1))
    threads[0].join()
    assert average.get() == 1.5


def test_an_average_of_processes_misses_no_number(dc, tmp_path):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        pool.starmap(add_to_average, [(dc.__name__, str(tmp_path), 50)] * 3)
    cache = dc.Cache(str(tmp_path))
    assert cache["average"] == (3 * math.comb(50, 2), 150)
    assert dc.Averager(cache, "average").get() == 24.5


@pytest.mark.parametrize("kind", LOCKS)
def test_a_lock_excludes_other_processes(dc, tmp_path, kind):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        pool.starmap(count_up, [(dc.__name__, str(tmp_path), kind, 40)] * 3)
    assert dc.Cache(str(tmp_path))["number"] == 120


@pytest.mark.parametrize("kind", LOCKS)
def test_a_lock_excludes_other_threads_until_it_is_released(dc, cache, kind):
    lock = getattr(dc, kind)(cache, "lock")
    steps = []
    waiting = threading.Event()

    def other():
        waiting.set()
        with lock:
            steps.append("other")

    with lock:
        thread = threading.Thread(target=other)
        thread.start()
        waiting.wait()
        thread.join(0.1)
        steps.append("first")
    thread.join()
    assert steps == ["first", "other"]


@pytest.mark.parametrize("kind", LOCKS)
def test_an_error_in_the_block_releases_the_lock(dc, cache, kind):
    lock = getattr(dc, kind)(cache, "lock")
    with pytest.raises(KeyError), lock:
        raise KeyError
    with lock:
        pass


def test_a_lock_says_whether_it_is_held(dc, cache):
    lock = dc.Lock(cache, "lock")
    assert not lock.locked()
    lock.acquire()
    assert lock.locked()
    assert dc.Lock(cache, "lock").locked()
    lock.release()
    assert not lock.locked()


def test_a_lock_that_expired_is_free(dc, cache):
    dc.Lock(cache, "lock", expire=-1).acquire()
    with dc.Lock(cache, "lock"):
        pass


def test_the_owner_of_an_rlock_may_acquire_it_again(dc, cache):
    lock = dc.RLock(cache, "lock")
    with lock, lock, lock:
        pass
    with pytest.raises(AssertionError):
        lock.release()


def test_an_rlock_is_released_by_its_owner(dc, cache):
    lock = dc.RLock(cache, "lock")
    raised = []

    def other():
        try:
            lock.release()
        except AssertionError as error:
            raised.append(error)

    with lock:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(raised) == 1


def test_a_semaphore_has_as_many_holders_as_it_says(dc, cache):
    semaphore = dc.BoundedSemaphore(cache, "semaphore", value=2)
    entered = threading.Event()

    def third():
        with semaphore:
            entered.set()

    with semaphore:
        semaphore.acquire()
        thread = threading.Thread(target=third)
        thread.start()
        assert not entered.wait(0.1)
        semaphore.release()
        thread.join()
    with pytest.raises(AssertionError):
        semaphore.release()


def test_a_throttled_function_waits_for_its_turn(dc, cache):
    now = 1000.0
    begins = []

    def sleep(seconds):
        nonlocal now
        assert seconds > 0
        now += seconds

    @dc.throttle(cache, 2, 1, time_func=lambda: now, sleep_func=sleep)
    def call():
        begins.append(now - 1000)

    for _ in range(6):
        call()
    assert begins[:2] == [0, 0]
    assert begins == pytest.approx([0, 0, 0.5, 1, 1.5, 2])
    now += 60
    for _ in range(3):
        call()
    assert begins[-2] == begins[-3]
    assert begins[-1] - begins[-2] == pytest.approx(0.5)


@pytest.mark.parametrize("kind", LOCKS)
def test_a_barrier_lets_one_call_at_a_time_in(dc, cache, kind):
    inside = 0
    most = []

    @dc.barrier(cache, getattr(dc, kind), name="work")
    def work(number):
        nonlocal inside
        inside += 1
        most.append(inside)
        inside -= 1
        return number

    results = []
    threads = [
        threading.Thread(target=lambda number=number: results.append(work(number)))
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0, 1, 2, 3]
    assert most == [1, 1, 1, 1]
    assert work.__name__ == "work"


def test_a_result_is_stored(dc, cache):
    calls = []

    @dc.memoize_stampede(cache, 60, name="square", tag="numbers", ignore={1})
    def square(number, _log=None):
        calls.append(number)
        return number * number

    assert [square(3), square(3, "log"), square(4), square(3)] == [9, 9, 16, 9]
    assert calls == [3, 4]
    result, seconds = cache[square.__cache_key__(3)]
    assert result == 9
    assert seconds >= 0
    assert cache.get(square.__cache_key__(3), tag=True)[1] == "numbers"


def test_a_result_near_its_expiry_is_returned_and_made_again(dc, cache):
    made = []
    done = threading.Event()

    @dc.memoize_stampede(cache, 60, beta=1e9)
    def call():
        made.append(len(made))
        if len(made) == 2:
            done.set()
        threading.Event().wait(0.001)
        return made[-1]

    assert call() == 0
    # A huge beta: the stored result is due at once.
    assert call() == 0
    assert done.wait(10)


def test_an_expired_result_is_made_by_the_call(dc, cache):
    made = []

    @dc.memoize_stampede(cache, -1)
    def call():
        made.append(len(made))
        return made[-1]

    assert [call(), call()] == [0, 1]
