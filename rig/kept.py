"""Kept records, each a file of JSON, and the pages that are generated from them.

Owns how such a file is written and read, and the marks around a generated part of a page. Must not
know what they say.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")

# An array of numbers, spread over lines.
_NUMBERS = re.compile(rb"\[\s+(-?\d[-+.eE\d,\s]*?)\s+\]")
_COLUMNS = 100


class RecordError(Exception):
    """A file is not a valid record; the message says which and why."""


class PageError(Exception):
    """A page cannot be written; the message says why."""


def read(path: Path, kind: type[T]) -> T | None:
    """Return the record in a file, None if the file does not exist. Raises RecordError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise RecordError(f"{path.name} is not a record: {error}; remove the file") from error


def write(path: Path, record: msgspec.Struct) -> None:
    """Write a record atomically, with each array of numbers on one line."""
    text = msgspec.json.format(msgspec.json.encode(record), indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(_NUMBERS.sub(_on_one_line, text) + b"\n")
    new.replace(path)


def with_part(page: str, begin: str, end: str, text: str) -> str:
    """Return a page with `text` between two marks, each a line of the page. Raises PageError."""
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise PageError(f"the page must have the lines {begin} and {end}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def wrapped(paragraph: str, indent: str = "") -> str:
    """Return a paragraph of a page in lines of at most 100 characters."""
    return textwrap.fill(
        paragraph,
        _COLUMNS,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _on_one_line(found: re.Match[bytes]) -> bytes:
    return b"[" + b", ".join(part.strip() for part in found[1].split(b",")) + b"]"
