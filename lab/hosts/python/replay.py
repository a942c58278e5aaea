"""The replay of a trace: look up, store on a miss, count the hits.

Owns the order of those two and what a hit must answer. Must not time anything: the hit ratio is the
result.
"""

from __future__ import annotations

from pathlib import Path

from lab.disk import bytes_occupied
from lab.hosts.python.contract import Store
from lab.hosts.python.values import derive
from lab.hosts.python.workload import Workload
from lab.protocol import EXAMPLES_MAX, Replayed, Verdict

REQUESTS_BETWEEN_WEIGHINGS = 1_000


def replay(store: Store, workload: Workload, folder: Path) -> Replayed:
    """Replay the worker's own stream on an empty store that lives in `folder`.

    This process alone writes, so a hit must answer exactly the value stored last: anything else is
    wrong.
    """
    verdict = Verdict()
    stored: dict[int, bytes] = {}
    hits = refused = bytes_peak = 0
    for position, operation in enumerate(workload.own):
        key = workload.key(operation.key)
        result = store.get(key)
        if result is not None:
            hits += 1
            if result != stored.get(operation.key):
                verdict.wrong += 1
                if len(verdict.examples) < EXAMPLES_MAX:
                    verdict.examples.append(f"get({key!r}) answered not what was stored last")
        else:
            sequence = workload.sequence(0, workload.worker, position)
            value = derive(workload.seed, operation.key, sequence, operation.length)
            if store.set(key, value) is False:
                refused += 1
            else:
                stored[operation.key] = value
        if position % REQUESTS_BETWEEN_WEIGHINGS == 0:
            bytes_peak = max(bytes_peak, bytes_occupied(folder))
    bytes_peak = max(bytes_peak, bytes_occupied(folder))
    return Replayed(len(workload.own), hits, refused, bytes_peak, verdict)
