"""The Perl host keeps the protocol, and judges rightly what its contestants answer.

Each test starts hosts as the runner does and speaks to them over their input and output.
"""

from __future__ import annotations

import hashlib
import json
import random
import signal
import struct
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from lab.protocol import (
    Close,
    Closed,
    Failed,
    Loaded,
    Measure,
    Opened,
    Prepared,
    Ran,
    Replayed,
    Run,
    Tally,
    ValueKind,
    Verdict,
)
from lab.stream import DELETE, GET, SET, Operation
from lab.tests.perl_hosts import (
    HOST,
    LAB,
    control,
    mixed_plan,
    opened,
    perl_hosts,
    probe,
    write_adapter,
)
from lab.tests.talking import (
    Conversation,
    Plan,
    expected,
    needs,
    one_worker,
    prepare,
    replay,
)

HOSTS = perl_hosts
pytestmark = needs("perl")


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
    opened(host, plan)
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
    plan = mixed_plan(tmp_path, "honest")
    opened(host, plan)
    path = tmp_path / "durations"
    ran = host.run(1, "latency", warmup=100, durations=str(path))
    content = path.read_bytes()
    durations_ns = struct.unpack(f"<{len(content) // 8}Q", content)
    assert len(durations_ns) == 1_900
    assert min(durations_ns) > 0
    assert sum(durations_ns) < ran.elapsed_ns
    assert sum(tally.count for tally in ran.actions.values()) == 1_900
    assert ran.done == 2_000
    assert ran.blocks_ns == []
    assert ran.cpu_ns > 0


def test_the_warmup_is_checked_and_not_counted(host: Conversation, tmp_path: Path) -> None:
    plan = mixed_plan(tmp_path, "wrong_value")
    opened(host, plan)
    host.run(0)
    ran = host.run(1, "throughput", warmup=2_000)
    assert ran.done == 2_000
    assert ran.verdict.wrong > 0
    assert all(tally == Tally() for tally in ran.actions.values())
    assert (ran.blocks_ns, ran.elapsed_ns) == ([], 0)


@pytest.mark.parametrize("verb", [GET, SET, DELETE])
@pytest.mark.parametrize("measure", ["throughput", "latency"])
def test_each_verb_is_obeyed(
    host: Conversation, tmp_path: Path, verb: int, measure: Measure
) -> None:
    operations = [Operation(verb, key % 50, 20) for key in range(100)]
    keys = [f"key-{number}" for number in range(50)]
    opened(host, Plan(tmp_path, control("honest"), [[operations]], keys))
    ran = host.run(0, measure, block=30)
    assert ran.actions == expected([[operations]])
    assert len(ran.blocks_ns) == (3 if measure == "throughput" else 0)


@pytest.mark.parametrize("measure", ["throughput", "latency"])
def test_a_stretch_is_obeyed_without_a_pause_and_checked_afterwards(
    host: Conversation, tmp_path: Path, measure: Measure
) -> None:
    plan = mixed_plan(tmp_path, "honest")
    opened(host, plan)
    host.run(0)
    ran = host.run(1, measure, block=64, stretch=2_000)
    assert ran.actions == expected(plan.phases)
    # The rest of 16 operations is no full block.
    assert (ran.done, len(ran.blocks_ns)) == (2_000, 31 if measure == "throughput" else 0)
    assert sum(ran.blocks_ns) < ran.elapsed_ns == ran.ended_ns - ran.started_ns


def test_an_operation_is_timed_in_its_block(host: Conversation, tmp_path: Path) -> None:
    adapter = write_adapter(
        tmp_path,
        """
        sub (%of) {
            my $turn = 0;
            my $slow = sub { select undef, undef, undef, 0.2 if ++$turn == 5; undef };
            return {object => undef, map { $_ => $slow } qw(get set delete close)};
        }
        """,
    )
    opened(host, Plan(tmp_path, adapter, [[[Operation(GET, 0, 0)] * 12]], ["a"]))
    ran = host.run(0, "throughput", block=4, stretch=8)
    assert len(ran.blocks_ns) == 3
    assert ran.blocks_ns[1] >= 200_000_000
    assert sum(ran.blocks_ns) <= ran.elapsed_ns


def test_a_pass_waits_for_its_start(host: Conversation, tmp_path: Path) -> None:
    opened(host, mixed_plan(tmp_path, "honest"))
    host.run(0)
    host.ask(prepare(1, "throughput"), Prepared)
    start_ns = time.monotonic_ns() + 300_000_000
    ran = host.ask(Run(start_ns, ""), Ran)
    assert start_ns <= ran.started_ns < ran.ended_ns <= time.monotonic_ns()


def test_what_is_prepared_is_warmed_up_and_no_further(host: Conversation, tmp_path: Path) -> None:
    plan = mixed_plan(tmp_path, "honest")
    opened(host, plan)
    store = tmp_path / "store"
    host.ask(prepare(0, warmup=10), Prepared)
    assert len(list(store.iterdir())) == 10
    assert host.ask(Run(0, ""), Ran).done == 25
    assert len(list(store.iterdir())) == 25
    # What was prepared is run once.
    assert "before the one that prepares it" in host.ask(Run(0, ""), Failed).reason


