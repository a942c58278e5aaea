"""Numbers of other libraries, lengths of time, and integer arguments, as plain ones.

Converts as the extension's ``numbers.rs`` and ``ttl.rs`` do. Must not know stores.
"""

from __future__ import annotations

import math
import operator
import re
from datetime import timedelta
from typing import Any, Optional

from tuckbox.errors import IntegerOverflow, InvalidTTL, InvalidVersion, NotAnInteger
from tuckbox.memory.messages import object_name, type_name

__all__ = ["INT_MAX", "INT_MIN", "plain", "signed", "ttl_us", "version_of"]

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1
_NUMPY_SCALARS = frozenset(
    f"numpy.{name}" for name in ["bool", "bool_", "float16", "float32", "float64", "str_", "bytes_"]
)
_TTL_US_MAX = 1 << 62
"""A ttl of at least this (about 146,000 years) never expires."""
_UNIT = r"(?:([0-9.]+)\s*{}\s*)?"
_DURATION = re.compile(r"\s*" + "".join(map(_UNIT.format, "wdhms")), re.ASCII)
_UNITS_S = (604_800, 86_400, 3_600, 60, 1)


def plain(thing: Any) -> Any:
    """Return the plain object that stands for an object of another type.

    That is an int for an object with ``__index__``, and a bool, float, str or bytes for a NumPy
    scalar. Returns None for every other object, for arrays, and for ints and their subclasses.
    """
    kind = type(thing)
    if issubclass(kind, int):
        return None
    if type_name(kind) in _NUMPY_SCALARS:
        return thing.item()
    # An array of one integer also has `__index__`.
    if not hasattr(kind, "__index__") or hasattr(kind, "__len__"):
        return None
    try:
        number = operator.index(thing)
    except TypeError:
        return None
    return number if type(number) is int else None


def _int_of(argument: Any) -> Optional[int]:
    given = plain(argument)
    if given is None:
        given = argument
    return None if isinstance(given, bool) or not isinstance(given, int) else given


def signed(argument: Any, name: str) -> int:
    """Return an argument of ``incr`` as an int of 64 bits.

    Raises:
        NotAnInteger: It is not an int.
        IntegerOverflow: It does not fit.
    """
    number = _int_of(argument)
    if number is None:
        raise NotAnInteger(f"{name} must be an int, not {type_name(type(argument))}")
    if not INT_MIN <= number <= INT_MAX:
        shown = object_name(argument)
        raise IntegerOverflow(f"{name} must fit a signed 64-bit integer, got {shown}")
    return number


def version_of(argument: Any) -> int:
    """Return a ``version`` argument. Raises InvalidVersion."""
    number = _int_of(argument)
    if number is None or not 0 <= number < 1 << 64:
        raise InvalidVersion(
            "version must be the version of an Entry that get_entry() returned, got "
            f"{object_name(argument)}"
        )
    return number


def ttl_us(ttl: Any) -> Optional[int]:
    """Return a length of time in microseconds.

    Args:
        ttl: None, a number of seconds, text such as "5m", or a timedelta.

    Returns:
        At least 0; None is without end. Less than a microsecond counts as one.

    Raises:
        InvalidTTL: It is not a length of time.
    """
    if ttl is None:
        return None
    if isinstance(ttl, int) and not isinstance(ttl, bool):
        return _limited(int(ttl) * 1_000_000)
    if isinstance(ttl, float):
        return _from_seconds(ttl, ttl)
    if isinstance(ttl, timedelta):
        return _limited((ttl.days * 86_400 + ttl.seconds) * 1_000_000 + ttl.microseconds)
    if isinstance(ttl, str):
        return _from_text(ttl)
    if isinstance(ttl, bool) or (number := plain(ttl)) is None:
        raise InvalidTTL(
            'ttl must be None, seconds as int or float, a duration such as "5m", or a timedelta, '
            f"not {type_name(type(ttl))}"
        )
    return ttl_us(number)


def _limited(us: int) -> Optional[int]:
    return max(us, 0) if us < _TTL_US_MAX else None


def _from_seconds(seconds: float, ttl: Any) -> Optional[int]:
    us = seconds * 1e6
    if math.isnan(us):
        raise _invalid(ttl, "is not a number")
    if us >= _TTL_US_MAX:
        return None
    return max(round(us), 1) if us > 0 else 0


def _from_text(ttl: str) -> Optional[int]:
    found = _DURATION.fullmatch(ttl)
    if found and found.lastindex:
        try:
            numbers = [float(number or 0) for number in found.groups()]
        except ValueError:
            pass
        else:
            return _from_seconds(sum(map(operator.mul, numbers, _UNITS_S)), ttl)
    raise _invalid(ttl, "is not a duration")


def _invalid(ttl: Any, why: str) -> InvalidTTL:
    return InvalidTTL(
        f"ttl {object_name(ttl)} {why}; give seconds as a number, a duration in s, m, h, d or w "
        'such as "90s" or "1h30m", or a timedelta; None never expires'
    )
