"""The comparison: every family on every peer, one after the other, and the record.

Owns the order, the folders and the record. Must not try anything itself: each trial is a process
under the runner's watchdog, so its death does not end the comparison.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lab.peers import opener
from reliability.catalogue import Command
from reliability.command import Commands
from reliability.peers.found import Found
from reliability.peers.systems import PEERS
from reliability.record import KEPT, RESULTS
from rig import kept
from rig.machine import SHARED_MEMORY, Machine, machine
from rig.sources import Sources, sources

PATH = KEPT / "peers.json"

# The longest a trial may take. DiskCache waits up to a minute for a lock.
_SECONDS_MAX = 600
_MOUNTS = "T-D1"


class Row(msgspec.Struct, frozen=True):
    """The result of a family on a peer."""

    peer: str
    family: str
    seconds: float
    found: Found


class PeersRecord(msgspec.Struct, frozen=True):
    """A whole comparison. `versions` and `settings` are those of each peer."""

    sources: Sources
    date: str
    machine: Machine
    files: str
    seed: int
    versions: dict[str, str]
    settings: dict[str, str]
    rows: list[Row]


class TrialError(Exception):
    """A trial ended without a result; the message has the end of its output."""


def compare(
    peers: Sequence[str],
    families: Sequence[str],
    seed: int | None,
    begins: Callable[[str, str], None],
) -> PeersRecord:
    """Run the families on the peers. Raises TrialError, PeerMissingError."""
    seed = secrets.randbits(32) if seed is None else seed
    for peer in peers:
        opener(PEERS[peer].row)
    where = SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
    sheet = machine()
    rows = []
    for family in families:
        for peer in peers:
            begins(family, peer)
            rows.append(_row(peer, family, seed, where))
    return PeersRecord(
        sources=sources(RESULTS),
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        machine=sheet,
        files=sheet.files["shared memory" if where == SHARED_MEMORY else "temporary files"],
        seed=seed,
        versions={PEERS[one].name: PEERS[one].version for one in peers},
        settings={PEERS[one].name: PEERS[one].setup for one in peers},
        rows=rows,
    )


def _row(peer: str, family: str, seed: int, where: Path) -> Row:
    name = PEERS[peer].name
    prefix = ""
    if family == _MOUNTS:
        prefix = "unshare --mount --propagation private "
        if os.geteuid() != 0:
            prefix = "unshare --user --map-root-user --mount --propagation private "
        if Commands(None).run(_command(f"{prefix}true"), family, Path(os.devnull)).failures:
            why = "this machine does not permit mount namespaces"
            return Row(name, family, 0.0, Found(0, "full disks", not_run=why))
    folder = Path(tempfile.mkdtemp(prefix="tuckbox-peers-", dir=where))
    try:
        words = f"{sys.executable} -m reliability.peers.trial {peer} {family}"
        command = _command(f"{prefix}{words} --folder {folder}/trial --seed {seed}")
        done = Commands(None).run(command, family, folder / "log")
        said = (folder / "log").read_text("utf-8")
        for line in said.splitlines():
            with suppress(msgspec.DecodeError, msgspec.ValidationError):
                found = msgspec.json.decode(line, type=Found)
                return Row(name, family, done.seconds, found)
        raise TrialError(f"{family} on {name}: {done.ended}\n{said[-2000:]}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _command(words: str) -> Command:
    return Command(words, trials=1, seconds_max=_SECONDS_MAX, reports="exit status")


def read(path: Path) -> PeersRecord | None:
    """Return the record, None if the file does not exist. Raises RecordError."""
    return kept.read(path, PeersRecord)
