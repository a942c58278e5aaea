"""The timed loops, with nothing but operations between the clock readings.

Owns how operations are timed. Must not know which contestant it drives. A pass consists of
stretches: the operations of a stretch are prepared, run without a pause, and checked after the
clock has stopped. Within a stretch the clock is read after each block.
"""

from __future__ import annotations

import gc
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path

from lab.hosts.python.contract import Store
from lab.hosts.python.timing import clock_ns, cpu_ns
from lab.hosts.python.verify import Verifier
from lab.hosts.python.workload import Block, Workload
from lab.protocol import Action, Prepare, Ran, Run, Tally, Verdict
from lab.stream import DELETE, GET, SET

_ACTION_OF_VERB: dict[int, Action] = {GET: "get", SET: "set", DELETE: "delete"}
_NS = 1_000_000_000

# Runs the operations of a block and returns the answers.
_Obey = Callable[[], list[object]]
# Blocks that are ready to run, one after the other.
_Stretch = list[tuple[Block, _Obey]]


class Pass:
    """One pass of one worker, warmed up and with its first stretch ready.

    Raises ValueError for an empty block or stretch, and for batches.
    """

    def __init__(
        self, store: Store, workload: Workload, verifier: Verifier, request: Prepare
    ) -> None:
        if request.block < 1 or request.stretch < 1:
            raise ValueError("a block and a stretch must have at least one operation")
        if request.batch != 1:
            raise ValueError("this host can only request one key at a time")
        self._store = store
        self._workload = workload
        self._verifier = verifier
        self._request = request
        self._operations = len(workload.phases.own(request.phase).verbs)
        self._durations_ns = array("Q")
        self._position = 0
        is_over = self._warm_up(min(request.warmup, self._operations))
        self._ready = [] if is_over else self._stretch()
        # The stretch lives until it has run, so exclude it from garbage collection under the clock.
        gc.collect()
        gc.freeze()

    def run(self, request: Run) -> Ran:
        """Run the pass, or as much of it as the time allows, and check every answer.

        Raises FileExistsError if the file for the durations exists.
        """
        untimed = self._request.measure == "untimed"
        tallies = (Tally(), Tally(), Tally())
        blocks_ns: list[int] = []
        first_started_ns = elapsed_ns = used_cpu_ns = ended_ns = 0
        seconds_max_ns = round(self._request.seconds_max * _NS)
        _sleep_until(request.start_ns)
        while self._ready:
            answers: list[list[object]] = []
            cpu_started_ns, started_ns = cpu_ns(), clock_ns()
            ended_ns = started_ns
            first_started_ns = first_started_ns or started_ns
            deadline_ns = first_started_ns + seconds_max_ns
            for block, obey in self._ready:
                answers.append(obey())
                before_ns, ended_ns = ended_ns, clock_ns()
                if len(block.verbs) == self._request.block:
                    blocks_ns.append(ended_ns - before_ns)
                if ended_ns >= deadline_ns:
                    break
            used_cpu_ns += cpu_ns() - cpu_started_ns
            elapsed_ns += ended_ns - started_ns
            for (block, _), results in zip(self._ready, answers, strict=False):
                self._verifier.check(block, results, tallies)
                self._position += len(results)
            # Free this stretch before the next one allocates memory.
            del answers, results, block, obey
            self._ready = []
            if ended_ns < deadline_ns:
                self._ready = self._stretch()
        if request.durations:
            _write(Path(request.durations), self._durations_ns)
        verdict, self._verifier.verdict = self._verifier.verdict, Verdict()
        actions = {_ACTION_OF_VERB[verb]: tally for verb, tally in enumerate(tallies)}
        if untimed:
            return Ran(self._position, 0, 0, 0, 0, [], actions, verdict)
        if self._request.measure == "latency":
            blocks_ns = []
        times = (first_started_ns, ended_ns, elapsed_ns, used_cpu_ns)
        return Ran(self._position, *times, blocks_ns, actions, verdict)

    def _warm_up(self, operations: int) -> bool:
        """Run and check the first operations, untimed and uncounted. Return if the time is over."""
        deadline_ns = clock_ns() + round(self._request.seconds_max * _NS)
        while self._position < operations:
            stop = min(self._position + self._request.block, operations)
            block = self._workload.block(self._request.phase, self._position, stop)
            self._verifier.check(block, _ready(self._store, block)(), None)
            self._position = stop
            if clock_ns() >= deadline_ns:
                return True
        return False

    def _stretch(self) -> _Stretch:
        """Prepare the next operations; none at the end of the stream."""
        end = min(self._position + self._request.stretch, self._operations)
        blocks: _Stretch = []
        for start in range(self._position, end, self._request.block):
            stop = min(start + self._request.block, end)
            block = self._workload.block(self._request.phase, start, stop)
            if self._request.measure == "latency":
                blocks.append((block, _ready_each(self._store, block, self._durations_ns)))
            else:
                blocks.append((block, _ready(self._store, block)))
        return blocks


def _ready(store: Store, block: Block) -> _Obey:
    """Return a function that runs a block.

    If all operations have the same verb, its loop does not look at verbs.
    """
    get, set_, delete = store.get, store.set, store.delete
    keys, values = block.texts, block.values
    if not any(block.verbs):
        return lambda: [get(key) for key in keys]
    if all(verb == SET for verb in block.verbs):
        pairs = list(zip(keys, values, strict=True))
        return lambda: [set_(key, value) for key, value in pairs]
    gets, sets = [verb == GET for verb in block.verbs], [verb == SET for verb in block.verbs]
    steps = list(zip(gets, sets, keys, values, strict=True))
    return lambda: [
        get(key) if is_get else set_(key, value) if is_set else delete(key)
        for is_get, is_set, key, value in steps
    ]


def _ready_each(store: Store, block: Block, durations_ns: array[int]) -> _Obey:
    """Return a function that runs a block and reads the clock around each operation."""
    steps = list(zip(block.verbs, block.texts, block.values, strict=True))

    def obey() -> list[object]:
        get, set_, delete = store.get, store.set, store.delete
        clock = clock_ns
        results: list[object] = []
        keep, note = results.append, durations_ns.append
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
        return results

    return obey


def _sleep_until(start_ns: int) -> None:
    """Wait until the clock has reached `start_ns`."""
    while (left_ns := start_ns - clock_ns()) > 0:
        time.sleep(left_ns / _NS)


def _write(path: Path, durations_ns: array[int]) -> None:
    if sys.byteorder == "big":
        durations_ns.byteswap()
    with path.open("xb") as file:
        durations_ns.tofile(file)
