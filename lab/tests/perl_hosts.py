"""Perl hosts for the tests that talk to them, and streams for them to obey.

Owns how hosts are started and ended, the adapters that tests bring, and how several hosts share a
store. Must not know what a test expects of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.protocol import Loaded, Opened, Probed, ProbeRead, ProbeWrite, Ran, ValueKind, Verdict
from lab.runner import catalogue
from lab.runner.catalogue import StoreLimits
from lab.runner.hosts import command_of
from lab.stream import DELETE, GET, SET, Operation
from lab.tests.talking import Conversation, Plan, Streams, ask_all, prepare, run_together

LAB = Path(__file__).parents[1]
HOST = LAB / "hosts" / "perl" / "host.pl"
_CONTROLS = Path(__file__).parent / "contestants"

StartHost = Callable[[], Conversation]


@contextmanager
def perl_hosts(folder: Path) -> Iterator[StartHost]:
    """Give a function that starts a host. What still runs at the end must leave with status 0."""
    started: list[Conversation] = []
    row = catalogue.contestants()["perl_ipc_mm:btree"]
    with ExitStack() as hosts:

        def start() -> Conversation:
            # The arguments of the contestant that needs some, which do no harm to the others.
            command = command_of(catalogue.host("perl"), row, StoreLimits())
            host = Conversation(command, folder / f"words-{len(started)}")
            started.append(hosts.enter_context(host))
            return host

        yield start
        for one in started:
            if one.process.poll() is None:
                assert one.end() == 0


def mixed(keys: int, operations: int, sizes: tuple[int, int], workers: int = 1) -> list[Streams]:
    """Return a preload of the first half of the keys, and for each worker a mix over all of them.

    The mix has all verbs.
    """
    dice = random.Random(f"{keys} {operations}")
    preload = [Operation(SET, key, dice.randint(*sizes)) for key in range(keys // 2)]
    mixes = []
    for _ in range(workers):
        verbs = dice.choices([GET, SET, DELETE], [80, 15, 5], k=operations)
        mix = [
            Operation(verb, dice.randrange(keys), dice.randint(*sizes) if verb == SET else 0)
            for verb in verbs
        ]
        mixes.append(mix)
    return [[preload], mixes]


def control(name: str) -> Path:
    """Return the adapter of a negative control."""
    return _CONTROLS / f"perl_{name}" / "adapter.pl"


def write_adapter(folder: Path, code: str) -> Path:
    """Write an adapter of one's own."""
    path = folder / "adapter.pl"
    path.write_text("use v5.36;\n" + code, "utf-8")
    return path


def mixed_plan(folder: Path, name: str, value: ValueKind = "binary", workers: int = 1) -> Plan:
    """Return mixes over fifty keys for a negative control."""
    sizes = (16, 300) if value == "binary" else (1, 12)
    keys = [f"key-{number}" for number in range(50)]
    return Plan(folder, control(name), mixed(50, 2_000, sizes, workers), keys, value)


def opened(host: Conversation, plan: Plan) -> None:
    """Load and open."""
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)


def probe(host: Conversation) -> tuple[Probed, Verdict]:
    """Have one worker probe its store."""
    written = host.ask(ProbeWrite(), Probed)
    return written, host.ask(ProbeRead(workers=[0]), Probed).verdict


def open_one_by_one(hosts: Sequence[Conversation], plan: Plan, name: str = "store") -> None:
    """Let each host open a new store once the one before it has, as the runner does."""
    request = plan.open(name)
    for host in hosts:
        host.ask(request, Opened)


def load_all(hosts: Sequence[Conversation], plan: Plan) -> None:
    """Load each host as one of as many workers, or skip the test when a library is missing."""
    loads = [plan.load(worker, len(hosts)) for worker in range(len(hosts))]
    hosts[0].load_or_skip(loads[0])
    ask_all(hosts[1:], loads[1:], Loaded)


def run_mixes(hosts: Sequence[Conversation], plan: Plan, *, shared: bool = True) -> list[Ran]:
    """Preload the open store, each host its own when it is not shared, and run the mixes."""
    for host in hosts[:1] if shared else hosts:
        assert host.run(0).verdict == Verdict()
    (_, mixes) = plan.phases
    return run_together(hosts, prepare(1, "throughput", block=32, stretch=len(mixes[0])))
