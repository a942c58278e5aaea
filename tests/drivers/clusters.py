"""Redis servers that belong together: a cluster, and a primary with a replica and sentinels.

Owns how they are joined. How each is started, the lab's catalogue says.
"""

from __future__ import annotations

import re
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import redis

from drivers.proxy import LOOPBACK
from drivers.servers import Server, reserved_port
from tuckbox.drivers.redis import Redis
from tuckbox.errors import DriverError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typing_extensions import Self

SERVICE = "pages"
ADMIN = "admin"
"""The name of connections that tests make to see and change what servers do."""
PATIENT_S = 50.0
_SLOTS = 16_384
_PRIMARIES = 3


def until(condition: Callable[[], object], what: str, seconds: float = PATIENT_S) -> None:
    """Wait for what must happen, however slow the machine is."""
    give_up_s = time.monotonic() + seconds
    while True:
        with suppress(redis.RedisError, OSError):
            if condition():
                return
        if time.monotonic() > give_up_s:
            raise AssertionError(f"it does not happen: {what}")
        time.sleep(0.01)


@contextmanager
def drivers_of(servers: ClusterServers | SentinelServers) -> Iterator[Callable[..., Redis]]:
    """Opens drivers of these servers, which are settled and empty; closes them in the end."""
    drivers: list[Redis] = []

    def open_driver(**options: Any) -> Redis:
        drivers.append(Redis.from_url(servers.url, value_bytes_max=1 << 20, **options))
        return drivers[-1]

    def is_cleared() -> bool:
        with suppress(DriverError):
            first.clear(b"")
            return True
        return False

    servers.settle()
    first = open_driver()
    until(is_cleared, "the servers are empty")
    yield open_driver
    for driver in drivers:
        driver.close()


@contextmanager
def watching(driver: Redis) -> Iterator[tuple[Any, list[Any]]]:
    """A watch, and what it tells."""
    told: list[Any] = []

    def begin() -> bool:
        nonlocal watch
        with suppress(Unreachable):
            watch = driver.watch(b"", told.append)
            return True
        return False

    watch: Any = None
    until(begin, "the watch begins")
    told.clear()
    with watch:
        yield watch, told


class Secrets(NamedTuple):
    """Passwords, and the options for TLS."""

    password: str
    sentinel_password: str
    options: tuple[str, ...]
    authority: str


class _Joined:
    """Servers that are started and stopped together."""

    def __init__(self) -> None:
        self.servers: list[Server] = []
        self._stack = ExitStack()
        self._admins: dict[int, Any] = {}
        self._reach: dict[int, dict[str, Any]] = {}
        """How an operator reaches a server by its port, if not as the others."""

    def __enter__(self) -> Self:
        try:
            for server in self.servers:
                self._stack.enter_context(server)
            self._join()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for admin in self._admins.values():
            admin.close()
        self._stack.close()

    def _join(self) -> None:
        raise NotImplementedError

    def admin(self, server: Server) -> Any:
        """A server, as an operator reaches it."""
        known = {"decode_responses": True, "client_name": ADMIN, "protocol": 2}
        known |= self._reach.get(server.port, {})
        return self._admins.setdefault(server.port, redis.Redis(LOOPBACK, server.port, **known))

    def replicated(self, primary: Server, replica: Server) -> float:
        """Wait until a replica has what its primary has now; return the time of now.

        Replication takes milliseconds, but seconds while the machine is busy.
        """
        now_s = time.monotonic()
        offset = self.admin(primary).info("replication")["master_repl_offset"]

        def has_it() -> bool:
            return int(self.admin(replica).info("replication")["slave_repl_offset"]) >= offset

        until(has_it, f"{replica.port} has what {primary.port} has")
        return now_s


