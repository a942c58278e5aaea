"""Which cache fits a question, which is first, and when it is a tie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
import pytest

from lab.report.answer import Answer, Question, answers, default_question, questions
from lab.runner.catalogue import Contestant, PhasesSuite, suites
from lab.runner.results import Pass, PhasesCell
from lab.runner.summary import summarise
from lab.tests import synthetic

FOUND = suites()["choice"]
assert isinstance(FOUND, PhasesSuite)
SUITE: PhasesSuite = FOUND
SIZE = "160 bytes"


def contestant(
    name: str,
    host: str = "python",
    *,
    shared_by: str = "machine",
    survives: bool = True,
    evicts: bool = True,
    server: str = "",
    max_stale_s: float | Literal["no bound"] = 0.0,
) -> Contestant:
    """Return a contestant where only these fields matter."""
    return msgspec.structs.replace(
        synthetic.contestant(name, name.title(), host, server),
        shared_by=shared_by,
        survives_restart=survives,
        evicts=evicts,
        max_stale_s=max_stale_s,
    )


def answered(
    question: Question,
    rates: Mapping[str, Sequence[float]],
    rows: Sequence[Contestant],
    spoilt: Mapping[str, Callable[[PhasesCell], None]] | None = None,
) -> Answer:
    """Return the answer if `rates` has the operations per second of each round of each row.

    `spoilt` changes the cells of the rows that it names.
    """
    rounds = max(map(len, rates.values()))
    cells = list(synthetic.cells(SUITE, rows, rounds))
    for cell in cells:
        one = cell.phases[0].throughput
        assert one is not None
        rate = rates[cell.contestant][cell.round - 1]
        # A server on two cores is half as fast.
        rate /= 2 if cell.placement == "split cores" else 1
        one.elapsed_ns = round(one.done * 1e9 / rate)
        one.cpu_ns = one.elapsed_ns // 2
        if spoilt and cell.contestant in spoilt:
            spoilt[cell.contestant](cell)
    return answers(SUITE, summarise(SUITE, rows, cells))[question]


def steady(rate: float) -> list[float]:
    return [rate * (1 + number / 1_000) for number in range(6)]


def asked(language: str = "any", sharing: str = "machine", *, survives: bool = False) -> Question:
    return Question(language, sharing, survives, SIZE)  # type: ignore[arg-type]


def names(answer: Answer) -> list[str]:
    return [one.row.contestant.name for one in answer.ranked]


def tied(answer: Answer) -> list[str]:
    return [one.row.contestant.name for one in answer.tied]


def test_the_fastest_is_first_and_the_reason_says_by_how_much() -> None:
    rows = [contestant("slow"), contestant("fast")]
    found = answered(asked(), {"slow": steady(1_000), "fast": steady(3_000)}, rows)
    assert names(found) == ["fast", "slow"]
    assert tied(found) == ["fast"]
    assert "3.0 x the rate of Slow" in found.reason


def test_rounds_that_overlap_are_a_tie() -> None:
    rates = {"one": [100, 120, 100, 120, 100, 120], "two": [101, 119, 101, 119, 101, 119]}
    found = answered(asked(), rates, [contestant("one"), contestant("two")])
    assert sorted(tied(found)) == ["one", "two"]
    assert found.reason.startswith("A tie: the intervals overlap.")


def test_a_row_that_overlaps_the_first_ties_with_it_whoever_is_between() -> None:
    rates = {
        "first": [100.0, 101, 102, 103, 104, 105],
        "second": [90.0, 91, 92, 93, 94, 95],
        "wide": [60.0, 70, 80, 90, 100, 110],
    }
    found = answered(asked(), rates, [contestant(name) for name in rates])
    assert names(found) == ["first", "second", "wide"]
    assert tied(found) == ["first", "wide"]


def test_one_round_says_nothing_of_ties() -> None:
    found = answered(
        asked(), {"one": [100], "two": [100.1]}, [contestant("one"), contestant("two")]
    )
    assert tied(found) == ["two"]
    assert found.reason.endswith("One round only: no interval, so ties cannot be detected.")


@pytest.mark.parametrize(
    ("question", "fits"),
    [
        (asked(sharing="process"), ["alone", "shared", "served", "perl"]),
        (asked(sharing="machine"), ["shared", "served", "perl"]),
        (asked(sharing="network"), ["served"]),
        (asked(sharing="machine", survives=True), ["shared"]),
        (asked("python", "process"), ["alone", "shared", "served"]),
        (asked("perl"), ["perl"]),
        (asked("php"), []),
    ],
)
def test_only_what_fits_is_ranked(question: Question, fits: list[str]) -> None:
    rows = [
        contestant("alone", shared_by="process", survives=False),
        contestant("shared"),
        contestant("served", shared_by="network", survives=False),
        contestant("perl", "perl", survives=False),
    ]
    rates = {row.name: steady(4_000 - 1_000 * place) for place, row in enumerate(rows)}
    found = answered(question, rates, rows)
    assert names(found) == fits
    if not fits:
        assert (found.first, found.tied) == (None, ())
        assert found.reason == "No cache in this run fits."


def between_machines(
    rates: Mapping[str, float], ages: Mapping[str, float | Literal["no bound"]]
) -> Answer:
    """Return the answer for several machines; `ages` has those of the rows with copies."""
    rows = [
        contestant(name, shared_by="network", max_stale_s=ages.get(name, 0.0)) for name in rates
    ]
    return answered(
        asked(sharing="network"), {name: steady(rate) for name, rate in rates.items()}, rows
    )


def test_the_price_of_copies_is_named_and_who_is_fresher() -> None:
    rates = {"far": 1_000, "loose": 9_000, "old": 2_000, "fresh": 5_000, "slow": 500}
    found = between_machines(rates, {"loose": "no bound", "old": 60.0, "fresh": 5.0})
    assert names(found) == ["loose", "fresh", "old", "far", "slow"]
    assert found.reason.endswith(
        " Price: no limit on the age of values."
        " With values up to 5 s old: Fresh, 5,012/s."
        " With every value from the server: Far, 1,002/s."
    )


def test_who_is_fresher_may_be_a_tie() -> None:
    found = between_machines({"copies": 9_000, "one": 1_000, "two": 1_001}, {"copies": 5.0})
    assert tied(found) == ["copies"]
    assert found.reason.endswith(
        " Price: values up to 5 s old. With every value from the server: Two and One (a tie), "
        "1,004/s."
    )


def test_a_first_that_asks_the_server_has_no_price() -> None:
    found = between_machines({"far": 9_000, "copies": 1_000}, {"copies": 5.0})
    assert names(found) == ["far", "copies"]
    assert found.reason.endswith("the rate of Copies. Invented for a test.")


def test_a_tie_names_its_price_too() -> None:
    found = between_machines({"copies": 1_001, "far": 1_000}, {"copies": 5.0})
    assert tied(found) == ["copies", "far"]
    assert "A tie" in found.reason
    assert found.reason.endswith("With every value from the server: Far, 1,002/s.")


def test_processes_of_one_machine_pay_no_price() -> None:
    row = contestant("copies", shared_by="network", max_stale_s=5.0)
    found = answered(asked(sharing="machine"), {"copies": steady(1_000)}, [row])
    assert "Price" not in found.reason


def test_who_never_evicts_is_no_cache_and_is_named_apart() -> None:
    rows = [contestant("store", evicts=False), contestant("cache")]
    found = answered(asked(), {"store": steady(9_000), "cache": steady(1_000)}, rows)
    assert names(found) == ["cache"]
    assert [one.row.contestant.name for one in found.unbounded] == ["store"]


def mixed(cell: PhasesCell) -> Pass:
    one = cell.phases[0].throughput
    assert one is not None
    return one


def in_last_round(spoil: Callable[[PhasesCell], None]) -> Callable[[PhasesCell], None]:
    return lambda cell: spoil(cell) if cell.round == 6 else None


def gives_wrong_values(cell: PhasesCell) -> None:
    mixed(cell).verdict.wrong = 2


def loses_an_entry(cell: PhasesCell) -> None:
    cell.probe.lost = 1


def refuses_sets(cell: PhasesCell) -> None:
    mixed(cell).actions["set"].tally.miss = 500


def refuses_to_be_filled(cell: PhasesCell) -> None:
    cell.refused = 10_000


def misses(cell: PhasesCell) -> None:
    mixed(cell).actions["get"].tally.miss = 7


def asks_for_what_is_not_there(cell: PhasesCell) -> None:
    mixed(cell).actions["get"].tally.miss = 7
    mixed(cell).actions["get"].tally.absent = 7


def dies(cell: PhasesCell) -> None:
    cell.outcome, cell.reason = "failed", "worker 0 died"


def is_too_slow_to_fill(cell: PhasesCell) -> None:
    cell.outcome, cell.reason, cell.phases = "stopped", "fill came to 3", []


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (in_last_round(gives_wrong_values), "2 wrong values"),
        (in_last_round(loses_an_entry), "1 entries lost"),
        (refuses_sets, "3,000 sets refused"),
        (refuses_to_be_filled, "60,000 sets refused"),
        (in_last_round(misses), "7 of 540,000 gets of stored keys missed"),
        (in_last_round(dies), "failed: worker 0 died"),
        (is_too_slow_to_fill, "filling the store exceeded the time limit: fill came to 3"),
    ],
)
def test_who_did_less_work_is_not_ranked_and_the_reason_is_told(
    spoil: Callable[[PhasesCell], None], reason: str
) -> None:
    rows = [contestant("idle"), contestant("honest")]
    rates = {"idle": steady(9_000), "honest": steady(1_000)}
    found = answered(asked(), rates, rows, {"idle": spoil})
    assert names(found) == ["honest"]
    assert [(one.row.contestant.name, one.reason) for one in found.asides] == [("idle", reason)]
    assert names(answered(asked("perl"), rates, rows, {"idle": spoil})) == []


def test_a_miss_of_a_key_that_was_never_stored_is_right() -> None:
    rows = [contestant("one")]
    found = answered(asked(), {"one": steady(10)}, rows, {"one": asks_for_what_is_not_there})
    assert names(found) == ["one"]


def test_a_server_that_failed_in_one_place_is_ranked_by_the_other() -> None:
    rows = [contestant("served", server="x", shared_by="network")]

    def fails_on_one_core(cell: PhasesCell) -> None:
        if cell.placement == "same core":
            misses(cell)

    found = answered(asked(), {"served": steady(1_000)}, rows, {"served": fails_on_one_core})
    assert [one.row.placement for one in found.ranked] == ["split cores"]
    assert found.asides == ()


def test_a_server_is_taken_where_it_is_fastest() -> None:
    rows = [contestant("served", server="x", shared_by="network")]
    found = answered(asked(), {"served": steady(1_000)}, rows)
    assert found.first is not None
    assert found.first.row.placement == "same core"


def test_null_is_no_cache() -> None:
    null = msgspec.structs.replace(contestant("null"), stores=False)
    rates = {"null": steady(9_000), "one": steady(10)}
    assert names(answered(asked(), rates, [null, contestant("one")])) == ["one"]


def test_each_language_has_a_leader_and_who_ties_with_it() -> None:
    rows = [contestant("a"), contestant("b"), contestant("d", "php")]
    rows += [contestant("c", "perl"), contestant("e", "perl")]
    rates = {"a": steady(1_000), "b": steady(2_000), "c": steady(3_000), "d": steady(10)}
    rates["e"] = steady(2_999)
    leaders = answered(asked(), rates, rows).leaders
    assert {
        language: [one.row.contestant.name for one in found] for language, found in leaders.items()
    } == {"python": ["b"], "perl": ["c", "e"], "php": ["d"]}


def test_every_question_has_an_answer() -> None:
    assert default_question(SUITE) in questions(SUITE)
    assert len(questions(SUITE)) == 5 * 3 * 2 * 3
