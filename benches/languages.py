"""Gets beside caches of other languages, each driven by the lab's host for its language.

Owns the conversation with the hosts, Tuckbox's among them: all get the same keys in the same order,
new strings whose hash nobody has computed, in blocks of 256 whose answers the host verifies once
the clock has stopped. Must not know a contestant.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benches.data import ENTRIES, VALUE_BYTES, keys
from benches.peers import missing
from benches.row import Figure, Goal, WrongAnswerError
from lab import stream
from lab.protocol import (
    Load,
    Loaded,
    Measure,
    Open,
    Opened,
    PhaseOf,
    Prepare,
    Prepared,
    Ran,
    Run,
    StreamOf,
)
from lab.runner import placement
from lab.runner.catalogue import Contestant, StoreLimits, contestants, host
from lab.runner.cell import adapter_of
from lab.runner.failures import NotInstalledError
from lab.runner.guard import Guard
from lab.runner.hosts import HostProcess, hosts
from lab.runner.placeholders import fill_values, limit_words

_OURS = "tuckbox"
_SEED = 1
_LIMITS = StoreLimits(bytes=64 << 20)
_BLOCK = 256
_SECONDS_MAX = 60.0


@dataclass(frozen=True)
class _Host:
    """A host whose contestant has all entries."""

    title: str
    process: HostProcess


def measure_gets(rows: Sequence[str], rounds: int, folder: Path) -> list[Figure]:
    """Return how much faster a get is than those of some of the lab's contestants, from Python.

    `folder` is empty and private. Raises PeerMissingError, WrongAnswerError and what the lab's
    hosts raise.
    """
    samples = asyncio.run(_measure([_OURS, *rows], rounds, folder))
    (_, ours), *others = samples
    goal = Goal("at least", 1)
    return [
        Figure("get", "ns", ours, title, theirs, "theirs / ours", goal) for title, theirs in others
    ]


async def _measure(
    rows: Sequence[str], rounds: int, folder: Path
) -> list[tuple[str, tuple[float, ...]]]:
    phases = _phases(folder, rounds + 1)
    samples: list[list[float]] = [[] for _ in rows]
    async with AsyncExitStack() as stack:
        guard = stack.enter_context(Guard())
        started = []
        for number, row in enumerate(rows):
            own = folder / f"{number}"
            own.mkdir(0o700)
            ready = _ready(contestants()[row], guard, own, folder / "keys", phases)
            try:
                started.append(await stack.enter_async_context(ready))
            except NotInstalledError as error:
                raise missing(row, error) from error
        for number in range(rounds + 1):
            for step in range(len(rows)):
                index = (number + step) % len(rows)
                nanoseconds = await _run(started[index], 1 + number, "throughput")
                # The first round warms up, and does not count.
                if number > 0:
                    samples[index].append(nanoseconds)
    return [(one.title, tuple(taken)) for one, taken in zip(started, samples, strict=True)]


def _phases(folder: Path, gets: int) -> list[PhaseOf]:
    """Write the keys and the operations that all are given: to fill, and so many times to get."""
    (folder / "keys").write_text("".join(f"{key}\n" for key in keys(ENTRIES)), "ascii")
    order = random.Random(_SEED).sample(range(ENTRIES), ENTRIES)
    for name, verb, size in (("fill", stream.SET, VALUE_BYTES), ("get", stream.GET, 0)):
        stream.write(folder / name, [stream.Operation(verb, key, size) for key in order])
    names = ["fill", *["get"] * gets]
    # A host runs a phase once, and no two of their operations have the same number.
    return [
        PhaseOf(f"{name} {number}", [StreamOf(str(folder / name), base=1 + number * ENTRIES)])
        for number, name in enumerate(names)
    ]


@asynccontextmanager
async def _ready(
    contestant: Contestant, guard: Guard, folder: Path, names: Path, phases: list[PhaseOf]
) -> AsyncIterator[_Host]:
    words, store = folder / "words", folder / "store"
    words.mkdir(0o700)
    store.mkdir(0o700)
    cores = placement.cores().client
    async with hosts(
        host(contestant.host),
        contestant,
        _LIMITS,
        1,
        guard=guard,
        mark=f"{guard.token}.0.",
        words=words,
        cores=None if cores is None else {cores},
    ) as (process,):
        loaded = await process.ask(
            Load(
                adapter=adapter_of(contestant),
                distribution=contestant.install.distribution,
                settings=fill_values(contestant.settings, limit_words(_LIMITS)),
                seed=_SEED,
                worker=0,
                workers=1,
                keys=str(names),
                value="binary",
                phases=phases,
            ),
            Loaded,
        )
        await process.ask(Open(str(store), entries_max=0, bytes_max=_LIMITS.bytes), Opened)
        ready = _Host(f"{contestant.title.partition(',')[0]} {loaded.version}", process)
        await _run(ready, 0, "untimed")
        yield ready


async def _run(one: _Host, phase: int, measure: Measure) -> float:
    """Run a phase; return the nanoseconds of an operation. Raises WrongAnswerError."""
    prepare = Prepare(
        phase=phase,
        measure=measure,
        warmup=0,
        block=_BLOCK,
        stretch=_BLOCK,
        seconds_max=_SECONDS_MAX,
    )
    await one.process.ask(prepare, Prepared)
    ran = await one.process.ask(Run(start_ns=0, durations=""), Ran)
    found = ran.verdict
    missed = sum(tally.miss for tally in ran.actions.values())
    if found.wrong or found.stale or found.lost or missed or ran.done != ENTRIES:
        raise WrongAnswerError(
            f"{one.title}: of {ran.done:,} operations {found.wrong:,} were wrong, "
            f"{found.stale:,} stale, {found.lost:,} lost and {missed:,} missed or refused"
        )
    return ran.elapsed_ns / ran.done