class ClusterServers(_Joined):
    """Three primaries, which are the first servers, and a replica of each.

    Args:
        folder: Where they keep their files.
        timeout_ms: After how long without an answer a server is given up.
    """

    def __init__(self, folder: Path, timeout_ms: int = 1500) -> None:
        super().__init__()
        self._folder = folder
        self._timeout_ms = timeout_ms
        self._buses: dict[int, int] = {}
        self.servers = [self.new() for _ in range(2 * _PRIMARIES)]
        self.addresses = [f"{LOOPBACK}:{server.port}" for server in self.servers]
        self.url = f"redis+cluster://{','.join(self.addresses[:_PRIMARIES])}"

    def new(self) -> Server:
        """A server that belongs to no cluster, and is not started."""
        bus = reserved_port()
        own = self._folder / str(bus)
        own.mkdir(parents=True)
        options = ("--cluster-enabled", "yes", "--cluster-port", str(bus), "--save", "")
        options += ("--cluster-node-timeout", str(self._timeout_ms))
        options += ("--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
        server = Server("redis", own, options)
        self._buses[server.port] = bus
        return server

    def meet(self, server: Server) -> None:
        """Have a server join the first one."""
        first = self.servers[0]
        self.admin(server).execute_command(
            "CLUSTER", "MEET", LOOPBACK, first.port, self._buses[first.port]
        )

    def name(self, server: Server) -> str:
        """What the cluster calls a server."""
        return str(self.admin(server).execute_command("CLUSTER", "MYID"))

    def _join(self) -> None:
        for number, server in enumerate(self.servers):
            self.admin(server).execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number < _PRIMARIES:
                ends = [round(_SLOTS * (number + one) / _PRIMARIES) for one in (0, 1)]
                slots = (ends[0], ends[1] - 1)
                self.admin(server).execute_command("CLUSTER", "ADDSLOTSRANGE", *slots)
            if number:
                self.meet(server)
        for server in self.servers:
            until(lambda: len(self.nodes(server)) == len(self.servers), "all know all")  # noqa: B023
        for primary, replica in zip(self.servers, self.servers[_PRIMARIES:]):
            self.admin(replica).execute_command("CLUSTER", "REPLICATE", self.name(primary))
        self.settle()

    def nodes(self, server: Server) -> list[list[str]]:
        """What a server knows of all: the words of each line of CLUSTER NODES."""
        # As one word, redis-py would parse the reply.
        told = self.admin(server).execute_command("CLUSTER", "NODES")
        return [line.split() for line in told.splitlines()]

    def is_primary(self, server: Server) -> bool:
        """Whether a server takes writes."""
        return bool(self.admin(server).execute_command("ROLE")[0] == "master")

    def primaries(self) -> list[Server]:
        """The servers that take writes now."""
        found = []
        for server in self.servers:
            with suppress(redis.RedisError, OSError):
                if self.is_primary(server):
                    found.append(server)
        return found

    def fail_over(self, replica: Server) -> None:
        """Have a replica take over from a primary that runs."""
        for _ in range(5):
            self.admin(replica).execute_command("CLUSTER", "FAILOVER")
            # The servers give up after five seconds.
            with suppress(AssertionError):
                until(lambda: self.is_primary(replica), "it is promoted", 6.0)
                return
        raise AssertionError(f"{replica.port} does not take over")

    def epoch(self) -> int:
        """A number that rises with each failover, asked for or not."""
        epochs = [0]
        for server in self.servers:
            with suppress(redis.RedisError, OSError):
                epochs.append(int(self.admin(server).cluster("INFO")["cluster_current_epoch"]))
        return max(epochs)

    def replica_of(self, primary: Server) -> Server:
        """A replica of a primary."""
        name = self.name(primary)
        for server in self.servers:
            if any("myself" in one[2] and one[3] == name for one in self.nodes(server)):
                return server
        raise AssertionError(f"{primary.port} has no replica")

    def settle(self) -> None:
        """Wait until all servers run and know each other's ports, all slots are served, and each
        primary has a replica."""
        ports = {server.port for server in self.servers}

        def is_settled(server: Server) -> bool:
            admin = self.admin(server)
            # An address is 127.0.0.1:7000@17000. A port that was announced is known for a while.
            known = {int(re.split("[:@]", words[1])[1]) for words in self.nodes(server)}
            if not ports <= known:
                return False
            info = admin.info("replication")
            is_synced = (
                info["connected_slaves"] > 0
                if info["role"] == "master"
                else info["master_link_status"] == "up"
            )
            return is_synced and "cluster_state:ok" in admin.execute_command("CLUSTER", "INFO")

        for server in self.servers:
            until(lambda: is_settled(server), f"{server.port} is settled")  # noqa: B023


class SentinelServers(_Joined):
    """A primary, which is the first server, a replica, and sentinels that watch them.

    Args:
        folder: Where they keep their files.
        sentinels: How many sentinels.
        secrets: How connections are protected, if they are.
    """

    def __init__(self, folder: Path, sentinels: int = 3, secrets: Secrets | None = None) -> None:
        super().__init__()
        self.primary, self.replica = [
            Server("redis", _made(folder / name), ("--save", "", "--repl-diskless-sync-delay", "0"))
            for name in ("primary", "replica")
        ]
        self.replica._command += ["--replicaof", LOOPBACK, str(self.primary.port)]
        self.sentinels = [
            _sentinel(folder / f"sentinel{number}", self.primary, self.replica, sentinels)
            for number in range(sentinels)
        ]
        self.servers = [self.primary, self.replica, *self.sentinels]
        self.addresses = [f"{LOOPBACK}:{sentinel.port}" for sentinel in self.sentinels]
        self.url = f"redis+sentinel://{','.join(self.addresses)}/{SERVICE}"
        if secrets is not None:
            self._guard(secrets)

    def _guard(self, secrets: Secrets) -> None:
        tls = {"ssl": True, "ssl_ca_certs": secrets.authority}
        for server in self.servers:
            is_sentinel = server in self.sentinels
            password = secrets.sentinel_password if is_sentinel else secrets.password
            server._command += ["--port", "0", "--tls-port", str(server.port), *secrets.options]
            server._command += ["--requirepass", password]
            self._reach[server.port] = {**tls, "password": password}
        for server in (self.primary, self.replica):
            server._command += ["--masterauth", secrets.password]
        for sentinel in self.sentinels:
            with open(sentinel._command[1], "a", encoding="ascii") as file:
                file.write(f"sentinel auth-pass {SERVICE} {secrets.password}\n")

    def _join(self) -> None:
        for sentinel in self.sentinels:
            self.hasten(sentinel)
        self.settle()

    def hasten(self, sentinel: Server) -> None:
        """Have a sentinel that was started look more often than every 10 seconds."""
        periods = {"INFO-PERIOD": 200, "PUBLISH-PERIOD": 200}
        words = [word for period in periods.items() for word in period]
        self.admin(sentinel).execute_command("SENTINEL", "DEBUG", *words)

    def named(self, sentinel: Server) -> int:
        """The port of the primary that a sentinel knows, as redis-py asks it."""
        return int(self.admin(sentinel).sentinel_masters()[SERVICE]["port"])

    def epoch(self) -> int:
        """A number that rises with each failover, asked for or not."""
        return max(
            int(self.admin(sentinel).sentinel_masters()[SERVICE]["config-epoch"])
            for sentinel in self.sentinels
        )

    def settle(self) -> None:
        """Wait until all sentinels know each other, the primary and a replica that follows it."""

        def is_settled(sentinel: Server) -> bool:
            known = self.admin(sentinel).sentinel_masters()[SERVICE]
            followers = self.admin(sentinel).sentinel_slaves(SERVICE)
            return bool(
                known["num-other-sentinels"] == len(self.sentinels) - 1
                and not known["is_sdown"]
                and len(followers) == 1
                and followers[0]["flags"] == "slave"
                and followers[0].get("master-link-status") == "ok"
            )

        for sentinel in self.sentinels:
            until(lambda: is_settled(sentinel), f"sentinel {sentinel.port} is settled")  # noqa: B023


# A sentinel that was told of a new primary pings it after a second.
_DOWN_AFTER_MS = 1500


def _sentinel(folder: Path, primary: Server, replica: Server, count: int) -> Server:
    server = Server("redis", _made(folder), ("--sentinel",))
    file = folder / "sentinel.conf"
    file.write_text(
        f"sentinel monitor {SERVICE} {LOOPBACK} {primary.port} {count // 2 + 1}\n"
        f"sentinel known-replica {SERVICE} {LOOPBACK} {replica.port}\n"
        f"sentinel down-after-milliseconds {SERVICE} {_DOWN_AFTER_MS}\n"
        f"sentinel failover-timeout {SERVICE} 2000\n"
    )
    server._command.insert(1, str(file))
    return server


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
