"""PHP hosts for the tests that talk to them, and streams for them to obey.

Owns how hosts are started and ended. Must not know what a test expects of them.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab import protocol
from lab.stream import DELETE, GET, SET, Operation
from lab.tests.talking import (
    Conversation,
    Plan,
    one_worker,
    open_in,
)

LAB = Path(__file__).resolve().parents[1]
HERE = LAB / "tests" / "contestants"
SHIPPED = LAB / "contestants"

# Stores what it is given in a file, as the host hands it over.
SPYING = """<?php
use Lab\\Host\\Limits;
use Lab\\Host\\Store;
return fn (string $folder, Limits $limits, array $settings): Store => new Store(
    get: fn ($key) => null,
    set: fn ($key, $value) => file_put_contents(
        $settings['seen'], is_array($value) ? json_encode($value, JSON_FORCE_OBJECT) : $value),
    delete: fn ($key) => false,
    close: fn () => null,
);
"""


class Host(Conversation):
    """One running PHP host, whose files go into `folder`."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        super().__init__(command, folder / "errors.txt")
        self.folder = folder

    def open(self) -> None:
        """Open the store in a folder of its own."""
        store = self.folder / f"store-{time.monotonic_ns()}"
        self.ask(open_in(store, bytes_max=1 << 26), protocol.Opened)


@contextmanager
def started(folder: Path, contestant: Path, form: str = "") -> Iterator[Host]:
    """Start a host for a contestant as host.toml says, and end it."""
    plan = _plan(contestant, form)
    arguments = [part.format(limit_mib=64, limit_bytes=1 << 26) for part in plan["arguments"]]
    fill = {"python": sys.executable, "parent": str(os.getpid()), "arguments": "{arguments}"}
    command: list[str] = []
    for part in tomllib.loads((LAB / "hosts/php/host.toml").read_text())["command"]:
        command += arguments if part == "{arguments}" else [part.format(**fill)]
    with Host(command, folder) as host:
        yield host


def _plan(contestant: Path, form: str) -> dict[str, list[str]]:
    path = contestant / "contestant.toml"
    plan = tomllib.loads(path.read_text()) if path.exists() else {}
    forms = {each["name"]: each for each in plan.get("forms", [])}
    return {"arguments": [], **plan, **forms.get(form, {})}


def load(
    folder: Path,
    contestant: Path,
    *phases: Sequence[Operation],
    value: protocol.ValueKind = "binary",
    seed: int = 1,
    base: int = 1000,
    settings: dict[str, str] | None = None,
    distribution: str = "",
) -> protocol.Load:
    """Write keys and streams and return the request that loads them. Phases follow one another."""
    return Plan(
        folder,
        contestant / "adapter.php",
        one_worker(*phases),
        key_texts(),
        value,
        settings or {},
        distribution,
        seed,
        base,
    ).load()


def key_texts() -> list[str]:
    """Return the texts of all keys."""
    return [f"key-{number:04}" for number in range(200)]


def mixed(count: int, *, fields: bool = False, seed: int = 0) -> list[Operation]:
    """Return gets, sets and deletes over a hundred keys, the same each time."""
    operations = []
    for position in range(seed * count, (seed + 1) * count):
        digest = hashlib.sha256(str(position).encode()).digest()
        verb = (GET, GET, GET, GET, SET, SET, SET, DELETE)[digest[0] % 8]
        size = (digest[2] % 9 if fields else digest[2] * 5) if verb == SET else 0
        operations.append(Operation(verb, digest[1] % 100, size))
    return operations


def sets(keys: int, length: int = 100) -> list[Operation]:
    """Return a set of each key."""
    return [Operation(SET, key, length) for key in range(keys)]


def gets(keys: int) -> list[Operation]:
    """Return a get of each key."""
    return [Operation(GET, key, 0) for key in range(keys)]
