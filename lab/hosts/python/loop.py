"""The timed loops, and nothing between the clock's two readings but the operations.

Owns how operations are timed. Must not know which contestant it drives. Each pass goes in blocks:
the answers of a block are kept, the clock stops, then they are checked and dropped.
"""

from __future__ import annotations

from array import array

from lab.hosts.python.contract import Store
from lab.hosts.python.timing import clock_ns, encode
from lab.hosts.python.verify import Verifier
from lab.hosts.python.workload import Prepared, Timed
from lab.protocol import Action, Ran, Tally, Verdict
from lab.stream import DELETE, GET, SET

BLOCK_OPERATIONS = 256

_ACTION_OF_VERB: dict[int, Action] = {GET: "get", SET: "set", DELETE: "delete"}


def throughput(store: Store, prepared: Prepared, verifier: Verifier, warmup: int) -> Ran:
    """Run a pass with one pair of clock readings for each block of 256 operations."""
    blocks_ns: list[int] = []
    timed_ns = 0
    tallies = (Tally(), Tally(), Tally())
    _warm_up(store, prepared, verifier, warmup)
    started_ns = clock_ns()
    for start in range(warmup, len(prepared.timed), BLOCK_OPERATIONS):
        block = prepared.timed[start : start + BLOCK_OPERATIONS]
        results, block_ns = _block(store, block)
        timed_ns += block_ns
        if len(block) == BLOCK_OPERATIONS:
            blocks_ns.append(block_ns)
        verifier.check(prepared, start, results, tallies)
        # The answers go before the next block asks for more, as a program drops what it has used.
        del results
    wall_ns = clock_ns() - started_ns
    return _ran(wall_ns, timed_ns, blocks_ns, tallies, verifier)


def latency(store: Store, prepared: Prepared, verifier: Verifier, warmup: int) -> Ran:
    """Run a pass with a pair of clock readings around each operation."""
    durations_ns = array("q")
    tallies = (Tally(), Tally(), Tally())
    _warm_up(store, prepared, verifier, warmup)
    started_ns = clock_ns()
    for start in range(warmup, len(prepared.timed), BLOCK_OPERATIONS):
        block = prepared.timed[start : start + BLOCK_OPERATIONS]
        results = _block_each(store, block, durations_ns)
        verifier.check(prepared, start, results, tallies)
        del results
    wall_ns = clock_ns() - started_ns
    by_verb: tuple[list[int], list[int], list[int]] = ([], [], [])
    for (verb, _, _), duration_ns in zip(prepared.timed[warmup:], durations_ns, strict=True):
        by_verb[verb].append(duration_ns)
    for tally, of_verb_ns in zip(tallies, by_verb, strict=True):
        tally.total_ns = sum(of_verb_ns)
        tally.histogram = encode(of_verb_ns)
    return _ran(wall_ns, sum(durations_ns), [], tallies, verifier)


def _warm_up(store: Store, prepared: Prepared, verifier: Verifier, warmup: int) -> None:
    for start in range(0, warmup, BLOCK_OPERATIONS):
        stop = min(start + BLOCK_OPERATIONS, warmup)
        results, _ = _block(store, prepared.timed[start:stop])
        verifier.check(prepared, start, results, None)


def _block(store: Store, block: list[Timed]) -> tuple[list[object], int]:
    get, set_, delete = store.get, store.set, store.delete
    results: list[object] = []
    keep = results.append
    started_ns = clock_ns()
    for verb, key, value in block:
        if verb == GET:
            keep(get(key))
        elif verb == SET:
            keep(set_(key, value))
        else:
            keep(delete(key))
    return results, clock_ns() - started_ns


def _block_each(store: Store, block: list[Timed], durations_ns: array[int]) -> list[object]:
    get, set_, delete = store.get, store.set, store.delete
    clock = clock_ns
    results: list[object] = []
    keep, note = results.append, durations_ns.append
    for verb, key, value in block:
        if verb == GET:
            started_ns = clock()
            result = get(key)
            note(clock() - started_ns)
        elif verb == SET:
            started_ns = clock()
            result = set_(key, value)
            note(clock() - started_ns)
        else:
            started_ns = clock()
            result = delete(key)
            note(clock() - started_ns)
        keep(result)
    return results


def _ran(
    wall_ns: int,
    timed_ns: int,
    blocks_ns: list[int],
    tallies: tuple[Tally, ...],
    verifier: Verifier,
) -> Ran:
    actions = {_ACTION_OF_VERB[verb]: tally for verb, tally in enumerate(tallies)}
    verdict, verifier.verdict = verifier.verdict, Verdict()
    return Ran(wall_ns, timed_ns, blocks_ns, actions, verdict)
