"""Checks answers against everything that the recorded streams allow.

Owns the rules of METHODOLOGY.md: which value is wrong, which is stale, which miss is right. Must
not run while a clock runs, nor know which contestant answered.

An answer is wrong unless it is, byte for byte, a value that some stream stores under this key. It
is also wrong if this worker has yet to store it, if a later phase stores it, or if this worker's
set of it was refused. It is stale if it was certainly overwritten or deleted before the get began.
All workers end a phase before any begins the next, and the order of one worker's own operations is
known. So these values are stale:
- a value of an earlier phase than the last one in which the key is known to have been written:
  this worker wrote or deleted it there, or saw a value of that phase;
- a value of this worker, older than its own last set or delete of the key;
- a value of another worker, older than one of the same worker that was seen before.
With one worker, only the value stored last is right.
"""

from __future__ import annotations

from array import array

from lab.hosts.python.recorded import Origin
from lab.hosts.python.workload import Block, Workload
from lab.protocol import EXAMPLES_MAX, Tally, Verdict
from lab.stream import GET, SET

_NEVER = -1


class Verifier:
    """The knowledge of one worker about one store, which was opened empty.

    For each key, `_phase` is the last phase in which the key is known to have been written, and
    `_newest` the last sequence of that phase that certainly came before the next get. In a phase
    with several streams, `_newest_of` has one such sequence per stream instead.
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._phase = array("h", [_NEVER]) * workload.key_count
        self._newest = array("q", [_NEVER]) * workload.key_count
        self._newest_of: dict[int, list[int]] = {}
        self._refused: set[int] = set()
        self._wanted = bytearray(workload.key_count)
        self.verdict = Verdict()

    def check(self, block: Block, results: list[object], tallies: tuple[Tally, ...] | None) -> None:
        """Check the answers to the operations of `block` in order.

        `tallies`, indexed by verb, counts them; None during the warm-up.
        """
        phase = block.phase
        operations = zip(block.verbs, block.keys, results, strict=True)
        for sequence, (verb, key, result) in enumerate(operations, block.base):
            absent = wrong = False
            if verb == GET:
                miss = result is None
                if miss:
                    absent = self._is_absent(phase, key)
                else:
                    wrong = self._is_wrong(phase, sequence, key, result)
            elif verb == SET:
                miss = result is False
                self._wanted[key] = True
                if miss:
                    self._refused.add(sequence)
                else:
                    self._write(phase, key, sequence)
            else:
                # A false answer may be a refusal; the old value is then still right.
                miss = not result
                if not miss:
                    self._write(phase, key, sequence)
                self._wanted[key] = False
            if tallies is not None:
                tally = tallies[verb]
                tally.count += 1
                tally.miss += miss
                tally.absent += absent
                tally.wrong += wrong

    def _write(self, phase: int, key: int, sequence: int) -> None:
        self._see(key, sequence, Origin(phase, self._workload.phases.own_number(phase)))

    def _see(self, key: int, sequence: int, origin: Origin) -> None:
        width = self._workload.phases.width(origin.phase)
        is_first = self._phase[key] < origin.phase
        self._phase[key] = origin.phase
        if width == 1:
            self._newest[key] = sequence
            return
        if is_first:
            self._newest_of[key] = [_NEVER] * width
        self._newest_of[key][origin.stream] = sequence

    def _is_absent(self, phase: int, key: int) -> bool:
        if self._workload.workers > 1:
            # It is unknown what the others have stored so far, only what they ever store.
            return not self._workload.is_stored_by(phase, key)
        return not self._wanted[key]

    def _is_wrong(self, phase: int, now: int, key: int, result: object) -> bool:
        """Judge a value. Counts a stale value too, which is not wrong."""
        workload, verdict = self._workload, self.verdict
        stored = workload.stored(key, result)
        if stored is None:
            return self._wrong(key, f"a {type(result).__name__}, which was never stored")
        if not stored:
            return self._wrong(key, self._whose(result))
        verdict.weak += workload.values.is_weak(result)
        possible = [one for one in stored if self._is_possible(phase, now, *one)]
        admissible = [one for one in possible if not self._is_stale(key, *one)]
        if len(admissible) == 1:
            self._see(key, *admissible[0])
        if admissible:
            return False
        if possible:
            verdict.stale += 1
            self._tell(key, "a value that was overwritten or deleted before")
            return False
        return self._wrong(key, "a value whose set was refused or comes later")

    def _is_possible(self, phase: int, now: int, sequence: int, origin: Origin) -> bool:
        if sequence in self._refused or origin.phase > phase:
            return False
        own = origin.stream == self._workload.phases.own_number(phase)
        return not (own and origin.phase == phase and sequence > now)

    def _is_stale(self, key: int, sequence: int, origin: Origin) -> bool:
        if self._phase[key] != origin.phase:
            return origin.phase < self._phase[key]
        if self._workload.phases.width(origin.phase) == 1:
            return sequence < self._newest[key]
        return sequence < self._newest_of[key][origin.stream]

    def _whose(self, result: object) -> str:
        what = self._workload.values.describe(result)
        if len(self.verdict.examples) >= EXAMPLES_MAX:
            return what
        owner = self._workload.key_of(result)
        whose = "were never stored" if owner is None else f"belong to the key {owner!r}"
        return f"{what} that {whose}"

    def _wrong(self, key: int, what: str) -> bool:
        self.verdict.wrong += 1
        self._tell(key, what)
        return True

    def _tell(self, key: int, what: str) -> None:
        if len(self.verdict.examples) < EXAMPLES_MAX:
            self.verdict.examples.append(f"get({self._workload.key(key)!r}) returned {what}")
