"""The native host keeps the protocol, catches each way to be wrong, and accuses no contestant.

Cargo builds everything into CARGO_TARGET_DIR or `lab/target`. The negative controls keep a file for
each entry, so that the tests can see what a host really stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from lab.protocol import (
    Close,
    Closed,
    Failed,
    Load,
    Loaded,
    Open,
    Opened,
    Probed,
    ProbeRead,
    ProbeWrite,
    Ran,
    Replay,
    Replayed,
    Verdict,
)
from lab.runner.placement import started_on
from lab.stream import DELETE, GET, SET, Operation
from lab.tests.talking import (
    SECONDS_MAX,
    Conversation,
    Plan,
    model,
    needs,
    one_worker,
    open_in,
    run,
)

LAB: Final = Path(__file__).parents[1]
TARGET: Final = Path(os.environ.get("CARGO_TARGET_DIR", LAB / "target")).absolute()
CONTROLS: Final = sorted(path.name for path in (LAB / "tests/contestants").glob("native_*"))
CONTESTANTS: Final = sorted(path.name for path in (LAB / "contestants").glob("native_*"))
KEYS: Final = 40
SEED: Final = 1
TIMER_PAIRS: Final = 1_000

pytestmark = needs("cargo")


def cargo(*arguments: str) -> None:
    command = ["cargo", *arguments, "--locked", "--quiet", "--release"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    subprocess.run(command, cwd=LAB, env=environment, check=True)


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """Build contestants and controls."""
    cargo("build", "--workspace")


def program(name: str) -> Path:
    return TARGET / "release" / name


Start = Callable[[str], Conversation]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Give a function that starts the host of a contestant. All are ended with the test."""
    with contextlib.ExitStack() as hosts:

        def start(name: str) -> Conversation:
            command = [str(program(name)), str(os.getpid())]
            return hosts.enter_context(Conversation(command, tmp_path / f"{name}.err"))

        yield start


def derive(key: int, sequence: int, length: int) -> bytes:
    """Return the value as PROTOCOL.md says, written down a second time."""
    head = hashlib.sha512(struct.pack("<QQQ", SEED, key, sequence)).digest()
    if length <= len(head):
        return head[:length]
    offset = int.from_bytes(head[:4], "little") % 2**20
    return head + pool()[offset : offset + length - len(head)]


def pool() -> bytes:
    if not _POOL:
        blocks = (hashlib.sha512(struct.pack("<QI", SEED, b)).digest() for b in range(65_536))
        _POOL.append(b"".join(blocks))
    return _POOL[0]


_POOL: list[bytes] = []


def key_text(number: int) -> str:
    return f"key-{number}"


def a_load(
    folder: Path,
    *streams: Sequence[Operation],
    base: int = 1,
    key_count: int = KEYS,
    distribution: str = "",
    settings: dict[str, str] | None = None,
) -> Load:
    """Write streams, each a phase, whose sequences follow each other."""
    return Plan(
        folder,
        None,
        one_worker(*streams),
        [key_text(number) for number in range(key_count)],
        settings=settings or {},
        distribution=distribution,
        seed=SEED,
        base=base,
    ).load()


def an_open(folder: Path, *, entries_max: int = 0, bytes_max: int = 64_000_000) -> Open:
    return open_in(folder / "store", entries_max=entries_max, bytes_max=bytes_max)


def some_work(count: int = 600) -> list[Operation]:
    """Return gets, sets and deletes of all keys, the same each time."""
    dice = random.Random(7)
    verbs = dice.choices([GET, SET, DELETE], weights=[6, 3, 1], k=count)
    return [
        Operation(verb, dice.randrange(KEYS), dice.randint(20, 220) if verb == SET else 0)
        for verb in verbs
    ]


PRELOAD: Final = [Operation(SET, key, 100) for key in range(KEYS)]


