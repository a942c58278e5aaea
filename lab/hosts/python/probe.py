"""The probe: does the store keep what fits, give the latest, and forget what was deleted?

Owns the probe keys, which are no part of the measured workload. Must not run while anything is
timed. All workers write at once, each its own keys, far fewer than the store may hold; after all
have finished they read. In a store that may evict nothing yet, what is missing was lost.
"""

from __future__ import annotations

from lab.hosts.python.contract import Store
from lab.hosts.python.values import derive
from lab.hosts.python.verify import WEAK_BELOW_BYTES
from lab.protocol import EXAMPLES_MAX, Probed, Verdict

KEYS_PER_WORKER = 64
VALUE_BYTES = 160
_VERSIONS = 3


def _key(worker: int, number: int) -> str:
    return f"probe-{worker}-{number}"


def _value(seed: int, worker: int, number: int, version: int) -> bytes:
    # The numbers begin at 2**32, where no key of a stream can be.
    return derive(seed, 2**32 + worker * KEYS_PER_WORKER + number, version, VALUE_BYTES)


def _is_deleted(number: int) -> bool:
    return number % 4 == 3


def write(store: Store, seed: int, worker: int) -> Probed:
    """Store each key three times over, and delete every fourth."""
    refused = 0
    for version in range(_VERSIONS):
        for number in range(KEYS_PER_WORKER):
            value = _value(seed, worker, number, version)
            refused += store.set(_key(worker, number), value) is False
    for number in filter(_is_deleted, range(KEYS_PER_WORKER)):
        store.delete(_key(worker, number))
    return Probed(KEYS_PER_WORKER, refused, Verdict())


def read(store: Store, seed: int, workers: list[int]) -> Probed:
    """Read the keys of `workers` and compare each with its last version."""
    verdict = Verdict()
    for worker in workers:
        for number in range(KEYS_PER_WORKER):
            versions = [_value(seed, worker, number, version) for version in range(_VERSIONS)]
            key = _key(worker, number)
            _judge(verdict, key, store.get(key), versions, _is_deleted(number))
    return Probed(KEYS_PER_WORKER * len(workers), 0, verdict)


def _judge(
    verdict: Verdict, key: str, result: object, versions: list[bytes], deleted: bool
) -> None:
    if result is None:
        if deleted:
            return
        verdict.lost += 1
        example = f"{key!r} was stored, the store was not full, and it is gone"
    elif result == versions[-1] and not deleted:
        return
    elif result in versions:
        verdict.stale += 1
        example = f"{key!r} answered a value that was {'deleted' if deleted else 'overwritten'}"
    else:
        verdict.wrong += 1
        example = f"{key!r} answered something that was never stored under it"
    if len(verdict.examples) < EXAMPLES_MAX:
        verdict.examples.append(example)


assert VALUE_BYTES >= WEAK_BELOW_BYTES