@pytest.mark.parametrize("warmup", [0, 1_000])
def test_a_pass_ends_when_its_time_is_over(host: Conversation, tmp_path: Path, warmup: int) -> None:
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
    opened(host, plan)
    ran = host.run(0, "throughput", warmup=warmup, block=4, stretch=40, seconds_max=0.2)
    assert 4 <= ran.done <= 20
    assert ran.done % 4 == 0
    counted = 0 if warmup else ran.done
    assert ran.actions["get"] == Tally(count=counted, miss=counted, absent=counted)
    assert (ran.elapsed_ns >= 200_000_000) == (not warmup)


def test_what_is_known_lasts_from_phase_to_phase(host: Conversation, tmp_path: Path) -> None:
    operations = one_worker(
        [Operation(SET, 0, 20), Operation(SET, 1, 3)],
        [Operation(GET, 0, 0), Operation(GET, 1, 0), Operation(GET, 2, 0)],
    )
    plan = Plan(tmp_path, control("honest"), operations, ["a", "b", "c"])
    opened(host, plan)
    host.run(0)
    ran = host.run(1)
    assert ran.actions["get"] == Tally(count=3, miss=1, absent=1)
    # Three bytes could be right by chance.
    assert ran.verdict == Verdict(weak=1)
    host.ask(Close(), Closed)
    # A new store is empty, whatever the last one held.
    host.ask(plan.open("second"), Opened)
    assert host.run(1).actions["get"] == Tally(count=3, miss=3, absent=3)


def test_large_values_are_not_kept(host: Conversation, tmp_path: Path) -> None:
    operations = [Operation(SET, key % 50, 2_000_000) for key in range(400)]
    null = LAB / "contestants" / "perl_null" / "adapter.pl"
    opened(host, Plan(tmp_path, null, [[operations]], [f"key-{number}" for number in range(50)]))
    assert host.run(0, "throughput", block=4, stretch=16).done == 400
    status = Path(f"/proc/{host.process.pid}/status").read_text("ascii")
    peak_kb = int(next(line.split()[1] for line in status.splitlines() if "VmHWM" in line))
    # All of them would be 800 MB.
    assert peak_kb < 250_000


# What an adapter does wrong.


def test_a_dying_adapter_ends_the_host(host: Conversation, tmp_path: Path) -> None:
    plan = mixed_plan(tmp_path, "dies")
    opened(host, plan)
    with pytest.raises(EOFError):
        host.run(1)
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
    host.ask(plan.open(), Opened)
    assert replay(host, 2_500) == Replayed(2_470, 0, Verdict())


def test_a_replay_numbers_its_sets_by_their_position(host: Conversation, tmp_path: Path) -> None:
    # Three hits come first: the set of key 2 is the fourth request and has the sequence 3.
    requests = [Operation(GET, key, 16) for key in (0, 0, 0, 2)]
    hits = RECORDER.replace("sub { undef }", "sub { $_[1] eq 'a' ? 'hit' : undef }")
    adapter = write_adapter(tmp_path, hits)
    plan = Plan(tmp_path, adapter, [[requests]], ["a", "b", "c"])
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    replay(host, 4, between=2)
    value = (tmp_path / "store" / "c").read_bytes()
    assert value.hex() == "b735f219bc273e57528ade22a8a2bb15"


def test_a_replay_checks_its_hits(host: Conversation, tmp_path: Path) -> None:
    requests = [Operation(GET, 0, 2_000)] * 1_000
    plan = Plan(tmp_path, control("wrong_value"), [[requests]], ["k"])
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    replayed = replay(host, 1_000)
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
        (msgspec.json.encode(prepare(0)), "before the one that prepares it"),
        (msgspec.json.encode(Run(0, "")), "before the one that prepares it"),
        (
            msgspec.json.encode(prepare(0)).replace(b"untimed", b"hourly"),
            "measure hourly is unknown",
        ),
    ],
)
def test_what_cannot_be_obeyed_is_refused(host: Conversation, line: bytes, reason: str) -> None:
    reply = host.say(line)
    assert isinstance(reply, Failed)
    assert reason in reply.reason
    assert not reply.missing


def test_phases_run_in_their_order(host: Conversation, tmp_path: Path) -> None:
    opened(host, mixed_plan(tmp_path, "honest"))
    host.run(1)
    assert "phase 0 comes after phase 1" in host.ask(prepare(0), Failed).reason


def test_batches_are_refused(host: Conversation, tmp_path: Path) -> None:
    opened(host, mixed_plan(tmp_path, "honest"))
    assert "one key at a time" in host.ask(prepare(0, batch=2), Failed).reason


@pytest.mark.parametrize(("block", "stretch"), [(0, 1), (1, 0)])
def test_a_pass_of_nothing_at_a_time_is_refused(
    host: Conversation, tmp_path: Path, block: int, stretch: int
) -> None:
    opened(host, mixed_plan(tmp_path, "honest"))
    reply = host.ask(prepare(0, block=block, stretch=stretch), Failed)
    assert "at least one operation" in reply.reason


def test_a_phase_without_a_stream_for_a_worker_is_refused(
    host: Conversation, tmp_path: Path
) -> None:
    load = mixed_plan(tmp_path, "honest", workers=2).load(2, 3)
    assert "phase 1 has no stream for worker 2" in host.ask(load, Failed).reason


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
