"""Sizes written as text, such as "256 MB". Knows nothing of caches."""

from __future__ import annotations

import operator
import re
from contextlib import suppress
from decimal import Decimal
from typing import SupportsIndex, Union

from tuckbox.errors import InvalidSize

__all__ = ["parse_size"]

_UNITS = {
    "B": 1,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
    "T": 2**40,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*", re.ASCII)
_BYTES_MAX = 2**63 - 1
_ADVICE = 'give bytes as an int, or a string such as "256 MB" (10^6 bytes) or "64 KiB" (2^10 bytes)'


def parse_size(size: Union[float, str, SupportsIndex], name: str = "size") -> int:
    """Return a size in bytes.

    Args:
        size: A whole number of bytes, such as 10**9 or 1e9; or a number and a unit: B; kB, MB, GB
            or TB (powers of 1000); KiB, MiB, GiB or TiB, or K, M, G or T as in ``docker`` and
            ``truncate`` (powers of 1024). Case does not matter, and the space between them is
            optional. The result is rounded down to whole bytes.
        name: The parameter, for messages.

    Returns:
        The number of bytes, at least 1.

    Raises:
        InvalidSize: ``size`` is not a size, is below 1 byte, or is 8 EiB or more.

    Example:
        >>> parse_size("1.5 kB")
        1500
    """
    if isinstance(size, str):
        match = _SIZE.fullmatch(size)
        unit_bytes = _UNITS.get(match[2].upper()) if match else None
        if match is None or unit_bytes is None:
            wrong = "has no unit" if size.strip().isdecimal() else "is not a size"
            raise InvalidSize(f"{name} {size!r} {wrong}; {_ADVICE}")
        size_bytes = int(Decimal(match[1]) * unit_bytes)
    else:
        size_bytes = _whole(size, name)
    if not 0 < size_bytes <= _BYTES_MAX:
        bounds = f"{name} must be between 1 and {_BYTES_MAX:,} bytes, not {size!r}"
        raise InvalidSize(f"{bounds}; {_ADVICE}")
    return size_bytes


def _whole(size: float | SupportsIndex, name: str) -> int:
    if isinstance(size, float):
        if size.is_integer():
            return int(size)
        raise InvalidSize(f"{name} {size!r} is not a whole number of bytes; {_ADVICE}")
    if not isinstance(size, bool):
        with suppress(TypeError):
            return operator.index(size)
    raise InvalidSize(f"{name} must be a number or a str, not {type(size).__name__}; {_ADVICE}")
