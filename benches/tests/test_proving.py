from __future__ import annotations

import pytest

from benches.proving import HEAD_BYTES, VALUE_BYTES_MAX, prove, value
from benches.row import WrongAnswerError


@pytest.mark.parametrize("size", [HEAD_BYTES, 160, 152, VALUE_BYTES_MAX])
def test_a_value_proves_itself(size: int) -> None:
    for edition in range(3):
        made = value(7, size, edition)
        assert len(made) == size
        prove("a key", made, 7)


def test_editions_differ_beyond_their_heads() -> None:
    editions = {value(7, 160, edition)[HEAD_BYTES:] for edition in range(3)}
    assert len(editions) == 3


@pytest.mark.parametrize(
    "found",
    [
        None,
        "text",
        b"",
        value(8, 160),
        value(7, 160)[:-1],
        value(7, 160) + b"1",
        value(7, 160)[:100] + value(7, 160, 1)[100:],
        bytes(160),
    ],
)
def test_what_is_no_value_of_the_family_is_found_out(found: object) -> None:
    with pytest.raises(WrongAnswerError, match="a key"):
        prove("a key", found, 7)


@pytest.mark.parametrize("size", [0, HEAD_BYTES - 1, VALUE_BYTES_MAX + 1])
def test_a_length_that_no_value_has_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="bytes"):
        value(1, size)
