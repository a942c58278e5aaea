"""Every host refuses invalid requests, reports errors, and ends with its parent."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec
import psutil  # type: ignore[import-untyped, unused-ignore]
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
from lab.stream import GET, SET
from lab.tests.runtimes import KEYS, Hosts, gets, mixed, only, sets
from lab.tests.talking import REPOSITORY, SECONDS_MAX, Conversation, one_worker, prepare

# The messages of hosts for a request that comes too early.
TOO_EARLY = ("before the step that prepares it", "is loaded", "is open", "is ready")
ABSENT_DISTRIBUTIONS = {"perl": "No::Such::Module"}


# Requests that cannot be executed.


def a_request(verb: str, **fields: object) -> bytes:
    return json.dumps({"verb": verb, **fields}).encode()


A_PASS = msgspec.to_builtins(prepare(0))
# A line, and a part of the error message.
NO_REQUESTS: list[tuple[bytes, str]] = [
    (b"", ""),
    (b"not JSON", ""),
    (b"\xff\xfe", ""),
    (b"[]", ""),
    (b"{}", "verb"),
    (b'{"folder": "x"}', "verb"),
    (a_request("dance"), "dance"),
    (a_request("close", gently=True), "gently"),
    (a_request("probe_write", extra=1), "extra"),
    (a_request("probe_read"), "workers"),
    (a_request("probe_read", workers=0), ""),
    (a_request("probe_read", workers=[0], extra=1), "extra"),
    (a_request("open", folder="/", entries_max=0), "bytes_max"),
    (json.dumps({**A_PASS, "measure": "hourly"}).encode(), "hourly"),
    (a_request("run", start_ns=0, durations="", phase=0), "phase"),
    (a_request("replay", phase=0, start=0, stop=0, extra=1), "extra"),
]


def test_what_is_no_request_is_refused_and_the_host_goes_on(hosts: Hosts) -> None:
    host, plan = hosts.opened("honest", mixed())
    for line, told in NO_REQUESTS:
        reply = host.say(line)
        assert isinstance(reply, Failed), line
        assert reply.reason, line
        assert told in reply.reason, line
        assert not reply.missing, line
    host.ask(Close(), Closed)
    host.ask(plan.load(), Loaded)


def test_what_is_no_load_is_refused(hosts: Hosts) -> None:
    good = msgspec.to_builtins(hosts.plan("honest", one_worker(sets(10))).load())
    phase = good["phases"][0]
    bad = {
        "colour": {**good, "colour": "red"},
        "seed": {name: value for name, value in good.items() if name != "seed"},
        "round": {**good, "value": "round"},
        "glossy": {**good, "phases": [{**phase, "glossy": 1}]},
        "matt": {**good, "phases": [{**phase, "streams": [{**phase["streams"][0], "matt": 1}]}]},
        "/nowhere/keys": {**good, "keys": "/nowhere/keys"},
    }
    if good["adapter"]:
        nowhere = f"/nowhere/{Path(good['adapter']).name}"
        bad[nowhere] = {**good, "adapter": nowhere}
    host = hosts.start()
    for told, request in bad.items():
        reply = host.say(json.dumps(request).encode())
        assert isinstance(reply, Failed), told
        assert told in reply.reason
        assert not reply.missing
    assert isinstance(host.say(json.dumps(good).encode()), Loaded)


def test_requests_before_those_that_prepare_them_fail(hosts: Hosts) -> None:
    plan = hosts.plan("honest", one_worker(sets(10)))
    host = hosts.start()
    too_early = [ProbeWrite(), ProbeRead([0]), prepare(0), Run(0, ""), Replay(0, 0, 0), Close()]
    for request in (*too_early, Open(str(hosts.folder), 0, 1)):
        assert_too_early(host, request)
    host.ask(plan.load(), Loaded)
    for request in too_early:
        assert_too_early(host, request)
    host.ask(plan.open(), Opened)
    assert_too_early(host, Run(0, ""))
    assert host.run(0).done == 10
    # A prepared pass can run once.
    assert_too_early(host, Run(0, ""))


def assert_too_early(host: Conversation, request: object) -> None:
    reply = host.say(msgspec.json.encode(request))
    assert isinstance(reply, Failed), request
    assert any(words in reply.reason for words in TOO_EARLY), (request, reply)


def test_phases_run_in_their_order(hosts: Hosts) -> None:
    host, _ = hosts.opened("honest", mixed())
    host.run(1)
    for phase in (0, 1):
        reason = host.ask(prepare(phase), Failed).reason
        assert f"phase {phase} was requested after phase 1" in reason


def test_a_phase_that_was_not_loaded_is_refused(hosts: Hosts) -> None:
    host, _ = hosts.opened("honest", mixed())
    assert host.ask(prepare(2), Failed).reason
    assert host.ask(Replay(2, 0, 1), Failed).reason


@pytest.mark.parametrize(("block", "stretch"), [(0, 1), (1, 0)])
def test_a_pass_of_nothing_at_a_time_is_refused(hosts: Hosts, block: int, stretch: int) -> None:
    host, _ = hosts.opened("honest", mixed())
    reason = host.ask(prepare(0, block=block, stretch=stretch), Failed).reason
    assert "at least one operation" in reason or f"in blocks of {block}" in reason


def test_batches_are_refused_by_those_that_have_none(hosts: Hosts) -> None:
    host, _ = hosts.opened("honest", one_worker(gets(10)))
    if hosts.runtime == "php":
        host.ask(prepare(0, batch=2), Prepared)
    else:
        assert "one key at a time" in host.ask(prepare(0, batch=2), Failed).reason


# Streams and keys.


@only("native", "perl")
def test_a_phase_has_a_stream_for_each_worker_or_one(hosts: Hosts) -> None:
    reason = hosts.start().ask(hosts.plan("honest", mixed(2)).load(2, 3), Failed).reason
    assert "2 streams for 3 workers" in reason or "phase 1 has no stream for worker 2" in reason


@only("native", "php", "python")
def test_a_sequence_of_two_streams_is_refused(hosts: Hosts) -> None:
    load = hosts.plan("honest", one_worker(sets(10), gets(10)), base=1_000).load()
    first, second = load.phases
    phases = [first, msgspec.structs.replace(second, streams=first.streams)]
    failed = hosts.start().ask(msgspec.structs.replace(load, phases=phases), Failed)
    assert "the sequence 1000 belongs to two streams" in failed.reason


@pytest.mark.parametrize(
    "content", [b"", b"no stream", b"LABOPS00", b"LABOPS02" + bytes(12), b"LABOPS01" + bytes(11)]
)
def test_what_is_no_stream_is_refused(hosts: Hosts, content: bytes) -> None:
    load = hosts.plan("honest", mixed()).load()
    Path(load.phases[1].streams[0].path).write_bytes(content)
    failed = hosts.start().ask(load, Failed)
    assert "phase-1-0 is not an operation stream" in failed.reason
    assert not failed.missing


@only("native", "perl")
@pytest.mark.parametrize(
    "operation",
    [(GET, len(KEYS), 0), (SET, 0, (3 << 20) + 1), (3, 0, 0)],
    ids=["key", "size", "verb"],
)
def test_a_stream_that_cannot_be_obeyed_is_refused(
    hosts: Hosts, operation: tuple[int, int, int]
) -> None:
    load = hosts.plan("honest", mixed()).load()
    content = b"LABOPS01" + struct.pack("<BxxxII", *operation)
    Path(load.phases[1].streams[0].path).write_bytes(content)
    reason = hosts.start().ask(load, Failed).reason
    assert "phase-1-0" in reason or f"{operation[2]} bytes" in reason


# Errors.


def test_what_is_not_installed_is_missing(hosts: Hosts) -> None:
    absent = ABSENT_DISTRIBUTIONS.get(hosts.runtime, "no-such-distribution-at-all")
    failed = hosts.start().ask(hosts.plan("honest", mixed(), distribution=absent).load(), Failed)
    assert failed.missing
    assert absent in failed.reason


def test_an_error_in_a_verb_fails_the_request(hosts: Hosts) -> None:
    host = hosts.scripted(["raise"], one_worker(gets(1)))
    host.ask(prepare(0), Prepared)
    failed = host.ask(Run(0, ""), Failed)
    assert "no value today" in failed.reason
    assert not failed.missing
    host.ask(Close(), Closed)


def test_what_cannot_be_opened_fails_and_the_host_goes_on(hosts: Hosts) -> None:
    script = hosts.folder / "script"
    host, plan = hosts.loaded("scripted", one_worker(gets(1)), settings={"script": str(script)})
    failed = host.ask(plan.open(), Failed)
    assert "No such file" in failed.reason
    assert not failed.missing
    script.write_text("nothing\n", "ascii")
    host.ask(plan.open("second"), Opened)
    assert host.run(0).done == 1


def test_a_dying_adapter_ends_the_host(hosts: Hosts) -> None:
    host, _ = hosts.opened("dies", mixed())
    with pytest.raises(EOFError):
        host.run(1)
    death = signal.SIGABRT if hosts.runtime == "native" else signal.SIGKILL
    assert host.process.wait(SECONDS_MAX) == -death


def test_a_hanging_adapter_answers_nothing_and_can_be_killed(hosts: Hosts) -> None:
    host, _ = hosts.opened("hangs", mixed())
    host.ask(prepare(1), Prepared)
    host.send(msgspec.json.encode(Run(0, "")))
    wait_for(lambda: bool(psutil.Process(host.process.pid).children()))
    with pytest.raises(TimeoutError):
        host.hear(seconds_max=0.2)
    assert host.process.poll() is None
    host.process.kill()
    assert host.process.wait(SECONDS_MAX) == -signal.SIGKILL


# The process.


KEEPER = """
import os, subprocess, sys, time
parent, requests, replies, *command = sys.argv[1:]
command = [str(os.getpid()) if part == parent else part for part in command]
host = subprocess.Popen(command, stdin=int(requests), stdout=int(replies))
print(host.pid, flush=True)
time.sleep(3600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel for a death signal")
@pytest.mark.parametrize("is_busy", [False, True])
def test_a_host_does_not_outlive_its_parent(hosts: Hosts, is_busy: bool) -> None:
    # A parent starts a host and is killed. The host's pipes are held open here, so that only a
    # signal can end it.
    row = hosts.row("hangs")
    plan = hosts.plan(row, mixed())
    own = str(os.getpid())
    reading, requests = os.pipe()
    replies, writing = os.pipe()
    arguments = [own, str(reading), str(writing), *hosts.command(row)]
    with ExitStack() as ends:
        for end in (reading, requests, replies, writing):
            ends.callback(os.close, end)
        parent = ends.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", KEEPER, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=REPOSITORY,
                pass_fds=(reading, writing),
                start_new_session=True,
            )
        )
        ends.callback(os.killpg, parent.pid, signal.SIGKILL)
        assert parent.stdout is not None
        host = psutil.Process(int(parent.stdout.readline()))
        # When it answers, it has requested its death signal.
        os.write(requests, msgspec.json.encode(plan.load()) + b"\n")
        assert b"loaded" in os.read(replies, 1 << 20)
        if is_busy:
            for request in (plan.open(), prepare(1), Run(0, "")):
                os.write(requests, msgspec.json.encode(request) + b"\n")
            wait_for(lambda: bool(host.children()))
        assert is_running(host)
        parent.kill()
        wait_for(lambda: not is_running(host))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_running(process: psutil.Process) -> bool:
    """Return whether a process is alive; a zombie is not."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