def work_through(host: Conversation, folder: Path) -> tuple[Ran, Ran]:
    """Let a host store all keys and then work, and return what it said of either."""
    host.ask(a_load(folder, PRELOAD, some_work()), Loaded)
    host.ask(an_open(folder), Opened)
    preload = host.run(0, "untimed")
    return preload, host.run(1, "throughput")


def probe(host: Conversation, folder: Path) -> tuple[Probed, Probed]:
    """Let a host probe, and return what it said of writing and of reading."""
    host.ask(a_load(folder), Loaded)
    host.ask(an_open(folder), Opened)
    return host.ask(ProbeWrite(), Probed), host.ask(ProbeRead([0]), Probed)


# Values.


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (16, lambda value: value.hex() == "b735f219bc273e57528ade22a8a2bb15"),
        (160, lambda value: value[-16:].hex() == "213f8fdc19127ea4b21dc76f14548aac"),
        (
            2_222_981,
            lambda value: (
                hashlib.sha256(value).hexdigest()
                == "2ad75dc6464d534612a572b889bba549b7162a70d9530a16125371ca8484cff9"
            ),
        ),
    ],
)
def test_it_stores_the_vectors_of_the_protocol(
    tmp_path: Path, start: Start, size: int, told: Callable[[bytes], bool]
) -> None:
    host = start("native_honest")
    operations = [Operation(SET, 2, size), Operation(GET, 2, 0)]
    host.ask(a_load(tmp_path, operations, base=3), Loaded)
    host.ask(an_open(tmp_path), Opened)
    ran = host.run(0, "throughput")
    assert ran.verdict == Verdict()
    value = (tmp_path / "store" / key_text(2)).read_bytes()
    assert len(value) == size
    assert told(value)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 2_000, 3 << 20])
def test_it_derives_every_length(tmp_path: Path, start: Start, size: int) -> None:
    host = start("native_honest")
    # The second of two operations has the sequence after the base.
    operations = [Operation(GET, 5, 0), Operation(SET, 5, size), Operation(GET, 5, 0)]
    host.ask(a_load(tmp_path, operations, base=2**40), Loaded)
    host.ask(an_open(tmp_path), Opened)
    ran = host.run(0, "throughput")
    assert (tmp_path / "store" / key_text(5)).read_bytes() == derive(5, 2**40 + 1, size)
    assert ran.verdict == Verdict(weak=int(size < 8))
    assert (ran.actions["get"].miss, ran.actions["get"].absent) == (1, 1)


# Passes.


def test_the_honest_one_is_accused_of_nothing(tmp_path: Path, start: Start) -> None:
    host = start("native_honest")
    preload, ran = work_through(host, tmp_path)
    assert preload.verdict == ran.verdict == Verdict()
    assert (preload.done, preload.wall_ns, preload.timed_ns, preload.cpu_ns) == (KEYS, 0, 0, 0)
    assert preload.blocks_ns == []
    assert ran.done == len(some_work())
    # What a store without any limit must answer.
    there = set(range(KEYS))
    assert ran.actions == model(some_work(), there)
    assert ran.actions["get"].absent == ran.actions["get"].miss > 0
    assert len(ran.blocks_ns) == len(some_work()) // 64
    assert 0 < sum(ran.blocks_ns) < ran.timed_ns < ran.wall_ns
    assert ran.cpu_ns > 0
    assert {path.name for path in (tmp_path / "store").iterdir()} == {key_text(k) for k in there}
    assert host.ask(Close(), Closed).elapsed_ns >= 0
    assert host.end() == 0


def test_a_latency_pass_writes_each_duration(tmp_path: Path, start: Start) -> None:
    host = start("native_honest")
    host.ask(a_load(tmp_path, some_work()), Loaded)
    host.ask(an_open(tmp_path), Opened)
    path = tmp_path / "durations"
    request = run(0, "latency", warmup=50, durations=str(path))
    ran = host.ask(request, Ran)
    durations_ns = struct.unpack(f"<{len(some_work()) - 50}Q", path.read_bytes())
    assert sum(durations_ns) == ran.timed_ns
    assert all(0 < duration_ns < ran.wall_ns for duration_ns in durations_ns)
    assert ran.blocks_ns == []
    assert ran.done == len(some_work())
    assert sum(tally.count for tally in ran.actions.values()) == len(durations_ns)
    # What is there is not written over.
    assert "durations" in host.ask(request, Failed).reason


