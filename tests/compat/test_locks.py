"""The lock of the drop-in, in the handlers of signals and in the threads of a forked child."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading

import pytest

from tuckbox.compat.diskcache import Cache, Timeout
from tuckbox.compat.diskcache.entries import Entries
from tuckbox.compat.diskcache.locks import WriteLock

THREADS = 4
FORKS = 40
TURNS = 5
SOON_S = 0.1


class OtherProcess:
    """Holds the lock of a directory, as another process does: its file is open once more."""

    def __init__(self, path):
        self._fd = os.open(path, os.O_RDWR)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def can_lock(self):
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self):
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self):
        os.close(self._fd)


@pytest.fixture
def on_alarm():
    """Call a function in a signal's handler, soon."""

    def start(handler):
        signal.signal(signal.SIGALRM, lambda *_: handler())
        signal.setitimer(signal.ITIMER_REAL, SOON_S)

    before = signal.getsignal(signal.SIGALRM)
    yield start
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def cache(tmp_path):
    with Cache(str(tmp_path), timeout=0.02) as cache:
        cache.set("n", 0, tag="takes the lock")
        yield cache


@pytest.fixture
def other_process(cache):
    other = OtherProcess(os.path.join(cache.directory, "cache.lock"))
    other.unlock()
    yield other
    other.close()


@pytest.fixture
def other(other_process):
    assert other_process.can_lock()
    return other_process


def test_a_handler_does_not_enter_while_its_thread_waits(cache, other, on_alarm):
    found = []

    def handler():
        try:
            with cache.transact():
                cache["from the handler"] = 1
        except Timeout as error:
            found.append(type(error))
        other.unlock()

    on_alarm(handler)
    assert cache.incr("n", retry=True) == 1
    assert found == [Timeout]
    assert "from the handler" not in cache
    assert other.can_lock()


def test_a_handler_takes_the_lock_that_its_thread_waits_for(cache, other, on_alarm):
    def handler():
        other.unlock()
        with cache.transact():
            cache.incr("n", 10)
            assert not other.can_lock()

    on_alarm(handler)
    assert cache.incr("n", retry=True) == 11
    assert cache.get("n", tag=True) == (11, "takes the lock")
    assert other.can_lock()


@pytest.mark.parametrize("takes", [False, True])
def test_a_handler_that_raises_ends_the_wait(cache, other, on_alarm, takes):
    """What the handler took, it leaves to the call that waits: that one has to free it."""

    def handler():
        other.unlock()
        if takes:
            with cache.transact():
                cache.incr("n")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        on_alarm(handler)
        cache.incr("n", retry=True)
    assert other.can_lock()
    other.unlock()
    assert cache.incr("n") == 1 + takes


def test_threads_of_a_forked_child_take_turns(tmp_path):
    """Each child is new, and its threads are the first to use the handle there, all at once."""
    with Cache(str(tmp_path)) as cache:
        cache.set("n", 0, tag="takes the lock")
        for _ in range(FORKS):
            child = os.fork()
            if not child:
                status = 1
                try:
                    sys.setswitchinterval(1e-6)
                    status = _count_in_threads(cache)
                finally:
                    os._exit(status)
            assert os.waitpid(child, 0)[1] == 0
        assert cache["n"] == FORKS * THREADS * TURNS


def _count_in_threads(cache):
    start = threading.Barrier(THREADS)
    done = []

    def count():
        start.wait()
        for _ in range(TURNS):
            with cache.transact(retry=True):
                cache["n"] += 1
        done.append(True)

    threads = [threading.Thread(target=count) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0 if len(done) == THREADS else 2


@pytest.mark.parametrize("step", ["_hear", "_leave"], ids=["takes", "releases"])
def test_a_handler_does_not_enter_while_its_thread_takes_or_releases_the_lock(
    cache, monkeypatch, step
):
    found = []
    original = getattr(Entries, step)

    def interrupted(entries):
        monkeypatch.undo()
        signal.raise_signal(signal.SIGALRM)
        original(entries)

    def handler(*_):
        try:
            cache.incr("n", 10)
        except Timeout as error:
            found.append(type(error))

    monkeypatch.setattr(Entries, step, interrupted)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with cache.transact():
            cache["n"] += 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert found == [Timeout]
    assert cache["n"] == 1
    with Cache(cache.directory) as another:
        assert another.incr("n") == 2


def test_a_forked_child_does_not_have_the_lock(tmp_path):
    lock = WriteLock(str(tmp_path / "lock"))
    assert lock.acquire(1, retry=False)
    child = os.fork()
    if not child:
        status = 1
        try:
            lock.release()
            assert lock.depth == 0
            with pytest.raises(Timeout):
                lock.acquire(0, retry=False)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert lock.depth == 1
    lock.release()


def test_a_thread_does_not_release_the_lock_of_another_one(tmp_path):
    """As the first thread of a child that was forked in a transaction, when it leaves that one."""
    lock = WriteLock(str(tmp_path / "lock"))
    assert lock.acquire(1, retry=False)
    found = []

    def leave():
        found.append(lock.depth)
        lock.release()

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    assert found == [0]
    assert lock.depth == 1
    lock.release()
    assert lock.depth == 0


def test_the_child_of_a_dead_holder_does_not_keep_its_lock(tmp_path):
    ended, end = os.pipe()
    with Cache(str(tmp_path), timeout=30) as cache:
        cache["n"] = 0
        holder = os.fork()
        if not holder:
            os.close(end)
            with Cache(str(tmp_path)) as own, own.transact():
                if os.fork():
                    os.kill(os.getpid(), signal.SIGKILL)
                # It does not use the handle.
                os.read(ended, 1)
                os._exit(0)
        os.waitpid(holder, 0)
        with cache.transact():
            assert cache.incr("n") == 1
        os.close(end)
    os.close(ended)


@pytest.mark.parametrize("step", ["end", "_leave"])
def test_an_interruption_at_the_end_of_a_change_releases_the_lock(
    cache, other_process, monkeypatch, step
):
    def interrupted(*_, **__):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(Entries, step, interrupted)
    # Not `pytest.raises`, which keeps the exception, and so the change.
    try:
        with cache.transact():
            cache["n"] += 1
    except KeyboardInterrupt:
        pass
    assert other_process.can_lock()
    other_process.unlock()
    assert cache["n"] == (0 if step == "end" else 1)
    assert cache.incr("m") == 1
