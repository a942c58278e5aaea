"""The PHP host, driven by hand: its passes, its errors, its end."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from lab import protocol
from lab.stream import GET, SET, Operation
from lab.tests.php_hosts import (
    HERE,
    LAB,
    SHIPPED,
    SPYING,
    gets,
    load,
    mixed,
    sets,
    started,
)
from lab.tests.talking import (
    SECONDS_MAX,
    model,
    needs,
    prepare,
    replay,
)

pytestmark = needs("php")


@pytest.mark.parametrize("value", ["binary", "complex"])
def test_an_honest_contestant_passes(tmp_path: Path, value: protocol.ValueKind) -> None:
    operations = mixed(1000, fields=value == "complex")
    first, second = operations[:600], operations[600:]
    with started(tmp_path, HERE / "php_honest") as host:
        loaded = host.ask(
            load(tmp_path, HERE / "php_honest", first, second, value=value), protocol.Loaded
        )
        assert loaded.runtime.startswith("PHP 8")
        assert len(loaded.timer_ns) == 1000
        # Not every clock goes on between two looks at it.
        assert all(difference >= 0 for difference in loaded.timer_ns)
        assert loaded.create_ns > 0
        host.open()
        written = host.ask(protocol.ProbeWrite(), protocol.Probed)
        assert (written.keys, written.refused) == (64, 0)
        read = host.ask(protocol.ProbeRead([0]), protocol.Probed)
        assert (read.keys, read.verdict) == (64, protocol.Verdict())
        host.ask(protocol.Close(), protocol.Closed)
        host.open()
        known: set[int] = set()
        for phase, part in enumerate((first, second)):
            ran = host.run(phase, "throughput", stretch=256)
            assert ran.verdict.wrong == ran.verdict.stale == ran.verdict.lost == 0, ran.verdict
            assert ran.actions == model(part, known)
            assert ran.done == len(part)
            assert len(ran.blocks_ns) == len(part) // 64
            assert 0 < sum(ran.blocks_ns) < ran.elapsed_ns < ran.ended_ns - ran.started_ns
            assert ran.cpu_ns > 0
        host.ask(protocol.Close(), protocol.Closed)
        assert host.process.stdin is not None
        host.process.stdin.close()
        assert host.process.wait(SECONDS_MAX) == 0
    assert "an adapter may print" in (tmp_path / "errors.txt").read_text()


def test_an_untimed_pass_has_no_times(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_honest") as host:
        host.ask(load(tmp_path, HERE / "php_honest", sets(100)), protocol.Loaded)
        host.open()
        ran = host.run(0)
    assert (ran.started_ns, ran.ended_ns, ran.elapsed_ns, ran.cpu_ns) == (0, 0, 0, 0)
    assert ran.blocks_ns == []
    assert (ran.done, ran.actions["set"].count) == (100, 100)


def test_a_latency_pass_writes_each_duration(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_honest") as host:
        host.ask(load(tmp_path, HERE / "php_honest", mixed(500)), protocol.Loaded)
        host.open()
        durations = tmp_path / "durations"
        ran = host.run(0, "latency", warmup=100, durations=str(durations))
    durations_ns = struct.unpack("<400Q", durations.read_bytes())
    assert sum(durations_ns) < ran.elapsed_ns
    assert min(durations_ns) > 0
    assert ran.cpu_ns > 0
    assert ran.blocks_ns == []


def test_the_warm_up_is_checked_and_not_counted(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_wrong_value") as host:
        operations = [*sets(100), *gets(100), *gets(10)]
        host.ask(load(tmp_path, HERE / "php_wrong_value", operations), protocol.Loaded)
        host.open()
        ran = host.run(0, "throughput", warmup=200, block=64)
    assert ran.done == 210
    assert ran.actions == {
        "get": protocol.Tally(count=10),
        "set": protocol.Tally(),
        "delete": protocol.Tally(),
    }
    assert ran.verdict.wrong == 2
    assert ran.blocks_ns == []


def test_a_stretch_is_obeyed_without_a_pause_and_checked_afterwards(tmp_path: Path) -> None:
    operations = mixed(1000)
    with started(tmp_path, HERE / "php_honest") as host:
        host.ask(load(tmp_path, HERE / "php_honest", operations), protocol.Loaded)
        host.open()
        ran = host.run(0, "throughput", block=64, stretch=1000)
    assert ran.actions == model(operations, set())
    # The rest of 40 operations is no full block.
    assert (ran.done, len(ran.blocks_ns)) == (1000, 15)
    assert sum(ran.blocks_ns) < ran.elapsed_ns == ran.ended_ns - ran.started_ns


def test_a_pass_waits_for_its_start(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_honest") as host:
        host.ask(load(tmp_path, HERE / "php_honest", sets(10)), protocol.Loaded)
        host.open()
        host.ask(prepare(0, "throughput"), protocol.Prepared)
        start_ns = time.monotonic_ns() + 300_000_000
        ran = host.ask(protocol.Run(start_ns, ""), protocol.Ran)
        assert start_ns <= ran.started_ns < ran.ended_ns <= time.monotonic_ns()


def test_phases_run_in_their_order(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_honest") as host:
        host.ask(load(tmp_path, HERE / "php_honest", sets(10), gets(10)), protocol.Loaded)
        host.open()
        host.run(1)
        assert "phase 0 comes after phase 1" in host.ask(prepare(0), protocol.Failed).reason


def test_large_values_are_not_kept(tmp_path: Path) -> None:
    operations = [Operation(SET, key % 100, 2_000_000) for key in range(400)]
    with started(tmp_path, SHIPPED / "php_null") as host:
        host.ask(load(tmp_path, SHIPPED / "php_null", operations), protocol.Loaded)
        host.open()
        assert host.run(0, "throughput", block=16).done == 400
        status = Path(f"/proc/{host.process.pid}/status").read_text("ascii")
    peak_kb = int(next(line.split()[1] for line in status.splitlines() if "VmHWM" in line))
    # All of them would be 800 MB.
    assert peak_kb < 250_000


def test_a_pass_ends_when_its_time_is_up(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_honest") as host:
        host.ask(load(tmp_path, HERE / "php_honest", mixed(1000)), protocol.Loaded)
        host.open()
        ran = host.run(0, "throughput", block=50, seconds_max=0.0)
    assert ran.done == 50
    assert sum(tally.count for tally in ran.actions.values()) == 50


def test_a_replay_counts_its_hits(tmp_path: Path) -> None:
    requests = [Operation(GET, key, 500) for key in [*range(100), *range(50), *range(150)]]
    with started(tmp_path, SHIPPED / "php_sqlite") as host:
        host.ask(load(tmp_path, SHIPPED / "php_sqlite", requests), protocol.Loaded)
        host.open()
        assert replay(host, 300) == protocol.Replayed(150, 0, protocol.Verdict())


def test_what_is_no_request_is_refused_and_the_host_stays(tmp_path: Path) -> None:
    honest = load(tmp_path, HERE / "php_honest", sets(10))
    fields = msgspec.to_builtins(honest)
    prepared = msgspec.to_builtins(prepare(0))
    bad: list[object] = [
        {"verb": "dance"},
        {"no": "verb"},
        [],
        {**fields, "colour": "red"},
        {name: value for name, value in fields.items() if name != "seed"},
        {**fields, "seed": "1"},
        {**fields, "seed": 2**64},
        {**fields, "value": "round"},
        {**fields, "phases": [{"name": "p", "streams": [{"path": "x", "base": 0, "more": 1}]}]},
        {**fields, "adapter": "/nowhere/adapter.php"},
        {**fields, "keys": "/nowhere/keys.txt"},
        {"verb": "close", "really": True},
    ]
    with started(tmp_path, HERE / "php_honest") as host:
        for request in bad:
            reply = host.say(json.dumps(request).encode())
            assert isinstance(reply, protocol.Failed), request
            assert not reply.missing
            assert reply.reason
        assert isinstance(host.say(b"{not json"), protocol.Failed)
        host.ask(honest, protocol.Loaded)
        # A step before the one that prepares it.
        assert isinstance(host.say(json.dumps(prepared).encode()), protocol.Failed)
        assert isinstance(host.say(b'{"verb": "probe_write"}'), protocol.Failed)
        host.open()
        assert isinstance(
            host.say(b'{"verb": "run", "start_ns": 0, "durations": ""}'), protocol.Failed
        )
        for wrong in ({"phase": 1}, {"measure": "speed"}, {"block": 0}, {"stretch": 0}):
            reply = host.say(json.dumps({**prepared, **wrong}).encode())
            assert isinstance(reply, protocol.Failed), wrong
        assert host.run(0).done == 10


def test_an_extension_that_is_not_there_is_missing(tmp_path: Path) -> None:
    plan = tomllib.loads((SHIPPED / "php_xcache/contestant.toml").read_text())
    with started(tmp_path, SHIPPED / "php_xcache") as host:
        request = load(
            tmp_path,
            SHIPPED / "php_xcache",
            sets(10),
            distribution=plan["install"]["distribution"],
        )
        failed = host.ask(request, protocol.Failed)
    assert failed.missing
    assert "XCache" in failed.reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("throw new RuntimeException('no cache today');", "RuntimeException: no cache today"),
        ("return $nothing;", "Undefined variable"),
        ("fopen('/nowhere/at/all', 'r');", "No such file"),
        ("no_such_function();", "undefined function"),
    ],
)
def test_an_error_in_a_verb_fails_the_request(tmp_path: Path, body: str, reason: str) -> None:
    (tmp_path / "adapter.php").write_text(
        SPYING.replace("get: fn ($key) => null", f"get: function ($key) {{ {body} }}")
    )
    with started(tmp_path, tmp_path) as host:
        host.ask(load(tmp_path, tmp_path, gets(10)), protocol.Loaded)
        host.open()
        host.ask(prepare(0), protocol.Prepared)
        assert reason in host.ask(protocol.Run(0, ""), protocol.Failed).reason


def test_a_sequence_of_two_streams_is_refused(tmp_path: Path) -> None:
    request = load(tmp_path, HERE / "php_honest", sets(10), gets(10))
    first, second = request.phases
    phases = [first, msgspec.structs.replace(second, streams=first.streams)]
    with started(tmp_path, HERE / "php_honest") as host:
        failed = host.ask(msgspec.structs.replace(request, phases=phases), protocol.Failed)
    assert "the sequence 1000 belongs to two streams" in failed.reason


def test_what_is_no_stream_is_refused(tmp_path: Path) -> None:
    request = load(tmp_path, HERE / "php_honest", sets(10))
    (tmp_path / "phase-0-0").write_bytes(b"LABOPS02" + bytes(12))
    with started(tmp_path, HERE / "php_honest") as host:
        assert "is not an operation stream" in host.ask(request, protocol.Failed).reason


def test_a_dying_adapter_ends_its_host(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_dies") as host:
        host.ask(load(tmp_path, HERE / "php_dies", gets(150), gets(150)), protocol.Loaded)
        host.open()
        host.run(0)
        host.ask(prepare(1), protocol.Prepared)
        host.send(msgspec.json.encode(protocol.Run(0, "")))
        assert host.hear() == b""
        assert host.process.wait(SECONDS_MAX) == -signal.SIGKILL


def test_a_hanging_adapter_answers_nothing_and_can_be_killed(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_hangs") as host:
        host.ask(load(tmp_path, HERE / "php_hangs", gets(150), gets(150)), protocol.Loaded)
        host.open()
        host.run(0)
        host.ask(prepare(1), protocol.Prepared)
        host.send(msgspec.json.encode(protocol.Run(0, "")))
        with pytest.raises(TimeoutError):
            host.hear(seconds_max=1.0)


def test_a_host_ends_with_its_parent(tmp_path: Path) -> None:
    # A parent that starts a host which is busy and hears nothing of the end of its input.
    keeper = tmp_path / "keeper.py"
    keeper.write_text(
        "import os, subprocess, sys, time\n"
        "command = [part.format(parent=os.getpid()) for part in sys.argv[1:]]\n"
        "child = subprocess.Popen(command, stdin=0)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    host = [str(LAB / "hosts/php/host.php"), "{parent}"]
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, str(keeper), "php", *host], stdin=reading, stdout=subprocess.PIPE
    ) as parent:
        os.close(reading)
        try:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            # It answers, so it has asked the kernel for its death.
            os.write(writing, b'{"verb": "dance"}\n')
            assert b"failed" in parent.stdout.readline()
            parent.kill()
            parent.wait()
            # The input is still open.
            _wait(lambda: not _runs(child))
        finally:
            parent.kill()
            os.close(writing)


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        # It may go while it is being read.
        return False


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
