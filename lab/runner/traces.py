"""Reads traces: recorded requests, in a CSV file of `key,size[,op[,ttl]]`.

Owns that format. Must not know who replays the requests.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import zstandard

from lab.runner.catalogue import LAB
from lab.runner.catalogue.suites import Trace

FOLDER = LAB / "traces"

# A trace has the first two columns, and may have the third, or the third and the fourth.
_COLUMNS = ["key", "size", "op", "ttl"]
_COLUMNS_MIN = 2
_OPS = ("get", "set", "delete")
# The protocol's longest value.
_SIZE_MAX = 3 << 20
_DIGITS = re.compile("[0-9]{1,9}")
_TTL = re.compile(r"[0-9]{0,12}(\.[0-9]{1,9})?")
_BAD_LINES_TOLD_MAX = 5


class TraceError(Exception):
    """A trace is missing, damaged or malformed; the message says where and what."""


@dataclass(frozen=True)
class Requests:
    """Requests in their order. `texts` are the distinct keys, `keys` their places among those.

    `columns` are those of the file. What a replay does with a request does not depend on the
    columns `op` and `ttl`: it looks the key up, and stores it on a miss.
    """

    texts: list[str]
    keys: list[int]
    sizes: list[int]
    columns: tuple[str, ...] = ("key", "size")

    @property
    def distinct(self) -> int:
        """How many keys there are."""
        return len(self.texts)

    @property
    def bytes_distinct(self) -> int:
        """The bytes of all distinct values, each by its first request."""
        first: dict[int, int] = {}
        for key, size in zip(self.keys, self.sizes, strict=True):
            first.setdefault(key, size)
        return sum(first.values())

    @property
    def hit_ratio_max(self) -> float:
        """The hit ratio of a cache that evicts nothing."""
        return 1 - self.distinct / len(self.keys)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file. Raises TraceError when it cannot be read."""
    return hashlib.sha256(_bytes(path)).hexdigest()


def requests(trace: Trace) -> Requests:
    """Return the requests of a suite's trace. Raises TraceError when it is not the one it names."""
    path = FOLDER / trace.file
    found = sha256(path)
    if found != trace.sha256:
        raise TraceError(
            f"{path} is not the trace that its suite names: its SHA-256 is {found}, not "
            f"{trace.sha256}; restore it with git checkout -- {path}"
        )
    return read(path)


def read(path: Path) -> Requests:
    """Return the requests in a CSV file, compressed with Zstandard when its name ends with .zst.

    Raises TraceError, which names bad lines by their number.
    """
    content = _bytes(path)
    try:
        if path.suffix == ".zst":
            content = zstandard.ZstdDecompressor().stream_reader(content).read()
    except zstandard.ZstdError as error:
        raise TraceError(f"{path} is not compressed with Zstandard: {error}") from error
    # What is not UTF-8 becomes a character that no key may have, so that its line can be named.
    return _parsed(path, io.TextIOWrapper(io.BytesIO(content), "utf-8", errors="replace"))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from error


def _parsed(path: Path, lines: Iterable[str]) -> Requests:
    numbers: dict[str, int] = {}
    keys: list[int] = []
    sizes: list[int] = []
    bad: list[str] = []
    columns: list[str] = []
    for line_number, line in enumerate(lines, 1):
        fields = line.rstrip("\r\n").split(",")
        if line_number == 1:
            columns = fields
            if columns != _COLUMNS[: max(len(columns), _COLUMNS_MIN)]:
                raise TraceError(
                    f"{path}, line 1: a trace begins with the line 'key,size', 'key,size,op' or "
                    f"'key,size,op,ttl', not {line.strip()!r}"
                )
            continue
        problem = _problem(fields, len(columns))
        if problem:
            bad.append(f"line {line_number}: {problem}")
            continue
        keys.append(numbers.setdefault(fields[0], len(numbers)))
        sizes.append(int(fields[1]))
    if bad:
        more = len(bad) - _BAD_LINES_TOLD_MAX
        told = "; ".join(bad[:_BAD_LINES_TOLD_MAX])
        raise TraceError(f"{path}, {told}{f'; and {more:,} more bad lines' if more > 0 else ''}")
    if not keys:
        raise TraceError(f"{path} has no requests")
    return Requests(list(numbers), keys, sizes, tuple(columns))


def _problem(fields: list[str], columns: int) -> str:
    """Return what is wrong with a line, empty when nothing is."""
    if len(fields) != columns:
        return f"it has {len(fields)} fields, not {columns}"
    key, size, *others = fields
    if not (key.isascii() and key.isprintable()) or not key or " " in key:
        return f"the key {key!r} is not printable ASCII without blanks"
    if not _DIGITS.fullmatch(size) or not 0 < int(size) <= _SIZE_MAX:
        return f"the size {size!r} is not a number from 1 to {_SIZE_MAX:,}"
    if others and others[0] not in _OPS:
        return f"the op {others[0]!r} is none of {', '.join(_OPS)}"
    if len(others) > 1 and not _TTL.fullmatch(others[1]):
        return f"the ttl {others[1]!r} is not a number of seconds"
    return ""
