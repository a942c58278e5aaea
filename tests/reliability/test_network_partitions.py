"""T-N2: what a tier serves while its machine is cut off from Redis, and afterwards.

Machines are network namespaces whose links are cut. Processes are also stopped, and lose their
connections.
"""

from __future__ import annotations

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from drivers.proxy import LOOPBACK, Proxy
from drivers.servers import Server
from reliability.actors import Actor, demand
from reliability.networks import (
    HANG_S,
    MISSED,
    TICK_S,
    Network,
    Oracle,
    Plan,
    Read,
    WrongRead,
    as_it_is,
    collected,
    health,
    keys_of,
    may_make_networks,
    started,
    wait_until_well,
)
from tuckbox.drivers.memcached import Memcached
from tuckbox.drivers.redis import Redis
from tuckbox.remote import cache as remote
from tuckbox.tiers.shared_first import SharedFirst

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-N2"), pytest.mark.timeout(120)]

KEYS = 30


class Machine(NamedTuple):
    """Processes that share a file, and how their tiers are set up."""

    max_stale_s: float
    on_outage: str
    cuts: int
    processes: int = 1
    breaks: str = ""


class Cut(NamedTuple):
    """When a machine was cut off, and when it was back to normal."""

    began_s: float
    ended_s: float
    well_s: float


def cut_off(
    network: Network, number: int, machine: Machine, actors: list[Actor], seed: int
) -> list[Cut]:
    """Cut a machine's link several times, for a while each."""
    generator = random.Random(seed)
    cuts = []
    for turn in range(machine.cuts):
        time.sleep(min(1.0, 0.4 * machine.max_stale_s) * generator.random())
        network.set_link(number, up=False)
        began_s = time.monotonic()
        # Each second cut is longer than the bound.
        shortest = 1.1 if turn % 2 == 0 else 0.05
        time.sleep(generator.uniform(shortest, shortest + 0.7) * machine.max_stale_s)
        ended_s = time.monotonic()
        network.set_link(number, up=True)
        wait_until_well(actors, f"machine {number}, cut {turn}")
        cuts.append(Cut(began_s, ended_s, time.monotonic()))
        # Copies from before the cut would be served now.
        time.sleep(0.5)
    return cuts


def judged(machine: Machine, oracle: Oracle, cuts: list[Cut], reads: list[Read]) -> dict[str, int]:
    """Judge the reads of a process. Return how many of each kind there were."""
    kinds = dict.fromkeys(("connected", "cut off and served", "cut off and missed"), 0)
    for read in reads:
        cut = next((cut for cut in cuts if cut.began_s < read.began_s < cut.well_s), None)
        if machine.on_outage == "serve" and cut is not None:
            if cut.began_s + machine.max_stale_s + TICK_S < read.began_s < cut.ended_s:
                kinds["served past the bound"] = kinds.get("served past the bound", 0) + (
                    read.number != MISSED
                )
            continue
        oracle.judge(read)
        if cut is None:
            kinds["connected"] += 1
            continue
        kinds["cut off and missed" if read.number == MISSED else "cut off and served"] += 1
        # A read that waits for the far tier may be answered when the link is up again.
        is_late = cut.began_s + machine.max_stale_s + TICK_S < read.began_s
        is_late = is_late and read.ended_s < cut.ended_s
        if is_late and read.number != MISSED:
            raise WrongRead(f"{read} was served although nothing was confirmed for too long")
    return kinds


def partition(folder: Path, machines: list[Machine], seed: int) -> tuple[int, dict[str, int]]:
    """Cut machines off while others write. Return how many cuts there were, and reads by kind."""
    demand("network namespaces", is_there=may_make_networks())
    (folder / "server").mkdir()
    keys = keys_of("writer", KEYS)
    with ExitStack() as stack:
        network = stack.enter_context(Network(folder / "server", len(machines) + 1))
        writer_at = len(machines)
        writer_plan = Plan(
            network.address(writer_at), str(folder / "writer"), 1.0, own=keys, read=keys, seed=seed
        )
        writer = started(stack, network.enter(writer_at), writer_plan)
        actors = [
            [
                started(
                    stack,
                    network.enter(number),
                    Plan(
                        network.address(number),
                        str(folder / f"near{number}"),
                        machine.max_stale_s,
                        machine.on_outage,
                        read=keys,
                        breaks=machine.breaks,
                        seed=seed + 10 * number + process,
                    ),
                )
                for process in range(machine.processes)
            ]
            for number, machine in enumerate(machines)
        ]
        for number, group in enumerate(actors):
            wait_until_well(group, f"machine {number} at the beginning")
        with ThreadPoolExecutor(len(machines)) as pool:
            jobs = [
                pool.submit(cut_off, network, number, machine, group, seed + number)
                for number, (machine, group) in enumerate(zip(machines, actors))
            ]
            cuts = [job.result() for job in jobs]
        oracles = [Oracle(machine.max_stale_s) for machine in machines]
        read = [collected(group) for group in actors]
        collected([writer], *oracles)
        kinds: dict[str, int] = {}
        for machine, oracle, own, group in zip(machines, oracles, cuts, read):
            for reads in group:
                for kind, count in judged(machine, oracle, own, reads).items():
                    kinds[kind] = kinds.get(kind, 0) + count
            kinds["old, but within the bound"] = (
                kinds.get("old, but within the bound", 0) + oracle.old
            )
        assert all(kinds.values()), f"this tries nothing: {kinds}"
        return sum(map(len, cuts)), kinds


