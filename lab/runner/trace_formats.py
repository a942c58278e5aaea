"""The formats of recorded requests, each as a reader of lines or of fixed-size records.

Owns the formats and their detection. Must not know what is done with a request.

The binary formats are those of libCacheSim, the text formats those of Twitter's cluster logs and of
memcached's `watch` command. Decision 35 says why the lab uses no library for them.
"""

from __future__ import annotations

import gzip
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import zstandard


class TraceError(Exception):
    """A trace is missing, damaged or malformed; the message says where and what."""


# Its number, from 1, with the key and the size of its value (0 for none), or with an error.
Record = tuple[int, str | tuple[str, int]]
_Reader = Callable[[bytes], Iterator[Record]]


@dataclass(frozen=True)
class Format:
    """The reader of a format, and the name of one of its units."""

    records: _Reader
    unit: str


# Columns of the lab's own CSV: the first two, the first three, or all.
_COLUMNS = ["key", "size", "op", "ttl"]
_COLUMNS_MIN = 2
_OPS = ("get", "set", "delete")
_TWITTER_COLUMNS = 7
_DIGITS = re.compile("[0-9]{1,9}")
_TTL = re.compile(r"[0-9]{0,12}(\.[0-9]{1,9})?")
_MEMCACHED = re.compile(
    r"ts=\S+ gid=[0-9]+ type=item_(?:"
    r"get key=(?P<got>\S+) status=\S+ clsid=[0-9]+ cfd=-?[0-9]+ size=(?P<found>[0-9]{1,9})|"
    r"store key=(?P<set>\S+) status=(?P<status>\S+) cmd=\S+ ttl=-?[0-9]+ clsid=[0-9]+ "
    r"cfd=-?[0-9]+ size=(?P<stored>[0-9]{1,9}))"
)
_FIRST_LINE_MAX = 4_096
# oracleGeneral: the highest plausible position, and the value that means no next request.
_PLACE_MAX, _NEVER = 1 << 48, (1 << 63) - 1
_TWR_OPERATION_MAX, _TWR_INVALID = 14, 255


def content_of(path: Path) -> bytes:
    """Return the content of a file, decompressed if it is `.zst` or `.gz`. Raises TraceError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from error
    try:
        if path.suffix == ".zst":
            return _unpacked(content)
        if path.suffix == ".gz":
            return gzip.decompress(content)
    except (zstandard.ZstdError, EOFError, OSError, zlib.error) as error:
        raise TraceError(
            f"{path} is incomplete, or not compressed as {path.suffix} says: {error}"
        ) from error
    return content


def _unpacked(content: bytes) -> bytes:
    """Return the content of all frames. A file may have several, all of them complete."""
    frames = []
    while content:
        frame = zstandard.ZstdDecompressor().decompressobj()
        frames.append(frame.decompress(content))
        if not frame.eof:
            raise EOFError("the last frame is incomplete")
        content = frame.unused_data
    return b"".join(frames)


def format_of(path: Path, content: bytes) -> str:
    """Return the format by the file's name or its first line. Raises TraceError if neither tells.

    A binary format is recognised by a part of the name between dots: `w06.oracleGeneral.zst`.
    """
    words = path.name.lower().split(".")[1:]
    for word in words:
        if _NAMES.get(word, word) in _BINARY:
            return _NAMES.get(word, word)
    first = _text(content[:_FIRST_LINE_MAX]).partition("\n")[0].rstrip("\r")
    if first.startswith("ts=") or first == "OK":
        return "memcached"
    if len(first.split(",")) >= _TWITTER_COLUMNS and first.split(",")[0].isdigit():
        return "twitter"
    if "csv" in words or first.startswith("key,"):
        return "csv"
    raise TraceError(
        f"{path}: neither its name nor its first line shows its format: use --trace-format with "
        f"one of {', '.join(FORMATS)}"
    )


def _text(content: bytes) -> str:
    # Invalid UTF-8 becomes a character that no key may have, so that the error names its line.
    return content.decode("utf-8", errors="replace")


def _lines(content: bytes) -> Iterator[tuple[int, str]]:
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        yield number, _text(line).rstrip("\r")


def _csv(content: bytes) -> Iterator[Record]:
    """The lab's own: a line of column names, then key, size, op and ttl."""
    lines = _lines(content)
    columns = next(lines, (1, ""))[1].split(",")
    if columns != _COLUMNS[: max(len(columns), _COLUMNS_MIN)]:
        if not content:
            return
        raise TraceError(
            f"line 1: a trace starts with the line 'key,size', 'key,size,op' or "
            f"'key,size,op,ttl', not {','.join(columns)!r}"
        )
    for number, line in lines:
        fields = line.split(",")
        problem = _csv_problem(fields, len(columns))
        yield number, problem or (fields[0], int(fields[1]))


