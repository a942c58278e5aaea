"""The Perl host keeps the protocol, and its contestants tell the truth.

Each test starts the host as the runner does and speaks to it over its input and output.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.protocol import (
    Close,
    Closed,
    Failed,
    Loaded,
    Opened,
    Probed,
    ProbeRead,
    ProbeWrite,
    Replay,
    Replayed,
    Tally,
    ValueKind,
    Verdict,
)
from lab.stream import DELETE, GET, SET, Operation
from lab.tests.talking import Conversation, Plan, Streams, expected, needs, one_worker, run

LAB = Path(__file__).parents[1]
HOST = LAB / "hosts" / "perl" / "host.pl"
CONTROLS = Path(__file__).parent / "contestants"

pytestmark = needs("perl")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Conversation]:
    with Conversation(["perl", HOST, str(os.getpid())], tmp_path / "words") as host:
        yield host
        if host.process.poll() is None:
            assert host.end() == 0


def control(name: str) -> Path:
    return CONTROLS / f"perl_{name}" / "adapter.pl"


def write_adapter(folder: Path, code: str) -> Path:
    path = folder / "adapter.pl"
    path.write_text("use v5.36;\n" + code, "utf-8")
    return path


def mixed(keys: int, operations: int, sizes: tuple[int, int], number: int = 0) -> list[Streams]:
    """Return a preload of the first half of the keys, and a mix of all verbs over all of them."""
    dice = random.Random(f"{keys} {operations} {number}")
    preload = [Operation(SET, key, dice.randint(*sizes)) for key in range(keys // 2)]
    verbs = dice.choices([GET, SET, DELETE], [80, 15, 5], k=operations)
    mix = [
        Operation(verb, dice.randrange(keys), dice.randint(*sizes) if verb == SET else 0)
        for verb in verbs
    ]
    return one_worker(preload, mix)


def mixed_plan(folder: Path, name: str, value: ValueKind = "binary") -> Plan:
    sizes = (16, 300) if value == "binary" else (1, 12)
    keys = [f"key-{number}" for number in range(50)]
    return Plan(folder, control(name), mixed(50, 2_000, sizes), keys, value)


def probe(host: Conversation) -> tuple[Probed, Verdict]:
    written = host.ask(ProbeWrite(), Probed)
    return written, host.ask(ProbeRead(workers=[0]), Probed).verdict


# Values.

RECORDER = """
use JSON::PP ();
sub (%of) {
    return {
        object => $of{folder},
        get => sub { undef }, delete => sub { '' }, close => sub { },
        set => sub ($folder, $key, $value) {
            open my $file, '>:raw', "$folder/$key" or die;
            print {$file} ref $value ? JSON::PP->new->encode($value) : $value;
            1;
        },
    };
}
"""


def recorded(
    host: Conversation, tmp_path: Path, value: ValueKind, size: int, seed: int = 1
) -> bytes:
    """Return what is stored for the key with number 2 and sequence 3."""
    adapter = write_adapter(tmp_path, RECORDER)
    plan = Plan(
        tmp_path, adapter, [[[Operation(SET, 2, size)]]], ["a", "b", "c"], value, seed=seed, base=3
    )
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    host.run(0)
    return (tmp_path / "store" / "c").read_bytes()


def test_the_vector_of_a_short_value(host: Conversation, tmp_path: Path) -> None:
    assert recorded(host, tmp_path, "binary", 16).hex() == "b735f219bc273e57528ade22a8a2bb15"


def test_the_vector_of_a_middling_value(host: Conversation, tmp_path: Path) -> None:
    value = recorded(host, tmp_path, "binary", 160)
    assert len(value) == 160
    assert value[-16:].hex() == "213f8fdc19127ea4b21dc76f14548aac"


def test_the_vector_of_a_large_value(host: Conversation, tmp_path: Path) -> None:
    value = recorded(host, tmp_path, "binary", 2_222_981)
    digest = "2ad75dc6464d534612a572b889bba549b7162a70d9530a16125371ca8484cff9"
    assert hashlib.sha256(value).hexdigest() == digest


def test_the_vector_of_a_complex_value(host: Conversation, tmp_path: Path) -> None:
    value = json.loads(recorded(host, tmp_path, "complex", 2))
    assert value == {"b735f219": "bc273e57528ade22a8a2", "bb1548b8": "9e31e28cd7993e26c5b5"}


def test_a_seed_has_64_bits(host: Conversation, tmp_path: Path) -> None:
    seed = 2**64 - 1
    head = hashlib.sha512(struct.pack("<QQQ", seed, 2, 3)).digest()
    assert recorded(host, tmp_path, "binary", 64, seed) == head


# Passes.


@pytest.mark.parametrize("value", ["binary", "complex"])
def test_the_honest_one_is_accused_of_nothing(
    host: Conversation, tmp_path: Path, value: ValueKind
) -> None:
    plan = mixed_plan(tmp_path, "honest", value)
    loaded = host.ask(plan.load(), Loaded)
    assert loaded.runtime.startswith("Perl 5.")
    assert len(loaded.timer_ns) == 1_000
    assert 0 < min(loaded.timer_ns) < 1_000_000
    host.ask(plan.open("probe"), Opened)
    written, verdict = probe(host)
    assert (written.keys, written.refused) == (64, 0)
    assert verdict == Verdict()
    host.ask(Close(), Closed)

    host.ask(plan.open(), Opened)
    preload = host.run(0)
    assert (preload.done, preload.wall_ns, preload.timed_ns, preload.cpu_ns) == (25, 0, 0, 0)
    assert preload.blocks_ns == []
    ran = host.run(1, "throughput")
    assert ran.done == 2_000
    assert ran.verdict == Verdict()
    assert ran.actions == expected(plan.phases)
    # 2,000 operations are 31 full blocks of 64 and a rest.
    assert len(ran.blocks_ns) == 31
    assert sum(ran.blocks_ns) < ran.timed_ns < ran.wall_ns
    assert 0 < ran.cpu_ns < 2 * ran.wall_ns
    host.ask(Close(), Closed)


def test_a_latency_pass_keeps_each_duration(host: Conversation, tmp_path: Path) -> None:
    plan = mixed_plan(tmp_path, "honest")
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    path = tmp_path / "durations"
    ran = host.run(1, "latency", warmup=100, durations=str(path))
    content = path.read_bytes()
    durations_ns = struct.unpack(f"<{len(content) // 8}Q", content)
    assert len(durations_ns) == 1_900
    assert sum(durations_ns) == ran.timed_ns
    assert sum(tally.count for tally in ran.actions.values()) == 1_900
    assert ran.done == 2_000
    assert ran.blocks_ns == []
    assert ran.cpu_ns > 0


def test_the_warmup_is_checked_and_not_counted(host: Conversation, tmp_path: Path) -> None:
    plan = mixed_plan(tmp_path, "wrong_value")
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    host.run(0)
    ran = host.run(1, "throughput", warmup=2_000)
    assert ran.done == 2_000
    assert ran.verdict.wrong > 0
    assert all(tally == Tally() for tally in ran.actions.values())
    assert ran.blocks_ns == []
    assert ran.timed_ns == 0


def test_a_pass_ends_when_its_time_is_over(host: Conversation, tmp_path: Path) -> None:
    adapter = write_adapter(
        tmp_path,
        """
        sub (%of) {
            my $slow = sub { select undef, undef, undef, 0.01; undef };
            return {object => undef, map { $_ => $slow } qw(get set delete close)};
        }
        """,
    )
    plan = Plan(tmp_path, adapter, [[[Operation(GET, 0, 0)] * 1_000]], ["a"])
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    ran = host.run(0, "throughput", block=4, seconds_max=0.2)
    assert 4 <= ran.done <= 20
    assert ran.done % 4 == 0
    assert ran.actions["get"] == Tally(count=ran.done, miss=ran.done, absent=ran.done)
    assert ran.wall_ns >= 200_000_000


def test_what_is_known_lasts_from_phase_to_phase(host: Conversation, tmp_path: Path) -> None:
    operations = one_worker(
        [Operation(SET, 0, 20), Operation(SET, 1, 3)],
        [Operation(GET, 0, 0), Operation(GET, 1, 0), Operation(GET, 2, 0)],
    )
    plan = Plan(tmp_path, control("honest"), operations, ["a", "b", "c"])
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    host.run(0)
    ran = host.run(1)
    assert ran.actions["get"] == Tally(count=3, miss=1, absent=1)
    # Three bytes could be right by chance.
    assert ran.verdict == Verdict(weak=1)
    host.ask(Close(), Closed)
    # A new store is empty, whatever the last one held.
    host.ask(plan.open("second"), Opened)
    assert host.run(1).actions["get"] == Tally(count=3, miss=3, absent=3)


# What must be caught.


@pytest.mark.parametrize("value", ["binary", "complex"])
def test_a_wrong_value_is_caught(host: Conversation, tmp_path: Path, value: ValueKind) -> None:
    plan = mixed_plan(tmp_path, "wrong_value", value)
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    host.run(0)
    ran = host.run(1, "throughput")
    tally = ran.actions["get"]
    assert ran.verdict.wrong == tally.wrong == (tally.count - tally.miss) // 50
    assert ran.verdict.stale == 0
    assert len(ran.verdict.examples) == 5
    assert "never stored" in ran.verdict.examples[0]


def test_another_keys_value_is_named(host: Conversation, tmp_path: Path) -> None:
    adapter = write_adapter(
        tmp_path,
        """
        sub (%of) {
            return {
                object => {}, close => sub { },
                get => sub { $_[0]{a} },
                set => sub { $_[0]{$_[1]} = $_[2]; 1 },
                delete => sub { defined delete $_[0]{$_[1]} },
            };
        }
        """,
    )
    operations = [Operation(SET, 0, 40), Operation(SET, 1, 40), Operation(GET, 1, 0)]
    plan = Plan(tmp_path, adapter, [[operations]], ["a", "b"])
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    verdict = host.run(0).verdict
    assert verdict.wrong == 1
    assert verdict.examples == ['get("b") answered 40 bytes that belong to the key "a"']


def test_dropped_writes_are_lost(host: Conversation, tmp_path: Path) -> None:
    plan = mixed_plan(tmp_path, "drops_writes")
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    _, verdict = probe(host)
    assert verdict.lost > 0
    assert (verdict.wrong, verdict.stale) == (0, 0)
    host.run(0)
    get = host.run(1).actions["get"]
    assert get.absent < get.miss


@pytest.mark.parametrize("value", ["binary", "complex"])
def test_a_stale_value_is_caught(host: Conversation, tmp_path: Path, value: ValueKind) -> None:
    plan = mixed_plan(tmp_path, "stale", value)
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    _, verdict = probe(host)
    assert verdict.stale > 0
    host.run(0)
    verdict = host.run(1).verdict
    assert verdict.stale > 0
    assert verdict.wrong == 0


def test_a_deleted_value_is_stale(host: Conversation, tmp_path: Path) -> None:
    adapter = write_adapter(
        tmp_path,
        """
        sub (%of) {
            return {
                object => {}, close => sub { }, delete => sub { 1 },
                get => sub { $_[0]{$_[1]} }, set => sub { $_[0]{$_[1]} = $_[2]; 1 },
            };
        }
        """,
    )
    operations = [Operation(SET, 0, 40), Operation(DELETE, 0, 0), Operation(GET, 0, 0)]
    plan = Plan(tmp_path, adapter, [[operations]], ["a"])
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    assert host.run(0).verdict.stale == 1


def test_a_refusal_leaves_the_old_value_or_nothing(host: Conversation, tmp_path: Path) -> None:
    # Stores what is short. A long value is refused: under "keeps" the old one stays, under "drops"
    # it goes, under "lies" the new one is there all the same.
    adapter = write_adapter(
        tmp_path,
        """
        sub (%of) {
            return {
                object => {}, close => sub { }, delete => sub { '' },
                get => sub { $_[0]{$_[1]} },
                set => sub ($store, $key, $value) {
                    my $is_long = length $value > 100;
                    delete $store->{$key} if $is_long && $key eq 'drops';
                    $store->{$key} = $value if !$is_long || $key eq 'lies';
                    return $is_long ? 0 : 1;
                },
            };
        }
        """,
    )
    keys = ["keeps", "drops", "lies", "never"]
    operations = [Operation(SET, key, 50) for key in range(3)]
    operations += [Operation(SET, key, 150) for key in range(4)]
    operations += [Operation(GET, key, 0) for key in range(4)]
    operations += [Operation(DELETE, 0, 0), Operation(GET, 0, 0)]
    plan = Plan(tmp_path, adapter, [[operations]], keys)
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    ran = host.run(0, block=3)
    assert ran.actions["set"] == Tally(count=7, miss=4)
    assert ran.actions["get"] == Tally(count=5, miss=2, wrong=1)
    # A delete that found nothing leaves the value in doubt, and no fault.
    assert ran.actions["delete"] == Tally(count=1, miss=1)
    assert (ran.verdict.wrong, ran.verdict.stale) == (1, 0)


def test_an_eviction_is_a_miss_that_is_not_right(host: Conversation, tmp_path: Path) -> None:
    plan = Plan(
        tmp_path,
        LAB / "contestants" / "perl_null" / "adapter.pl",
        [[[Operation(SET, 0, 50), Operation(GET, 0, 0), Operation(GET, 1, 0)]]],
        ["a", "b"],
    )
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    assert host.run(0).actions["get"] == Tally(count=2, miss=2, absent=1)


def test_a_dying_adapter_ends_the_host(host: Conversation, tmp_path: Path) -> None:
    plan = mixed_plan(tmp_path, "dies")
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    host.send(msgspec.json.encode(run(1)))
    assert host.hear() == b""
    assert host.process.wait(10) == -signal.SIGKILL


def test_an_error_of_the_adapter_is_told(host: Conversation, tmp_path: Path) -> None:
    adapter = write_adapter(
        tmp_path, "sub (%of) { die qq{no cache today: \\xff\\n} if $of{bytes_max}; {} }"
    )
    plan = Plan(tmp_path, adapter, [[[]]], ["a"])
    host.ask(plan.load(), Loaded)
    assert host.ask(plan.open(), Failed) == Failed("no cache today: \N{REPLACEMENT CHARACTER}")
    # The host lives on.
    host.ask(plan.open("second", bytes_max=0), Opened)


# Replays.


def test_a_replay_stores_on_a_miss(host: Conversation, tmp_path: Path) -> None:
    dice = random.Random(7)
    requests = [Operation(GET, dice.randrange(30), 2_000) for _ in range(2_500)]
    keys = [f"k{number}" for number in range(30)]
    plan = Plan(tmp_path, control("honest"), [[requests]], keys)
    host.ask(plan.load(), Loaded)
    opened = plan.open()
    host.ask(opened, Opened)
    replayed = host.ask(Replay(phase=0, folder=opened.folder), Replayed)
    assert (replayed.requests, replayed.hits, replayed.refused) == (2_500, 2_470, 0)
    assert replayed.verdict == Verdict()
    occupied = sum(path.stat().st_blocks * 512 for path in Path(opened.folder).iterdir())
    assert replayed.bytes_peak == occupied >= 30 * 2_000


def test_a_replay_numbers_its_sets_by_their_position(host: Conversation, tmp_path: Path) -> None:
    # Three hits come first: the set of key 2 is the fourth request and has the sequence 3.
    requests = [Operation(GET, key, 16) for key in (0, 0, 0, 2)]
    hits = RECORDER.replace("sub { undef }", "sub { $_[1] eq 'a' ? 'hit' : undef }")
    adapter = write_adapter(tmp_path, hits)
    plan = Plan(tmp_path, adapter, [[requests]], ["a", "b", "c"])
    host.ask(plan.load(), Loaded)
    opened = plan.open()
    host.ask(opened, Opened)
    host.ask(Replay(phase=0, folder=opened.folder), Replayed)
    value = (tmp_path / "store" / "c").read_bytes()
    assert value.hex() == "b735f219bc273e57528ade22a8a2bb15"


def test_a_replay_checks_its_hits(host: Conversation, tmp_path: Path) -> None:
    requests = [Operation(GET, 0, 2_000)] * 1_000
    plan = Plan(tmp_path, control("wrong_value"), [[requests]], ["k"])
    host.ask(plan.load(), Loaded)
    opened = plan.open()
    host.ask(opened, Opened)
    replayed = host.ask(Replay(phase=0, folder=opened.folder), Replayed)
    assert replayed.verdict.wrong == 999 // 50


# Requests that cannot be obeyed.


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense", "no JSON object"),
        (b"[1]", "no JSON object"),
        (b'{"folder": "x"}', "no verb"),
        (b'{"verb": "dance"}', "dance is unknown"),
        (b'{"verb": "close", "gently": true}', "gently is unknown"),
        (b'{"verb": "open", "folder": "x", "entries_max": 1}', "bytes_max is missing"),
        (b'{"verb": "close"}', "before the one that prepares it"),
        (msgspec.json.encode(run(0)), "before the one that prepares it"),
        (
            msgspec.json.encode(run(0)).replace(b"untimed", b"hourly"),
            "measure hourly is unknown",
        ),
    ],
)
def test_what_cannot_be_obeyed_is_refused(host: Conversation, line: bytes, reason: str) -> None:
    reply = host.say(line)
    assert isinstance(reply, Failed)
    assert reason in reply.reason
    assert not reply.missing


def test_a_host_drives_one_worker(host: Conversation, tmp_path: Path) -> None:
    load = mixed_plan(tmp_path, "honest").load()
    reply = host.ask(msgspec.structs.replace(load, workers=2), Failed)
    assert "drives one worker" in reply.reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"LABOPS00", "not an operation stream"),
        (b"LABOPS01" + bytes(11), "not an operation stream"),
        (b"LABOPS01" + struct.pack("<BxxxII", 3, 0, 0), "verb 3"),
        (b"LABOPS01" + struct.pack("<BxxxII", GET, 50, 0), "key 50, and there are 50 keys"),
    ],
)
def test_a_broken_stream_is_refused(
    host: Conversation, tmp_path: Path, content: bytes, reason: str
) -> None:
    load = mixed_plan(tmp_path, "honest").load()
    Path(load.phases[1].streams[0].path).write_bytes(content)
    assert reason in host.ask(load, Failed).reason


def test_what_is_not_installed_is_missing(host: Conversation, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path, "use No::Such::Module;\nsub (%of) { {} }")
    reply = host.ask(Plan(tmp_path, adapter, [[[]]], ["a"]).load(), Failed)
    assert reply.missing
    assert reply.reason == "the Perl module No::Such::Module is not installed"


def test_a_distribution_that_is_not_installed_is_missing(
    host: Conversation, tmp_path: Path
) -> None:
    plan = Plan(tmp_path, control("honest"), [[[]]], ["a"], distribution="No::Such::Module")
    assert host.ask(plan.load(), Failed).missing


def test_a_broken_adapter_is_not_missing(host: Conversation, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path, "sub (%of) { {} ")
    assert not host.ask(Plan(tmp_path, adapter, [[[]]], ["a"]).load(), Failed).missing


def test_the_version_of_the_distribution_is_reported(host: Conversation, tmp_path: Path) -> None:
    plan = Plan(tmp_path, control("honest"), [[[]]], ["a"], distribution="Storable")
    assert float(host.ask(plan.load(), Loaded).version.split("_")[0]) > 3


def test_a_host_does_not_outlive_its_parent() -> None:
    # A shell is the parent. It tells the host's number and dies.
    script = f'perl "{HOST}" $$ < /dev/zero > /dev/null & echo $!; sleep 0.5; kill -9 $$'
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        host = Path("/proc") / shell.stdout.readline().decode().strip()
        assert shell.wait(20) == -signal.SIGKILL
    deadline = time.monotonic() + 10
    while _runs(host):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _runs(process: Path) -> bool:
    try:
        return "State:\tZ" not in (process / "status").read_text()
    except OSError:
        # It may go while it is being read.
        return False


# The contestants, each with its real library and server.


@dataclass(frozen=True)
class Row:
    """One row of a contestant: a form, or the contestant itself."""

    folder: Path
    form: str
    value: ValueKind
    stores: bool
    server: str
    transport: str
    distribution: str
    settings: dict[str, str]

    def __str__(self) -> str:
        return f"{self.folder.name}:{self.form}-{self.value}"


def rows() -> Iterator[Row]:
    for path in sorted((LAB / "contestants").glob("perl_*/contestant.toml")):
        contestant = tomllib.loads(path.read_text("utf-8"))
        for form in contestant.get("forms", [{"name": ""}]):
            merged: dict[str, Any] = contestant | form
            for value in merged.get("values", ["binary"]):
                yield Row(
                    folder=path.parent,
                    form=form["name"],
                    value=value,
                    stores=merged.get("stores", True),
                    server=merged.get("server", ""),
                    transport=merged.get("transport", "tcp"),
                    distribution=merged.get("install", {}).get("distribution", ""),
                    settings=contestant.get("settings", {}) | form.get("settings", {}),
                )


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

    def connect(self, row: Row) -> dict[str, str]:
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


def plan_of(row: Row, folder: Path, servers: Servers, phases: Sequence[Streams]) -> Plan:
    dice = random.Random(3)
    keys = [dice.randbytes(18).hex() for _ in range(100)]
    settings = row.settings | servers.connect(row)
    adapter = row.folder / "adapter.pl"
    return Plan(folder, adapter, phases, keys, row.value, settings, row.distribution)


ROWS = list(rows())


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_contestant_tells_the_truth(
    host: Conversation, tmp_path: Path, row: Row, servers: Servers
) -> None:
    sizes = (8, 600) if row.value == "binary" else (1, 30)
    plan = plan_of(row, tmp_path, servers, mixed(100, 600, sizes))
    loaded = host.load_or_skip(plan.load())
    assert loaded.version or not row.distribution

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


@pytest.mark.parametrize("row", [row for row in ROWS if row.value == "binary"], ids=str)
def test_a_large_value_is_stored_or_refused(
    host: Conversation, tmp_path: Path, row: Row, servers: Servers
) -> None:
    operations = [Operation(SET, 0, 100), Operation(SET, 0, 2_222_981), Operation(GET, 0, 0)]
    plan = plan_of(row, tmp_path, servers, one_worker(operations))
    host.load_or_skip(plan.load())
    host.ask(plan.open(bytes_max=720_896), Opened)
    ran = host.run(0)
    assert ran.verdict.wrong == 0
    # The README of this one says that it drops what is too large and keeps the old value.
    keeps_the_old = row.folder.name == "perl_cache_mmap"
    assert ran.verdict.stale == keeps_the_old
    refused_by = {"perl_fastmmap", "perl_chi_fastmmap", "perl_libmemcached", "perl_chi_memcached"}
    refuses = row.folder.name in refused_by and row.form != "l1"
    assert ran.actions["set"].miss == refuses or row.folder.name == "perl_ipc_mm"


@pytest.mark.parametrize("row", [row for row in ROWS if row.server], ids=str)
def test_a_dying_server_is_an_error(
    host: Conversation, tmp_path: Path, row: Row, servers: Servers
) -> None:
    preload, mix = mixed(100, 600, (8, 600))
    plan = plan_of(row, tmp_path, servers, [preload, mix])
    host.load_or_skip(plan.load())
    host.ask(plan.open(), Opened)
    host.run(0)
    servers.kill()
    assert host.ask(run(1), Failed).reason
