"""T-K1: no entry is returned after its ttl, and none is lost, whatever happens to the wall clock
and in whatever time namespace a process lives."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from reliability.boots import boot, demand
from reliability.holders import stopped_holder
from tuckbox import Cache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-K1"), pytest.mark.timeout(120)]

HERE = os.path.dirname(__file__)
HOUR_S = 3600
YEAR_S = 365 * 24 * HOUR_S
JUMPS_S: dict[str, int | None] = {
    "an hour on": HOUR_S,
    "an hour back": -HOUR_S,
    "ten years on": 10 * YEAR_S,
    "ten years back": -10 * YEAR_S,
    "frozen": None,
}
SHORT_S = 0.4
HANG_S = 30


@pytest.fixture(scope="session")
def wall_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    library = str(tmp_path_factory.mktemp("wall") / "wall.so")
    source = os.path.join(HERE, "wall.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


class Wall:
    """The wall clock of the processes of a test."""

    def __init__(self, folder: Path, library: str) -> None:
        self.file = folder / "wall"
        self.library = library
        self.state = open(self.file, "w+b", buffering=0)  # noqa: SIM115 - Closed by `close`.
        self.jump(0)

    def jump(self, offset_s: int | None) -> None:
        frozen_us = int(time.time() * 1e6) if offset_s is None else 0
        os.pwrite(self.state.fileno(), struct.pack("qq", (offset_s or 0) * 10**6, frozen_us), 0)

    def environment(self) -> dict[str, str]:
        moved = {"LD_PRELOAD": self.library, "WALL_STATE": str(self.file)}
        return {**os.environ, **moved}

    def close(self) -> None:
        self.state.close()


class Process:
    """One that does what it is told; see `clocks`."""

    def __init__(self, wall: Wall, prefix: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, os.path.join(HERE, "clocks.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=wall.environment(),
        )

    def tell(self, name: str, method: str, *arguments: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, method, arguments]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process ended"
        return json.loads(line)

    def ask(self, name: str, method: str, *arguments: Any) -> Any:
        self.tell(name, method, *arguments)
        return self.answer()

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(HANG_S)
        self.process.stdout.close()


class Scene:
    """Caches and processes, and when each entry was stored, by this process's own clock."""

    def __init__(self, folder: Path, wall: Wall, kind: str) -> None:
        self.folder = folder
        self.wall = wall
        self.kind = kind
        self.processes: list[Process] = []
        self.stored: dict[tuple[str, str], tuple[float, float, float]] = {}
        self.reads = 0

    def process(self, *prefix: str) -> Process:
        process = Process(self.wall, prefix)
        self.processes.append(process)
        return process

    def open(self, process: Process, name: str, lock_timeout: float = 10.0) -> None:
        process.ask(name, "open", str(self.folder / name), self.kind, lock_timeout)

    def store(self, process: Process, name: str, label: str) -> None:
        """Three entries: one that is over soon, one that lasts, and one without an end."""
        for key, ttl in (("short", SHORT_S), ("long", HOUR_S // 2), ("ever", None)):
            began = time.monotonic()
            process.ask(name, "set", f"{label} {key}", "value", ttl)
            lasts = 1e18 if ttl is None else ttl
            self.stored[name, f"{label} {key}"] = (began + lasts, time.monotonic() + lasts, lasts)

    def read(self, process: Process, what: str) -> None:
        """Read all entries and demand that each is there, or not, as time has passed."""
        for (name, key), (must_last, must_end, _) in self.stored.items():
            began = time.monotonic()
            found = process.ask(name, "get", key)
            ended = time.monotonic()
            if ended < must_last:
                assert found == "value", f"{what}: {key} of {name} was lost"
            if began >= must_end:
                assert found is None, f"{what}: {key} of {name} was returned after its ttl"
            self.reads += 1

    def wait_for_the_short_ones(self) -> None:
        ends = [end for _, end, lasts in self.stored.values() if lasts == SHORT_S]
        time.sleep(max(0.0, max(ends) - time.monotonic()))

    def end(self) -> None:
        for process in self.processes:
            process.end()
        self.wall.close()


@pytest.fixture
def scene(tmp_path: Path, wall_library: str, request: pytest.FixtureRequest) -> Iterator[Scene]:
    scene = Scene(tmp_path, Wall(tmp_path, wall_library), getattr(request, "param", "Cache"))
    yield scene
    scene.end()


def play_jump(scene: Scene, jump_s: int | None) -> int:
    """The wall clock jumps between all that two processes do; how many cases that were."""
    one = scene.process()
    for name in ("A", "B"):
        scene.open(one, name)
    scene.store(one, "A", "before")
    before_s = one.ask("", "wall_time")
    scene.wall.jump(jump_s)
    # The clock of the process has really moved, and here it has not.
    moved_s = one.ask("", "wall_time") - before_s
    assert (jump_s is None) or abs(moved_s - jump_s) < HANG_S
    scene.store(one, "B", "after")
    scene.read(one, "just after the jump")
    other = scene.process()
    for name in ("A", "B", "C"):
        scene.open(other, name)
    scene.open(one, "C")
    scene.store(other, "C", "first")
    scene.store(other, "A", "after, by another")
    scene.store(one, "A", "after")
    for process in (one, other):
        scene.read(process, "after the jump")
    scene.wait_for_the_short_ones()
    for process in (one, other):
        scene.read(process, "after the short ones' end")
    scene.wall.jump(0)
    scene.store(one, "C", "back")
    one.ask("A", "close")
    scene.open(one, "A")
    for process in (one, other):
        scene.read(process, "after the jump back")
    return 2 * len(scene.stored)


@pytest.mark.parametrize("jump", JUMPS_S)
def test_the_wall_clock_jumps(scene: Scene, jump: str, trials: Trials) -> None:
    trials.add(play_jump(scene, JUMPS_S[jump]), "cases")


@pytest.mark.parametrize("scene", ["Missing", "Immortal", "ByWallClock"], indirect=True)
def test_a_cache_that_believes_the_wall_clock_is_caught(scene: Scene) -> None:
    with pytest.raises(AssertionError, match=r"was lost|after its ttl"):
        play_jump(scene, JUMPS_S["ten years on"])


def time_namespace(offset_s: int) -> tuple[str, ...]:
    """The beginning of a command that runs in a time namespace of its own."""
    offsets = (f"--boottime={offset_s}", f"--monotonic={offset_s}")
    return ("unshare", "--time", "--fork", *offsets)


def offsets_s() -> list[int]:
    up_s = int(time.clock_gettime(time.CLOCK_MONOTONIC))
    return [100_000, 10 * YEAR_S, -(up_s // 2)]


def play_namespaces(scene: Scene, offset_s: int, jump_s: int) -> int:
    """Processes in two time namespaces use the same caches; the wall clock may jump between."""
    prefix = time_namespace(offset_s)
    demand(prefix)
    host = scene.process()
    for name in ("A", "B"):
        scene.open(host, name)
    scene.store(host, "A", "of the host")
    scene.wall.jump(jump_s)
    inside = scene.process(*prefix)
    for name in ("A", "B", "C"):
        scene.open(inside, name)
    scene.open(host, "C")
    scene.store(inside, "B", "from inside")
    scene.store(inside, "C", "first, from inside")
    scene.store(host, "C", "of the host")
    for process in (host, inside):
        scene.read(process, "at once")
    if scene.kind == "Cache":
        for name, key in scene.stored:
            expiries = [process.ask(name, "expiry", key) for process in (host, inside)]
            assert None in expiries or abs(expiries[0] - expiries[1]) < 1e-3
    scene.wait_for_the_short_ones()
    for process in (host, inside):
        scene.read(process, "after the short ones' end")
    return 2 * len(scene.stored)


@pytest.mark.parametrize("jump", ["none", "an hour on", "an hour back"])
@pytest.mark.parametrize("number", range(3))
def test_time_namespaces(scene: Scene, number: int, jump: str, trials: Trials) -> None:
    jump_s = JUMPS_S.get(jump) or 0
    trials.add(play_namespaces(scene, offsets_s()[number], jump_s), "cases")


@pytest.mark.parametrize("scene", ["ByBootClock"], indirect=True)
def test_a_cache_that_believes_the_boot_clock_is_caught(scene: Scene) -> None:
    with pytest.raises(AssertionError, match=r"was lost|after its ttl"):
        play_namespaces(scene, 100_000, 0)


@pytest.mark.parametrize("jump", JUMPS_S)
def test_the_machine_starts_anew(scene: Scene, jump: str, tmp_path: Path, trials: Trials) -> None:
    """The wall clock may have been set meanwhile. Entries that have expired by it are missing,
    others are there. If it ran back, time goes on from where it was."""
    jump_s = JUMPS_S[jump]
    demand(boot(tmp_path, 0))
    old = scene.process(*boot(tmp_path, 1))
    scene.open(old, "A")
    scene.store(old, "A", "of the old boot")
    scene.wait_for_the_short_ones()
    scene.read(old, "in the old boot")
    # A write notes the time down for the next boot.
    old.ask("A", "set", "last", 1)
    old.ask("A", "close")
    for number in range(2, 12):  # More than there are rows for.
        scene.wall.jump(jump_s)
        new = scene.process(*boot(tmp_path, number))
        scene.open(new, "A")
        assert new.ask("A", "get", "of the old boot short") is None
        assert new.ask("A", "get", "of the old boot ever") == "value"
        passed_s = jump_s or 0
        found = new.ask("A", "get", "of the old boot long")
        assert found == ("value" if passed_s < HOUR_S // 2 else None)
        name = f"of boot {number}"
        scene.stored.clear()
        scene.store(new, "A", name)
        scene.read(new, "in the new boot")
        new.ask("A", "close")
        trials.add(6, "cases")
    scene.wait_for_the_short_ones()
    scene.open(new, "A")
    scene.read(new, "in the last boot")


@pytest.mark.parametrize("jump", JUMPS_S)
def test_waits_do_not_notice(scene: Scene, jump: str, trials: Trials) -> None:
    limit_s = 0.5
    with Cache(str(scene.folder / "A"), size="24 MiB") as cache:
        cache.set_many({n: n for n in range(20_000)})
        waiter = scene.process()
        scene.open(waiter, "A", lock_timeout=limit_s)
        with stopped_holder(cache.path or ""):
            for times in range(2):
                began = time.monotonic()
                waiter.tell("A", "set", "key", times)
                time.sleep(limit_s / 5)
                scene.wall.jump(JUMPS_S[jump])
                time.sleep(limit_s / 5)
                scene.wall.jump(0)
                assert waiter.answer() == "LockTimeout"
                waited_s = time.monotonic() - began
                assert limit_s <= waited_s < HANG_S
                trials.add(1, "cases")
        assert waiter.ask("A", "set", "key", "value") is None
        assert cache.get("key") == "value"
        assert cache.check().is_sound