def test_the_warm_up_is_checked_and_not_counted(tmp_path: Path, start: Start) -> None:
    host = start("native_wrong_value")
    operations = [*PRELOAD, *(Operation(GET, key, 0) for key in range(KEYS) for _ in range(3))]
    host.ask(a_load(tmp_path, operations), Loaded)
    host.ask(an_open(tmp_path), Opened)
    ran = host.run(0, "throughput", warmup=KEYS + 60)
    # The fiftieth and the hundredth hit are spoiled; the first of them while warming up.
    assert ran.verdict.wrong == 2
    assert ran.actions["get"].count == 3 * KEYS - 60
    assert ran.actions["get"].wrong == 1
    assert ran.actions["set"].count == 0


def test_a_pass_ends_when_its_time_is_over(tmp_path: Path, start: Start) -> None:
    host = start("native_honest")
    host.ask(a_load(tmp_path, some_work()), Loaded)
    host.ask(an_open(tmp_path), Opened)
    assert host.run(0, "throughput", seconds_max=0).done == 64
    assert host.run(0, "throughput", seconds_max=0, warmup=100).done == 64
    assert host.run(0, "throughput", warmup=100).done == len(some_work())


def test_a_new_store_is_known_to_be_empty(tmp_path: Path, start: Start) -> None:
    host = start("native_honest")
    work_through(host, tmp_path)
    host.ask(Close(), Closed)
    (tmp_path / "second").mkdir()
    host.ask(Open(str(tmp_path / "second"), 0, 1_000_000), Opened)
    ran = host.run(1, "throughput")
    assert ran.verdict == Verdict()
    assert ran.actions["get"].miss == ran.actions["get"].absent


def test_null_costs_little_and_keeps_nothing(tmp_path: Path, start: Start) -> None:
    host = start("native_null")
    host.ask(a_load(tmp_path, some_work(60_000)), Loaded)
    host.ask(an_open(tmp_path), Opened)
    ran = host.run(0, "throughput", block=256)
    assert ran.verdict == Verdict()
    assert ran.actions["get"].miss == ran.actions["get"].count > 0
    # The loop is there (a compiler might have removed it), and what it measures it has measured.
    assert all(block_ns > 0 for block_ns in ran.blocks_ns)


# Answers that are wrong.


def test_a_flipped_bit_is_a_wrong_value(tmp_path: Path, start: Start) -> None:
    _, ran = work_through(start("native_wrong_value"), tmp_path)
    assert ran.verdict.wrong == ran.actions["get"].wrong > 0
    assert ran.verdict.stale == 0
    assert "that nobody stored" in ran.verdict.examples[0]


def test_an_overwritten_value_is_stale(tmp_path: Path, start: Start) -> None:
    _, ran = work_through(start("native_stale"), tmp_path)
    assert ran.verdict.stale > 0
    assert ran.verdict.wrong == 0
    assert len(ran.verdict.examples) <= 5
    assert "overwritten before" in ran.verdict.examples[0]


def test_another_keys_value_is_wrong_and_named(tmp_path: Path, start: Start) -> None:
    host = start("native_honest")
    host.ask(a_load(tmp_path, PRELOAD, [Operation(GET, 3, 0)]), Loaded)
    host.ask(an_open(tmp_path), Opened)
    host.run(0, "throughput")
    shutil.copy(tmp_path / "store" / key_text(8), tmp_path / "store" / key_text(3))
    verdict = host.run(1, "throughput").verdict
    assert verdict.wrong == 1
    assert repr(key_text(8)).replace("'", '"') in verdict.examples[0]


