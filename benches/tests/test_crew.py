from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from benches.crew import Crew, CrewError
from benches.row import WrongAnswerError


class Member:
    def __init__(self, number: int, word: str) -> None:
        if word == "not this one":
            raise ValueError(word)
        self.number = number
        self.word = word

    def tell(self, more: str) -> tuple[int, str, int]:
        return self.number, self.word + more, os.getpid()

    def cores(self) -> set[int]:
        return os.sched_getaffinity(0)

    def fail(self) -> None:
        raise KeyError("lost")

    def err(self) -> None:
        raise WrongAnswerError("the key has another's value")

    def die(self) -> None:
        os._exit(3)


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    core = min(os.sched_getaffinity(0))
    with Crew(2, Member, "hello", cores=[core]) as crew:
        yield crew


def test_all_answer_in_their_order_from_processes_of_their_own(crew: Crew) -> None:
    one, two = crew.ask("tell", "!")
    assert one[:2] == (0, "hello!")
    assert two[:2] == (1, "hello!")
    assert len({one[2], two[2], os.getpid()}) == 3


def test_some_can_be_asked(crew: Crew) -> None:
    assert [number for number, _, _ in crew.ask("tell", "", count=1)] == [0]


def test_they_are_where_they_were_put(crew: Crew) -> None:
    assert crew.ask("cores") == [{min(os.sched_getaffinity(0))}] * 2


def test_what_one_raises_is_told(crew: Crew) -> None:
    with pytest.raises(CrewError, match=r"process 0 failed in fail: KeyError: 'lost'"):
        crew.ask("fail", count=1)
    with pytest.raises(WrongAnswerError, match="another's value"):
        crew.ask("err", count=1)
    assert crew.ask("tell", "", count=1)


def test_one_that_cannot_begin_ends_all() -> None:
    with pytest.raises(CrewError, match="ValueError: not this one"):
        Crew(1, Member, "not this one")


def test_a_death_is_told() -> None:
    with Crew(1, Member, "hello") as crew, pytest.raises(CrewError, match="exit status 3"):
        crew.ask("die")
