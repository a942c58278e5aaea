"""Checks before anything starts whether a workload fits on this machine.

Owns the estimate of the memory and disk space of a cell. Must not start anything.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.runner.catalogue import Contestant, host
from lab.runner.catalogue.suites import FixedSizes
from lab.runner.workloads import KEY_BYTES, PASSES, Workload
from lab.runner.workspace import place
from rig.machine import memory_free

# Each host keeps the record of every worker's operations, and the position of each set.
_OPERATION_BYTES = 24
# Overhead of an entry, besides key and value, in the most economical stores.
_ENTRY_BYTES = 64


@dataclass(frozen=True)
class Room:
    """The free bytes: of memory, and in the folder of the stores."""

    memory: int
    stores: int
    where: str


def room(data: Path | None) -> Room:
    """Return what is free, for stores in `data` or in the default folder."""
    folder, _ = place(data)
    return Room(memory_free(), shutil.disk_usage(folder).free, str(folder))


def bytes_needed(one: Workload, contestant: Contestant) -> int:
    """Return the approximate memory of a cell: its hosts' tables and its entries.

    A store with much overhead takes more.
    """
    drawn = PASSES * one.operations * one.processes
    of_host = _keys(one) * host(contestant.host).key_bytes
    of_host += (one.keys.count + drawn) * _OPERATION_BYTES
    return one.processes * of_host + _payload(one) + _keys(one) * _ENTRY_BYTES


def refusal(one: Workload, contestant: Contestant, free: Room) -> str:
    """Return why memory or disk space is insufficient; empty if both suffice."""
    needed = bytes_needed(one, contestant)
    if needed > free.memory:
        processes = f" in {one.processes} processes" if one.processes > 1 else ""
        return (
            f"its {contestant.host} host{processes} and its entries need about "
            f"{needed / 1e9:,.1f} GB of memory, but only {free.memory / 1e9:,.1f} GB are free"
        )
    kept = min(_payload(one), one.memory or _payload(one))
    if contestant.weighed_by == "file" and kept > free.stores:
        return (
            f"its entries need {kept / 1e6:,.3f} MB, but {free.where} has only "
            f"{free.stores / 1e6:,.3f} MB free: choose another folder with --data"
        )
    return ""


def _keys(one: Workload) -> int:
    return one.keys.count + round(one.mix.insert * PASSES * one.operations * one.processes)


def _payload(one: Workload) -> int:
    value = one.value.size if isinstance(one.value, FixedSizes) else (one.value.largest + 1) // 2
    return _keys(one) * (KEY_BYTES + value)
