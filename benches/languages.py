"""Contestants in other languages, each driven by the lab's host for its language.

Owns the conversation with the hosts. Must not know a contestant. All hosts get the same operations
in blocks of 256, with new key strings whose hash is not computed. The host verifies the answers of
a block after the clock has stopped.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benches.data import ENTRIES, VALUE_BYTES, keys
from benches.row import Figure, Goal
from lab import stream
from lab.peers import missing
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
    ValueKind,
)
from lab.runner.catalogue import Contestant, StoreLimits, contestants, host
from lab.runner.cell import adapter_of
from lab.runner.failures import NotInstalledError
from lab.runner.guard import Guard
from lab.runner.hosts import HostProcess, hosts
from lab.runner.placeholders import fill_values, limit_words
from lab.runner.placement import client_cores
from rig.cores import cores
from rig.stamps import WrongAnswerError

#: The row of Tuckbox, used from Python.
OURS = "tuckbox"
_SEED = 1
_BLOCK = 256
_SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Phase:
    """One operation on each of some keys.

    `size` is the size of values to set, in bytes or fields. `misses` says how many of the
    operations must find or store nothing. `batch` is how many keys a get asks for at once.
    """

    verb: int
    numbers: Sequence[int]
    size: int = 0
    misses: Literal["none", "some", "all"] = "none"
    batch: int = 1


@dataclass(frozen=True)
class Plan:
    """The work of a host: `fill` first, then a step for each sample.

    Only the last phase of a step is timed. `keys` is the number of keys, `bytes_max` the limit of
    the store.
    """

    keys: int
    fill: Sequence[Phase]
    steps: Sequence[Sequence[Phase]]
    value: ValueKind = "binary"
    bytes_max: int = 64 << 20


class Hosted:
    """A filled contestant in its host, ready for the first step of its plan."""

    def __init__(
        self, title: str, process: HostProcess, loop: asyncio.Runner, phases: Sequence[Phase]
    ) -> None:
        self.title = title
        self._process = process
        self._loop = loop
        self._phases = phases
        self._done = 0

    def run(self, count: int) -> float:
        """Run the next `count` phases; return the nanoseconds of a batch of the last one.

        Raises WrongAnswerError and what the lab's hosts raise.
        """
        for _ in range(count - 1):
            self._phase("untimed")
        return self._phase("throughput")

    def _phase(self, measure: Measure) -> float:
        number, phase = self._done, self._phases[self._done]
        # A block is whole batches. The host verifies its answers before the next block.
        block = max(_BLOCK // phase.batch, 1) * phase.batch
        self._done += 1
        prepare = Prepare(
            phase=number,
            measure=measure,
            warmup=0,
            block=block,
            stretch=block,
            batch=phase.batch,
            seconds_max=_SECONDS_MAX,
        )
        self._loop.run(self._process.ask(prepare, Prepared))
        ran = self._loop.run(self._process.ask(Run(start_ns=0, durations=""), Ran))
        self._refuse_wrong(phase, ran)
        return ran.elapsed_ns / ran.done * phase.batch

    def _refuse_wrong(self, phase: Phase, ran: Ran) -> None:
        found = ran.verdict
        missed = sum(tally.miss for tally in ran.actions.values())
        wanted = {
            "none": missed == 0,
            "some": 0 < missed < len(phase.numbers),
            "all": missed == len(phase.numbers),
        }
        if found.wrong or found.stale or found.lost or ran.done != len(phase.numbers):
            wanted[phase.misses] = False
        if not wanted[phase.misses]:
            raise WrongAnswerError(
                f"{self.title}: of {ran.done:,} operations {found.wrong:,} were wrong, "
                f"{found.stale:,} stale, {found.lost:,} lost and {missed:,} missed or refused, "
                f"where {phase.misses} should miss"
            )


@dataclass(frozen=True)
class Taken:
    """The samples of a contestant, in nanoseconds, one a round."""

    title: str
    samples: tuple[float, ...]


def take_steps(rows: Sequence[str], plan: Plan, folder: Path) -> list[Taken]:
    """Let some of the lab's contestants take turns at each step of a plan.

    The first step is a warm-up. `folder` must be empty and private. Raises PeerMissingError,
    WrongAnswerError and what the lab's hosts raise.
    """
    samples: list[list[float]] = [[] for _ in rows]
    with ExitStack() as stack:
        started = []
        for number, row in enumerate(rows):
            own = folder / f"{number}"
            own.mkdir(0o700)
            started.append(stack.enter_context(hosted(row, own, plan)))
        for number, phases in enumerate(plan.steps):
            for step in range(len(started)):
                index = (number + step) % len(started)
                nanoseconds = started[index].run(len(phases))
                if number > 0:
                    samples[index].append(nanoseconds)
    return [Taken(one.title, tuple(of)) for one, of in zip(started, samples, strict=True)]


def measure_gets(rows: Sequence[str], rounds: int, folder: Path) -> list[Figure]:
    """Return figures of a get from Python, compared with some of the lab's contestants.

    `folder` must be empty and private. Raises PeerMissingError, WrongAnswerError and what the
    lab's hosts raise.
    """
    order = random.Random(_SEED).sample(range(ENTRIES), ENTRIES)
    gets = [Phase(stream.GET, order)]
    plan = Plan(ENTRIES, [Phase(stream.SET, order, VALUE_BYTES)], [gets] * (rounds + 1))
    ours, *others = take_steps([OURS, *rows], plan, folder)
    goal = Goal("at least", 1)
    return [
        Figure("get", "ns", ours.samples, one.title, one.samples, "theirs / ours", goal)
        for one in others
    ]


@contextmanager
def hosted(row: str, folder: Path, plan: Plan) -> Iterator[Hosted]:
    """Start the host of one of the lab's contestants, and fill the contestant.

    `folder` must be empty and private. Raises PeerMissingError, WrongAnswerError and what the
    lab's hosts raise.
    """
    phases = [*plan.fill, *(phase for step in plan.steps for phase in step)]
    with Guard() as guard, asyncio.Runner() as loop:
        stack = AsyncExitStack()
        ready = _ready(contestants()[row], guard, folder, plan, _streams(folder, phases))
        try:
            title, process = loop.run(stack.enter_async_context(ready))
        except NotInstalledError as error:
            raise missing(row, error) from error
        try:
            one = Hosted(title, process, loop, phases)
            one.run(len(plan.fill))
            yield one
        finally:
            loop.run(stack.aclose())


def _streams(folder: Path, phases: Sequence[Phase]) -> list[PhaseOf]:
    """Write the operations of the phases to files, and return the phases for the host."""
    paths: dict[int, Path] = {}
    base, found = 1, []
    for number, phase in enumerate(phases):
        # A repeated phase shares its file.
        path = paths.setdefault(id(phase), folder / f"stream-{number}")
        if not path.exists():
            stream.write(
                path, [stream.Operation(phase.verb, key, phase.size) for key in phase.numbers]
            )
        # Operations are numbered across all phases.
        found.append(PhaseOf(f"phase {number}", [StreamOf(str(path), base=base)]))
        base += len(phase.numbers)
    return found


@asynccontextmanager
async def _ready(
    contestant: Contestant, guard: Guard, folder: Path, plan: Plan, phases: list[PhaseOf]
) -> AsyncIterator[tuple[str, HostProcess]]:
    """Start a host that opens its contestant. Yield the contestant's title and the host."""
    limits = StoreLimits(bytes=plan.bytes_max)
    words, store, names = folder / "words", folder / "store", folder / "keys"
    words.mkdir(0o700)
    store.mkdir(0o700)
    names.write_text("".join(f"{key}\n" for key in keys(plan.keys)), "ascii")
    async with hosts(
        host(contestant.host),
        contestant,
        limits,
        1,
        guard=guard,
        mark=f"{guard.token}.0.",
        words=words,
        cores=client_cores("one core", cores()),
    ) as (process,):
        loaded = await process.ask(
            Load(
                adapter=adapter_of(contestant),
                distribution=contestant.install.distribution,
                settings=fill_values(contestant.settings, limit_words(limits)),
                seed=_SEED,
                worker=0,
                workers=1,
                keys=str(names),
                value=plan.value,
                phases=phases,
            ),
            Loaded,
        )
        await process.ask(Open(str(store), entries_max=0, bytes_max=plan.bytes_max), Opened)
        yield f"{contestant.title.partition(',')[0]} {loaded.version}", process
