"""What children of a process do with the cache that they were born with, and how they end."""

from __future__ import annotations

import os
import random
import sys
import threading
from typing import TYPE_CHECKING

from processes import workers

if TYPE_CHECKING:
    from tuckbox import Cache

CANARIES = 500
OPERATIONS = 50


def work(cache: Cache, seed: int) -> None:
    """Fifty operations of a child, each proved."""
    generator = random.Random(seed)
    for turn in range(OPERATIONS):
        key = generator.randrange(100)
        found = cache.get(key)
        assert found is None or workers.is_whole(key, found), "a wrong value"
        cache.set(key, workers.value_of(key, seed * 1000 + turn, generator.randrange(5000)))
        canary = generator.randrange(CANARIES)
        assert cache["canary", canary] == workers.value_of(canary, 0, 40), "a canary is lost"
        cache.incr("count", default=0)


def returning(cache: Cache, seed: int) -> None:
    work(cache, seed)


def ending_at_once(cache: Cache, seed: int) -> None:
    work(cache, seed)
    os._exit(0)


def ending_in_a_thread(cache: Cache, seed: int) -> None:
    thread = threading.Thread(target=work, args=(cache, seed))
    thread.start()
    thread.join()


def forking_again(cache: Cache, seed: int) -> None:
    """The grandchild outlives its parent."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        status = 1
        try:
            work(cache, seed)
            os.write(writer, b"x")
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    assert os.read(reader, 1) == b"x", "the grandchild failed"


def closing(cache: Cache, seed: int) -> None:
    work(cache, seed)
    cache.close()


OTHER_PROGRAM = """
import sys
from reliability.children import work
from tuckbox import Cache
work(Cache(sys.argv[1], lock_timeout=30), int(sys.argv[2]))
"""


def executing(cache: Cache, seed: int) -> None:
    """Becomes another program, which keeps what descriptors it may keep."""
    tests = os.path.dirname(os.path.dirname(__file__))
    os.chdir(tests)  # Python looks for modules in the working directory first.
    environment = {**os.environ, "PYTHONPATH": tests}
    arguments = [sys.executable, "-c", OTHER_PROGRAM, cache.path or "", str(seed)]
    os.execve(sys.executable, arguments, environment)


def killed(cache: Cache, seed: int) -> None:
    while True:
        work(cache, seed)
