"""Reads traces: recorded requests, in any of the formats of `trace_formats`.

Owns the requests that come of a file, and which bad lines are told. Must not know who replays them.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.runner.catalogue import LAB
from lab.runner.catalogue.suites import Trace
from lab.runner.trace_formats import FORMATS, Format, Record, TraceError, content_of, format_of

__all__ = ["FOLDER", "Requests", "TraceError", "read", "requests", "sha256"]

FOLDER = LAB / "traces"

# The protocol's longest value.
_SIZE_MAX = 3 << 20
_BAD_TOLD_MAX = 5


@dataclass(frozen=True)
class Requests:
    """Requests in their order. `texts` are the distinct keys, `keys` their places among those.

    A replay looks each key up and stores it on a miss, whatever else a file says of a request.
    `left_out` requests had no size: they found or stored nothing.
    """

    texts: list[str]
    keys: array[int]
    sizes: array[int]
    left_out: int = 0

    @property
    def distinct(self) -> int:
        """How many keys there are."""
        return len(self.texts)

    @property
    def bytes_distinct(self) -> int:
        """The bytes of all distinct values, each by its first request."""
        first = array("I", bytes(4 * self.distinct))
        for key, size in zip(self.keys, self.sizes, strict=True):
            if not first[key]:
                first[key] = size
        return sum(first)

    @property
    def hit_ratio_max(self) -> float:
        """The hit ratio of a cache that evicts nothing."""
        return 1 - self.distinct / len(self.keys)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file. Raises TraceError when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from error


def requests(trace: Trace) -> Requests:
    """Return the requests of a suite's trace. Raises TraceError when it is not the one it names."""
    path = FOLDER / trace.file
    found = sha256(path)
    if found != trace.sha256:
        raise TraceError(
            f"{path} is not the trace that its suite names: its SHA-256 is {found}, not "
            f"{trace.sha256}; restore it with git checkout -- {path}"
        )
    return read(path, trace.format, sized=trace.bytes_distinct > 0)


def read(path: Path, name: str = "", *, sized: bool = True) -> Requests:
    """Return the requests in a file, whose format is `name`, or follows from the file if empty.

    With `sized` the sizes are those of the values to store, and too long ones are refused. Raises
    TraceError, which names bad lines or records by their number.
    """
    content = content_of(path)
    read_as = FORMATS[name or format_of(path, content)]
    try:
        return _collected(read_as.records(content), read_as, sized=sized)
    except TraceError as error:
        raise TraceError(f"{path}, {error}") from error


def _collected(records: Iterable[Record], read_as: Format, *, sized: bool) -> Requests:
    numbers: dict[str, int] = {}
    keys, sizes = array("I"), array("I")
    left_out = bad = 0
    told: list[str] = []
    for number, record in records:
        if isinstance(record, tuple):
            key, size = record
            problem = _problem(key, size, sized=sized)
        else:
            problem = record
        if problem:
            bad += 1
            if bad <= _BAD_TOLD_MAX:
                told.append(f"{read_as.unit} {number}: {problem}")
        elif size:
            keys.append(numbers.setdefault(key, len(numbers)))
            sizes.append(size)
        else:
            left_out += 1
    if bad:
        more = f"; and {bad - len(told):,} more bad {read_as.unit}s" if bad > len(told) else ""
        raise TraceError("; ".join(told) + more)
    if not keys:
        none = f": none of its {left_out:,} {read_as.unit}s has a size" if left_out else ""
        raise TraceError(f"it has no requests{none}")
    return Requests(list(numbers), keys, sizes, left_out)


def _problem(key: str, size: int, *, sized: bool) -> str:
    """Return what no cache can do with a request, empty when every one can."""
    if not (key.isascii() and key.isprintable()) or not key or " " in key:
        return f"the key {key!r} is not printable ASCII without blanks"
    if sized and size > _SIZE_MAX:
        return (
            f"the size {size:,} is above {_SIZE_MAX:,}, the longest value: give --value-size to "
            f"store other sizes"
        )
    return ""
