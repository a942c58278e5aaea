"""The Python host keeps the protocol, and its contestants tell the truth.

Each test starts hosts as the runner does and speaks to them over their input and output.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from lab.protocol import (
    ACTIONS,
    Close,
    Closed,
    Failed,
    Loaded,
    Open,
    Opened,
    Prepared,
    Probed,
    ProbeRead,
    ProbeWrite,
    Ran,
    Replayed,
    Run,
    Tally,
    ValueKind,
    Verdict,
)
from lab.runner import catalogue
from lab.stream import DELETE, GET, SET, Operation
from lab.tests.talking import (
    REPOSITORY,
    Conversation,
    Plan,
    ask_all,
    expected,
    prepare,
    replay,
    run_together,
)

CONTESTANTS = Path(__file__).parents[1] / "contestants"
CONTROLS = Path(__file__).parent / "contestants"
KEYS = 50
KEY_TEXTS = [f"key-{number}" for number in range(KEYS)]
StartHost = Callable[[], Conversation]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartHost]:
    """Give a function that starts a host. What still runs at the end must leave with status 0."""
    started: list[Conversation] = []
    with ExitStack() as hosts:

        def start() -> Conversation:
            command = [sys.executable, "-m", "lab.hosts.python", str(os.getpid())]
            host = Conversation(command, tmp_path / f"words-{len(started)}")
            started.append(hosts.enter_context(host))
            return host

        yield start
        for one in started:
            running = one.process.poll() is None
            assert one.end() == 0 or not running


@pytest.fixture
def host(start: StartHost) -> Conversation:
    return start()


def control(name: str) -> Path:
    return CONTROLS / name / "adapter.py"


def write_adapter(folder: Path, verbs: str) -> Path:
    """Write an adapter of one's own. `verbs` are functions that see `folder` and `entries`."""
    lines = "".join(f"    {line}\n" for line in verbs.strip("\n").split("\n"))
    path = folder / "adapter.py"
    path.write_text(
        "import json, time\n"
        "from pathlib import Path\n"
        "from lab.hosts.python.contract import Store\n"
        "def open(folder, limits, settings):\n"
        "    entries = {}\n"
        f"{lines}"
        "    return Store(get=get, set=set, delete=delete, close=entries.clear)\n",
        "utf-8",
    )
    return path


STORING = """
def get(key): return entries.get(key)
def set(key, value): entries[key] = value
def delete(key): return entries.pop(key, None) is not None
"""


def mix(sizes: tuple[int, int], operations: int, number: int = 0) -> list[Operation]:
    """Return operations of all verbs over all keys."""
    dice = random.Random(f"{operations} {number}")
    verbs = dice.choices([GET, SET, DELETE], [80, 15, 5], k=operations)
    return [
        Operation(verb, dice.randrange(KEYS), dice.randint(*sizes) if verb == SET else 0)
        for verb in verbs
    ]


