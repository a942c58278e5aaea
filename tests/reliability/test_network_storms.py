"""T-N4: all threads of all processes lose Redis at once, and come back to it."""

from __future__ import annotations

import os
import random
import threading
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import pytest
import redis

from drivers.proxy import LOOPBACK, Proxy
from drivers.servers import Server
from reliability.networks import (
    HANG_S,
    Oracle,
    Plan,
    as_it_is,
    busiest,
    collected,
    counted,
    keys_of,
    started,
    wait_until_well,
)
from tuckbox.drivers.breaker import Breaker
from tuckbox.drivers.redis import Redis
from tuckbox.errors import DriverError, Refused, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-N4"), pytest.mark.timeout(120)]

PROCESSES = 4
THREADS = 8
BOUND_S = 0.2
CONNECTIONS_MAX = PROCESSES * (THREADS + 1 + 1)
"""The threads and the main one use the pool, and the watch has one of its own."""


class TooMany(AssertionError):
    """There were more connections than the pools may have."""


def storms(folder: Path, count: int, seed: int, breaks: str = "") -> tuple[int, float]:
    """Lose the server some times. Return the most connections, and the longest recovery."""
    (folder / "server").mkdir()
    generator = random.Random(seed)
    longest_s = 0.0
    own = [keys_of(number, 10) for number in range(PROCESSES)]
    oracle = Oracle(BOUND_S)
    with ExitStack() as stack:
        server = stack.enter_context(Server("redis", folder / "server", ("--save", "")))
        proxy = stack.enter_context(Proxy((LOOPBACK, server.port)))
        actors = [
            started(
                stack,
                as_it_is,
                Plan(
                    {"host": LOOPBACK, "port": proxy.port},
                    str(folder / f"near{number}"),
                    BOUND_S,
                    own=own[number],
                    read=sum(own, ()),
                    readers=THREADS - 1,
                    pause_s=0.01,
                    breaks=breaks,
                    seed=seed + number,
                ),
            )
            for number in range(PROCESSES)
        ]
        wait_until_well(actors, "at the beginning")
        connections = stack.enter_context(counted(actors, proxy.port))
        for turn in range(count):
            if turn % 2:
                proxy.drop()
            else:
                proxy.refuse()
                time.sleep(generator.uniform(0.05, 0.3))
                proxy.heal()
            longest_s = max(longest_s, wait_until_well(actors, f"storm {turn}"))
            time.sleep(generator.uniform(0.0, 0.1))
            if (most := busiest(connections)).total() > CONNECTIONS_MAX:
                raise TooMany(f"{most}, {CONNECTIONS_MAX} connections allowed")
        for reads in collected(actors, oracle):
            for read in reads:
                oracle.judge(read)
        assert oracle.hits
        return busiest(connections).total(), longest_s


def test_all_lose_their_server(tmp_path: Path, trials: Trials, size: Any, seed: int) -> None:
    count = size(20, 200)
    most, longest_s = storms(tmp_path, count, seed)
    trials.add(count, "losses of the server by 32 threads")
    trials.figure("most connections at the server", most)
    trials.figure("longest recovery, seconds", round(longest_s, 2))


def test_a_driver_without_a_pool_is_caught(tmp_path: Path, seed: int) -> None:
    with pytest.raises(TooMany):
        storms(tmp_path, 20, seed, breaks="pool")


# --- Who asks a server that has not answered ------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server("redis", tmp_path, ("--save", "")) as server:
        yield server


def opened(port: int) -> Breaker:
    """A breaker that has failed often enough to fail at once."""
    breaker = Breaker(Redis(LOOPBACK, port, timeout_s=0.5))
    while not breaker.is_open:
        with suppress(Unreachable):
            breaker.get(b"k")
    return breaker


def until_answered(breaker: Breaker) -> bool:
    give_up_s = time.monotonic() + HANG_S
    while time.monotonic() < give_up_s:
        with suppress(Unreachable):
            breaker.get(b"k")
            return True
        time.sleep(0.02)
    return False


def test_a_child_of_a_process_that_asks_comes_back(server: Server, trials: Trials) -> None:
    with Proxy((LOOPBACK, server.port)) as proxy:
        proxy.hold_after(0)
        breaker = opened(proxy.port)

        def ask() -> None:
            with suppress(DriverError):
                breaker.get(b"k")

        give_up_s = time.monotonic() + HANG_S
        while not breaker._asking.locked():
            assert time.monotonic() < give_up_s
            thread = threading.Thread(target=ask)
            thread.start()
            time.sleep(0.05)
        pid = os.fork()
        if pid == 0:
            os._exit(0 if until_answered(breaker) else 1)
        proxy.heal()
        thread.join()
        assert os.waitpid(pid, 0)[1] == 0, "the child never asks again"
        assert until_answered(breaker)
    trials.add(1, "forks")


def test_a_server_that_refuses_has_answered(server: Server, trials: Trials) -> None:
    with Proxy((LOOPBACK, server.port)) as proxy:
        proxy.refuse()
        breaker = opened(proxy.port)
        with redis.Redis(LOOPBACK, server.port) as admin:
            admin.config_set("requirepass", "another")
        proxy.heal()
        with pytest.raises(Refused):
            until_answered(breaker)
        assert not breaker.is_open
    trials.add(1, "refusals")
