"""The Perl contestants tell the truth, each with its real library and server, alone and shared."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.protocol import (
    ACTIONS,
    Close,
    Closed,
    Failed,
    Opened,
    Prepared,
    Probed,
    ProbeRead,
    ProbeWrite,
    Run,
    ValueKind,
    Verdict,
)
from lab.runner import catalogue
from lab.runner.catalogue import Contestant
from lab.stream import GET, SET, Operation
from lab.tests.perl_hosts import (
    StartHost,
    load_all,
    mixed,
    open_one_by_one,
    perl_hosts,
    probe,
    run_mixes,
)
from lab.tests.talking import (
    Conversation,
    Plan,
    Streams,
    ask_all,
    expected,
    model,
    needs,
    one_worker,
    prepare,
)

HOSTS = perl_hosts
pytestmark = needs("perl")


ROWS: list[tuple[Contestant, ValueKind]] = [
    (row, value)
    for row in catalogue.contestants().values()
    if row.host == "perl"
    for value in row.values
]
BINARY = [pair for pair in ROWS if pair[1] == "binary"]
SERVED = [pair for pair in ROWS if pair[0].server]


def named(part: Contestant | ValueKind) -> str:
    return part if isinstance(part, str) else part.name


COMMANDS: dict[str, Callable[[str, str], list[str]]] = {
    "memcached": lambda port, path: (
        ["memcached", "-u", "root", "-U", "0"]
        + (["-s", path] if path else ["-l", "127.0.0.1", "-p", port])
    ),
    "redis": lambda port, path: (
        ["redis-server", "--save", "", "--bind", "127.0.0.1", "--port", port]
        + (["--unixsocket", path] if path else [])
    ),
}


@dataclass
class Servers:
    """Starts the servers of rows, and ends them."""

    folder: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def connect(self, row: Contestant) -> dict[str, str]:
        """Start the server of `row`, if it has one, and return the settings to reach it."""
        if not row.server:
            return {}
        is_socket = row.transport == "socket"
        path = str(self.folder / "socket") if is_socket else ""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = 0 if is_socket else free.getsockname()[1]
        command = COMMANDS[row.server](str(port), path)
        if shutil.which(command[0]) is None:
            pytest.skip(f"there is no {command[0]}")
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=self.folder)
        self.started.append(server)
        for _ in range(1_000):
            with socket.socket(socket.AF_UNIX if is_socket else socket.AF_INET) as door:
                if door.connect_ex(path if is_socket else ("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.01)
        return {"socket": path} if is_socket else {"host": "127.0.0.1", "port": str(port)}

    def kill(self) -> None:
        """Kill every server and wait until it has ended."""
        for server in self.started:
            server.kill()
            server.wait()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    servers = Servers(tmp_path)
    yield servers
    servers.kill()


def plan_of(
    row: Contestant, value: ValueKind, folder: Path, servers: Servers, phases: Sequence[Streams]
) -> Plan:
    dice = random.Random(3)
    keys = [dice.randbytes(18).hex() for _ in range(100)]
    settings = row.settings | servers.connect(row)
    adapter = Path(row.folder, "adapter.pl")
    return Plan(folder, adapter, phases, keys, value, settings, row.install.distribution)


@pytest.mark.parametrize(("row", "value"), ROWS, ids=named)
def test_a_contestant_tells_the_truth(
    host: Conversation, tmp_path: Path, row: Contestant, value: ValueKind, servers: Servers
) -> None:
    sizes = (8, 600) if value == "binary" else (1, 30)
    plan = plan_of(row, value, tmp_path, servers, mixed(100, 600, sizes))
    loaded = host.load_or_skip(plan.load())
    assert loaded.version or not row.install.distribution

    host.ask(plan.open("probe"), Opened)
    written, verdict = probe(host)
    assert written.refused == 0
    assert verdict.lost == (0 if row.stores else 48)
    assert (verdict.wrong, verdict.stale) == (0, 0)
    host.ask(Close(), Closed)

    # Everything fits: the tallies must be those of a store that keeps everything.
    host.ask(plan.open(), Opened)
    host.run(0)
    ran = host.run(1, "throughput", block=32)
    assert (ran.verdict.wrong, ran.verdict.stale) == (0, 0)
    if row.stores:
        assert ran.actions == expected(plan.phases)
    host.ask(Close(), Closed)


@pytest.mark.parametrize(("row", "value"), BINARY, ids=named)
def test_a_large_value_is_stored_or_refused(
    host: Conversation, tmp_path: Path, row: Contestant, value: ValueKind, servers: Servers
) -> None:
    operations = [Operation(SET, 0, 100), Operation(SET, 0, 2_222_981), Operation(GET, 0, 0)]
    plan = plan_of(row, value, tmp_path, servers, one_worker(operations))
    host.load_or_skip(plan.load())
    host.ask(plan.open(bytes_max=720_896), Opened)
    ran = host.run(0)
    assert ran.verdict.wrong == 0
    # The README of this one says that it drops what is too large and keeps the old value.
    name, _, form = row.name.partition(":")
    keeps_the_old = name == "perl_cache_mmap"
    assert ran.verdict.stale == keeps_the_old
    refused_by = {"perl_fastmmap", "perl_chi_fastmmap", "perl_libmemcached", "perl_chi_memcached"}
    refuses = name in refused_by and form != "l1"
    assert ran.actions["set"].miss == refuses or name == "perl_ipc_mm"


@pytest.mark.parametrize(("row", "value"), SERVED, ids=named)
def test_a_dying_server_is_an_error(
    host: Conversation, tmp_path: Path, row: Contestant, value: ValueKind, servers: Servers
) -> None:
    preload, mix = mixed(100, 600, (8, 600))
    plan = plan_of(row, value, tmp_path, servers, [preload, mix])
    host.load_or_skip(plan.load())
    host.ask(plan.open(), Opened)
    host.run(0)
    servers.kill()
    host.ask(prepare(1), Prepared)
    assert host.ask(Run(0, ""), Failed).reason


def counted(row: Contestant, verdict: Verdict) -> dict[str, int]:
    """Return what a verdict counts, 0 for what the row is excused."""
    counts = {"wrong": verdict.wrong, "stale": verdict.stale, "lost": verdict.lost}
    return counts | dict.fromkeys(row.excused, 0)


@pytest.mark.parametrize(("row", "value"), ROWS, ids=named)
def test_workers_share_a_contestant_or_have_one_each(
    start: StartHost, tmp_path: Path, row: Contestant, value: ValueKind, servers: Servers
) -> None:
    sizes = (8, 600) if value == "binary" else (1, 30)
    plan = plan_of(row, value, tmp_path, servers, mixed(100, 400, sizes, workers=2))
    hosts = [start() for _ in range(2)]
    load_all(hosts, plan)
    shared = row.is_shared

    open_one_by_one(hosts, plan, "probe")
    ask_all(hosts, [ProbeWrite()] * 2, Probed)
    for worker, one in enumerate(hosts):
        own = counted(row, one.ask(ProbeRead([worker]), Probed).verdict)
        assert own == {"wrong": 0, "stale": 0, "lost": 0 if row.stores else 48}
        others = counted(row, one.ask(ProbeRead([1 - worker]), Probed).verdict)
        assert others == {"wrong": 0, "stale": 0, "lost": 0 if shared else 48}
    ask_all(hosts, [Close()] * 2, Closed)

    open_one_by_one(hosts, plan)
    (preload,), mixes = plan.phases
    for mix, ran in zip(mixes, run_mixes(hosts, plan, shared=shared), strict=True):
        assert counted(row, ran.verdict) == {"wrong": 0, "stale": 0, "lost": 0}
        assert ran.done == len(mix)
        if row.stores and not shared:
            there: set[int] = set()
            model(preload, there)
            alone = model(mix, there)
            assert {of: ran.actions[of].miss for of in ACTIONS} == {
                of: alone[of].miss for of in ACTIONS
            }
    ask_all(hosts, [Close()] * 2, Closed)
