"""The native host refuses what is not of the protocol, and tells what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest

from lab.protocol import (
    Close,
    Closed,
    Failed,
    Loaded,
    Open,
    Opened,
    Prepared,
    ProbeRead,
    ProbeWrite,
    Replay,
    Run,
)
from lab.stream import GET, SET, Operation
from lab.tests.native_hosts import (
    KEYS,
    LAB,
    PRELOAD,
    StartHost,
    a_load,
    an_open,
    key_texts,
    native_hosts,
    program,
    some_work,
    work_through,
)
from lab.tests.talking import (
    SECONDS_MAX,
    Plan,
    model,
    needs,
    prepare,
)

TIMER_PAIRS: Final = 1_000

HOSTS = native_hosts
pytestmark = needs("cargo")


# Errors.


def test_a_dying_adapter_ends_the_output(tmp_path: Path, start: StartHost) -> None:
    host = start("native_dies")
    with pytest.raises(EOFError):
        work_through(host, tmp_path)
    assert host.process.wait(timeout=SECONDS_MAX) == -signal.SIGABRT


def test_a_hanging_adapter_can_be_killed(tmp_path: Path, start: StartHost) -> None:
    host = start("native_hangs")
    host.ask(a_load(tmp_path, PRELOAD, some_work()), Loaded)
    host.ask(an_open(tmp_path), Opened)
    host.run(0, "untimed")
    host.ask(prepare(1, "throughput"), Prepared)
    host.send(msgspec.json.encode(Run(0, "")))
    children = Path(f"/proc/{host.process.pid}/task/{host.process.pid}/children")
    wait_for(lambda: bool(children.read_text()))
    assert host.process.poll() is None


def test_an_error_of_the_adapter_is_told(tmp_path: Path, start: StartHost) -> None:
    host = start("native_raises")
    host.ask(a_load(tmp_path, PRELOAD, settings={"when": "open"}), Loaded)
    assert host.ask(an_open(tmp_path), Failed) == Failed("no cache today")


def test_a_panic_of_the_adapter_is_told(tmp_path: Path, start: StartHost) -> None:
    host = start("native_raises")
    host.ask(a_load(tmp_path, some_work(), settings={"when": "get"}), Loaded)
    host.ask(an_open(tmp_path), Opened)
    host.ask(prepare(0, "throughput"), Prepared)
    reply = host.ask(Run(0, ""), Failed)
    assert reply == Failed("the contestant panicked: no value today")
    assert host.end() == 0


def test_complex_values_are_refused_with_the_reason(tmp_path: Path, start: StartHost) -> None:
    load = msgspec.structs.replace(a_load(tmp_path, PRELOAD), value="complex")
    reply = start("native_honest").ask(load, Failed)
    assert "store bytes" in reply.reason
    assert not reply.missing


@pytest.mark.parametrize(
    ("worker", "workers", "streams", "told"),
    [
        (2, 2, 1, "no worker 2 among 2"),
        (0, 3, 2, "2 streams for 3 workers"),
        (0, 1, 0, "0 streams"),
    ],
)
def test_streams_must_be_those_of_the_workers(
    tmp_path: Path, start: StartHost, worker: int, workers: int, streams: int, told: str
) -> None:
    plan = Plan(tmp_path, None, [[PRELOAD] * streams], key_texts())
    assert told in start("native_honest").ask(plan.load(worker, workers), Failed).reason


def test_a_sequence_of_two_streams_is_refused(tmp_path: Path, start: StartHost) -> None:
    load = a_load(tmp_path, PRELOAD, PRELOAD)
    late = msgspec.structs.replace(load.phases[1].streams[0], base=KEYS)
    phases = [load.phases[0], msgspec.structs.replace(load.phases[1], streams=[late])]
    reply = start("native_honest").ask(msgspec.structs.replace(load, phases=phases), Failed)
    assert f"the sequence {KEYS} belongs to two streams" in reply.reason


def test_settings_must_be_known_and_complete(tmp_path: Path, start: StartHost) -> None:
    load = a_load(tmp_path, PRELOAD, settings={"colour": "red"})
    assert "colour" in start("native_honest").ask(load, Failed).reason
    assert "when" in start("native_raises").ask(a_load(tmp_path, PRELOAD), Failed).reason


def test_the_distribution_has_its_version(tmp_path: Path, start: StartHost) -> None:
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
            verb="prepare",
            phase=0,
            measure="fast",
            warmup=0,
            block=1,
            stretch=1,
            batch=1,
            seconds_max=1,
        ),
        a_request(verb="run", start_ns=-1, durations=""),
        a_request(verb="run", start_ns=0, durations="", phase=0),
        a_request(verb="replay", phase=0, start=0, stop=0, extra=1),
    ],
)
def test_what_is_not_of_the_protocol_fails(start: StartHost, line: bytes) -> None:
    host = start("native_honest")
    reply = host.say(line)
    assert isinstance(reply, Failed)
    assert "not of this protocol" in reply.reason
    # The host is there for the next one.
    assert host.ask(Close(), Failed).reason.startswith("nothing is loaded")
    assert host.end() == 0


@pytest.mark.parametrize("place", ["load", "phase", "stream"])
def test_an_unknown_field_of_a_load_fails(tmp_path: Path, start: StartHost, place: str) -> None:
    request = msgspec.to_builtins(a_load(tmp_path, PRELOAD))
    phase = request["phases"][0]
    {"load": request, "phase": phase, "stream": phase["streams"][0]}[place]["extra"] = 1
    reply = start("native_honest").say(json.dumps(request).encode())
    assert isinstance(reply, Failed)
    assert "extra" in reply.reason


def test_requests_out_of_order_fail(tmp_path: Path, start: StartHost) -> None:
    host = start("native_honest")
    host.ask(a_load(tmp_path, PRELOAD, PRELOAD), Loaded)
    run = Run(0, "")
    for request in (ProbeWrite(), ProbeRead([0]), prepare(0), run, Replay(0, 0, 0), Close()):
        assert "no store is open" in host.ask(request, Failed).reason
    opened = an_open(tmp_path)
    host.ask(opened, Opened)
    assert "open already" in host.ask(opened, Failed).reason
    assert "no phase 2" in host.ask(prepare(2), Failed).reason
    assert "no phase 2" in host.ask(Replay(2, 0, 0), Failed).reason
    for request in (prepare(0, block=0), prepare(0, stretch=0)):
        assert "at least one operation" in host.ask(request, Failed).reason
    assert "one key at a time" in host.ask(prepare(0, batch=2), Failed).reason
    assert "no pass is ready" in host.ask(run, Failed).reason
    assert host.run(1, "throughput").done == KEYS
    assert "no pass is ready" in host.ask(run, Failed).reason
    for phase in (0, 1):
        assert f"phase {phase} comes after phase 1" in host.ask(prepare(phase), Failed).reason


def test_a_pass_that_is_prepared_and_not_run_is_forgotten(tmp_path: Path, start: StartHost) -> None:
    host = start("native_honest")
    host.ask(a_load(tmp_path, PRELOAD, some_work()), Loaded)
    host.ask(an_open(tmp_path), Opened)
    host.ask(prepare(0), Prepared)
    assert host.run(1).actions == model(some_work(), set())
    host.ask(Close(), Closed)
    (tmp_path / "second").mkdir()
    host.ask(Open(str(tmp_path / "second"), 0, 1_000_000), Opened)
    assert "no pass is ready" in host.ask(Run(0, ""), Failed).reason


@pytest.mark.parametrize(
    "operations",
    [[Operation(GET, KEYS, 0)], [Operation(SET, 0, (3 << 20) + 1)], [Operation(3, 0, 0)]],
    ids=["key", "size", "verb"],
)
def test_streams_that_cannot_be_obeyed_fail(
    tmp_path: Path, start: StartHost, operations: list[Operation]
) -> None:
    reply = start("native_honest").ask(a_load(tmp_path, operations), Failed)
    assert "phase-0-0" in reply.reason


@pytest.mark.parametrize("content", [b"", b"LABOPS02", b"LABOPS01" + bytes(11)])
def test_what_is_no_stream_fails(tmp_path: Path, start: StartHost, content: bytes) -> None:
    load = a_load(tmp_path, PRELOAD)
    (tmp_path / "phase-0-0").write_bytes(content)
    assert "is not an operation stream" in start("native_honest").ask(load, Failed).reason


def test_a_file_that_is_not_there_is_named(tmp_path: Path, start: StartHost) -> None:
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
