"""Reads traces: recorded requests, in any of the formats of `trace_formats`.

Owns the requests of a file and the report of bad lines. Must not know who replays them.
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
    """Requests in order. `texts` are the distinct keys, `keys` their positions in `texts`.

    A replay looks each key up and stores it on a miss; it ignores everything else in a request.
    `left_out` counts requests without a size, which found or stored nothing.
    """

    texts: list[str]
    keys: array[int]
    sizes: array[int]
    left_out: int = 0

    @property
    def distinct(self) -> int:
        """The number of distinct keys."""
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
    """Return the SHA-256 of a file. Raises TraceError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from error


def requests(trace: Trace) -> Requests:
    """Return the requests of a suite's trace. Raises TraceError if its SHA-256 differs."""
    path = FOLDER / trace.file
    found = sha256(path)
    if found != trace.sha256:
        raise TraceError(
            f"{path} is not the trace that the suite names: its SHA-256 is {found}, not "
            f"{trace.sha256}; to restore it, run: git checkout -- {path}"
        )
    return read(path, trace.format, sized=trace.bytes_distinct > 0)


def read(path: Path, name: str = "", *, sized: bool = True) -> Requests:
    """Return the requests in a file of the format `name`; if empty, the file decides the format.

    With `sized`, values are stored with the trace's sizes, and too large ones are refused. Raises
    TraceError with the numbers of bad lines or records.
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
        none = f": none of its {left_out:,} {read_as.unit}s have a size" if left_out else ""
        raise TraceError(f"it has no requests{none}")
    return Requests(list(numbers), keys, sizes, left_out)


def _problem(key: str, size: int, *, sized: bool) -> str:
    """Return why no cache can process a request; empty if all can."""
    if not (key.isascii() and key.isprintable()) or not key or " " in key:
        return f"the key {key!r} is not printable ASCII without blanks"
    if sized and size > _SIZE_MAX:
        return (
            f"the size {size:,} is above the maximum of {_SIZE_MAX:,} bytes: use --value-size to "
            f"store values of another size"
        )
    return ""
