"""Processes answer, and every failure, death or hang is reported."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from rig.crew import Crew, CrewError, HungError, Worker, call
from rig.stamps import WrongAnswerError


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


def test_a_forked_one_answers_in_order_whatever_it_is_made_of() -> None:
    word = "not this one"[4:]
    worker = Worker(lambda: Member(7, word), forked=True)
    worker.begin("tell", "?")
    worker.begin("tell", "!")
    assert worker.answer()[:2] == (7, "this one?")
    assert worker.answer() == (7, "this one!", worker.pid)
    assert not worker.is_due
    assert worker.leave() is None
    assert worker.has_ended


def test_what_a_call_returns_and_raises() -> None:
    assert call(lambda: [os.getpid()], 10) != [os.getpid()]
    with pytest.raises(CrewError, match="ZeroDivisionError") as raised:
        call(lambda: 1 // 0, 10)
    assert raised.value.came_to == "raised"


def test_one_that_hangs_is_told_from_one_that_died() -> None:
    with pytest.raises(HungError, match="hangs in work") as hung:
        call(lambda: time.sleep(600), 0.1)
    assert hung.value.came_to == "hung"
    with pytest.raises(CrewError, match="SIGUSR1") as died:
        call(lambda: signal.raise_signal(signal.SIGUSR1), 10)
    assert died.value.came_to == "died of SIGUSR1"


def test_an_answer_that_was_late_comes_next() -> None:
    worker = Worker(lambda: time, forked=True)
    worker.begin("sleep", 0.3)
    worker.begin("monotonic")
    with pytest.raises(HungError):
        worker.answer(0.01)
    assert worker.answer(10) is None
    assert worker.answer(10) > 0
    assert worker.kill() == "died of SIGKILL"


def test_one_that_does_not_leave_is_killed() -> None:
    worker = Worker(lambda: time.sleep(600), forked=True)
    assert worker.leave(0.1) == "hung"
    assert worker.has_ended
