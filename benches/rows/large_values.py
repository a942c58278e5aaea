"""Values of up to hundreds of megabytes, compared with a copy of as many bytes.

Owns the values. A get is compared with a copy into a new bytes object. A set is compared with a
copy into memory that was used before, each time into its next part, as a set does.
"""

from __future__ import annotations

import mmap
import random

from tuckbox import Cache

from benches.row import Conditions, Figure, Row
from benches.turns import Turn, take_turns
from rig.stamps import WrongAnswerError

_MIB = 1 << 20
_SIZES = (_MIB, 8 * _MIB, 64 * _MIB, 256 * _MIB)
_SIZES_QUICK = (_MIB, 8 * _MIB, 64 * _MIB)
# Room for a value and the one that replaces it, among others.
_ROOM_SHARE = 5


class _Rotating:
    """Memory that was written before, and a copy into its next part."""

    def __init__(self, size_bytes: int) -> None:
        self._memory = mmap.mmap(-1, size_bytes)
        self._at = 0
        for at in range(0, size_bytes, mmap.PAGESIZE):
            self._memory[at] = 1

    def copy(self, content: bytes) -> None:
        """Copy `content` behind the last copy, or to the beginning."""
        if self._at + len(content) > len(self._memory):
            self._at = 0
        self._memory[self._at : self._at + len(content)] = content
        self._at += len(content)


def measure(conditions: Conditions) -> list[Figure]:
    """Measure gets and sets of values of several sizes."""
    sizes = _SIZES_QUICK if conditions.is_quick else _SIZES
    room = _ROOM_SHARE * sizes[-1]
    whole = random.Random(1).randbytes(_MIB) * (sizes[-1] // _MIB)
    conditions.progress("filling")
    memory = _Rotating(room)
    found = []
    with Cache(conditions.tmpfs / "large.tuck", size=room) as cache:
        for turn in range(2 * room // sizes[-2]):
            cache.set(f"filling {turn}", whole[: sizes[-2]])
        for size in sizes:
            conditions.progress(f"{size // _MIB} MiB")
            found += _of_size(conditions, cache, memory, whole[:size])
    return found


def _of_size(
    conditions: Conditions, cache: Cache, memory: _Rotating, content: bytes
) -> list[Figure]:
    cache.set("read", content)
    if cache.get("read") != content:
        raise WrongAnswerError(f"a value of {len(content)} bytes is not the one that was stored")
    view = memoryview(content)
    gets = take_turns(
        conditions,
        [
            Turn(1, lambda _: cache.get("read")),
            Turn(1, lambda _: bytes(view)),
        ],
    )
    if cache.get("read") != content:
        raise WrongAnswerError(f"a value of {len(content)} bytes changed while it was read")
    sets = take_turns(
        conditions,
        [
            Turn(1, lambda _: cache.set("written", content)),
            Turn(1, lambda _: memory.copy(content)),
        ],
    )
    if cache.get("written") != content:
        raise WrongAnswerError(f"a value of {len(content)} bytes is not the one that was set")
    return [
        _figure("get", gets, "bytes(memoryview(value))", len(content)),
        _figure("set", sets, "copy into rotating memory", len(content)),
    ]


def _figure(what: str, samples: list[tuple[float, ...]], peer: str, size: int) -> Figure:
    ours, theirs = ([size / ns * 1e3 for ns in of] for of in samples)
    return Figure(
        what,
        "MB/s",
        tuple(ours),
        peer,
        tuple(theirs),
        "ours / theirs",
        None,
        at=size,
        along="bytes of a value",
    )


ROW = Row(
    id="large values",
    title="Values of 1 to 256 MiB",
    text="",
    measure=measure,
)
