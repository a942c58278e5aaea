from __future__ import annotations

import pytest

from benches.data import fresh, keys, require, values
from rig.stamps import WrongAnswerError


def test_keys_are_uuids_that_differ() -> None:
    made = keys(1000)
    assert len(set(made)) == 1000
    assert {len(key) for key in made} == {36}
    assert keys(10, first=990) == made[990:]


def test_values_are_the_same_for_the_same_seed_only() -> None:
    assert values(3, 160, 1) == values(3, 160, 1)
    assert values(3, 160, 1) != values(3, 160, 2)
    assert {len(value) for value in values(3, 160)} == {160}


def test_fresh_keys_are_equal_and_other_objects() -> None:
    made = keys(10)
    again = fresh(made)
    assert again == made
    assert all(one is not other for one, other in zip(made, again, strict=True))


def test_right_answers_are_let_through() -> None:
    require("dict", iter([b"a", None]), [b"a", None])


@pytest.mark.parametrize(
    ("got", "said"),
    [
        ([b"a", b"x"], "dict answered number 1 with b'x' instead of b'b'"),
        ([b"a", None], "with None instead of b'b'"),
        ([b"a"], "1 answers instead of 2"),
        ([b"a", b"b", b"c"], "3 answers instead of 2"),
    ],
)
def test_wrong_answers_are_named(got: list[object], said: str) -> None:
    with pytest.raises(WrongAnswerError, match=said):
        require("dict", got, [b"a", b"b"])
