"""The rules of one worker and of several, as answers that a host must judge.

Owns the cases, each of which fails in a host that lacks one rule, and random conversations for
which the Python host's verifier is the reference. Must not know any runtime.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lab.hosts.python.verify import Verifier
from lab.hosts.python.workload import Workload
from lab.protocol import ACTIONS, Action, Close, Closed, Load, Loaded, Opened, Ran, Tally
from lab.stream import DELETE, GET, SET, Operation
from lab.tests.runtimes import Answer, Hosts, write_script
from lab.tests.talking import Conversation, Plan, Streams, one_worker

SIZE = 100
KEY_TEXTS = ["zero", "one", "two", "three"]


class Of(NamedTuple):
    """The value that the stream of a worker stores at a position of a phase.

    `spoilt` flips the lowest bit of that byte; `length` is the maximum number of bytes.
    """

    phase: int
    worker: int
    position: int
    spoilt: int | None = None
    length: int | None = None


Said = bool | bytes | Of | None
# The answers of worker 0 by phase and position. All other gets find nothing, all
# other sets store and all other deletes delete.
Script = Mapping[tuple[int, int], Said]


class Case(NamedTuple):
    """A script and the counts it must give: wrong and stale values, and right misses.

    Worker 0 runs the phases that the script mentions. `example` is a part of the first example that
    the verdict has.
    """

    script: Script
    wrong: int = 0
    stale: int = 0
    absent: int = 0
    phases: Sequence[Streams] = ()
    example: str = ""


def alone(
    *steps: tuple[Operation, Said],
    wrong: int = 0,
    stale: int = 0,
    absent: int = 0,
    example: str = "",
) -> Case:
    """Return a case with one worker and one phase: operations with their answers."""
    script = {(0, position): said for position, (_, said) in enumerate(steps)}
    operations = [operation for operation, _ in steps]
    return Case(script, wrong, stale, absent, one_worker(operations), example)


def of_step(number: int) -> Of:
    """Return the value that a step of a single worker stores."""
    return Of(0, 0, number)


def get(key: int = 0) -> Operation:
    """Return a get."""
    return Operation(GET, key, 0)


def put(key: int = 0, size: int = SIZE) -> Operation:
    """Return a set."""
    return Operation(SET, key, size)


def delete(key: int = 0) -> Operation:
    """Return a delete."""
    return Operation(DELETE, key, 0)


# Two workers, of which worker 0 is driven. It sets key 0 twice, then deletes it, and gets it
# all the time.
FILL, MIX, LAST = range(3)
FIRST_GET, FIRST_SET, SECOND_GET, SECOND_SET, THIRD_GET, DELETION, LAST_GET = range(7)
PHASES: Sequence[Streams] = (
    [[put(0), put(1)]],
    [
        [get(), put(), get(), put(), get(), delete(), get()],
        [put(0), put(1), put(0), *[get()] * 4],
    ],
    [[get(), put(), get(), put(2)], [put(0), *[get()] * 3]],
)
PRELOADED = Of(FILL, 0, 0)
MY_FIRST, MY_SECOND = Of(MIX, 0, FIRST_SET), Of(MIX, 0, SECOND_SET)
THEIR_FIRST, THEIR_SECOND = Of(MIX, 1, 0), Of(MIX, 1, 2)
THEIR_LAST = Of(LAST, 1, 0)

CASES: dict[str, Case] = {
    # What is right.
    "the preloaded value at first": Case({(MIX, FIRST_GET): PRELOADED}),
    "a value of another worker": Case(
        {(MIX, FIRST_GET): THEIR_FIRST, (MIX, SECOND_GET): THEIR_SECOND}
    ),
    "a value of another worker after an own write": Case({(MIX, THIRD_GET): THEIR_FIRST}),
    "values of two workers in turns": Case(
        {
            (MIX, FIRST_GET): THEIR_SECOND,
            (MIX, SECOND_GET): MY_FIRST,
            (MIX, SECOND_SET): False,
            (MIX, THIRD_GET): THEIR_SECOND,
        }
    ),
    "a value of another worker after an own delete": Case({(MIX, LAST_GET): THEIR_FIRST}),
    "a value of an earlier phase while nobody is seen to write": Case({(LAST, 0): PRELOADED}),
    "the old value after a refused set": Case(
        {(MIX, SECOND_SET): False, (MIX, THIRD_GET): MY_FIRST}
    ),
    "the old value after a delete that found nothing": Case(
        {(MIX, DELETION): False, (MIX, LAST_GET): MY_SECOND}
    ),
    # What is wrong.
    "a flipped bit in the first byte": Case(
        {(MIX, FIRST_GET): PRELOADED._replace(spoilt=0)}, wrong=1
    ),
    "a flipped bit in the last byte": Case(
        {(MIX, FIRST_GET): PRELOADED._replace(spoilt=SIZE - 1)}, wrong=1
    ),
    "a flipped bit in what was stored last": Case(
        {(MIX, SECOND_GET): MY_FIRST._replace(spoilt=SIZE - 1)}, wrong=1
    ),
    "a value of another key": Case({(MIX, FIRST_GET): Of(MIX, 1, 1)}, wrong=1),
    "an own value that has yet to come": Case({(MIX, FIRST_GET): MY_FIRST}, wrong=1),
    "an own value of a later phase": Case(
        {(MIX, FIRST_GET): Of(LAST, 0, 1), (MIX, LAST_GET): Of(LAST, 0, 1)}, wrong=2
    ),
    "a value of another worker of a later phase": Case({(MIX, FIRST_GET): THEIR_LAST}, wrong=1),
    "an own value whose set was refused": Case(
        {(MIX, FIRST_SET): False, (MIX, SECOND_GET): MY_FIRST}, wrong=1
    ),
    # What is stale.
    "an own overwritten value": Case(
        {(MIX, SECOND_GET): MY_FIRST, (MIX, THIRD_GET): MY_FIRST}, stale=1
    ),
    "an own overwritten value after one of another worker": Case(
        {
            (MIX, SECOND_GET): THEIR_FIRST,
            (MIX, THIRD_GET): THEIR_SECOND,
            (MIX, DELETION): False,
            (MIX, LAST_GET): MY_FIRST,
        },
        stale=1,
    ),
    "an own deleted value": Case({(MIX, LAST_GET): MY_SECOND}, stale=1),
    "an own deleted value without a byte": Case(
        {(1, 1): Of(1, 0, 0), (1, 3): Of(1, 0, 0)},
        stale=1,
        phases=([[put()]], [[put(0, 0), get(), delete(), get()], [get()]]),
    ),
    "an older value of the same other worker": Case(
        {(MIX, FIRST_GET): THEIR_SECOND, (MIX, SECOND_GET): THEIR_FIRST}, stale=1
    ),
    "an older value of the same other worker after an own one": Case(
        {
            (MIX, FIRST_GET): THEIR_SECOND,
            (MIX, SECOND_GET): MY_FIRST,
            (MIX, THIRD_GET): THEIR_FIRST,
        },
        stale=1,
    ),
    "the preloaded value after an own write": Case({(MIX, SECOND_GET): PRELOADED}, stale=1),
    "the preloaded value after another worker's was seen": Case(
        {
            (MIX, FIRST_GET): THEIR_FIRST,
            (MIX, FIRST_SET): False,
            (MIX, SECOND_GET): PRELOADED,
        },
        stale=1,
    ),
    "a value of an earlier phase after an own write in a later one": Case(
        {(LAST, 2): THEIR_SECOND}, stale=1
    ),
    "a value of an earlier phase after another worker's of a later one was seen": Case(
        {(LAST, 0): THEIR_LAST, (LAST, 1): False, (LAST, 2): THEIR_SECOND}, stale=1
    ),
    "whoever ran the preload knows its order": Case(
        {(0, 0): True, (1, 0): Of(0, 0, 1), (1, 1): Of(0, 0, 0)},
        stale=1,
        phases=([[put(), put()]], [[get(), get()], [get()]]),
    ),
    # Right misses.
    "a miss where no stream stores until a later phase": Case(
        {(1, 0): None, (2, 0): None},
        absent=1,
        phases=(
            [[put(0)]],
            [[get(0), get(1), get(2)], [put(1)]],
            [[get(2)], [put(2)]],
        ),
    ),
    "a miss of what was deleted here may be another worker's": Case({(MIX, DELETION): True}),
}

ALONE: dict[str, Case] = {
    # What is right.
    "never stored": alone((get(), None), absent=1),
    "stored": alone((put(), True), (get(), of_step(0))),
    "stored twice": alone((put(), True), (put(), True), (get(), of_step(1))),
    "evicted": alone((put(), True), (get(), None)),
    "deleted": alone((put(), True), (delete(), True), (get(), None), absent=1),
    "evicted and then deleted": alone((put(), True), (delete(), False), (get(), None), absent=1),
    "a delete that found nothing leaves the key in doubt": alone(
        (put(), True), (delete(), False), (get(), None), (get(), of_step(0)), absent=1
    ),
    "a refused set leaves the old value or nothing": alone(
        (put(), True), (put(), False), (get(), of_step(0)), (get(), None)
    ),
    "a refused set has been asked for": alone((put(), False), (get(), None)),
    "a set after a refused one": alone(
        (put(), False), (put(), True), (get(), None), (get(), of_step(1))
    ),
    # What is wrong.
    "what nobody stored": alone(
        (put(), True), (get(), b"garbage"), wrong=1, example="7 bytes that were never stored"
    ),
    "something where nothing was stored": alone((get(), b"garbage"), wrong=1),
    "something after a delete": alone(
        (put(), True), (delete(), True), (get(), of_step(0)._replace(length=SIZE - 1)), wrong=1
    ),
    "another key's value": alone(
        (put(), True),
        (put(1), True),
        (get(1), of_step(0)),
        wrong=1,
        example='get("one") returned 100 bytes that belong to the key "zero"',
    ),
    "a value whose set was refused": alone(
        (put(), True), (put(), False), (get(), of_step(1)), wrong=1
    ),
    "the first value, whose set was refused": alone((put(), False), (get(), of_step(0)), wrong=1),
    **{
        f"a flipped bit in byte {at}": alone(
            (put(), True),
            (get(), of_step(0)._replace(spoilt=at)),
            wrong=1,
            example="that were never stored",
        )
        for at in (0, 63, 64, SIZE - 1)
    },
    **{
        f"shortened to {length} bytes": alone(
            (put(), True), (get(), of_step(0)._replace(length=length)), wrong=1
        )
        for length in (0, 1, 64, SIZE - 1)
    },
    # What is stale.
    "overwritten": alone(
        (put(), True),
        (put(), True),
        (get(), of_step(0)),
        (get(), of_step(1)),
        stale=1,
        example="overwritten or deleted before",
    ),
    "deleted and back": alone(
        (put(), True),
        (delete(), True),
        (get(), of_step(0)),
        stale=1,
        example="overwritten or deleted",
    ),
    "kept by a refused set, deleted and back": alone(
        (put(), True), (put(), False), (delete(), True), (get(), of_step(0)), stale=1
    ),
}


def check(hosts: Hosts, host: Conversation, case: Case) -> None:
    """Let worker 0, a host of a scripted store, run a case, and compare its counts."""
    plan = _plan(hosts, case.phases or PHASES)
    workers = max(len(streams) for streams in plan.phases)
    load = plan.load(0, workers)
    workload = Workload(load)
    answers = {
        phase: [
            _answer(plan, workload, case.script.get((phase, position), _unscripted(operation)))
            for position, operation in enumerate(_own(plan, phase))
        ]
        for phase in sorted({phase for phase, _ in case.script})
    }
    ran = _obeyed(host, plan, load, answers)
    assert sum(one.verdict.wrong for one in ran) == case.wrong
    assert sum(one.actions["get"].wrong for one in ran) == case.wrong
    assert sum(one.verdict.stale for one in ran) == case.stale
    assert sum(one.actions["get"].absent for one in ran) == case.absent
    for one, (phase, given) in zip(ran, answers.items(), strict=True):
        for verb, action in enumerate(ACTIONS):
            of_verb = [
                answer
                for answer, operation in zip(given, _own(plan, phase), strict=True)
                if operation.verb == verb
            ]
            assert one.actions[action].count == len(of_verb)
            missed = None if verb == GET else False
            assert one.actions[action].miss == sum(answer is missed for answer in of_verb)
    if case.example:
        example = next(example for one in ran for example in one.verdict.examples)
        # Each host uses its language's quotes.
        assert case.example in example.replace("'", '"')


def check_randomly(hosts: Hosts, host: Conversation, seed: int) -> None:
    """Let worker 0 of three judge random answers; compare all counts with the reference.

    Most answers are values that some stream stores under the key, at any time. Many are so short
    that several sequences share them.
    """
    dice = random.Random(seed)
    mixes = [[[_operation(dice) for _ in range(250)] for _ in range(3)] for _ in range(2)]
    plan = _plan(hosts, [[[put(key) for key in range(3)]], *mixes])
    load = plan.load(0, 3)
    workload = Workload(load)
    values = _values(plan, workload)
    answers = {
        phase: [_random_answer(dice, operation, values) for operation in _own(plan, phase)]
        for phase in range(len(plan.phases))
    }
    ran = _obeyed(host, plan, load, answers)
    verifier = Verifier(workload)
    for one, (phase, results) in zip(ran, answers.items(), strict=True):
        tallies = (Tally(), Tally(), Tally())
        verifier.check(workload.block(phase, 0, len(results)), list(results), tallies)
        expected: dict[Action, Tally] = dict(zip(ACTIONS, tallies, strict=True))
        assert one.actions == expected
    verdict = verifier.verdict
    assert min(verdict.wrong, verdict.stale, verdict.weak) > 0
    for count in ("wrong", "stale", "weak"):
        assert sum(getattr(one.verdict, count) for one in ran) == getattr(verdict, count), count


def _plan(hosts: Hosts, phases: Sequence[Streams]) -> Plan:
    settings = {"script": str(hosts.folder / "script")}
    return hosts.plan("scripted", phases, keys=KEY_TEXTS, settings=settings, base=1)


def _obeyed(
    host: Conversation, plan: Plan, load: Load, answers: Mapping[int, Sequence[Answer]]
) -> list[Ran]:
    """Run the phases in `answers`, with its answer for each operation."""
    write_script(plan.folder, [answer for of_phase in answers.values() for answer in of_phase])
    host.ask(load, Loaded)
    opening = plan.open()
    host.ask(opening, Opened)
    ran = [host.run(phase) for phase in answers]
    host.ask(Close(), Closed)
    shutil.rmtree(opening.folder)
    return ran


def _own(plan: Plan, phase: int) -> Sequence[Operation]:
    return plan.phases[phase][0]


def _unscripted(operation: Operation) -> bool | None:
    return None if operation.verb == GET else True


def _answer(plan: Plan, workload: Workload, said: Said) -> Answer:
    if not isinstance(said, Of):
        return said
    value = _value(plan, workload, said)[: said.length]
    if said.spoilt is None:
        return value
    flipped = bytes([value[said.spoilt] ^ 1])
    return value[: said.spoilt] + flipped + value[said.spoilt + 1 :]


def _value(plan: Plan, workload: Workload, of: Of) -> bytes:
    lengths = [[len(operations) for operations in streams] for streams in plan.phases]
    before = sum(map(sum, lengths[: of.phase])) + sum(lengths[of.phase][: of.worker])
    _, key, size = plan.phases[of.phase][of.worker][of.position]
    value = workload.values.derive(key, plan.base + before + of.position, size)
    assert isinstance(value, bytes)
    return value


def _operation(dice: random.Random) -> Operation:
    verb = dice.choices([GET, SET, DELETE], [60, 30, 10])[0]
    sizes = [0, 1, 1, 2, 20, 64, 65, 300]
    return Operation(verb, dice.randrange(3), dice.choice(sizes) if verb == SET else 0)


def _values(plan: Plan, workload: Workload) -> dict[int, list[bytes]]:
    """Return all values that are ever stored, by key."""
    values: dict[int, list[bytes]] = {}
    for phase, streams in enumerate(plan.phases):
        for worker, operations in enumerate(streams):
            for position, (verb, key, _) in enumerate(operations):
                if verb == SET:
                    value = _value(plan, workload, Of(phase, worker, position))
                    values.setdefault(key, []).append(value)
    return values


def _random_answer(
    dice: random.Random, operation: Operation, values: Mapping[int, Sequence[bytes]]
) -> Answer:
    if operation.verb != GET:
        return dice.random() < 0.8
    kind = dice.random()
    if kind < 0.2:
        return None
    if kind < 0.25:
        return dice.randbytes(40)
    return dice.choice(values[operation.key if kind < 0.95 else dice.randrange(3)])
