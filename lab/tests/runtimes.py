"""The hosts of all runtimes, for tests that all of them must pass.

Owns how a host is started for a contestant, what it loads, its streams, and
the scripts that answer for a store. Must not know what a test expects.
"""

from __future__ import annotations

import functools
import os
import random
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from lab.protocol import (
    Load,
    Loaded,
    Opened,
    Probed,
    ProbeRead,
    ProbeWrite,
    Ran,
    ValueKind,
    Verdict,
)
from lab.runner import catalogue
from lab.runner.catalogue import LAB, Contestant, StoreLimits
from lab.runner.hosts import command_of
from lab.stream import DELETE, GET, SET, Operation
from lab.tests.small import CONTESTANTS
from lab.tests.talking import (
    Conversation,
    Plan,
    Streams,
    ask_all,
    needs,
    prepare,
    run_together,
)

KEYS = [f"key-{number}" for number in range(50)]
_PROGRAMS = {"native": "cargo", "perl": "perl", "php": "php"}

Answer = bool | bytes | str | None


def cargo(*arguments: str) -> None:
    """Run cargo on the lab's workspace in the release profile."""
    command = ["cargo", *arguments, "--locked", "--quiet", "--release"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(LAB / "target")}
    subprocess.run(command, cwd=LAB, env=environment, check=True)


@functools.cache
def build() -> None:
    """Build all native contestants and controls, once per process."""
    cargo("build", "--workspace")


def needed(runtime: str) -> list[pytest.MarkDecorator]:
    """Return the marks that skip a test if a runtime's program is not installed."""
    return [needs(_PROGRAMS[runtime])] if runtime in _PROGRAMS else []


def runtimes(*names: str) -> list[object]:
    """Return runtimes as parameters, each skipped if its program is not installed."""
    return [pytest.param(name, marks=needed(name)) for name in names]


def only(*names: str) -> pytest.MarkDecorator:
    """Return the mark of tests, or of a module, for the hosts of some runtimes."""
    return pytest.mark.parametrize("hosts", runtimes(*names), indirect=True)


EVERY = runtimes(*sorted(catalogue.hosts()))


class Hosts:
    """The hosts of one runtime that a test starts. Their files go into `folder`.

    A host that still runs after the test has passed must exit with status 0.
    """

    def __init__(self, runtime: str, folder: Path) -> None:
        self.runtime = runtime
        self.folder = folder
        self._started: list[Conversation] = []
        self._ends = ExitStack()
        if runtime == "native":
            build()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._ends:
            for host in self._started:
                if error is None and host.process.poll() is None:
                    assert host.end() == 0

    def row(self, name: str) -> Contestant:
        """Return a contestant of the tests by its name, which is the same in all runtimes."""
        own = name if self.runtime == "python" else f"{self.runtime}_{name}"
        return catalogue.contestants(CONTESTANTS)[own]

    def adapter(self, row: Contestant) -> Path | None:
        """Return the adapter that a host loads for a contestant; None if it is built in."""
        adapter = catalogue.host(self.runtime).adapter
        return Path(row.folder, adapter) if adapter else None

    def command(self, row: Contestant) -> list[str]:
        """Return the command that starts a host; the host ends with this process."""
        limits = StoreLimits(entries=1_000, bytes=1 << 26)
        return command_of(catalogue.host(self.runtime), row, limits)

    def start(self, row: Contestant | str = "honest") -> Conversation:
        """Start a host for a contestant."""
        row = self.row(row) if isinstance(row, str) else row
        words = self.folder / f"words-{len(self._started)}"
        host = self._ends.enter_context(Conversation(self.command(row), words))
        self._started.append(host)
        return host

    def plan(self, row: Contestant | str, phases: Sequence[Streams], **fields: object) -> Plan:
        """Return the plan of what hosts load for a contestant; `fields` replace its fields."""
        row = self.row(row) if isinstance(row, str) else row
        settings = {"distribution": row.install.distribution, "settings": row.settings}
        given = {"keys": KEYS, **settings, **fields}
        return Plan(self.folder, self.adapter(row), phases, **given)  # type: ignore[arg-type]

    def loaded(
        self, row: Contestant | str, phases: Sequence[Streams], **fields: object
    ) -> tuple[Conversation, Plan]:
        """Start a host and let it load."""
        host, plan = self.start(row), self.plan(row, phases, **fields)
        _load(row, host, plan.load())
        return host, plan

    def opened(
        self, row: Contestant | str, phases: Sequence[Streams], **fields: object
    ) -> tuple[Conversation, Plan]:
        """Start a host, and let it load and open a store."""
        host, plan = self.loaded(row, phases, **fields)
        host.ask(plan.open(), Opened)
        return host, plan

    def scripted(
        self, answers: Sequence[Answer], phases: Sequence[Streams] = (), **fields: object
    ) -> Conversation:
        """Start a host whose store gives `answers`, one per call.

        None for a get that finds nothing, bytes for a value, a boolean for a set or a delete.
        `slow` takes 0.2 seconds and finds nothing, `raise` is an error. The value of a set is kept
        in the store's folder in a file with the name of the key, fields as JSON.
        """
        settings = {"script": str(write_script(self.folder, answers))}
        return self.opened("scripted", phases, settings=settings, **fields)[0]

    def together(
        self, count: int, row: Contestant | str, phases: Sequence[Streams], **fields: object
    ) -> tuple[list[Conversation], Plan]:
        """Start `count` workers, let them load, and open their stores one after the other.

        Like the runner, each opens after the one before.
        """
        plan = self.plan(row, phases, **fields)
        workers = [self.start(row) for _ in range(count)]
        loads: list[Load] = [plan.load(worker, count) for worker in range(count)]
        _load(row, workers[0], loads[0])
        ask_all(workers[1:], loads[1:], Loaded)
        open_one_by_one(workers, plan)
        return workers, plan