def test_a_deleted_value_that_is_back_is_stale(tmp_path: Path, start: Start) -> None:
    host = start("native_honest")
    host.ask(a_load(tmp_path, PRELOAD, [Operation(DELETE, 3, 0)], [Operation(GET, 3, 0)]), Loaded)
    host.ask(an_open(tmp_path), Opened)
    host.run(0, "throughput")
    path = tmp_path / "store" / key_text(3)
    kept = path.read_bytes()
    host.run(1, "throughput")
    path.write_bytes(kept)
    verdict = host.run(2, "throughput").verdict
    assert (verdict.stale, verdict.wrong) == (1, 0)
    assert "deleted before" in verdict.examples[0]
    path.write_bytes(kept[:-1])
    assert host.run(2, "throughput").verdict.wrong == 1


def test_an_evicted_value_is_a_miss_and_no_fault(tmp_path: Path, start: Start) -> None:
    host = start("native_honest")
    gets = [Operation(GET, key, 0) for key in range(KEYS)]
    host.ask(a_load(tmp_path, PRELOAD, gets), Loaded)
    host.ask(an_open(tmp_path), Opened)
    host.run(0, "throughput")
    (tmp_path / "store" / key_text(3)).unlink()
    ran = host.run(1, "throughput")
    assert ran.verdict == Verdict()
    assert (ran.actions["get"].miss, ran.actions["get"].absent) == (1, 0)


def test_refusals_are_counted_and_no_lie(tmp_path: Path, start: Start) -> None:
    host = start("native_refuses")
    _, ran = work_through(host, tmp_path)
    assert ran.verdict == Verdict()
    assert 0 < ran.actions["set"].miss < ran.actions["set"].count
    assert ran.actions["get"].miss > ran.actions["get"].absent


def test_a_refused_value_must_not_be_there(tmp_path: Path, start: Start) -> None:
    host = start("native_refuses")
    # The third set is refused. The value before it is still right, and no other is.
    sets = [Operation(SET, 1, 50), Operation(SET, 2, 50), Operation(SET, 2, 50)]
    host.ask(a_load(tmp_path, sets, [Operation(GET, 2, 0)]), Loaded)
    host.ask(an_open(tmp_path), Opened)
    assert host.run(0, "throughput").actions["set"].miss == 1
    assert host.run(1, "throughput").verdict == Verdict()
    path = tmp_path / "store" / key_text(2)
    path.write_bytes(derive(2, 3, 50))
    assert host.run(1, "throughput").verdict.wrong == 1
    path.unlink()
    ran = host.run(1, "throughput")
    assert ran.verdict == Verdict()
    assert (ran.actions["get"].miss, ran.actions["get"].absent) == (1, 0)


def test_a_delete_that_found_nothing_leaves_the_key_in_doubt(tmp_path: Path, start: Start) -> None:
    host = start("native_refuses")
    # The third request that may be refused is the delete.
    work = [Operation(SET, 1, 50), Operation(SET, 2, 50), Operation(DELETE, 2, 0)]
    host.ask(a_load(tmp_path, work, [Operation(GET, 2, 0)]), Loaded)
    host.ask(an_open(tmp_path), Opened)
    assert host.run(0, "throughput").actions["delete"].miss == 1
    ran = host.run(1, "throughput")
    assert ran.verdict == Verdict()
    assert ran.actions["get"].miss == 0
    (tmp_path / "store" / key_text(2)).unlink()
    ran = host.run(1, "throughput")
    assert (ran.actions["get"].miss, ran.actions["get"].absent) == (1, 1)


# The probe.


def test_an_honest_probe(tmp_path: Path, start: Start) -> None:
    written, read = probe(start("native_honest"), tmp_path)
    assert written == Probed(64, 0, Verdict())
    assert read == Probed(64, 0, Verdict())
    store = tmp_path / "store"
    kept = {f"probe-0-{number}" for number in range(64) if number % 4 != 3}
    assert {path.name for path in store.iterdir()} == kept
    assert (store / "probe-0-5").read_bytes() == derive(2**32 + 5, 2, 160)