def mixed_plan(folder: Path, adapter: Path, value: ValueKind = "binary", workers: int = 1) -> Plan:
    """Return a preload of half of the keys, and a mix for each worker."""
    sizes = (16, 300) if value == "binary" else (1, 12)
    preload = [Operation(SET, key, sizes[1]) for key in range(KEYS // 2)]
    mixes = [mix(sizes, 2_000, worker) for worker in range(workers)]
    return Plan(folder, adapter, [[preload], mixes], KEY_TEXTS, value)


def probe(host: Conversation) -> tuple[Probed, Verdict]:
    written = host.ask(ProbeWrite(), Probed)
    return written, host.ask(ProbeRead(workers=[0]), Probed).verdict


def opened(host: Conversation, plan: Plan) -> None:
    """Load and open."""
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)


# Values: what an adapter is given, without the host's own code between.

RECORDING = """
def get(key): return None
def set(key, value):
    text = value if type(value) is bytes else json.dumps(value).encode()
    Path(folder, key).write_bytes(text)
def delete(key): return False
"""


def recorded(host: Conversation, folder: Path, kind: ValueKind, size: int) -> bytes:
    """Return what is stored for the key with number 2 and sequence 3."""
    adapter = write_adapter(folder, RECORDING)
    plan = Plan(folder, adapter, [[[Operation(SET, 2, size)]]], ["a", "b", "c"], kind, base=3)
    opened(host, plan)
    host.run(0)
    return (folder / "store" / "c").read_bytes()


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


# Passes.


@pytest.mark.parametrize("value", ["binary", "complex"])
def test_the_honest_one_is_accused_of_nothing(
    host: Conversation, tmp_path: Path, value: ValueKind
) -> None:
    plan = mixed_plan(tmp_path, control("honest"), value)
    loaded = host.ask(plan.load(), Loaded)
    assert loaded.runtime.startswith("CPython 3.")
    assert len(loaded.timer_ns) == 1_000
    assert 0 <= min(loaded.timer_ns) < 1_000_000
    assert loaded.create_ns > 0
    assert host.ask(plan.open("probe"), Opened).elapsed_ns > 0
    written, verdict = probe(host)
    assert (written.keys, written.refused) == (64, 0)
    assert verdict == Verdict()
    assert host.ask(Close(), Closed).elapsed_ns > 0

    host.ask(plan.open(), Opened)
    preload = host.run(0)
    assert (preload.done, preload.elapsed_ns, preload.cpu_ns) == (25, 0, 0)
    assert (preload.started_ns, preload.ended_ns) == (0, 0)
    assert preload.blocks_ns == []
    assert preload.actions["set"].count == 25
    ran = host.run(1, "throughput")
    assert ran.done == 2_000
    assert ran.verdict == Verdict()
    assert ran.actions == expected(plan.phases)
    # 2,000 operations are 31 full blocks of 64 and a rest.
    assert len(ran.blocks_ns) == 31
    assert sum(ran.blocks_ns) < ran.elapsed_ns < ran.ended_ns - ran.started_ns
    assert ran.cpu_ns > 0
    host.ask(Close(), Closed)


def test_a_latency_pass_keeps_each_duration(host: Conversation, tmp_path: Path) -> None:
    plan = mixed_plan(tmp_path, control("honest"))
    opened(host, plan)
    path = tmp_path / "durations"
    ran = host.run(1, "latency", warmup=100, durations=str(path))
    durations_ns = struct.unpack("<1900Q", path.read_bytes())
    assert sum(durations_ns) < ran.elapsed_ns
    assert min(durations_ns) > 0
    assert sum(tally.count for tally in ran.actions.values()) == 1_900
    assert (ran.done, ran.blocks_ns) == (2_000, [])
    assert ran.cpu_ns > 0


@pytest.mark.parametrize("verb", [GET, SET, DELETE])
def test_a_block_of_one_verb_is_obeyed_as_any_other(
    host: Conversation, tmp_path: Path, verb: int
) -> None:
    operations = [Operation(verb, key % KEYS, 20) for key in range(100)]
    opened(host, Plan(tmp_path, control("honest"), [[operations]], KEY_TEXTS))
    ran = host.run(0, "throughput", block=30)
    assert ran.actions[ACTIONS[verb]].count == ran.done == 100
    assert len(ran.blocks_ns) == 3
    assert ran.actions == expected([[operations]])


def test_a_stretch_is_obeyed_without_a_pause_and_checked_afterwards(
    host: Conversation, tmp_path: Path
) -> None:
    plan = mixed_plan(tmp_path, control("honest"))
    opened(host, plan)
    host.run(0)
    ran = host.run(1, "throughput", block=64, stretch=2_000)
    assert ran.actions == expected(plan.phases)
    # The rest of 16 operations is no full block.
    assert (ran.done, len(ran.blocks_ns)) == (2_000, 31)
    assert sum(ran.blocks_ns) < ran.elapsed_ns == ran.ended_ns - ran.started_ns


def test_a_pass_waits_for_its_start(host: Conversation, tmp_path: Path) -> None:
    opened(host, mixed_plan(tmp_path, control("honest")))
    host.run(0)
    host.ask(prepare(1, "throughput"), Prepared)
    start_ns = time.monotonic_ns() + 300_000_000
    ran = host.ask(Run(start_ns, ""), Ran)
    assert start_ns <= ran.started_ns < ran.ended_ns <= time.monotonic_ns()


def test_the_warmup_is_checked_and_not_counted(host: Conversation, tmp_path: Path) -> None:
    opened(host, mixed_plan(tmp_path, control("wrong_value")))
    host.run(0)
    ran = host.run(1, "throughput", warmup=2_000)
    assert ran.done == 2_000
    assert ran.verdict.wrong > 0
    assert all(tally == Tally() for tally in ran.actions.values())
    assert (ran.blocks_ns, ran.elapsed_ns) == ([], 0)


@pytest.mark.parametrize("warmup", [0, 1_000])
def test_a_pass_ends_when_its_time_is_over(host: Conversation, tmp_path: Path, warmup: int) -> None:
    slow = """
def get(key): time.sleep(0.01)
def set(key, value): pass
def delete(key): pass
"""
    adapter = write_adapter(tmp_path, slow)
    opened(host, Plan(tmp_path, adapter, [[[Operation(GET, 0, 0)] * 1_000]], KEY_TEXTS))
    ran = host.run(0, "throughput", warmup=warmup, block=4, seconds_max=0.2)
    assert 4 <= ran.done <= 20
    assert ran.done % 4 == 0
    counted = 0 if warmup else ran.done
    assert ran.actions["get"] == Tally(count=counted, miss=counted, absent=counted)


def test_what_is_known_lasts_from_phase_to_phase_and_not_from_store_to_store(
    host: Conversation, tmp_path: Path
) -> None:
    phases = [
        [[Operation(SET, 0, 20), Operation(SET, 1, 3)]],
        [[Operation(GET, 0, 0), Operation(GET, 1, 0), Operation(GET, 2, 0)]],
    ]
    plan = Plan(tmp_path, control("honest"), phases, KEY_TEXTS)
    opened(host, plan)
    host.run(0)
    ran = host.run(1)
    assert ran.actions["get"] == Tally(count=3, miss=1, absent=1)
    # Three bytes could be right by chance.
    assert ran.verdict == Verdict(weak=1)
    host.ask(Close(), Closed)
    host.ask(plan.open("second"), Opened)
    assert host.run(1).actions["get"] == Tally(count=3, miss=3, absent=3)


def test_keys_are_new_strings(host: Conversation, tmp_path: Path) -> None:
    keeping = """
def get(key):
    entries[id(key)] = key
    return None
def set(key, value): return len(entries) == 100
def delete(key): return len(entries) == 100
"""
    adapter = write_adapter(tmp_path, keeping)
    operations = [Operation(GET, 7, 0)] * 100 + [Operation(DELETE, 7, 0)]
    opened(host, Plan(tmp_path, adapter, [[operations]], KEY_TEXTS))
    assert host.run(0).actions["delete"] == Tally(count=1)


def test_large_values_are_not_kept(host: Conversation, tmp_path: Path) -> None:
    operations = [Operation(SET, key % KEYS, 2_000_000) for key in range(400)]
    opened(host, Plan(tmp_path, CONTESTANTS / "null" / "adapter.py", [[operations]], KEY_TEXTS))
    assert host.run(0, "throughput", block=16).done == 400
    status = Path(f"/proc/{host.process.pid}/status").read_text("ascii")
    peak_kb = int(next(line.split()[1] for line in status.splitlines() if "VmHWM" in line))
    # All of them would be 800 MB.
    assert peak_kb < 250_000


# Several workers.


def open_one_by_one(hosts: Sequence[Conversation], request: Open) -> None:
    """Let each host open the store once the one before it has, as the runner does."""
    for host in hosts:
        host.ask(request, Opened)


@pytest.mark.parametrize("value", ["binary", "complex"])
def test_workers_on_one_honest_store_accuse_nobody(
    start: StartHost, tmp_path: Path, value: ValueKind
) -> None:
    hosts = [start() for _ in range(3)]
    plan = mixed_plan(tmp_path, control("honest"), value, workers=3)
    ask_all(hosts, [plan.load(worker, 3) for worker in range(3)], Loaded)
    open_one_by_one(hosts, plan.open())
    assert hosts[0].run(0).done == 25
    for ran in run_together(hosts, prepare(1, "throughput", stretch=2_000)):
        assert ran.verdict == Verdict()
        assert ran.done == 2_000
        # All keys are stored by somebody, so nobody can say that a miss was right.
        assert ran.actions["get"].absent == 0
        assert ran.actions["get"].miss < ran.actions["get"].count


@pytest.mark.parametrize(("name", "kind"), [("wrong_value", "wrong"), ("stale", "stale")])
def test_workers_catch_what_one_would(
    start: StartHost, tmp_path: Path, name: str, kind: str
) -> None:
    hosts = [start() for _ in range(3)]
    plan = mixed_plan(tmp_path, control(name), workers=3)
    ask_all(hosts, [plan.load(worker, 3) for worker in range(3)], Loaded)
    open_one_by_one(hosts, plan.open())
    hosts[0].run(0)
    verdict = Verdict()
    for ran in run_together(hosts, prepare(1, stretch=2_000)):
        verdict.add(ran.verdict)
    assert {"wrong": verdict.wrong > 0, "stale": verdict.stale > 0} == {
        "wrong": kind == "wrong",
        "stale": kind == "stale",
    }


def test_workers_read_each_others_probe_keys(start: StartHost, tmp_path: Path) -> None:
    hosts = [start() for _ in range(2)]
    plan = mixed_plan(tmp_path, control("honest"), workers=2)
    ask_all(hosts, [plan.load(worker, 2) for worker in range(2)], Loaded)
    open_one_by_one(hosts, plan.open())
    ask_all(hosts, [ProbeWrite()] * 2, Probed)
    for probed in ask_all(hosts, [ProbeRead(workers=[0, 1])] * 2, Probed):
        assert (probed.keys, probed.verdict) == (128, Verdict())


# What must be caught.


@pytest.mark.parametrize("value", ["binary", "complex"])
def test_a_wrong_value_is_caught(host: Conversation, tmp_path: Path, value: ValueKind) -> None:
    opened(host, mixed_plan(tmp_path, control("wrong_value"), value))
    host.run(0)
    ran = host.run(1, "throughput")
    tally = ran.actions["get"]
    assert ran.verdict.wrong == tally.wrong == (tally.count - tally.miss) // 50
    assert ran.verdict.stale == 0
    assert len(ran.verdict.examples) == min(5, ran.verdict.wrong)
    assert "that nobody stored" in ran.verdict.examples[0]


def test_a_dropped_write_is_lost_and_a_miss(host: Conversation, tmp_path: Path) -> None:
    plan = mixed_plan(tmp_path, control("drops_writes"))
    opened(host, plan)
    written, verdict = probe(host)
    assert (written.refused, verdict.wrong, verdict.stale) == (0, 0, 0)
    assert verdict.lost > 0
    host.run(0)
    gets = host.run(1).actions["get"]
    assert gets.absent == expected(plan.phases)["get"].absent < gets.miss


def test_a_stale_value_is_caught(host: Conversation, tmp_path: Path) -> None:
    opened(host, mixed_plan(tmp_path, control("stale")))
    _, verdict = probe(host)
    assert verdict.stale > 0
    assert verdict.lost == 0
    host.run(0)
    ran = host.run(1)
    assert ran.verdict.stale > 0
    assert ran.verdict.wrong == 0
    assert "overwritten or deleted" in ran.verdict.examples[0]


def test_a_refusal_is_no_lie(host: Conversation, tmp_path: Path) -> None:
    opened(host, mixed_plan(tmp_path, control("refuses")))
    written, verdict = probe(host)
    assert written.refused > 0
    assert verdict == Verdict()
    host.run(0)
    ran = host.run(1)
    assert ran.actions["set"].miss > 0
    assert ran.actions["get"].miss > ran.actions["get"].absent
    assert ran.verdict == Verdict()


def test_a_deleted_key_that_answers_is_caught(host: Conversation, tmp_path: Path) -> None:
    verbs = STORING.replace("entries.pop(key, None) is not None", "True")
    operations = [Operation(SET, 0, 30), Operation(DELETE, 0, 0), Operation(GET, 0, 0)]
    opened(host, Plan(tmp_path, write_adapter(tmp_path, verbs), [[operations]], KEY_TEXTS))
    _, verdict = probe(host)
    assert (verdict.wrong, verdict.stale, verdict.lost) == (0, 16, 0)
    assert "was deleted" in verdict.examples[0]
    assert host.run(0).verdict.stale == 1


# What goes wrong.


def test_a_dying_adapter_ends_the_host(host: Conversation, tmp_path: Path) -> None:
    opened(host, mixed_plan(tmp_path, control("dies")))
    with pytest.raises(EOFError):
        host.run(1)
    assert host.process.wait(20) == -signal.SIGKILL


def test_an_error_of_the_adapter_is_told_with_where_it_was(
    host: Conversation, tmp_path: Path
) -> None:
    verbs = STORING.replace("return entries.get(key)", "raise OSError('no cache today')")
    opened(
        host, Plan(tmp_path, write_adapter(tmp_path, verbs), [[[Operation(GET, 0, 0)]]], KEY_TEXTS)
    )
    host.ask(prepare(0), Prepared)
    failed = host.ask(Run(0, ""), Failed)
    assert (failed.reason, failed.missing) == ("OSError: no cache today", False)
    assert "Traceback" in host.words.read_text("utf-8")


def test_what_cannot_be_opened_fails(host: Conversation, tmp_path: Path) -> None:
    plan = mixed_plan(tmp_path, control("raises"))
    host.ask(plan.load(), Loaded)
    failed = host.ask(plan.open(), Failed)
    assert (failed.reason, failed.missing) == ("OSError: no cache today", False)


def test_a_distribution_that_is_not_installed_is_missing(
    host: Conversation, tmp_path: Path
) -> None:
    plan = mixed_plan(tmp_path, control("missing"))
    plan.distribution = "no-such-distribution-at-all"
    failed = host.ask(plan.load(), Failed)
    assert failed.missing
    assert "no-such-distribution-at-all" in failed.reason


@pytest.mark.parametrize("late", [False, True])
def test_a_module_that_is_not_installed_is_missing(
    host: Conversation, tmp_path: Path, late: bool
) -> None:
    adapter = write_adapter(tmp_path, ("import no_such_module\n" if late else "") + STORING)
    if not late:
        adapter.write_text("import no_such_module\n" + adapter.read_text("utf-8"), "utf-8")
    plan = mixed_plan(tmp_path, adapter)
    if late:
        host.ask(plan.load(), Loaded)
    failed = host.ask(plan.open() if late else plan.load(), Failed)
    assert failed.missing
    assert "no_such_module" in failed.reason


@pytest.mark.parametrize(
    "line",
    [
        b'{"verb": "fly"}',
        b'{"verb": "close", "speed": 1}',
        b'{"verb": "probe_read"}',
        b"not json",
        b'{"verb": "probe_write"}',
        b'{"verb": "close"}',
    ],
)
def test_what_cannot_be_obeyed_fails_and_the_host_goes_on(
    host: Conversation, tmp_path: Path, line: bytes
) -> None:
    host.send(line)
    failed = host.reply()
    assert isinstance(failed, Failed)
    assert failed.reason
    assert not failed.missing
    host.ask(mixed_plan(tmp_path, control("honest")).load(), Loaded)


def test_phases_run_in_their_order(host: Conversation, tmp_path: Path) -> None:
    opened(host, mixed_plan(tmp_path, control("honest")))
    host.run(1)
    assert "phase 0 comes after phase 1" in host.ask(prepare(0), Failed).reason


def test_an_unreadable_stream_is_told(host: Conversation, tmp_path: Path) -> None:
    plan = mixed_plan(tmp_path, control("honest"))
    load = plan.load()
    (tmp_path / "phase-1-0").write_bytes(b"no stream")
    failed = host.ask(load, Failed)
    assert "phase-1-0 is not an operation stream" in failed.reason
    assert not failed.missing


def test_what_an_adapter_prints_is_no_reply(host: Conversation, tmp_path: Path) -> None:
    opened(host, mixed_plan(tmp_path, control("honest")))
    assert host.end() == 0
    assert "an adapter may print" in host.words.read_text("utf-8")


@pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel for a death signal")
def test_a_host_does_not_outlive_its_parent(tmp_path: Path) -> None:
    plan = mixed_plan(tmp_path, control("hangs"))
    sent = [plan.load(), plan.open(), prepare(1), Run(0, "")]
    script = (
        "import os, subprocess, sys, time\n"
        "host = subprocess.Popen([sys.executable, '-m', 'lab.hosts.python', str(os.getpid())],\n"
        "                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "host.stdin.write(sys.stdin.buffer.read())\n"
        "host.stdin.flush()\n"
        "print(host.pid, flush=True)\n"
        "time.sleep(3600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=REPOSITORY,
        start_new_session=True,
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(b"".join(msgspec.json.encode(one) + b"\n" for one in sent))
        parent.stdin.close()
        pid = int(parent.stdout.readline())
        try:
            # A descriptor of the process is readable once it has ended.
            descriptor = os.pidfd_open(pid)
            give_up = time.monotonic() + 60
            while not (tmp_path / "store" / "chosen").exists():
                assert time.monotonic() < give_up
                time.sleep(0.05)
            assert select.select([descriptor], [], [], 0) == ([], [], [])
            parent.kill()
            assert select.select([descriptor], [], [], 20) == ([descriptor], [], [])
            os.close(descriptor)
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


# The replay.


def requests(keys: int, count: int) -> list[Operation]:
    dice = random.Random(f"{keys} {count}")
    return [Operation(GET, dice.randrange(keys), 300) for _ in range(count)]


def test_a_replay_counts_what_hits(host: Conversation, tmp_path: Path) -> None:
    operations = requests(40, 500)
    opened(host, Plan(tmp_path, control("honest"), [[operations]], KEY_TEXTS))
    distinct = len({operation.key for operation in operations})
    assert replay(host, 500) == Replayed(500 - distinct, 0, Verdict())


def test_a_replay_catches_a_wrong_value(host: Conversation, tmp_path: Path) -> None:
    opened(host, Plan(tmp_path, control("wrong_value"), [[requests(40, 500)]], KEY_TEXTS))
    replayed = replay(host, 500)
    assert replayed.verdict.wrong == replayed.hits // 50


def test_a_replay_counts_refusals(host: Conversation, tmp_path: Path) -> None:
    opened(host, Plan(tmp_path, control("refuses"), [[requests(40, 500)]], KEY_TEXTS))
    replayed = replay(host, 500)
    assert replayed.refused > 0
    assert replayed.verdict == Verdict()


# The contestants.

ROWS = [
    pytest.param(row, value, id=f"{row.name}-{value}")
    for row in catalogue.contestants().values()
    if row.host == "python" and not row.server
    for value in row.values
]
# A memoizer cannot overwrite: its sets of keys that are there are refused, here and in the probe.
MEMOIZERS = {"lru_cache"}


@pytest.mark.parametrize(("row", "value"), ROWS)
def test_a_contestant_answers_rightly(
    host: Conversation, own_folder: Path, row: catalogue.Contestant, value: ValueKind
) -> None:
    plan = mixed_plan(own_folder, Path(row.folder, "adapter.py"), value)
    plan.settings, plan.distribution = row.settings, row.install.distribution
    host.load_or_skip(plan.load())
    host.ask(plan.open("probe", 64_000_000), Opened)
    written, verdict = probe(host)
    if row.stores:
        refused = 128 if row.name in MEMOIZERS else 0
        assert (written.refused, verdict) == (refused, Verdict())
    else:
        assert verdict.lost == 48
    host.ask(Close(), Closed)
    host.ask(plan.open("store", 64_000_000), Opened)
    host.run(0)
    durations = str(own_folder / "durations")
    ran = host.run(1, "latency", block=row.block, durations=durations)
    assert ran.verdict == Verdict()
    if row.stores and row.name not in MEMOIZERS:
        assert ran.actions == expected(plan.phases)
    host.ask(Close(), Closed)
