"""Records that are kept, each a file of JSON, and the pages that are made of them.

Owns how such a file is written and read, and where a generated part of a page begins and ends. Must
not know what they say.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")

# An array of numbers, spread over lines.
_NUMBERS = re.compile(rb"\[\s+(-?\d[-+.eE\d,\s]*?)\s+\]")


class RecordError(Exception):
    """A file is not the record that it should be; the message says which and why."""


class PageError(Exception):
    """A page cannot be written; the message says why."""


def read(path: Path, kind: type[T]) -> T | None:
    """Return the record in a file, None where there is no file. Raises RecordError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise RecordError(f"{path.name} is not a record: {error}; remove the file") from error


def write(path: Path, record: msgspec.Struct) -> None:
    """Write a record, whole or not at all, with each array of numbers on one line."""
    text = msgspec.json.format(msgspec.json.encode(record), indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(_NUMBERS.sub(_on_one_line, text) + b"\n")
    new.replace(path)


def with_part(page: str, begin: str, end: str, text: str) -> str:
    """Return a page with `text` between two marks, each a line of it. Raises PageError."""
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise PageError(f"the page must have the lines {begin} and {end}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def _on_one_line(found: re.Match[bytes]) -> bytes:
    return b"[" + b", ".join(part.strip() for part in found[1].split(b",")) + b"]"
