"""A value belongs to one owner, and any damage is found."""

from __future__ import annotations

import pytest

from rig.stamps import HEAD_BYTES, VALUE_BYTES_MAX, Stamp, WrongAnswerError, make, read


@pytest.mark.parametrize("size", [HEAD_BYTES, 20, 152, 160, VALUE_BYTES_MAX])
def test_a_value_comes_back_with_its_stamp(size: int) -> None:
    for stamp in (Stamp(), Stamp(9, 3), Stamp(2**32 - 1, 2**32 - 1)):
        made = make("a", size, stamp)
        assert len(made) == size
        assert read("a", made) == stamp


def test_stamps_differ_beyond_their_heads() -> None:
    made = [make("a", 4_000, stamp)[HEAD_BYTES:] for stamp in (Stamp(), Stamp(1), Stamp(0, 1))]
    for at in range(0, len(made[0]), 16):
        assert len({one[at : at + 16] for one in made}) == 3


def test_no_byte_can_change() -> None:
    made = make("a", 500, Stamp(9, 3))
    for place in range(len(made)):
        changed = bytearray(made)
        changed[place] ^= 1
        with pytest.raises(WrongAnswerError, match=r"^a has"):
            read("a", bytes(changed))


@pytest.mark.parametrize(
    "found",
    [
        None,
        "text",
        7,
        b"",
        bytes(160),
        make("b", 160),
        make("a", 160)[:-1],
        make("a", 160) + b"1",
        make("a", 160)[:100] + make("a", 160, Stamp(1))[100:],
        make("a", 320)[:160] * 2,
        make("a", 4_000)[:1_000] + make("a", 4_000)[936:-64],
    ],
)
def test_what_is_no_value_of_the_owner_is_found_out(found: object) -> None:
    with pytest.raises(WrongAnswerError, match=r"^a has"):
        read("a", found)


def test_a_value_of_another_owner_says_so() -> None:
    with pytest.raises(WrongAnswerError, match="of another owner"):
        read("a", make("b", 500))


@pytest.mark.parametrize("size", [0, HEAD_BYTES - 1, VALUE_BYTES_MAX + 1])
def test_a_length_that_no_value_has_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="bytes"):
        make("a", size)