def _csv_problem(fields: list[str], columns: int) -> str:
    if len(fields) != columns:
        return f"it has {len(fields)} fields, not {columns}"
    _, size, *others = fields
    if not _DIGITS.fullmatch(size) or not int(size):
        return f"the size {size!r} is not a number of at least 1"
    if others and others[0] not in _OPS:
        return f"the op {others[0]!r} is not one of {', '.join(_OPS)}"
    if len(others) > 1 and not _TTL.fullmatch(others[1]):
        return f"the ttl {others[1]!r} is not a number of seconds"
    return ""


def _twitter(content: bytes) -> Iterator[Record]:
    """Twitter's: time, key, size of the key, size of the value, client, operation, ttl."""
    for number, line in _lines(content):
        time, _, rest = line.partition(",")
        # A key may have commas.
        key, *others = rest.rsplit(",", _TWITTER_COLUMNS - 2)
        if len(others) < _TWITTER_COLUMNS - 2:
            yield number, f"it has fewer than {_TWITTER_COLUMNS} fields"
        elif not time.isdigit():
            yield number, f"the time {time!r} is not a number of seconds"
        elif not _DIGITS.fullmatch(others[1]):
            yield number, f"the size of the value {others[1]!r} is not a number"
        else:
            yield number, (key, int(others[1]))


def _memcached(content: bytes) -> Iterator[Record]:
    """The output of memcached's `watch fetchers mutations`. Other events are ignored.

    A get that found nothing has no size; the set that follows it has one.
    """
    for number, line in _lines(content):
        found = _MEMCACHED.match(line)
        if found is None:
            if line.startswith("[skipped"):
                yield number, f"memcached skipped requests here ({line})"
            elif line != "OK" and (not line.startswith("ts=") or " type=item_" in line):
                yield number, f"{line[:60]!r} is not a line of watch fetchers mutations"
            continue
        if found["got"]:
            yield number, (unquote(found["got"]), int(found["found"]))
        else:
            is_stored = found["status"] == "stored"
            yield number, (unquote(found["set"]), int(found["stored"]) if is_stored else 0)


def _fixed(layout: str, request: Callable[..., str | tuple[str, int]]) -> _Reader:
    """Return the reader of a file that contains only records of one layout."""
    record = struct.Struct(layout)

    def records(content: bytes) -> Iterator[Record]:
        whole, left = divmod(len(content), record.size)
        if left:
            raise TraceError(
                f"record {whole + 1}: it has {left} bytes, not {record.size}: the file is "
                f"incomplete, or has another format"
            )
        for number, fields in enumerate(record.iter_unpack(content), 1):
            yield number, request(*fields)

    return records


def _oracle_general(_time: int, key: int, size: int, next_: int) -> str | tuple[str, int]:
    if not -1 <= next_ <= _PLACE_MAX and next_ != _NEVER:
        return f"its next request is {next_:,}: it is not a record of oracleGeneral"
    return str(key), size


def _twr(_time: int, key: int, sizes: int, action: int, *_: int) -> str | tuple[str, int]:
    operation = action >> 24
    if operation > _TWR_OPERATION_MAX and operation != _TWR_INVALID:
        return f"it has the operation {operation}: it is not a record of twr"
    return str(key), sizes & 0x3F_FFFF


_VSCSI = {
    1: _fixed("<IIIHHQQ", lambda _sn, size, _sg, _cmd, _ver, block, _ts: (str(block), size)),
    2: _fixed("<HHIIIQQQ", lambda _cmd, _ver, _sn, size, _sg, block, *_: (str(block), size)),
}


def _vscsi(content: bytes) -> Iterator[Record]:
    """VMware's, in two versions: each record contains its version."""
    # Records have 40 bytes in version 2, and 32 in version 1.
    if content[3:4] == content[43:44] == b"\x02":
        return _VSCSI[2](content)
    if content[15:16] == b"\x01" and content[47:48] in {b"\x01", b""}:
        return _VSCSI[1](content)
    raise TraceError("record 1: it has neither version 1 nor version 2 of vscsi")


FORMATS = {
    "csv": Format(_csv, "line"),
    "oracle-general": Format(_fixed("<IQIq", _oracle_general), "record"),
    "vscsi": Format(_vscsi, "record"),
    "twr": Format(_fixed("<IQII", _twr), "record"),
    "twrns": Format(_fixed("<IQIIH", _twr), "record"),
    "twitter": Format(_twitter, "line"),
    "memcached": Format(_memcached, "line"),
}
_BINARY = {name for name, one in FORMATS.items() if one.unit == "record"}
_NAMES = {"oraclegeneral": "oracle-general"}
