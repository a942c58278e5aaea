"""Which cache fits a question, who is first, and when nobody can tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from lab.report.answer import Answer, Question, answers, default_question, questions
from lab.runner.catalogue import Contestant, PhasesSuite, suites
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
) -> Contestant:
    """Return a contestant of which only these facts matter."""
    return msgspec.structs.replace(
        synthetic.contestant(name, name.title(), host, server),
        shared_by=shared_by,
        survives_restart=survives,
        evicts=evicts,
    )


def answered(
    question: Question,
    rates: Mapping[str, Sequence[float]],
    rows: Sequence[Contestant],
    wrong: str = "",
) -> Answer:
    """Return the answer when `rates` has the operations in a second of each round of each row."""
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
        if cell.contestant == wrong:
            one.verdict.wrong = 1
    return answers(SUITE, summarise(SUITE, rows, cells))[question]


def steady(rate: float) -> list[float]:
    return [rate * (1 + number / 1_000) for number in range(6)]


def asked(language: str = "any", sharing: str = "machine", *, survives: bool = False) -> Question:
    return Question(language, sharing, survives, SIZE)  # type: ignore[arg-type]


def names(answer: Answer) -> list[str]:
    return [one.row.contestant.name for one in answer.ranked]


def test_the_fastest_is_first_and_the_reason_says_by_how_much() -> None:
    rows = [contestant("slow"), contestant("fast")]
    found = answered(asked(), {"slow": steady(1_000), "fast": steady(3_000)}, rows)
    assert names(found) == ["fast", "slow"]
    assert found.tied == 1
    assert "3.0 x those of Slow" in found.reason


def test_rounds_that_overlap_are_a_tie() -> None:
    rates = {"one": [100, 120, 100, 120, 100, 120], "two": [101, 119, 101, 119, 101, 119]}
    found = answered(asked(), rates, [contestant("one"), contestant("two")])
    assert found.tied == 2
    assert found.reason.startswith("A tie: the rounds cannot tell which is faster.")


def test_one_round_says_nothing_of_ties() -> None:
    found = answered(
        asked(), {"one": [100], "two": [100.1]}, [contestant("one"), contestant("two")]
    )
    assert found.tied == 1


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
        assert (found.first, found.tied) == (None, 0)
        assert found.reason == "No contestant of this run fits."


def test_who_never_evicts_is_no_cache_and_is_named_apart() -> None:
    rows = [contestant("store", evicts=False), contestant("cache")]
    found = answered(asked(), {"store": steady(9_000), "cache": steady(1_000)}, rows)
    assert names(found) == ["cache"]
    assert [one.row.contestant.name for one in found.unbounded] == ["store"]


def test_who_gives_wrong_values_is_no_answer() -> None:
    rows = [contestant("liar"), contestant("honest")]
    rates = {"liar": steady(9_000), "honest": steady(1_000)}
    assert names(answered(asked(), rates, rows, wrong="liar")) == ["honest"]


def test_a_server_is_taken_where_it_is_fastest() -> None:
    rows = [contestant("served", server="x", shared_by="network")]
    found = answered(asked(), {"served": steady(1_000)}, rows)
    assert found.first is not None
    assert found.first.row.placement == "same core"


def test_null_is_no_cache() -> None:
    null = msgspec.structs.replace(contestant("null"), stores=False)
    rates = {"null": steady(9_000), "one": steady(10)}
    assert names(answered(asked(), rates, [null, contestant("one")])) == ["one"]


def test_each_language_has_a_leader() -> None:
    rows = [contestant("a"), contestant("b"), contestant("c", "perl"), contestant("d", "php")]
    rates = {"a": steady(1_000), "b": steady(2_000), "c": steady(3_000), "d": steady(10)}
    leaders = answered(asked(), rates, rows).leaders
    assert {language: one.row.contestant.name for language, one in leaders.items()} == {
        "python": "b",
        "perl": "c",
        "php": "d",
    }


def test_every_question_has_an_answer() -> None:
    assert default_question(SUITE) in questions(SUITE)
    assert len(questions(SUITE)) == 5 * 3 * 2 * 3
