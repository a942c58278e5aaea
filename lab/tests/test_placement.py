"""Where clients and servers run, according to the kernel."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from lab.runner import catalogue
from lab.runner.catalogue import FormName, Placement
from lab.runner.placement import client_cores, placements, server_cores
from lab.runner.plan import Choice
from lab.runner.processes import start
from lab.runner.session import Session
from lab.tests.small import contestant, session, suite
from rig.cores import Cores, cores, kept_to

USABLE = sorted(os.sched_getaffinity(0))


def test_the_cores_are_ours_and_differ() -> None:
    found = cores()
    assert found.client == USABLE[0]
    assert (found.server is None) == (len(USABLE) == 1)
    assert found.server is None or found.server in USABLE[1:]


@pytest.mark.parametrize(
    ("placement", "client", "server"),
    [
        ("one core", {3}, {3}),
        ("same core", {3}, {3}),
        ("split cores", {3}, {5}),
        ("free", None, None),
    ],
)
def test_placements_are_cores(
    placement: Placement, client: set[int] | None, server: set[int] | None
) -> None:
    usable = Cores(3, 5)
    assert client_cores(placement, usable) == client
    assert server_cores(placement, usable) == server


def test_only_a_single_worker_is_pinned() -> None:
    (alone,), (several,) = suite(1).parts, suite(3).parts
    for name in ("honest", "served:tcp"):
        assert placements(contestant(name), several, Cores(0, 1)) == ["free"]
    assert placements(contestant("honest"), alone, Cores(0, 1)) == ["one core"]
    assert placements(contestant("served:tcp"), alone, Cores(0, 1)) == ["same core", "split cores"]
    assert placements(contestant("served:tcp"), alone, Cores(0, None)) == ["same core"]
    # Without pinning, no placement is called pinned.
    assert placements(contestant("honest"), alone, Cores(None, None)) == ["free"]


@pytest.mark.parametrize("core", USABLE[:2])
def test_a_process_and_its_children_stay_on_their_core(tmp_path: Path, core: int) -> None:
    async def work(one: Session) -> list[str]:
        words = tmp_path / "words.txt"
        command = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status"]
        started = await start(
            command,
            guard=one.guard,
            mark=one.mark(),
            words=words,
            folder=tmp_path,
            cores={core},
            piped=False,
        )
        await started.process.wait()
        await started.kill()
        return words.read_text("ascii").split()

    with session(tmp_path) as one:
        assert asyncio.run(work(one)) == ["Cpus_allowed_list:", str(core)]
    assert os.sched_getaffinity(0) == set(USABLE)


def pinned_and_failed() -> None:
    with kept_to({USABLE[-1]}):
        assert os.sched_getaffinity(0) == {USABLE[-1]}
        raise FileNotFoundError


def test_the_runner_is_where_it_was_also_after_a_failure() -> None:
    with pytest.raises(FileNotFoundError):
        pinned_and_failed()
    assert os.sched_getaffinity(0) == set(USABLE)


@pytest.mark.parametrize(
    ("contestant", "form", "asked", "expected"),
    [
        ("redis:tcp", "middle", (), ["same core"]),
        ("redis:tcp", "full", (), ["same core", "split cores"]),
        ("redis:tcp", "middle", ("split cores",), ["split cores"]),
        # Without a server there is one placement, whatever the form says.
        ("lmdb", "middle", (), ["one core"]),
    ],
)
def test_a_form_can_leave_a_placement_out(
    contestant: str, form: FormName, asked: tuple[Placement, ...], expected: list[str]
) -> None:
    one = catalogue.suite("choice")
    assert isinstance(one, catalogue.PhasesSuite)
    row = catalogue.contestants()[contestant]
    choice = Choice(form, [row], placements=asked)
    assert choice.placements_of(one, row, one.parts[0], Cores(0, 1)) == expected