def test_dropped_writes_are_lost_entries_and_misses(tmp_path: Path, start: Start) -> None:
    host = start("native_drops_writes")
    written, read = probe(host, tmp_path)
    assert written.refused == 0
    assert read.verdict.lost > 0
    assert (read.verdict.wrong, read.verdict.stale) == (0, 0)
    assert "it is gone" in read.verdict.examples[0]


def test_stale_probe_keys_are_caught(tmp_path: Path, start: Start) -> None:
    _, read = probe(start("native_stale"), tmp_path)
    assert read.verdict.stale > 0
    assert (read.verdict.wrong, read.verdict.lost) == (0, 0)


def test_the_probe_reads_the_workers_it_is_told(tmp_path: Path, start: Start) -> None:
    host = start("native_honest")
    probe(host, tmp_path)
    read = host.ask(ProbeRead([0, 3]), Probed)
    # Nobody wrote the keys of worker 3: all but the deleted ones are gone.
    assert (read.keys, read.verdict.lost) == (128, 48)


# The replay.


def test_a_replay_stores_on_a_miss(tmp_path: Path, start: Start) -> None:
    host = start("native_honest")
    # Fewer requests than there are between two weighings.
    operations = [Operation(GET, position % KEYS, 3_000) for position in range(400)]
    host.ask(a_load(tmp_path, operations, base=77), Loaded)
    opened = an_open(tmp_path)
    host.ask(opened, Opened)
    replayed = host.ask(Replay(0, opened.folder), Replayed)
    assert (replayed.requests, replayed.hits, replayed.refused) == (400, 400 - KEYS, 0)
    assert replayed.verdict == Verdict()
    files = list((tmp_path / "store").iterdir())
    assert replayed.bytes_peak == sum(path.stat().st_blocks * 512 for path in files) > 0
    assert (tmp_path / "store" / key_text(2)).read_bytes() == derive(2, 79, 3_000)


def test_a_replay_catches_wrong_values(tmp_path: Path, start: Start) -> None:
    host = start("native_wrong_value")
    operations = [Operation(GET, position % KEYS, 300) for position in range(400)]
    host.ask(a_load(tmp_path, operations), Loaded)
    opened = an_open(tmp_path)
    host.ask(opened, Opened)
    assert host.ask(Replay(0, opened.folder), Replayed).verdict.wrong == (400 - KEYS) // 50


# Errors.


def test_a_dying_adapter_ends_the_output(tmp_path: Path, start: Start) -> None:
    host = start("native_dies")
    with pytest.raises(EOFError):
        work_through(host, tmp_path)
    assert host.process.wait(timeout=SECONDS_MAX) == -signal.SIGABRT


def test_a_hanging_adapter_can_be_killed(tmp_path: Path, start: Start) -> None:
    host = start("native_hangs")
    host.ask(a_load(tmp_path, PRELOAD, some_work()), Loaded)
    host.ask(an_open(tmp_path), Opened)
    host.run(0, "untimed")
    host.send(msgspec.json.encode(run(1, "throughput")))
    children = Path(f"/proc/{host.process.pid}/task/{host.process.pid}/children")
    wait_for(lambda: bool(children.read_text()))
    assert host.process.poll() is None


def test_an_error_of_the_adapter_is_told(tmp_path: Path, start: Start) -> None:
    host = start("native_raises")
    host.ask(a_load(tmp_path, PRELOAD, settings={"when": "open"}), Loaded)
    assert host.ask(an_open(tmp_path), Failed) == Failed("no cache today")