def test_a_machine_that_is_cut_off(tmp_path: Path, trials: Trials, size: Any, seed: int) -> None:
    machines = [
        Machine(1.0, "miss", size(4, 245), processes=2),
        Machine(1.0, "miss", size(5, 245)),
        Machine(1.0, "miss", size(5, 245)),
        Machine(1.0, "serve", size(5, 245)),
        Machine(5.0, "miss", size(1, 20)),
    ]
    cuts, kinds = partition(tmp_path, machines, seed)
    trials.add(cuts, "cuts of a link")
    trials.figure("reads of machines that were cut off", kinds)


@pytest.mark.parametrize("breaks", ["gaps", "bound"])
def test_a_tier_that_serves_too_long_is_caught(tmp_path: Path, seed: int, breaks: str) -> None:
    with pytest.raises(WrongRead):
        partition(tmp_path, [Machine(1.0, "miss", 1, breaks=breaks)], seed)


def test_processes_that_are_stopped(tmp_path: Path, trials: Trials, size: Any, seed: int) -> None:
    """One of two that share a file is stopped, or one that has a file for itself."""
    stops, bound_s = size(5, 500), 0.5
    (tmp_path / "server").mkdir()
    keys = keys_of("writer", KEYS)
    with ExitStack() as stack:
        server = stack.enter_context(Server("redis", tmp_path / "server", ("--save", "")))
        driver = {"host": LOOPBACK, "port": server.port}

        def plan(name: str, number: int, **more: Any) -> Plan:
            path = str(tmp_path / name)
            return Plan(driver, path, bound_s, read=keys, seed=seed + number, **more)

        writer = started(stack, as_it_is, plan("writer", 0, own=keys))
        shared = [started(stack, as_it_is, plan("shared", number)) for number in (1, 2)]
        alone = started(stack, as_it_is, plan("alone", 3))
        wait_until_well([writer, *shared, alone], "at the beginning")

        def stop(victim: Actor, others: list[Actor], number: int) -> None:
            generator = random.Random(seed + number)
            for _ in range(stops):
                os.kill(victim.pid, signal.SIGSTOP)
                try:
                    time.sleep(generator.uniform(0.1, 2.0) * bound_s)
                    wait_until_well(others, "others of a stopped process")
                finally:
                    os.kill(victim.pid, signal.SIGCONT)
                time.sleep(generator.uniform(0.1, 1.0) * bound_s)
                wait_until_well([victim], "a process that was stopped")

        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(stop, shared[0], shared[1:], 0), pool.submit(stop, alone, [], 1)]
            for job in jobs:
                job.result()
        oracle = Oracle(bound_s)
        read = collected([*shared, alone, writer], oracle)
        for reads in read:
            for one in reads:
                oracle.judge(one)
        assert oracle.hits
    trials.add(2 * stops, "stops of a process")


