"""Whether a workload has room on this machine, before anything starts.

Owns the estimate of the memory and the disk that a cell takes. Must not start anything.
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

# Of an operation of any worker each host keeps its record, and of a set where it was.
_OPERATION_BYTES = 24
# Of each entry, besides key and value, in a store that is as thrifty as they come.
_ENTRY_BYTES = 64


@dataclass(frozen=True)
class Room:
    """How many bytes are free: of memory, and where the stores will lie."""

    memory: int
    stores: int
    where: str


def room(data: Path | None) -> Room:
    """Return what is free now, for stores in `data` or where they lie when nothing was asked."""
    folder, _ = place(data)
    return Room(memory_free(), shutil.disk_usage(folder).free, str(folder))


def bytes_needed(one: Workload, contestant: Contestant) -> int:
    """Return about how many bytes of memory a cell takes: its hosts' tables and its entries.

    A store whose bookkeeping is large takes more.
    """
    drawn = PASSES * one.operations * one.processes
    of_host = _keys(one) * host(contestant.host).key_bytes
    of_host += (one.keys.count + drawn) * _OPERATION_BYTES
    return one.processes * of_host + _payload(one) + _keys(one) * _ENTRY_BYTES


def refusal(one: Workload, contestant: Contestant, free: Room) -> str:
    """Return why memory or the disk of the stores does not suffice; empty when both do."""
    needed = bytes_needed(one, contestant)
    if needed > free.memory:
        processes = f" in {one.processes} processes" if one.processes > 1 else ""
        return (
            f"its {contestant.host} host{processes} and its entries would need about "
            f"{needed / 1e9:,.1f} GB of memory, and {free.memory / 1e9:,.1f} GB are free"
        )
    kept = min(_payload(one), one.memory or _payload(one))
    if contestant.weighed_by == "file" and kept > free.stores:
        return (
            f"its entries have {kept / 1e6:,.3f} MB, and {free.where} has "
            f"{free.stores / 1e6:,.3f} MB free: give a larger --data"
        )
    return ""


def _keys(one: Workload) -> int:
    return one.keys.count + round(one.mix.insert * PASSES * one.operations * one.processes)


def _payload(one: Workload) -> int:
    value = one.value.size if isinstance(one.value, FixedSizes) else (one.value.largest + 1) // 2
    return _keys(one) * (KEY_BYTES + value)
