"""The timed loops, and nothing between the clock's two readings but the operations.

Owns how operations are timed. Must not know which contestant it drives. A pass goes in blocks: the
answers of a block are kept, the clock stops, then they are checked and dropped.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from pathlib import Path

from lab.hosts.python.contract import Store
from lab.hosts.python.timing import clock_ns, cpu_ns
from lab.hosts.python.verify import Verifier
from lab.hosts.python.workload import Block, Workload
from lab.protocol import Action, Ran, Run, Tally, Verdict
from lab.stream import DELETE, GET, SET

# Answers, time by the clock, CPU time.
_Obeyed = tuple[list[object], int, int]

_ACTION_OF_VERB: dict[int, Action] = {GET: "get", SET: "set", DELETE: "delete"}
_NS = 1_000_000_000


def run(store: Store, workload: Workload, verifier: Verifier, request: Run) -> Ran:
    """Obey the worker's stream of a phase once, or as much of it as the time allows.

    Raises FileExistsError when the file for the durations is there already.
    """
    durations_ns = array("Q")
    obey = _obey if request.measure != "latency" else _timer_of_each(durations_ns)
    operations = len(workload.phases.own(request.phase).verbs)
    warmup = min(request.warmup, operations)
    deadline_ns = clock_ns() + round(request.seconds_max * _NS)
    tallies = (Tally(), Tally(), Tally())
    blocks_ns: list[int] = []
    timed_ns = timed_cpu_ns = wall_ns = position = 0
    while position < warmup and (not position or clock_ns() < deadline_ns):
        stop = min(position + request.block, warmup)
        block = workload.block(request.phase, position, stop)
        results, _, _ = _obey(store, block)
        verifier.check(block, results, None)
        position = stop
    started_ns = clock_ns()
    while position < operations and (not position or clock_ns() < deadline_ns):
        stop = min(position + request.block, operations)
        block = workload.block(request.phase, position, stop)
        results, block_ns, block_cpu_ns = obey(store, block)
        timed_ns += block_ns
        timed_cpu_ns += block_cpu_ns
        if stop - position == request.block:
            blocks_ns.append(block_ns)
        verifier.check(block, results, tallies)
        # The answers go before the next block asks for more, as a program drops what it has used.
        del block, results
        position = stop
        wall_ns = clock_ns() - started_ns
    if request.durations:
        _write(Path(request.durations), durations_ns)
    verdict, verifier.verdict = verifier.verdict, Verdict()
    actions = {_ACTION_OF_VERB[verb]: tally for verb, tally in enumerate(tallies)}
    if request.measure == "untimed":
        return Ran(position, 0, 0, 0, [], actions, verdict)
    if request.measure == "latency":
        blocks_ns = []
    return Ran(position, wall_ns, timed_ns, timed_cpu_ns, blocks_ns, actions, verdict)


def _obey(store: Store, block: Block) -> _Obeyed:
    """Obey a block with one pair of clock readings around all of it."""
    get, set_, delete = store.get, store.set, store.delete
    verbs, keys, values = block.verbs, block.texts, block.values
    # Which loop is decided off the clock: where all do the same, no verb need be looked at.
    if not any(verbs):
        cpu_started_ns, started_ns = cpu_ns(), clock_ns()
        results = [get(key) for key in keys]
        ended_ns, cpu_ended_ns = clock_ns(), cpu_ns()
    elif all(verb == SET for verb in verbs):
        pairs = list(zip(keys, values, strict=True))
        cpu_started_ns, started_ns = cpu_ns(), clock_ns()
        results = [set_(key, value) for key, value in pairs]
        ended_ns, cpu_ended_ns = clock_ns(), cpu_ns()
    else:
        gets, sets = [verb == GET for verb in verbs], [verb == SET for verb in verbs]
        steps = list(zip(gets, sets, keys, values, strict=True))
        cpu_started_ns, started_ns = cpu_ns(), clock_ns()
        results = [
            get(key) if is_get else set_(key, value) if is_set else delete(key)
            for is_get, is_set, key, value in steps
        ]
        ended_ns, cpu_ended_ns = clock_ns(), cpu_ns()
    return results, ended_ns - started_ns, cpu_ended_ns - cpu_started_ns


def _timer_of_each(durations_ns: array[int]) -> Callable[[Store, Block], _Obeyed]:
    """Return a function like `_obey` that reads the clock around each operation."""

    def obey(store: Store, block: Block) -> _Obeyed:
        get, set_, delete = store.get, store.set, store.delete
        clock, before = clock_ns, len(durations_ns)
        results: list[object] = []
        keep, note = results.append, durations_ns.append
        steps = list(zip(block.verbs, block.texts, block.values, strict=True))
        cpu_started_ns = cpu_ns()
        for verb, key, value in steps:
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
        cpu_ended_ns = cpu_ns()
        return results, sum(durations_ns[before:]), cpu_ended_ns - cpu_started_ns

    return obey


def _write(path: Path, durations_ns: array[int]) -> None:
    if sys.byteorder == "big":
        durations_ns.byteswap()
    with path.open("xb") as file:
        durations_ns.tofile(file)