def test_connections_that_are_dropped(tmp_path: Path, trials: Trials, size: Any, seed: int) -> None:
    """Four processes have a proxy each, and two of them share a file."""
    drops, bound_s = size(20, 500), 0.2
    (tmp_path / "server").mkdir()
    own = [keys_of(number, KEYS // 3) for number in range(4)]
    with ExitStack() as stack:
        server = stack.enter_context(Server("redis", tmp_path / "server", ("--save", "")))
        proxies = [stack.enter_context(Proxy((LOOPBACK, server.port))) for _ in own]
        actors = [
            started(
                stack,
                as_it_is,
                Plan(
                    {"host": LOOPBACK, "port": proxy.port},
                    str(tmp_path / f"near{number // 2}"),
                    bound_s,
                    own=own[number],
                    read=sum(own, ()),
                    seed=seed + number,
                ),
            )
            for number, proxy in enumerate(proxies)
        ]

        def drop(actor: Actor, proxy: Proxy, number: int) -> None:
            generator = random.Random(seed + number)
            for turn in range(drops):
                time.sleep(generator.random() * bound_s)
                proxy.drop()
                if turn % 2:
                    wait_until_well([actor], f"process {number}, drop {turn}")
            wait_until_well([actor], f"process {number} in the end")

        with ThreadPoolExecutor(len(actors)) as pool:
            for job in [pool.submit(drop, *each) for each in zip(actors, proxies, range(4))]:
                job.result()
        oracle = Oracle(bound_s)
        for reads in collected(actors, oracle):
            for one in reads:
                oracle.judge(one)
        gaps = sum(actor.call(health)["gaps"] for actor in actors)
        assert oracle.hits
        assert gaps
    trials.add(drops * len(actors), "drops of all connections")
    trials.figure("gaps after drops", gaps)


# --- Single moments -------------------------------------------------------------------------------


class ClearedMeanwhile(SharedFirst):
    """Is cleared and told to serve again when a read asks until when, or whether, it may serve."""

    clears_at = ""

    def _clear_at(self, question: str) -> None:
        if self.clears_at == question:
            self.clears_at = ""
            assert self._tiers.coverage is not None
            (side,) = self._tiers.coverage._sides
            side.apply(None)
            side.cover(side.now_us())

    def _served_until(self) -> Any:
        self._clear_at("until when")
        return super()._served_until()

    def _is_ahead(self, moment: Any) -> bool:
        self._clear_at("whether")
        return super()._is_ahead(moment)


@pytest.mark.parametrize("clears_at", ["until when", "whether"])
@pytest.mark.parametrize("read", ["get", "get_many", "get_or_set", "in"])
def test_a_tier_that_is_cleared_during_a_read(
    tmp_path: Path, trials: Trials, read: str, clears_at: str
) -> None:
    """What was in it before is not returned."""
    (tmp_path / "server").mkdir()
    with ExitStack() as stack:
        server = stack.enter_context(Server("redis", tmp_path / "server", ("--save", "")))
        direct: Any = remote.Cache(Redis(LOOPBACK, server.port))
        stack.callback(direct.close)
        tier: Any = ClearedMeanwhile(remote.Cache(Redis(LOOPBACK, server.port)), tmp_path / "near")
        stack.callback(tier.close)
        direct.set("k", "old")
        # Nobody listens.
        tier._tiers.coverage.stop()
        assert tier.get("k") == "old"
        direct.delete("k") if read == "in" else direct.set("k", "new")
        tier.clears_at = clears_at
        found = {
            "get": lambda: tier.get("k"),
            "get_many": lambda: tier.get_many(["k"])["k"],
            "get_or_set": lambda: tier.get_or_set("k", lambda: "made"),
            "in": lambda: "old" if "k" in tier else "new",
        }[read]()
        assert found == "new"
    trials.add(1, "clears during a read")


@pytest.mark.parametrize("read", ["get", "get_many", "get_or_set"])
def test_a_late_reply_makes_no_older_copy(tmp_path: Path, trials: Trials, read: str) -> None:
    """Where no changes are told, the age of a copy is counted from the request."""
    (tmp_path / "server").mkdir()
    bound_s = 0.6
    with ExitStack() as stack:
        server = stack.enter_context(Server("memcached", tmp_path / "server"))
        proxy = stack.enter_context(Proxy((LOOPBACK, server.port)))
        direct: Any = remote.Cache(Memcached(f"{LOOPBACK}:{server.port}"))
        stack.callback(direct.close)
        far = remote.Cache(Memcached(f"{LOOPBACK}:{proxy.port}", timeout_s=HANG_S))
        tier: Any = SharedFirst(far, tmp_path / "near", max_stale=bound_s)
        stack.callback(tier.close)
        direct.set("k", "old")
        reads: dict[str, Callable[[], object]] = {
            "get": lambda: tier.get("k"),
            "get_many": lambda: tier.get_many(["k"])["k"],
            "get_or_set": lambda: tier.get_or_set("k", lambda: "made"),
        }
        proxy.delay(0.5)
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(reads[read])
            time.sleep(0.2)
            direct.set("k", "new")
            changed_s = time.monotonic()
            assert first.result() == "old"
        proxy.heal()
        while True:
            began_s = time.monotonic()
            if tier.get("k") == "new":
                break
            age_s = began_s - changed_s
            assert age_s < bound_s + TICK_S, f"the old value is served after {age_s:.3f} s"
            time.sleep(0.005)
    trials.add(1, "late replies")