def test_a_panic_of_the_adapter_is_told(tmp_path: Path, start: Start) -> None:
    host = start("native_raises")
    host.ask(a_load(tmp_path, some_work(), settings={"when": "get"}), Loaded)
    host.ask(an_open(tmp_path), Opened)
    reply = host.ask(run(0, "throughput"), Failed)
    assert reply == Failed("the contestant panicked: no value today")
    assert host.end() == 0


def test_complex_values_are_refused_with_the_reason(tmp_path: Path, start: Start) -> None:
    load = msgspec.structs.replace(a_load(tmp_path, PRELOAD), value="complex")
    reply = start("native_honest").ask(load, Failed)
    assert "store bytes" in reply.reason
    assert not reply.missing


def test_more_than_one_worker_is_refused(tmp_path: Path, start: Start) -> None:
    load = msgspec.structs.replace(a_load(tmp_path, PRELOAD), workers=2)
    assert "workers_max is 1" in start("native_honest").ask(load, Failed).reason


def test_settings_must_be_known_and_complete(tmp_path: Path, start: Start) -> None:
    load = a_load(tmp_path, PRELOAD, settings={"colour": "red"})
    assert "colour" in start("native_honest").ask(load, Failed).reason
    assert "when" in start("native_raises").ask(a_load(tmp_path, PRELOAD), Failed).reason


def test_the_distribution_has_its_version(tmp_path: Path, start: Start) -> None:
    host = start("native_null")
    loaded = host.ask(a_load(tmp_path, PRELOAD, distribution="serde_json"), Loaded)
    assert (LAB / "Cargo.lock").read_text().count(
        f'name = "serde_json"\nversion = "{loaded.version}"'
    ) == 1
    assert loaded.runtime.startswith("Rust 1.")
    assert "optimised" not in loaded.runtime
    assert len(loaded.timer_ns) == TIMER_PAIRS
    reply = host.ask(a_load(tmp_path, PRELOAD, distribution="no-such-crate-at-all"), Failed)
    assert reply.missing
    assert "no-such-crate-at-all" in reply.reason


def a_request(**changes: object) -> bytes:
    return json.dumps({"verb": "close", **changes}).encode()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not JSON",
        b"\xff\xfe",
        b"[]",
        b"{}",
        a_request(verb="dance"),
        a_request(extra=1),
        a_request(verb="probe_write", extra=1),
        a_request(verb="probe_read"),
        a_request(verb="probe_read", workers=[0], extra=1),
        a_request(verb="probe_read", workers=0),
        a_request(verb="open", folder="/", entries_max=0),
        a_request(verb="open", folder="/", entries_max=-1, bytes_max=1),
        a_request(
            verb="run", phase=0, measure="fast", warmup=0, block=1, seconds_max=1, durations=""
        ),
        a_request(verb="replay", phase=0, folder="/", extra=1),
    ],
)
def test_what_is_not_of_the_protocol_fails(start: Start, line: bytes) -> None:
    host = start("native_honest")
    reply = host.say(line)
    assert isinstance(reply, Failed)
    assert "not of this protocol" in reply.reason
    # The host is there for the next one.
    assert host.ask(Close(), Failed).reason.startswith("nothing is loaded")
    assert host.end() == 0


@pytest.mark.parametrize("place", ["load", "phase", "stream"])
def test_an_unknown_field_of_a_load_fails(tmp_path: Path, start: Start, place: str) -> None:
    request = msgspec.to_builtins(a_load(tmp_path, PRELOAD))
    phase = request["phases"][0]
    {"load": request, "phase": phase, "stream": phase["streams"][0]}[place]["extra"] = 1
    reply = start("native_honest").say(json.dumps(request).encode())
    assert isinstance(reply, Failed)
    assert "extra" in reply.reason


