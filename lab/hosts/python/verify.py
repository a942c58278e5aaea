"""Checks answers against everything that the recorded streams allow.

Owns the rules of METHODOLOGY.md: which value is wrong, which is stale, which check is weak. Must
not run while a clock does, nor know which contestant answered.

A value is wrong unless it is, byte for byte, one that some worker stores under this very key, and
not one that this worker has yet to store. It is stale when it was certainly overwritten or deleted
before the get began, which program order alone decides:
- this worker has stored or deleted the key since it stored that value;
- this worker has already seen a later value of the same other worker;
- it is the preloaded value, and this worker has written the key or seen anyone's value since.
"""

from __future__ import annotations

from lab.hosts.python.workload import AMBIGUOUS, Prepared, Workload
from lab.protocol import EXAMPLES_MAX, Tally, Verdict
from lab.stream import GET, SET

WEAK_BELOW_BYTES = 8


class Verifier:
    """What one worker knows of the store.

    _newest[key][writer] is the last sequence of that writer which certainly came before the next
    get of the key, or -1.
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        writers = workload.workers + 1
        self._newest = [[-1] * writers for _ in workload.tables]
        self.verdict = Verdict()

    def check(
        self,
        prepared: Prepared,
        start: int,
        results: list[object],
        tallies: tuple[Tally, ...] | None,
    ) -> None:
        """Check the answers to the operations from `start` on, in the order they were asked.

        `tallies`, indexed by verb, counts them; None while warming up.
        """
        tables, newest, me = self._workload.tables, self._newest, self._workload.worker
        preload = self._workload.workers
        timed, known = prepared.timed, prepared.known
        for position, result in enumerate(results, start):
            verb, text, _ = timed[position]
            key, sequence = known[position]
            wrong_before = self.verdict.wrong
            if verb == GET:
                miss = result is None
                if not miss:
                    self._check_value(text, result, sequence, newest[key], tables[key])
            elif verb == SET:
                miss = result is False
                if not miss:
                    newest[key][me] = sequence
                    newest[key][preload] = sequence
            else:
                # A false answer may be a refusal: then the old value is still the right one.
                miss = not result
                if not miss:
                    newest[key][me] = sequence
                    newest[key][preload] = sequence
            if tallies is not None:
                tally = tallies[verb]
                tally.count += 1
                tally.miss += miss
                tally.wrong += self.verdict.wrong - wrong_before

    def _check_value(
        self,
        text: str,
        result: object,
        now: int,
        newest: list[int],
        table: dict[bytes, int],
    ) -> None:
        verdict, workload = self.verdict, self._workload
        if type(result) is not bytes:
            verdict.wrong += 1
            self._tell(f"get({text!r}) answered a {type(result).__name__}, not bytes")
            return
        sequence = table.get(result)
        if sequence is None:
            verdict.wrong += 1
            self._tell(f"get({text!r}) answered {len(result)} bytes {self._whose(result)}")
            return
        if len(result) < WEAK_BELOW_BYTES:
            verdict.weak += 1
        if sequence == AMBIGUOUS:
            return
        writer = workload.writer(sequence)
        if writer == workload.worker and sequence > now:
            verdict.wrong += 1
            self._tell(f"get({text!r}) answered a value that this worker has yet to store")
        elif sequence < newest[writer]:
            verdict.stale += 1
            self._tell(f"get({text!r}) answered a value that was overwritten or deleted before")
        else:
            newest[writer] = sequence
            newest[workload.workers] = max(newest[workload.workers], sequence)

    def _whose(self, value: bytes) -> str:
        for key, table in enumerate(self._workload.tables):
            if value in table:
                return f"that belong to the key {self._workload.key(key)!r}"
        return "that nobody stored"

    def _tell(self, example: str) -> None:
        if len(self.verdict.examples) < EXAMPLES_MAX:
            self.verdict.examples.append(example)
