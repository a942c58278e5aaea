"""Conversations with hosts, for tests that drive one directly.

Owns a conversation with a host process, the plan of what a host loads, the builders of requests,
and the counts of a store that keeps everything. Must not know any runtime, adapter or
contestant, or what a test expects.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec
import pytest

from lab import stream
from lab.protocol import (
    ACTIONS,
    Action,
    AnyReply,
    Failed,
    Load,
    Loaded,
    Measure,
    Open,
    PhaseOf,
    Prepare,
    Prepared,
    Ran,
    Replay,
    Replayed,
    Reply,
    Request,
    Run,
    StreamOf,
    Tally,
    ValueKind,
    Verdict,
)
from lab.stream import DELETE, GET, SET, Operation

REPOSITORY = Path(__file__).parents[2]
SECONDS_MAX = 60.0
# Long enough for every host to read the request that names the start.
BARRIER_NS = 50_000_000

R = TypeVar("R", bound=Reply)
_DECODER: msgspec.json.Decoder[AnyReply] = msgspec.json.Decoder(AnyReply)


def needs(program: str) -> pytest.MarkDecorator:
    """Return the mark that skips the tests of a module if `program` is not installed.

    With CI=true in the environment, the module fails instead.
    """
    is_missing = shutil.which(program) is None
    if is_missing and os.environ.get("CI") == "true":
        pytest.fail(f"{program} is not installed, and CI=true wants all runtimes", pytrace=False)
    return pytest.mark.skipif(is_missing, reason=f"{program} is not installed")


class Conversation:
    """One host, started from its command in its own session.

    Its error output goes to the file `words` and is shown at the end. The end of the
    `with` block kills everything that still runs in the session.
    """

    def __init__(self, command: Sequence[str | Path], words: Path) -> None:
        self.words = words
        with words.open("ab") as file:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                cwd=REPOSITORY,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # An adapter may have started processes that outlived the host.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        # Waits, and closes the pipes. A line that a dead host did not read is still in one.
        with suppress(BrokenPipeError), self.process:
            pass
        print(self._said())

    def send(self, line: bytes) -> None:
        """Send a line. Raises EOFError if the host has ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise EOFError(f"the host has ended; {self._said()}") from error

    def hear(self, seconds_max: float = SECONDS_MAX) -> bytes:
        """Return the next line of the output; empty at its end. Raises TimeoutError."""
        output = self.process.stdout
        assert output is not None
        if not select.select([output], [], [], seconds_max)[0]:
            raise TimeoutError(f"no reply in {seconds_max} s; {self._said()}")
        return output.readline()

    def reply(self) -> AnyReply:
        """Return the next reply. Raises EOFError if the host has ended."""
        line = self.hear()
        if not line:
            raise EOFError(f"the host has ended; {self._said()}")
        # The line must be strict: all fields present, none unknown, all of the right type.
        return _DECODER.decode(line)

    def say(self, line: bytes) -> AnyReply:
        """Send a line and return the reply. Raises EOFError if the host has ended."""
        self.send(line)
        return self.reply()

    def ask(self, request: Request, kind: type[R]) -> R:
        """Send a request and return the reply, which must be a `kind`."""
        reply = self.say(msgspec.json.encode(request))
        assert isinstance(reply, kind), reply
        return reply

    def run(
        self,
        phase: int,
        measure: Measure = "untimed",
        *,
        warmup: int = 0,
        block: int = 64,
        stretch: int = 64,
        batch: int = 1,
        seconds_max: float = 60.0,
        durations: str = "",
    ) -> Ran:
        """Prepare a pass and run it at once; return its result."""
        request = prepare(
            phase,
            measure,
            warmup=warmup,
            block=block,
            stretch=stretch,
            batch=batch,
            seconds_max=seconds_max,
        )
        self.ask(request, Prepared)
        return self.ask(Run(0, durations), Ran)

    def load_or_skip(self, request: Load) -> Loaded:
        """Load, or skip the test if the contestant is not installed."""
        reply = self.say(msgspec.json.encode(request))
        if isinstance(reply, Failed) and reply.missing:
            pytest.skip(reply.reason)
        assert isinstance(reply, Loaded), reply
        return reply

    def end(self) -> int:
        """End the input and return the exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(SECONDS_MAX)

    def _said(self) -> str:
        return f"its error output: {self.words.read_text('utf-8', 'replace') or 'empty'}"


def ask_all(hosts: Sequence[Conversation], requests: Sequence[Request], kind: type[R]) -> list[R]:
    """Send each host its request, then wait for all of them."""
    for host, request in zip(hosts, requests, strict=True):
        host.send(msgspec.json.encode(request))
    replies = [host.reply() for host in hosts]
    assert all(isinstance(reply, kind) for reply in replies), replies
    return [reply for reply in replies if isinstance(reply, kind)]


def run_together(hosts: Sequence[Conversation], request: Prepare) -> list[Ran]:
    """Let each host prepare the same pass, and all start it at the same moment."""
    ask_all(hosts, [request] * len(hosts), Prepared)
    start_ns = time.monotonic_ns() + BARRIER_NS
    return ask_all(hosts, [Run(start_ns, "")] * len(hosts), Ran)


def prepare(
    phase: int,
    measure: Measure = "untimed",
    *,
    warmup: int = 0,
    block: int = 64,
    stretch: int = 64,
    batch: int = 1,
    seconds_max: float = 60.0,
) -> Prepare:
    """Return the request to prepare a pass."""
    return Prepare(phase, measure, warmup, block, stretch, batch, seconds_max)


Streams = Sequence[Sequence[Operation]]


def one_worker(*phases: Sequence[Operation]) -> list[Streams]:
    """Return phases with one stream each."""
    return [[operations] for operations in phases]


@dataclass
class Plan:
    """The data of a load, and the place of its files.

    A phase is a list of streams, one per worker. Sequences begin with `base` and rise from
    stream to stream. `adapter` is None if it is built into the host.
    """

    folder: Path
    adapter: Path | None
    phases: Sequence[Streams]
    keys: Sequence[str]
    value: ValueKind = "binary"
    settings: dict[str, str] = field(default_factory=dict)
    distribution: str = ""
    seed: int = 1
    base: int = 0

    def load(self, worker: int = 0, workers: int = 1) -> Load:
        """Write `keys` and the streams, `phase-<phase>-<worker>`, and return the request."""
        keys = self.folder / "keys"
        keys.write_text("".join(f"{key}\n" for key in self.keys), "ascii")
        phases, base = [], self.base
        for number, streams in enumerate(self.phases):
            described = []
            for position, operations in enumerate(streams):
                path = self.folder / f"phase-{number}-{position}"
                path.unlink(missing_ok=True)
                stream.write(path, operations)
                described.append(StreamOf(str(path), base))
                base += len(operations)
            phases.append(PhaseOf(f"phase {number}", described))
        return Load(
            adapter="" if self.adapter is None else str(self.adapter),
            distribution=self.distribution,
            settings=self.settings,
            seed=self.seed,
            worker=worker,
            workers=workers,
            keys=str(keys),
            value=self.value,
            phases=phases,
        )

    def open(
        self, name: str = "store", bytes_max: int = 4_000_000, *, entries_max: int = 0
    ) -> Open:
        """Make a new folder and return the request."""
        store = self.folder / name
        store.mkdir()
        return Open(folder=str(store), entries_max=entries_max, bytes_max=bytes_max)


def replay(host: Conversation, requests: int, between: int = 170) -> Replayed:
    """Replay the first phase in slices, and return their sum."""
    host.ask(Replay(0, 0, 0), Replayed)
    hits = refused = 0
    verdict = Verdict()
    for start in range(0, requests, between):
        replayed = host.ask(Replay(0, start, min(start + between, requests)), Replayed)
        hits += replayed.hits
        refused += replayed.refused
        verdict.add(replayed.verdict)
    return Replayed(hits, refused, verdict)


def model(operations: Sequence[Operation], there: set[int]) -> dict[Action, Tally]:
    """Return the tallies of operations on a store that keeps everything.

    `there` has the keys in the store, and is updated.
    """
    tallies: dict[Action, Tally] = {action: Tally() for action in ACTIONS}
    for verb, key, _ in operations:
        tally = tallies[ACTIONS[verb]]
        tally.count += 1
        if verb == SET:
            there.add(key)
        elif key not in there:
            tally.miss += 1
            tally.absent += verb == GET
        elif verb == DELETE:
            there.discard(key)
    return tallies


def expected(phases: Sequence[Streams]) -> dict[Action, Tally]:
    """Return the tallies of one worker's last phase on a new store that keeps everything."""
    there: set[int] = set()
    for (operations,) in phases:
        tallies = model(operations, there)
    return tallies