def _load(row: Contestant | str, host: Conversation, load: Load) -> None:
    """Let a host load. Contestants may be missing, but not those of the tests."""
    if isinstance(row, str):
        host.ask(load, Loaded)
    else:
        host.load_or_skip(load)


def write_script(folder: Path, answers: Sequence[Answer]) -> Path:
    """Write a script for a scripted store and return its path."""
    path = folder / "script"
    path.write_text("".join(f"{_line(answer)}\n" for answer in answers), "ascii")
    return path


def _line(answer: Answer) -> str:
    if isinstance(answer, str):
        return answer
    if isinstance(answer, bytes):
        return f"={answer.hex()}"
    return "nothing" if answer is None else "yes" if answer else "no"


def mixed(
    workers: int = 1,
    *,
    value: ValueKind = "binary",
    keys: int = len(KEYS),
    operations: int = 2_000,
    sizes: tuple[int, int] | None = None,
) -> list[Streams]:
    """Return a preload of half of the keys, and a mix of all verbs over all keys for each worker.

    The result is always the same. Without `sizes`, values are short.
    """
    dice = random.Random(f"{keys} {operations}")
    sizes = sizes or ((16, 300) if value == "binary" else (1, 12))
    preload = [Operation(SET, key, dice.randint(*sizes)) for key in range(keys // 2)]
    mixes = []
    for _ in range(workers):
        verbs = dice.choices([GET, SET, DELETE], [80, 15, 5], k=operations)
        mix = [
            Operation(verb, dice.randrange(keys), dice.randint(*sizes) if verb == SET else 0)
            for verb in verbs
        ]
        mixes.append(mix)
    return [[preload], mixes]


def gets(count: int) -> list[Operation]:
    """Return gets of the keys in order, starting again after the last key."""
    return [Operation(GET, number % len(KEYS), 0) for number in range(count)]


def sets(count: int, size: int = 100) -> list[Operation]:
    """Return sets of the keys in order, starting again after the last key."""
    return [Operation(SET, number % len(KEYS), size) for number in range(count)]


def run_mixes(workers: Sequence[Conversation], plan: Plan, *, shared: bool = True) -> list[Ran]:
    """Preload the open store, or each worker's own if it is not shared, and run the mixes."""
    for worker in workers[:1] if shared else workers:
        assert worker.run(0).verdict == Verdict()
    _, mixes = plan.phases
    return run_together(workers, prepare(1, "throughput", block=32, stretch=len(mixes[0])))


def open_one_by_one(hosts: Sequence[Conversation], plan: Plan, name: str = "store") -> None:
    """Let each host open a new store after the one before, like the runner."""
    request = plan.open(name)
    for host in hosts:
        host.ask(request, Opened)


def probe(host: Conversation) -> tuple[Probed, Verdict]:
    """Let one worker probe its store."""
    written = host.ask(ProbeWrite(), Probed)
    return written, host.ask(ProbeRead(workers=[0]), Probed).verdict
