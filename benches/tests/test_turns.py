from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from benches import turns
from benches.row import Conditions
from benches.turns import Turn, take_turns
from rig.stamps import WrongAnswerError


def conditions(rounds: int = 4) -> Conditions:
    def ignore(_text: str) -> None:
        return None

    return Conditions(rounds, True, Path(), Path(), progress=ignore, not_measured=ignore)


def saying(said: list[str], name: str) -> Turn:
    """Return a turn that says its name."""
    return Turn(1, lambda _given: said.append(name))


def test_contestants_take_turns_and_another_one_begins_each_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "PASSES_MAX", 2)
    said: list[str] = []
    samples = take_turns(conditions(3), [saying(said, name) for name in "abc"])
    assert "".join(said) == "abc" + "abcabc" + "bcabca" + "cabcab"
    assert [len(one) for one in samples] == [3, 3, 3]


def test_a_slow_contestant_has_fewer_passes_spread_over_the_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "PASSES_MAX", 4)
    said: list[str] = []
    aim_ns = int(turns.ROUND_SECONDS_QUICK * 1e9)

    def time_ns(work: Callable[[object], object], given: object = None) -> int:
        work(given)
        return aim_ns // 2 if said[-1] == "b" else 1

    monkeypatch.setattr(turns, "time_ns", time_ns)
    take_turns(conditions(1), [saying(said, name) for name in "ab"])
    assert "".join(said) == "ab" + "a" + "ab" + "a" + "ab"


def test_a_sample_is_the_median_pass_by_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PASSES_MAX", 3)
    times = iter([0, 100, 50_000, 300])

    def time_ns(_work: object, _given: object = None) -> int:
        return next(times)

    monkeypatch.setattr(turns, "time_ns", time_ns)
    (samples,) = take_turns(conditions(1), [Turn(10, lambda _given: None)])
    assert samples == (30.0,)


def test_what_is_prepared_is_worked_on_and_checked_and_only_work_is_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "PASSES_MAX", 2)
    said: list[str] = []
    timed: list[str] = []
    time_ns = turns.time_ns

    def watched(work: object, given: object = None) -> int:
        before = len(said)
        taken = time_ns(work, given)  # type: ignore[arg-type]
        timed.extend(said[before:])
        return taken

    monkeypatch.setattr(turns, "time_ns", watched)
    numbers = iter(range(100))
    take_turns(
        conditions(2),
        [
            Turn(
                1,
                lambda given: said.append(f"work {given}"),
                lambda: next(numbers),
                lambda given: said.append(f"check {given}"),
            )
        ],
    )
    assert timed == ["work 0", "work 1", "work 2", "work 3", "work 4"]
    assert [one for one in said if one.startswith("check")] == ["check 0", "check 2", "check 4"]


def test_a_wrong_answer_in_any_round_ends_it() -> None:
    checks = iter(range(100))

    def check(_given: object) -> None:
        if next(checks) == 3:
            raise WrongAnswerError("dict answered 'x' instead of 'y'")

    with pytest.raises(WrongAnswerError, match="instead of"):
        take_turns(conditions(4), [Turn(1, lambda _given: None, check=check)])
    assert next(checks) == 4


def test_the_cycle_collector_is_off_meanwhile_and_on_again_after_an_error() -> None:
    found = []

    def work(_given: object) -> None:
        found.append(gc.isenabled())

    def fail(_given: object) -> None:
        raise WrongAnswerError("no")

    assert gc.isenabled()
    take_turns(conditions(1), [Turn(1, work)])
    with pytest.raises(WrongAnswerError):
        take_turns(conditions(1), [Turn(1, work, check=fail)])
    assert not any(found)
    assert gc.isenabled()
