"""How messages name types and objects, and what to do about an object that cannot be stored.

Says the same as the extension's ``names.rs`` and ``advice.rs``. Must not know stores.
"""

from __future__ import annotations

import enum
import reprlib
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Optional
from uuid import UUID

__all__ = ["key_advice", "object_name", "subclass_advice", "type_name", "value_advice"]

_LENGTH_MAX = 60
"""The longest text that stands for an object."""
_SHOWN_BITS = 4096
"""The decimal digits of a longer int would take long to calculate."""
_VALUE_TYPES = (
    "None, bool, int, float, str, bytes, bytearray, list, tuple, dict, set, frozenset, datetime, "
    "date, time, timedelta, Decimal and UUID"
)
_BASES = (
    str, int, float, bytes, bytearray, dict, list, tuple, set, frozenset, datetime, date, time,
    timedelta, Decimal, UUID,
)  # fmt: skip
_PLAIN_FORMS = {"str": "str.__str__(...)", "uuid.UUID": "uuid.UUID(str(...))"}
_KEY_ADVICE = {
    "NoneType": "use a string that stands for it",
    "float": "use an int, or its repr()",
    "list": "use a tuple",
    "set": "use tuple(sorted(...)) of it",
    "frozenset": "use tuple(sorted(...)) of it",
    "dict": "use a tuple of its items",
    "bytearray": "use bytes(...) of it",
    "memoryview": "use bytes(...) of it",
    "decimal.Decimal": "use str(...) of it",
    "uuid.UUID": "use str(...) of it",
    "datetime.datetime": "use its isoformat()",
    "datetime.date": "use its isoformat()",
    "datetime.time": "use its isoformat()",
}
_COPIES = {
    "memoryview": "bytes",
    "mmap.mmap": "bytes",
    "range": "list",
    "dict_keys": "list",
    "dict_values": "list",
    "dict_items": "list",
    "collections.deque": "list",
    "mappingproxy": "dict",
}
_CONVERSIONS = {
    "__dataclass_fields__": "store dataclasses.asdict(...) of it",
    "model_dump": "store its model_dump()",
    "__fspath__": "store os.fspath(...) of it",
    "__next__": "store list(...) of it",
}
"""By an attribute of the type."""
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxlong = _REPR.maxother = _LENGTH_MAX


def type_name(kind: type) -> str:
    """Return the import name of a type: ``str``, ``decimal.Decimal``."""
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def object_name(thing: object) -> str:
    """Return the ``repr`` of an object, cut to 60 characters; its type if that raises."""
    try:
        shown = _short_repr(thing)
    except Exception:
        shown = type_name(type(thing))
    return shown if len(shown) <= _LENGTH_MAX else f"{shown[: _LENGTH_MAX - 3]}..."


def _short_repr(thing: object) -> str:
    if type(thing) is int and (bits := thing.bit_length()) > _SHOWN_BITS:
        return f"<int of {bits} bits>"
    # `reprlib` has no limit for bytes.
    return _REPR.repr(thing[:_LENGTH_MAX] if type(thing) is bytes else thing)


def value_advice(value: object, is_storable: Callable[[Any], bool]) -> str:
    """Return why a value cannot be stored, and what to do.

    Args:
        value: The value.
        is_storable: Whether another value can be stored.
    """
    advice = _plain_value_advice(value, is_storable)
    module = type(value).__module__
    # Types of Python itself are seldom registered, and need functions.
    if module == "builtins" or module.startswith("freezegun."):
        return advice
    return f"{advice}; or register the class: see help(tuckbox.register)"


def _plain_value_advice(value: object, is_storable: Callable[[Any], bool]) -> str:
    """Return what to store in place of a value."""
    kind = type(value)
    name = type_name(kind)
    if member := _member_advice(value, is_storable):
        return f"{name}, an enum, which cannot be stored; store {member}"
    # Not `isinstance`: it uses `__class__`, which may lie or raise.
    if (parent := next((one for one in _BASES if issubclass(kind, one)), None)) is not None:
        base = type_name(parent)
        if name.startswith("freezegun."):
            advice = "to freeze the time in tests, use time-machine, which keeps the types"
        elif parent in {datetime, date, time}:
            advice = f"store its isoformat(), and read that with {base}.fromisoformat()"
        elif parent is timedelta:
            advice = "store its total_seconds(), and read that with datetime.timedelta(seconds=...)"
        else:
            advice = f"if that is right, store {_plain_form(base)} of it"
        return f"{name}, a subclass of {base}, and would come back as a plain {base}; {advice}"
    return f"{name}, which cannot be stored; {_conversion(kind)}"


def _conversion(kind: type) -> str:
    if (name := type_name(kind)) in _COPIES:
        return f"store {_COPIES[name]}(...) of it"
    if hasattr(kind, "tolist") and hasattr(kind, "__len__"):
        return "store its tolist()"
    for attribute, advice in _CONVERSIONS.items():
        if hasattr(kind, attribute):
            return advice
    return f"values are {_VALUE_TYPES}: convert it to one of these"


def key_advice(key: object) -> str:
    """Return what to use as a key in place of an object."""
    if member := _member_advice(key, _is_plain_key):
        return f"use {member}"
    other = "use a str or a tuple that identifies it"
    if hasattr(type(key), "__fspath__"):
        other = "use os.fspath(...) of it"
    return _KEY_ADVICE.get(type_name(type(key)), other)


def subclass_advice(key: object, base: type) -> str:
    """Return what to use as a key in place of an instance of a subclass of ``base``."""
    return _member_advice(key, _is_plain_key) or f"{_plain_form(type_name(base))} of it"


def _plain_form(base: str) -> str:
    # `str(...)` can return the same object, or the name of an enum member.
    return _PLAIN_FORMS.get(base, f"{base}(...)")


def _is_plain_key(value: object) -> bool:
    return type(value) in {str, int, bytes}


def _member_advice(thing: object, can_be_used: Callable[[Any], bool]) -> Optional[str]:
    kind = type(thing)
    if not issubclass(kind, enum.Enum):
        return None
    try:
        is_usable = can_be_used(thing.value)  # type: ignore[attr-defined]
    except Exception:
        is_usable = False
    if is_usable:
        return f"its .value, and make the member from it with {kind.__name__}(...)"
    return f"its .name, and make the member from it with {kind.__name__}[...]"