def test_requests_out_of_order_fail(tmp_path: Path, start: Start) -> None:
    host = start("native_honest")
    host.ask(a_load(tmp_path, PRELOAD), Loaded)
    for request in (ProbeWrite(), ProbeRead([0]), run(0, "throughput"), Replay(0, "/"), Close()):
        assert "no store is open" in host.ask(request, Failed).reason
    opened = an_open(tmp_path)
    host.ask(opened, Opened)
    assert "open already" in host.ask(opened, Failed).reason
    assert "no phase 1" in host.ask(run(1, "throughput"), Failed).reason
    assert "at least one operation" in host.ask(run(0, "throughput", block=0), Failed).reason
    assert host.run(0, "throughput").done == KEYS


@pytest.mark.parametrize(
    "operations",
    [[Operation(GET, KEYS, 0)], [Operation(SET, 0, (3 << 20) + 1)], [Operation(3, 0, 0)]],
    ids=["key", "size", "verb"],
)
def test_streams_that_cannot_be_obeyed_fail(
    tmp_path: Path, start: Start, operations: list[Operation]
) -> None:
    reply = start("native_honest").ask(a_load(tmp_path, operations), Failed)
    assert "phase-0-0" in reply.reason


@pytest.mark.parametrize("content", [b"", b"LABOPS02", b"LABOPS01" + bytes(11)])
def test_what_is_no_stream_fails(tmp_path: Path, start: Start, content: bytes) -> None:
    load = a_load(tmp_path, PRELOAD)
    (tmp_path / "phase-0-0").write_bytes(content)
    assert "is not an operation stream" in start("native_honest").ask(load, Failed).reason


def test_a_file_that_is_not_there_is_named(tmp_path: Path, start: Start) -> None:
    load = a_load(tmp_path, PRELOAD)
    (tmp_path / "keys").unlink()
    assert str(tmp_path / "keys") in start("native_honest").ask(load, Failed).reason


# The process.


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    # After the name in parentheses. Z: it has ended, and its parent has yet to notice.
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_it_does_not_outlive_its_parent() -> None:
    # A parent that starts a host, tells its id, and is killed. The pipes of the host are held open
    # here, so that only a signal can end it.
    source = (
        "import os, subprocess, sys, time\n"
        "program, requests, replies = sys.argv[1:]\n"
        "command = [program, str(os.getpid())]\n"
        "host = subprocess.Popen(command, stdin=int(requests), stdout=int(replies))\n"
        "print(host.pid, flush=True)\n"
        "time.sleep(3600)\n"
    )
    reading, requests = os.pipe()
    replies, writing = os.pipe()
    given = [reading, writing]
    with subprocess.Popen(
        [sys.executable, "-c", source, program("native_null"), *map(str, given)],
        stdout=subprocess.PIPE,
        pass_fds=given,
    ) as parent:
        try:
            assert parent.stdout is not None
            host = int(parent.stdout.readline())
            # When it answers it has asked for its death signal.
            os.write(requests, b"\n")
            assert b"failed" in os.read(replies, 1_000)
            assert is_running(host)
            parent.kill()
            wait_for(lambda: not is_running(host))
        finally:
            parent.kill()
            for end in (*given, requests, replies):
                os.close(end)


@pytest.mark.parametrize("arguments", [[], ["x"], ["1"], ["1", "2"]])
def test_it_wants_its_parent(arguments: list[str]) -> None:
    ended = subprocess.run(
        [program("native_null"), *arguments],
        input=b"",
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stdout == b""
    assert ended.stderr


# The contestants.


class Row(NamedTuple):
    """A row of the tables: a contestant or one of its forms."""

    folder: str
    settings: dict[str, str]
    distribution: str
    counts: list[str]


def rows() -> Iterator[tuple[str, Row]]:
    """Yield the identifier of each row that stores, and the row."""
    for name in CONTESTANTS:
        told = tomllib.loads((LAB / "contestants" / name / "contestant.toml").read_text())
        if not told.get("stores", True):
            continue
        for form in told.get("forms", [{"name": ""}]):
            settings = {**told.get("settings", {}), **form.get("settings", {})}
            row = Row(name, settings, told["install"].get("distribution", ""), told["counts"])
            yield f"{name}:{form['name']}".strip(":"), row


ROWS: Final = dict(rows())
each_row = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)


