"""Native hosts for the tests that talk to them, and what they are asked to do.

Owns how they are built, started and ended. Must not know what a test expects of them. Cargo builds
everything into CARGO_TARGET_DIR or `lab/target`, once in a process.
"""

from __future__ import annotations

import functools
import hashlib
import os
import random
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from lab.protocol import Load, Loaded, Open, Opened, Ran
from lab.stream import DELETE, GET, SET, Operation
from lab.tests.talking import Conversation, Plan, one_worker, open_in

LAB: Final = Path(__file__).parents[1]
TARGET: Final = Path(os.environ.get("CARGO_TARGET_DIR", LAB / "target")).absolute()
KEYS: Final = 40
SEED: Final = 1
PRELOAD: Final = [Operation(SET, key, 100) for key in range(KEYS)]

StartHost = Callable[[str], Conversation]


def cargo(*arguments: str) -> None:
    """Run cargo on the lab's workspace, with optimisation."""
    command = ["cargo", *arguments, "--locked", "--quiet", "--release"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    subprocess.run(command, cwd=LAB, env=environment, check=True)


@functools.cache
def build() -> None:
    """Build contestants and controls."""
    cargo("build", "--workspace")


def program(name: str) -> Path:
    """Return the program of a contestant or a control."""
    build()
    return TARGET / "release" / name


@contextmanager
def native_hosts(folder: Path) -> Iterator[StartHost]:
    """Give a function that starts the host of a contestant. All are ended with the block."""
    with ExitStack() as hosts:
        started: list[Conversation] = []

        def start(name: str) -> Conversation:
            command = [str(program(name)), str(os.getpid())]
            host = Conversation(command, folder / f"words-{len(started)}")
            started.append(hosts.enter_context(host))
            return host

        yield start


def key_texts(count: int = KEYS) -> list[str]:
    """Return the texts of the keys."""
    return [key_text(number) for number in range(count)]


def key_text(number: int) -> str:
    """Return the text of a key, which is also the name of its file."""
    return f"key-{number}"


def a_load(
    folder: Path,
    *streams: Sequence[Operation],
    base: int = 1,
    key_count: int = KEYS,
    distribution: str = "",
    settings: dict[str, str] | None = None,
) -> Load:
    """Write streams, each a phase of one worker, whose sequences follow each other."""
    return Plan(
        folder,
        None,
        one_worker(*streams),
        key_texts(key_count),
        settings=settings or {},
        distribution=distribution,
        seed=SEED,
        base=base,
    ).load()


def an_open(folder: Path, *, entries_max: int = 0, bytes_max: int = 64_000_000) -> Open:
    """Make the folder of a store and return the request to open it."""
    return open_in(folder / "store", entries_max=entries_max, bytes_max=bytes_max)


def some_work(count: int = 600, worker: int = 0) -> list[Operation]:
    """Return gets, sets and deletes of all keys, the same each time."""
    dice = random.Random(7 + worker)
    verbs = dice.choices([GET, SET, DELETE], weights=[6, 3, 1], k=count)
    return [
        Operation(verb, dice.randrange(KEYS), dice.randint(20, 220) if verb == SET else 0)
        for verb in verbs
    ]


def work_through(host: Conversation, folder: Path) -> tuple[Ran, Ran]:
    """Let a host store all keys and then work, and return what it said of either."""
    host.ask(a_load(folder, PRELOAD, some_work()), Loaded)
    host.ask(an_open(folder), Opened)
    preload = host.run(0, "untimed")
    return preload, host.run(1, "throughput")


def derive(key: int, sequence: int, length: int) -> bytes:
    """Return the value as PROTOCOL.md says, written down a second time."""
    head = hashlib.sha512(struct.pack("<QQQ", SEED, key, sequence)).digest()
    if length <= len(head):
        return head[:length]
    offset = int.from_bytes(head[:4], "little") % 2**20
    return head + pool()[offset : offset + length - len(head)]


def pool() -> bytes:
    if not _POOL:
        blocks = (hashlib.sha512(struct.pack("<QI", SEED, b)).digest() for b in range(65_536))
        _POOL.append(b"".join(blocks))
    return _POOL[0]


_POOL: list[bytes] = []
