"""T-N3: Redis dies, returns, loses its entries or refuses, under load from processes with tiers.

Four processes share a near file, and a fifth has a file of its own, as on another machine. Each
reads the keys of all, and writes its own. Of what a process of the same file has written, a read is
never older than the acknowledgement.
"""

from __future__ import annotations

import random
import shutil
import statistics
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Callable

import pytest
import redis

from drivers.clusters import ADMIN
from drivers.proxy import LOOPBACK
from drivers.servers import Server
from reliability.machines import CONNECTIONS_MAX, Crowd
from reliability.networks import (
    MISSED,
    Oracle,
    WrongRead,
    busiest,
    counted,
    wait_until_well,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-N3"), pytest.mark.timeout(120)]

BOUND_S = 0.4


class Site:
    """A Redis server that keeps its entries over a death, and what can happen to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        keeps = ("--dir", str(folder), "--appendonly", "yes", "--appendfsync", "no", "--save", "")
        self.server = Server("redis", folder, keeps)
        self.events: dict[str, Callable[[float], None]] = {
            "killed, returns with its entries": self._dies,
            "killed, returns empty": self._dies_and_forgets,
            "FLUSHALL": self._flushed,
            "CLIENT PAUSE": self._paused,
            "out of memory": self._full,
            "read-only replica": self._replica,
            "wrong password": self._locked,
        }

    @contextmanager
    def admin(self) -> Iterator[Any]:
        """A connection of the test."""
        with redis.Redis(LOOPBACK, self.server.port, client_name=ADMIN) as admin:
            yield admin

    def _dies(self, seconds: float) -> None:
        self.server.kill()
        time.sleep(seconds)
        self.server.start()

    def _dies_and_forgets(self, seconds: float) -> None:
        self.server.kill()
        shutil.rmtree(self._folder / "appendonlydir")
        time.sleep(seconds)
        self.server.start()

    def _flushed(self, seconds: float) -> None:
        with self.admin() as admin:
            admin.flushall()
        time.sleep(seconds / 4)

    def _paused(self, seconds: float) -> None:
        with self.admin() as admin:
            admin.client_pause(round(seconds * 1000))
        time.sleep(seconds)

    def _full(self, seconds: float) -> None:
        with self.admin() as admin:
            admin.config_set("maxmemory-policy", "noeviction")
            admin.config_set("maxmemory", 1)
            time.sleep(seconds)
            admin.config_set("maxmemory", 0)

    def _replica(self, seconds: float) -> None:
        with self.admin() as admin:
            admin.replicaof(LOOPBACK, 1)  # Where no primary is.
            time.sleep(seconds)
            admin.replicaof("NO", "ONE")

    def _locked(self, seconds: float) -> None:
        with self.admin() as admin:
            admin.config_set("requirepass", "another")
            admin.client_kill_filter(_type="normal", skipme=True)
            time.sleep(seconds)
            admin.config_set("requirepass", "")


def test_a_server_that_dies_or_refuses(
    tmp_path: Path, trials: Trials, size: Any, seed: int
) -> None:
    (tmp_path / "server").mkdir()
    site = Site(tmp_path / "server")
    generator = random.Random(seed)
    recoveries: dict[str, list[float]] = {name: [] for name in site.events}
    hits = dict.fromkeys(site.events, 0)
    with ExitStack() as stack:
        stack.enter_context(site.server)
        plan = {"keys": 10, "seed": seed, "max_stale_s": BOUND_S, "pause_s": 0.005}
        crowd = Crowd(stack, tmp_path, {"host": LOOPBACK, "port": site.server.port}, **plan)
        wait_until_well(crowd.actors, "at the beginning")
        connections = stack.enter_context(counted(crowd.actors, site.server.port))
        for _ in range(size(2, 70)):
            for name, happen in site.events.items():
                began_s = time.monotonic()
                happen(generator.uniform(0.2, 1.6) * BOUND_S)
                recoveries[name].append(wait_until_well(crowd.actors, name))
                for read in crowd.judged():
                    is_early = began_s < read.began_s < began_s + 0.5 * BOUND_S
                    hits[name] += is_early and read.number != MISSED
                time.sleep(0.2 * BOUND_S)
    assert all(hits.values()), f"near entries were not served: {hits}"
    most = busiest(connections)
    assert most.total() <= CONNECTIONS_MAX, most
    trials.add(sum(map(len, recoveries.values())), "outages and losses")
    trials.figure(
        "median seconds until normal service",
        {name: round(statistics.median(each), 2) for name, each in recoveries.items()},
    )
    trials.figure("most connections at the server", most.total())
    trials.figure("old reads within the bound", crowd.all.old)


def race(folder: Path, seconds: float, seed: int, breaks: str = "") -> Oracle:
    """Many read few keys while they are written, and values arrive late."""
    (folder / "server").mkdir()
    bound_s = 0.3
    plan = {"keys": 1, "seed": seed, "max_stale_s": bound_s, "pause_s": 0.001}
    plan |= {"rest_s": 3 * bound_s, "slow_s": 0.005, "breaks": breaks}
    with ExitStack() as stack:
        server = stack.enter_context(Server("redis", folder / "server", ("--save", "")))
        crowd = Crowd(stack, folder, {"host": LOOPBACK, "port": server.port}, **plan)
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s:
            time.sleep(0.5)
            list(crowd.judged())
    return crowd.all


def test_values_that_changes_overtake(tmp_path: Path, trials: Trials, size: Any, seed: int) -> None:
    oracle = race(tmp_path, size(3, 120), seed)
    assert oracle.hits
    trials.figure("reads of keys that change", oracle.hits)
    trials.add(1, "races")


def test_copies_without_a_lease_are_caught(tmp_path: Path, seed: int) -> None:
    with pytest.raises(WrongRead):
        race(tmp_path, 20, seed, breaks="lease")
