"""The replay of a trace: look up, store on a miss, count the hits.

Owns that order and the check of hits. Must not time anything: the result is the hit ratio. Its own
memory has its full size before the first request, so that only the store grows.
"""

from __future__ import annotations

import ctypes
import gc
import resource
from array import array
from contextlib import suppress

from lab.hosts.python.contract import Store
from lab.hosts.python.workload import Workload
from lab.protocol import EXAMPLES_MAX, Replay, Replayed, Verdict

_NOWHERE = -1

# Python's allocator has pools of blocks of 16, 32 ... 512 bytes, and rarely frees a pool.
_BLOCKS = range(48, 513, 16)
_BYTES_HEAD = 33
_STRETCH_BYTES = 64 << 10
_NEW_PAGES = 12


class Replayer:
    """One replay of the worker's stream of a phase, on a store that was opened empty."""

    def __init__(self, workload: Workload, phase: int) -> None:
        self._workload = workload
        self._own = workload.phases.own(phase)
        # For each key the position of the request that stored it last.
        self._stored = array("q", [_NOWHERE]) * workload.key_count
        gc.collect()
        # A store could use free memory of this process uncounted, so return it to the kernel.
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        self._ballast = [_occupy(size) for size in _BLOCKS]

    def run(self, store: Store, request: Replay) -> Replayed:
        """Replay a slice. Only this process writes, so a hit must return the value stored last."""
        derive, key_of = self._workload.values.derive, self._workload.key
        own, stored = self._own, self._stored
        verdict = Verdict()
        hits = refused = 0
        for position in range(request.start, request.stop):
            number = own.keys[position]
            key = key_of(number)
            result = store.get(key)
            if result is None:
                value = derive(number, own.base + position, own.sizes[position])
                if store.set(key, value) is False:
                    refused += 1
                else:
                    stored[number] = position
                continue
            hits += 1
            last = stored[number]
            if last == _NOWHERE or result != derive(number, own.base + last, own.sizes[last]):
                verdict.wrong += 1
                if len(verdict.examples) < EXAMPLES_MAX:
                    verdict.examples.append(f"get({key!r}) did not return the value stored last")
        return Replayed(hits, refused, verdict)


def _occupy(block: int) -> list[bytes]:
    """Return objects that fill every free block of this size, so that the store needs new pages."""
    held: list[bytes] = []
    new_pages = 0
    while new_pages < _NEW_PAGES:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        held += [bytes(block - _BYTES_HEAD) for _ in range(_STRETCH_BYTES // block)]
        new_pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return held