def load_row(row: Row, folder: Path, *streams: Sequence[Operation], key_count: int = KEYS) -> Load:
    return a_load(
        folder,
        *streams,
        key_count=key_count,
        distribution=row.distribution,
        settings=row.settings,
    )


@each_row
def test_a_contestant_is_accused_of_nothing(tmp_path: Path, start: Start, row: Row) -> None:
    host = start(row.folder)
    loaded = host.ask(load_row(row, tmp_path, PRELOAD, some_work(5_000)), Loaded)
    assert bool(loaded.version) == bool(row.distribution)
    host.ask(an_open(tmp_path), Opened)
    assert host.ask(ProbeWrite(), Probed) == Probed(64, 0, Verdict())
    assert host.ask(ProbeRead([0]), Probed) == Probed(64, 0, Verdict())
    host.run(0, "untimed")
    ran = host.run(1, "throughput")
    assert ran.verdict == Verdict()
    # Nothing need be evicted.
    assert 0 < ran.actions["get"].miss == ran.actions["get"].absent < ran.actions["get"].count / 2
    assert ran.actions["set"].miss == 0
    host.ask(Close(), Closed)
    assert host.end() == 0


@each_row
def test_a_contestant_keeps_large_values(tmp_path: Path, start: Start, row: Row) -> None:
    # With many processors quick_cache makes shards that are shorter than two values.
    with started_on({min(os.sched_getaffinity(0))}):
        host = start(row.folder)
    sets = [Operation(SET, key, 2_222_981) for key in range(8)]
    gets = [Operation(GET, key, 0) for key in range(8)]
    host.ask(load_row(row, tmp_path, sets, gets), Loaded)
    host.ask(an_open(tmp_path, bytes_max=1 << 30), Opened)
    host.run(0, "throughput", block=4)
    ran = host.run(1, "throughput", block=4)
    assert ran.verdict == Verdict()
    assert ran.actions["get"].miss == 0


@pytest.mark.parametrize(
    ("row", "limit"),
    [
        pytest.param(row, limit, id=f"{name}-{limit}")
        for name, row in ROWS.items()
        for limit in row.counts
    ],
)
def test_a_contestant_obeys_what_it_counts(
    tmp_path: Path, start: Start, row: Row, limit: str
) -> None:
    host = start(row.folder)
    count, size, limits = 4_000, 600, {"entries": 1_000, "bytes": 720_896}
    sets = [Operation(SET, key, size) for key in range(count)]
    gets = [Operation(GET, key, 0) for key in range(count)]
    host.ask(load_row(row, tmp_path, sets, gets, key_count=count), Loaded)
    entries_max = limits["entries"] if limit == "entries" else 0
    bytes_max = limits["bytes"] if limit == "bytes" else 64_000_000
    host.ask(an_open(tmp_path, entries_max=entries_max, bytes_max=bytes_max), Opened)
    host.run(0, "throughput")
    ran = host.run(1, "throughput")
    assert ran.verdict == Verdict()
    kept = count - ran.actions["get"].miss
    # Those that evict behind the back of a set may be a little late.
    most = 1.1 * (entries_max or bytes_max / size)
    assert most / 3 < kept < most


# The crates.


def test_the_crates_pass_their_own_tests() -> None:
    # Of the whole workspace, for which everything has been built: a part has other features.
    cargo("test", "--workspace", "--lib")


@pytest.mark.parametrize("name", [*CONTESTANTS, *CONTROLS])
def test_the_program_has_the_name_of_its_folder(name: str) -> None:
    (folder,) = [path for path in LAB.glob(f"**/contestants/{name}") if path.is_dir()]
    assert f'name = "{name}"' in (folder / "Cargo.toml").read_text()
    assert 'host = "native"' in (folder / "contestant.toml").read_text()
    assert "cargo = true" in (folder / "contestant.toml").read_text()
