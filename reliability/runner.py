"""Runs the families of a lane, and writes a record of each.

Owns what runs when, and the verdict on a family. Must not print: it calls a listener.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Protocol

from reliability import record as records
from reliability.catalogue import Family, LaneName
from reliability.command import Commands
from reliability.record import RESULTS, CommandRecord, Record, Verdict
from rig.machine import Machine, machine
from rig.sources import ROOT, Sources, sources

# How many side-by-side families run at a time.
_PLACES = 2


class Listener(Protocol):
    """Is called for each event, from any thread."""

    def begins(self, family: Family, command: str) -> None:
        """A command of a family begins."""

    def ends(self, record: Record) -> None:
        """A family has ended."""

    def leaves_out(self, family: Family, why: str) -> None:
        """A family is not run."""


@dataclass
class Outcome:
    """The result of a lane.

    `left_out` maps each family that did not run to the reason.
    """

    lane: LaneName
    records: list[Record] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def is_good(self) -> bool:
        """Whether every family of the lane is good.

        What this machine does not permit is reported in the short lane, and fails the nightly one.
        """
        allowed: tuple[Verdict, ...] = ("good", "not run") if self.lane == "short" else ("good",)
        judged = all(one.verdict in allowed for one in self.records)
        return judged and not self.left_out and not self.interrupted


class BuildError(Exception):
    """The program `torture` could not be built."""


def run(
    families: Sequence[Family],
    lane: LaneName,
    folder: Path,
    *,
    resume: bool,
    fail_fast: bool,
    listener: Listener,
    root: Path = ROOT,
) -> Outcome:
    """Run the families, and write their records to `folder`.

    `resume` skips families with a good record of exactly these sources there. `fail_fast` starts
    no family after a failure. SIGINT, SIGTERM and SIGHUP end the run; families that had finished
    keep their records. Raises BuildError.
    """
    outcome = Outcome(lane)
    now = sources(RESULTS, root)
    wanted = []
    for family in families:
        kept = records.read(folder, family.id) if resume else None
        if family.lane(lane) is None:
            outcome.left_out[family.id] = "has no commands in this lane"
            listener.leaves_out(family, outcome.left_out[family.id])
        elif kept and (kept.verdict, kept.lane, kept.sources) == ("good", lane, now):
            outcome.records.append(kept)
            listener.leaves_out(family, "has a good record of these sources")
        else:
            wanted.append(family)
    with _torture(wanted, lane, root) as torture:
        run_ = _Run(Commands(torture, root), lane, folder, now, listener)
        with _ending_on_signals(run_):
            for done in run_.all(wanted, fail_fast=fail_fast):
                outcome.records.append(done)
    order = [family.id for family in families]
    outcome.records.sort(key=lambda one: order.index(one.family))
    outcome.interrupted = run_.interrupted
    for family in wanted:
        if family.id not in {one.family for one in outcome.records}:
            why = "was interrupted" if run_.interrupted else "not started: another family failed"
            outcome.left_out[family.id] = why
            listener.leaves_out(family, why)
    return outcome


class _Run:
    def __init__(
        self, commands: Commands, lane: LaneName, folder: Path, now: Sources, listener: Listener
    ) -> None:
        self.interrupted = False
        self._commands = commands
        self._lane = lane
        self._folder = folder
        self._sources = now
        self._machine = machine()
        self._listener = listener

    def interrupt(self) -> None:
        """Kill the running commands and start no more."""
        self.interrupted = True
        # A signal handler must not wait for a lock that the interrupted thread may hold.
        threading.Thread(target=self._commands.end).start()

    def all(self, families: Sequence[Family], *, fail_fast: bool) -> Iterator[Record]:
        """Run the families, and yield each record as soon as it exists.

        Those that must run alone come last: between the others, each would leave a place empty.
        """
        waiting = sorted(families, key=lambda family: not family.side_by_side)
        running: dict[Future[Record | None], Family] = {}
        failed = False
        with ThreadPoolExecutor(_PLACES) as pool:
            while waiting or running:
                while waiting and _has_place(waiting[0], list(running.values())):
                    family = waiting.pop(0)
                    running[pool.submit(self._family, family)] = family
                # The timeout lets the main thread handle signals.
                done, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                for one in done:
                    del running[one]
                    result = one.result()
                    if result is not None:
                        failed = failed or result.verdict == "failed"
                        yield result
                if self.interrupted or (failed and fail_fast):
                    waiting.clear()

    def _family(self, family: Family) -> Record | None:
        lane = family.lane(self._lane)
        assert lane is not None
        began = time.monotonic()
        log = self._folder / f"{family.id}.log"
        self._folder.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        done: list[CommandRecord] = []
        for command in lane.commands:
            self._listener.begins(family, command.run)
            done.append(self._commands.run(command, family.id, log))
            if self.interrupted:
                return None
            if done[-1].failures:
                break
        record = _record(
            family,
            self._lane,
            done,
            round(time.monotonic() - began, 1),
            self._sources,
            self._machine,
        )
        records.write(self._folder, record)
        self._listener.ends(record)
        return record


def _has_place(family: Family, running: Sequence[Family]) -> bool:
    if not running:
        return True
    return len(running) < _PLACES and all(one.side_by_side for one in (family, *running))


def _record(
    family: Family,
    lane: LaneName,
    done: list[CommandRecord],
    seconds: float,
    now: Sources,
    where: Machine,
) -> Record:
    failures = [failure for one in done for failure in one.failures]
    verdict: Verdict = "good"
    if failures:
        verdict = "failed"
    elif any(one.not_run for one in done):
        verdict = "not run"
    trials = sum(one.trials for one in done)
    definition = family.lane(lane)
    assert definition is not None
    names = [
        str(result.get("trial", command.trial))
        for command, one in zip(definition.commands, done, strict=False)
        for result in one.results or [{}]
    ]
    seeds = [result["seed"] for one in done for result in one.results if "seed" in result]
    return Record(
        family=family.id,
        lane=lane,
        verdict=verdict,
        sources=now,
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        machine=where,
        seconds=seconds,
        trials=trials,
        trial=" + ".join(dict.fromkeys(names)),
        failures=failures,
        bound=float(f"{3 / trials:.2g}") if verdict == "good" and not family.exhaustive else None,
        seeds=[seed for seed in seeds if isinstance(seed, int)],
        commands=done,
    )


@contextmanager
def _torture(families: Sequence[Family], lane: LaneName, root: Path) -> Iterator[Path | None]:
    """Build the program `torture`, if a family needs it, and yield the path of a copy.

    A copy, because a build with other features may replace the original.
    """
    lanes = [chosen for family in families if (chosen := family.lane(lane)) is not None]
    commands = [command for chosen in lanes for command in chosen.commands]
    if not any(command.run.split()[0] == "torture" for command in commands):
        yield None
        return
    build = ["cargo", "build", "--quiet", "--profile", "checked", "-p", "tuckbox-torture"]
    status = subprocess.run([*build, "--features", "tuckbox-torture/points"], cwd=root, check=False)
    if status.returncode != 0:
        raise BuildError("torture could not be built; see the compiler's output above")
    built = Path(os.environ.get("CARGO_TARGET_DIR", "target"), "checked", "torture")
    with tempfile.TemporaryDirectory(prefix="reliability-") as folder:
        yield Path(shutil.copy2(root / built, folder))


@contextmanager
def _ending_on_signals(run_: _Run) -> Iterator[None]:
    """End the run, with all processes it started, on SIGINT, SIGTERM and SIGHUP."""

    def handler(_number: int, _frame: FrameType | None) -> None:
        run_.interrupt()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
