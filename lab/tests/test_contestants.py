"""Contestants answer correctly with their real libraries and servers, alone and shared."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab.hosts.python.contract import Store
from lab.peers import opener
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
from lab.tests.runtimes import Hosts, mixed, needed, open_one_by_one, probe, run_mixes
from lab.tests.talking import Streams, ask_all, expected, model, one_worker, prepare

BYTES_MAX = 64_000_000
# A memoizer cannot overwrite: it refuses sets of existing keys, here and in the probe.
MEMOIZERS = {"lru_cache"}
# Returns wrong values, as its README says.
LIARS = {"php_yac:plain"}
TIERS = [
    row for row in catalogue.contestants().values() if row.host == "python" and row.max_stale_s
]


def rows(
    *hosts: str, served: bool = False, values: Sequence[ValueKind] = ("binary", "complex")
) -> list[object]:
    """Return rows with their kinds of values; with `served`, only those that have a server.

    Whole runs cover the servers of other hosts than Perl, and `tiers` those of some Python rows.
    """
    return [
        pytest.param(row, value, id=f"{row.name}-{value}", marks=needed(row.host))
        for row in catalogue.contestants().values()
        if row.host in hosts and (row.server if served else row.host == "perl" or not row.server)
        for value in row.values
        if value in values and row.name not in LIARS
    ]


def tiers() -> list[object]:
    """Return the Python rows with copies in front of a server."""
    return [pytest.param(row, "binary", id=row.name) for row in TIERS]


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
    """Starts and ends the servers of rows."""

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


@pytest.fixture
def given(row: Contestant, value: ValueKind, servers: Servers) -> dict[str, Any]:
    """Return the plan's fields for a row, with its server started."""
    dice = random.Random(3)
    keys = [dice.randbytes(18).hex() for _ in range(100)]
    return {"keys": keys, "value": value, "settings": row.settings | servers.connect(row)}


@pytest.fixture
def hosts(row: Contestant, own_folder: Path) -> Iterator[Hosts]:
    """Return the hosts of a row."""
    with Hosts(row.host, own_folder) as hosts:
        yield hosts


def few(row: Contestant, value: ValueKind, workers: int = 1) -> list[Streams]:
    """Return a preload and mixes over a hundred keys."""
    sizes = (8, 600) if value == "binary" else (1, 30)
    # Each of its sets reads all files.
    operations = 200 if row.name == "perl_sizeawarefilecache" else 1_000
    return mixed(workers, keys=100, operations=operations, sizes=sizes)


@pytest.mark.parametrize(("row", "value"), rows("native", "perl", "php", "python") + tiers())
def test_a_contestant_tells_the_truth(
    hosts: Hosts, row: Contestant, value: ValueKind, given: dict[str, Any]
) -> None:
    phases = few(row, value)
    host, plan = hosts.start(row), hosts.plan(row, phases, **given)
    loaded = host.load_or_skip(plan.load())
    assert loaded.version or not row.install.distribution

    host.ask(plan.open("probe", BYTES_MAX), Opened)
    written, verdict = probe(host)
    assert written.refused == (128 if row.name in MEMOIZERS else 0)
    assert verdict.lost == (0 if row.stores else 48)
    assert (verdict.wrong, verdict.stale) == (0, 0)
    host.ask(Close(), Closed)

    # Everything fits, so the tallies must be those of a store that keeps everything.
    host.ask(plan.open("store", BYTES_MAX), Opened)
    host.run(0)
    durations = str(hosts.folder / "durations")
    ran = host.run(1, "latency", block=row.block, durations=durations)
    assert (ran.verdict.wrong, ran.verdict.stale, ran.verdict.lost) == (0, 0, 0)
    if not row.stores:
        assert ran.actions["get"].miss == ran.actions["get"].count > 0
    elif row.name not in MEMOIZERS:
        assert ran.actions == expected(phases)
    host.ask(Close(), Closed)


@pytest.mark.parametrize(("row", "value"), rows("perl", values=["binary"]))
def test_a_large_value_is_stored_or_refused(
    hosts: Hosts, row: Contestant, value: ValueKind, given: dict[str, Any]
) -> None:
    operations = [Operation(SET, 0, 100), Operation(SET, 0, 2_222_981), Operation(GET, 0, 0)]
    host, plan = hosts.loaded(row, one_worker(operations), **given)
    host.ask(plan.open(bytes_max=720_896), Opened)
    ran = host.run(0)
    assert ran.verdict.wrong == 0
    # According to its README, it drops too large values and keeps the old one.
    name, _, form = row.name.partition(":")
    keeps_the_old = name == "perl_cache_mmap"
    assert ran.verdict.stale == keeps_the_old
    refused_by = {"perl_fastmmap", "perl_chi_fastmmap", "perl_libmemcached", "perl_chi_memcached"}
    refuses = name in refused_by and form != "l1"
    assert ran.actions["set"].miss == refuses or name == "perl_ipc_mm"


