"""T-N6: a replica takes over, in a cluster and by Sentinel, under load from processes with tiers.

The processes are those of T-N3. Replication is asynchronous: a failover may lose what the old
primary acknowledged shortly before. Such a write is not demanded; a copy of it ends as any other.
"""

from __future__ import annotations

import random
import statistics
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import pytest

from drivers.clusters import ClusterServers, SentinelServers, until
from reliability.machines import CONNECTIONS_MAX, PROCESSES, Crowd
from reliability.networks import MISSED, WrongRead, busiest, counted, wait_until_well

if TYPE_CHECKING:
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-N6"), pytest.mark.timeout(300)]

BOUND_S = 0.4
BACK_S_MAX = 40.0
LAG_S = 0.5
"""How long before an unexpected failover a write may have been acknowledged without a copy."""


class Takeover(NamedTuple):
    """A replica that took over."""

    replicated_s: float
    """The replica had all that was acknowledged until then."""
    began_s: float
    up_s: float
    """When clients could know that it was the primary."""
    is_lossy: bool
    """Whether writes may be lost."""
    restore: Callable[[], None]
    """Brings back the former primary, as a replica."""
    left_s: float = 0.0
    """Until then, the former primary answered reads, though another one may have taken writes."""


class InCluster:
    """What can happen in a cluster."""

    connections_max = CONNECTIONS_MAX + PROCESSES + 1
    """The thread that listens also asks a server which one has which slot."""

    def __init__(self, stack: ExitStack, folder: Path, generator: random.Random) -> None:
        self.servers = stack.enter_context(ClusterServers(folder, timeout_ms=1000))
        self.redis = self.servers.servers
        self.driver = {"cluster": self.servers.addresses}
        self._generator = generator
        self.events = {"primary killed": self._killed, "CLUSTER FAILOVER": self._asked}

    def _killed(self) -> Takeover:
        primary = self._generator.choice(self.servers.primaries())
        replica = self.servers.replica_of(primary)
        replicated_s = self.servers.replicated(primary, replica)
        began_s = time.monotonic()
        primary.kill()
        until(lambda: self.servers.is_primary(replica), "a replica is promoted")

        def restore() -> None:
            primary.start()
            self.servers.settle()

        return Takeover(replicated_s, began_s, time.monotonic(), is_lossy=True, restore=restore)

    def _asked(self) -> Takeover:
        primary = self._generator.choice(self.servers.primaries())
        replica = self.servers.replica_of(primary)
        began_s = time.monotonic()
        self.servers.fail_over(replica)
        # Both stop writes until the replica has all of them, but not reads.
        up_s = time.monotonic()
        until(lambda: not self.servers.is_primary(primary), "the former primary has heard of it")
        left_s = time.monotonic()
        restore = self.servers.settle
        return Takeover(began_s, began_s, up_s, is_lossy=False, restore=restore, left_s=left_s)


class BySentinel:
    """What can happen to a primary that sentinels watch."""

    connections_max = CONNECTIONS_MAX

    def __init__(self, stack: ExitStack, folder: Path, _: random.Random) -> None:
        self.servers = stack.enter_context(SentinelServers(folder))
        self.redis = [self.servers.primary, self.servers.replica]
        self.driver = {"sentinels": self.servers.addresses, "service": "pages"}
        self.events = {"primary killed": self._killed}

    def _killed(self) -> Takeover:
        servers = self.servers
        port = servers.named(servers.sentinels[0])
        primary = next(one for one in self.redis if one.port == port)
        replica = next(one for one in self.redis if one.port != port)
        replicated_s = servers.replicated(primary, replica)
        began_s = time.monotonic()
        primary.kill()
        for sentinel in servers.sentinels:
            until(lambda: servers.named(sentinel) == replica.port, "all name it")  # noqa: B023
        up_s = time.monotonic()

        def restore() -> None:
            primary.start()
            servers.settle()

        return Takeover(replicated_s, began_s, up_s, is_lossy=True, restore=restore)


SITES: dict[str, Any] = {"cluster": InCluster, "sentinel": BySentinel}


def failovers(
    folder: Path, kind: str, rounds: int, seed: int, breaks: str = ""
) -> tuple[dict[str, list[float]], int, Crowd]:
    """Have replicas take over. Return how long each took, the most connections, and the crowd."""
    with ExitStack() as stack:
        site = SITES[kind](stack, folder / "servers", random.Random(seed))
        plan: dict[str, Any] = {"keys": 10, "seed": seed, "max_stale_s": BOUND_S}
        crowd = Crowd(stack, folder, site.driver, pause_s=0.005, breaks=breaks, **plan)
        wait_until_well(crowd.actors, "at the beginning", BACK_S_MAX)
        ports = [server.port for server in site.redis]
        connections = stack.enter_context(counted(crowd.actors, *ports))
        seconds: dict[str, list[float]] = {name: [] for name in site.events}
        hits = dict.fromkeys(site.events, 0)
        epoch, since_s = site.servers.epoch(), time.monotonic()

        def forgive() -> None:
            """On a busy machine, a server that runs may be given up, and lose writes."""
            if site.servers.epoch() != epoch:
                crowd.lost(since_s - LAG_S, time.monotonic())

        for _ in range(rounds):
            for name, happen in site.events.items():
                forgive()
                takeover = happen()
                epoch, since_s = site.servers.epoch(), takeover.up_s
                began_s = takeover.began_s
                # What the former primary answered may have become a copy.
                crowd.may_be_old(began_s, takeover.left_s + BOUND_S)
                if takeover.is_lossy:
                    # Before the writes of that time are noted.
                    crowd.lost(takeover.replicated_s, takeover.up_s)
                wait_until_well(crowd.actors, name, BACK_S_MAX)
                seconds[name].append(time.monotonic() - takeover.up_s)
                forgive()
                for read in crowd.judged():
                    is_early = began_s < read.began_s < began_s + 0.5 * BOUND_S
                    hits[name] += is_early and read.number != MISSED
                takeover.restore()
                wait_until_well(crowd.actors, f"after {name}", BACK_S_MAX)
        if not breaks:
            assert all(hits.values()), f"near entries were not served: {hits}"
            assert busiest(connections).total() <= site.connections_max, busiest(connections)
        return seconds, busiest(connections).total(), crowd


@pytest.mark.parametrize("kind", SITES)
def test_a_replica_takes_over(
    tmp_path: Path, trials: Trials, size: Any, seed: int, kind: str
) -> None:
    seconds, most, crowd = failovers(tmp_path, kind, size(1, 40), seed)
    trials.add(sum(map(len, seconds.values())), "failovers")
    trials.figure(
        f"{kind}: median seconds from the new primary to normal service",
        {name: round(statistics.median(each), 2) for name, each in seconds.items()},
    )
    longest_s = max(max(each) for each in seconds.values())
    trials.figure(f"{kind}: longest, seconds", round(longest_s, 2))
    trials.figure(f"{kind}: most connections at a server", most)
    trials.figure(f"{kind}: old reads within the bound", crowd.all.old)


def test_a_watch_of_one_server_is_caught(tmp_path: Path, seed: int) -> None:
    with pytest.raises(WrongRead):
        failovers(tmp_path, "cluster", 3, seed, breaks="one heard")
