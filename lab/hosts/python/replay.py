"""The replay of a trace: look up, store on a miss, count the hits.

Owns the order of those two and what a hit must answer. Must not time anything: the hit ratio is the
result.
"""

from __future__ import annotations

from pathlib import Path

from lab.disk import bytes_occupied
from lab.hosts.python.contract import Store
from lab.hosts.python.workload import Workload
from lab.protocol import EXAMPLES_MAX, Replayed, Verdict

REQUESTS_BETWEEN_WEIGHINGS = 1_000


def replay(store: Store, workload: Workload, phase: int, folder: Path) -> Replayed:
    """Replay the worker's own stream of a phase on an empty store that lives in `folder`.

    This process alone writes, so a hit must answer exactly the value stored last: anything else is
    wrong.
    """
    derive = workload.values.derive
    own = workload.phases.own(phase)
    verdict = Verdict()
    stored: dict[int, tuple[int, int]] = {}
    hits = refused = bytes_peak = 0
    for position, (number, size) in enumerate(zip(own.keys, own.sizes, strict=True)):
        key = workload.key(number)
        result = store.get(key)
        if result is not None:
            hits += 1
            if number not in stored or result != derive(number, *stored[number]):
                verdict.wrong += 1
                if len(verdict.examples) < EXAMPLES_MAX:
                    verdict.examples.append(f"get({key!r}) answered not what was stored last")
        elif store.set(key, derive(number, own.base + position, size)) is False:
            refused += 1
        else:
            stored[number] = own.base + position, size
        if position % REQUESTS_BETWEEN_WEIGHINGS == 0:
            bytes_peak = max(bytes_peak, bytes_occupied(folder))
    bytes_peak = max(bytes_peak, bytes_occupied(folder))
    return Replayed(len(own.keys), hits, refused, bytes_peak, verdict)
