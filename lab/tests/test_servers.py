"""Servers get their own ports and sockets, are always stopped, and their deaths are reported."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from lab.runner import servers
from lab.runner.catalogue import StoreLimits, server_of
from lab.runner.failures import ServerError
from lab.runner.judgement import faults
from lab.runner.results import PhasesCell
from lab.runner.session import Session
from lab.runner.summary import summarise
from lab.tests.small import MIX, WARMUP, contestant, run_suite, session, suite

Left = Callable[[], list[psutil.Process]]

ALONE = suite(1, form={"cell_seconds_max": 20.0})
LIMITS = StoreLimits(bytes=64 << 20)


def faults_of(*cells: PhasesCell) -> list[str]:
    names = dict.fromkeys(cell.contestant for cell in cells)
    return faults(summarise(ALONE, [contestant(name) for name in names], cells), [])


def test_a_server_is_measured_on_one_core_and_on_two(tmp_path: Path, processes_in: Left) -> None:
    cells = run_suite(tmp_path, "served:tcp", "served:socket", of=ALONE)
    two = len(os.sched_getaffinity(0)) > 1
    placements = ["same core", "split cores"] if two else ["same core"]
    assert [(cell.contestant, cell.placement) for cell in cells] == [
        (name, placement) for name in ("served:tcp", "served:socket") for placement in placements
    ]
    for cell in cells:
        assert (cell.outcome, cell.reason) == ("measured", "")
        assert cell.server_version == "tiny 1.0"
        assert cell.resources.server_bytes_opened > 1 << 20
        assert cell.resources.server_bytes_full > 1 << 20
        assert cell.resources.server_cpu_ns > 0
    # The first cell of each contestant has probed it.
    assert [bool(cell.probe_keys) for cell in cells] == [
        placement == "same core" for _ in range(2) for placement in placements
    ]
    assert faults_of(*cells) == []
    assert processes_in() == []


def test_several_workers_share_a_server_and_nobody_is_pinned(tmp_path: Path) -> None:
    (cell,) = run_suite(tmp_path, "served:tcp", of=suite(3))
    assert (cell.outcome, cell.placement) == ("measured", "free")
    assert cell.probe_keys == 3 * 2 * 64


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ("mortal", "the server mortal died: signal SIGKILL, last output: tiny: out of luck"),
        ("sleepy", "worker 0 hung in probe_write: no answer in time, killed"),
        ("deaf", "the server deaf was not ready within 5 s, last output: tiny: I cannot hear you"),
        ("broken", "the server broken did not start: exit status 1, last output: tiny: no server"),
    ],
)
def test_a_server_that_goes_wrong_fails_its_row_and_the_rest_goes_on(
    tmp_path: Path, processes_in: Left, form: str, reason: str
) -> None:
    short = suite(1, form={"cell_seconds_max": 20.0, "rounds": 2})
    wrong, *others = run_suite(tmp_path, f"served:{form}", "honest", of=short)
    assert wrong.outcome == "failed"
    assert reason in wrong.reason
    # It does not run in another placement or in the second round.
    assert [cell.contestant for cell in others] == ["honest", "honest"]
    assert len(faults_of(wrong, *others)) == 1
    assert processes_in() == []
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_dies_in_mid_run_is_named_with_the_step_of_its_client(tmp_path: Path) -> None:
    # Too few entries for a probe, so the hundredth request comes in the measured phase.
    narrow = suite(1, limits={"entries": 70, "bytes": 0}, keys=20)
    (cell,) = run_suite(tmp_path, "served:mortal", of=narrow)
    assert "the server mortal died: signal SIGKILL" in cell.reason
    assert "failed in run of mix (throughput)" in cell.reason


def test_a_missing_server_is_a_fault_and_an_unavailable_one_is_not(tmp_path: Path) -> None:
    missing, unavailable = run_suite(tmp_path, "served:missing", "served:unavailable", of=ALONE)
    assert (missing.outcome, unavailable.outcome) == ("missing", "unavailable")
    assert "no-such-server is not on the PATH; run: python -m lab install" in missing.reason
    assert "no-such-server is not on the PATH: nobody makes it any more" in unavailable.reason
    assert [fault.partition(":")[0] for fault in faults_of(missing, unavailable)] == ["served"]


def start(one: Session, name: str = "served:tcp") -> dict[str, str]:
    """Start a server, stop it, and return its settings."""

    async def work() -> dict[str, str]:
        row = contestant(name)
        async with one.servers.running(
            server_of(row), row, LIMITS, mark=one.mark(), cores=None
        ) as running:
            assert psutil.pid_exists(running.pid)
            return running.settings

    return asyncio.run(work())


def test_a_port_that_is_taken_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        taken: int = other.getsockname()[1]
        free = servers.free_port()
        ports = iter([taken, taken, free])
        monkeypatch.setattr(servers, "free_port", lambda: next(ports))
        with session(tmp_path) as one:
            # The other program accepts connections meanwhile, but must not be taken for ours.
            assert start(one)["port"] == str(free)


def test_when_every_port_is_taken_the_row_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        taken: int = other.getsockname()[1]
        monkeypatch.setattr(servers, "free_port", lambda: taken)
        with session(tmp_path) as one, pytest.raises(ServerError, match="each of 5 ports in use"):
            start(one)


def test_a_template_is_made_once_and_settings_are_filled_in(tmp_path: Path) -> None:
    with session(tmp_path) as one:
        first, again = start(one), start(one)
        templates = list(one.data.folder.glob("*-template"))
    # Preparing it a second time would fail, because the file exists.
    assert len(templates) == 1
    assert first["colour"] == again["colour"] == "of 64 MiB"
    assert first["host"] == "127.0.0.1"


def test_a_socket_lies_in_a_private_folder_with_a_short_path(tmp_path: Path) -> None:
    deep = tmp_path / ("deep" * 20)
    deep.mkdir()
    with session(deep) as one:
        path = Path(start(one, "served:socket")["socket"])
    assert len(str(path)) < 108
    assert not path.parent.exists()


def test_pinned_processes_run_where_they_should(tmp_path: Path) -> None:
    """According to the kernel, every thread of client and server is on its core."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        pytest.skip("this machine has one core")
    seen: dict[str, set[int]] = {}

    async def work(one: Session) -> None:
        row = contestant("served:tcp")
        async with one.servers.running(
            server_of(row), row, LIMITS, mark=one.mark(), cores={usable[1]}
        ) as running:
            # A connection makes the server start a thread.
            _, writer = await asyncio.open_connection("127.0.0.1", int(running.settings["port"]))
            tasks: list[int] = []
            async with asyncio.timeout(30):
                while len(tasks) < 2:
                    await asyncio.sleep(0.01)
                    folder = Path(f"/proc/{running.pid}/task")
                    tasks = [int(task.name) for task in folder.iterdir()]
            seen["server"] = set().union(*(os.sched_getaffinity(task) for task in tasks))
            writer.close()

    before = os.sched_getaffinity(0)
    with session(tmp_path) as one:
        asyncio.run(work(one))
    assert seen["server"] == {usable[1]}
    assert os.sched_getaffinity(0) == before


def test_a_measured_phase_of_a_server_counts_its_operations(tmp_path: Path) -> None:
    (cell, *_) = run_suite(tmp_path, "served:tcp", of=suite(1, steps=[MIX]))
    (phase,) = cell.phases
    assert phase.throughput is not None
    assert phase.throughput.done == 700 - WARMUP