@pytest.mark.parametrize(("row", "value"), rows("perl", served=True) + tiers())
def test_a_dying_server_is_an_error(
    hosts: Hosts, row: Contestant, value: ValueKind, given: dict[str, Any], servers: Servers
) -> None:
    host, _ = hosts.opened(row, few(row, value), **given)
    host.run(0)
    servers.kill()
    host.ask(prepare(1), Prepared)
    assert host.ask(Run(0, ""), Failed).reason


def test_tiers_answer_from_copies_that_are_no_older_than_they_say(
    servers: Servers, own_folder: Path
) -> None:
    pairs = []
    for row in TIERS:
        opened = opener(row.name, bytes_max=BYTES_MAX, settings=servers.connect(row))
        # Each folder is the near tier of another machine.
        here, there = own_folder / f"{row.server}-here", own_folder / f"{row.server}-there"
        here.mkdir()
        there.mkdir()
        pairs.append((opened(here), opened(there)))
    for ours, theirs in pairs:
        ours.set("key", b"old")
        # The near tier serves once a thread listens to Redis. On a busy machine, hundreds of reads
        # may come before that.
        give_up_s = time.monotonic() + 30
        far = 100
        while far > 10 and time.monotonic() < give_up_s:
            before = far_hits(theirs)
            assert {theirs.get("key") for _ in range(100)} == {b"old"}
            far = far_hits(theirs) - before
        assert far <= 10, "the near tier answers too few reads"
        ours.set("key", b"new")
        assert ours.get("key") == b"new"
    time.sleep(max(row.stale_for_s for row in TIERS))
    for _, theirs in pairs:
        assert theirs.get("key") == b"new"
    servers.kill()
    for pair in pairs:
        for store in pair:
            with pytest.raises(Exception, match="does not answer"):
                store.get("another key")
            store.close()


def far_hits(store: Store) -> int:
    """Return how many gets of a store with tiers its server has answered."""
    hits: int = store.get.__self__.health().far_hits  # type: ignore[attr-defined]
    return hits


def counted(row: Contestant, verdict: Verdict) -> dict[str, int]:
    """Return the counts of a verdict, 0 for excused faults."""
    counts = {"wrong": verdict.wrong, "stale": verdict.stale, "lost": verdict.lost}
    return counts | dict.fromkeys(row.excused, 0)


@pytest.mark.parametrize(("row", "value"), rows("native", "perl", "php") + tiers())
def test_workers_share_a_contestant_or_have_one_each(
    hosts: Hosts, row: Contestant, value: ValueKind, given: dict[str, Any]
) -> None:
    workers, plan = hosts.together(3, row, few(row, value, 3), **given)
    shared = row.is_shared
    ask_all(workers, [ProbeWrite()] * 3, Probed)
    for number, worker in enumerate(workers):
        own = counted(row, worker.ask(ProbeRead([number]), Probed).verdict)
        assert own == {"wrong": 0, "stale": 0, "lost": 0 if row.stores else 48}
        others = counted(row, worker.ask(ProbeRead([(number + 1) % 3]), Probed).verdict)
        assert others == {"wrong": 0, "stale": 0, "lost": 0 if shared else 48}
    ask_all(workers, [Close()] * 3, Closed)

    open_one_by_one(workers, plan, "measured")
    (preload,), mixes = plan.phases
    stored = {key for stream in (preload, *mixes) for verb, key, _ in stream if verb == SET}
    for mix, ran in zip(mixes, run_mixes(workers, plan, shared=shared), strict=True):
        assert counted(row, ran.verdict) == {"wrong": 0, "stale": 0, "lost": 0}
        assert ran.done == len(mix)
        # A miss is certainly right only if no stream stores the key.
        never = sum(verb == GET and key not in stored for verb, key, _ in mix)
        assert ran.actions["get"].absent == never
        if row.stores and not shared:
            there: set[int] = set()
            model(preload, there)
            alone = model(mix, there)
            assert {of: ran.actions[of].miss for of in ACTIONS} == {
                of: alone[of].miss for of in ACTIONS
            }
    ask_all(workers, [Close()] * 3, Closed)
