from __future__ import annotations

from pathlib import Path

import pytest
from tuckbox import Cache

from benches import counts, hot_path, instructions, native
from benches.counts import Counts

BEFORE = Counts("valgrind-1", "3.11", "rustc 1", {"get": 1_000.0, "set": 2_000.0})


def test_changes_are_shares_of_what_was() -> None:
    now = Counts("valgrind-1", "3.11", "rustc 1", {"get": 1_100.0, "set": 1_900.0, "incr": 5.0})
    assert counts.changes(BEFORE, now) == pytest.approx({"get": 0.1, "set": -0.05})
    assert counts.changes(None, now) == {}


def test_the_kept_counts_are_those_that_are_counted() -> None:
    kept = counts.read()
    assert kept is not None
    assert list(kept.instructions) == instructions.operations()


def test_each_hot_path_runs_and_its_answer_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot_path.run(tmp_path)

    class Forgetful(Cache):
        def get_many(self, keys):  # type: ignore[no-untyped-def]
            return {}

    monkeypatch.setattr(hot_path, "Cache", Forgetful)
    with pytest.raises(ValueError, match="get_many of 100"):
        hot_path.run(tmp_path)


def test_what_lies_between_the_marks_is_counted() -> None:
    names = ["get", "miss", "set", "full, small", "full, large"]
    counted = instructions.between_marks([str(native.build()), "hot-path"], names)
    assert 0 < counted["miss"] < counted["get"] < counted["set"] < 100_000
    # A search of the whole file would cost half as much again in the larger one.
    assert counted["full, large"] < 1.1 * counted["full, small"]
    with pytest.raises(instructions.CountingError, match="10 marks"):
        instructions.between_marks([str(native.build()), "hot-path"], ["get"])
