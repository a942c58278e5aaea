"""The keys of calls: which arguments share a key, and how an argument becomes part of one.

Owns the rule that `docs/guide/loading.md` states. Keys that it gives must never change, because
they are in files. Must not know stores.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import hashlib
import inspect
import os
import pathlib
import uuid
from collections.abc import Iterable
from typing import Any, Callable, Final, Optional

from tuckbox import registry
from tuckbox.errors import InvalidArgument, KeyTypeError
from tuckbox.keys import Key

__all__ = ["Call", "part_of"]

_LONG_BYTES: Final = 1000
"""Longer parts of a key are replaced by a digest, because a cache stores each entry's key."""


class Call:
    """The parameters of a function, and the keys of its calls.

    Args:
        function: The function.
        name: The first part of each key.
        typed: Whether equal numbers of different types have different keys.
        ignore: The parameters that take no part in the key.

    Raises:
        InvalidArgument: ``ignore`` names a parameter that the function does not have.

    Example:
        >>> def report(day, *, full=False): ...
        >>> call = Call(report, "report", typed=False, ignore=())
        >>> call.key(7, full=True)
        ('report', 7, True)
        >>> call.key(7) == call.key(day=7) == call.key(7, full=False)
        True
    """

    def __init__(
        self, function: Callable[..., Any], name: str, *, typed: bool, ignore: Iterable[str]
    ) -> None:
        parameters = inspect.signature(function).parameters
        ignored = {ignore} if isinstance(ignore, str) else set(ignore)
        for one in ignored - set(parameters):
            raise InvalidArgument(
                f"ignore={one!r} is no parameter of {name}(); they are: {', '.join(parameters)}"
            )
        self._name = name
        self._typed = typed
        # As parts of a key they are themselves: False is the key 0.
        self._plain = {int} if typed else {int, bool}
        self._names = tuple(one for one in parameters if one not in ignored)
        self._bind = _binder(function, name, self._names)

    def key(self, /, *args: Any, **kwargs: Any) -> Key:
        """Return the key of a call.

        Args:
            *args: The arguments by position.
            **kwargs: The arguments by name.

        Raises:
            TypeError: The function does not take these arguments.
            KeyTypeError: An argument is of a type that has no rule; the message names it.

        Example:
            >>> Call(len, "len", typed=False, ignore=()).key([None])
            ('len', ('list', ('None',)))
        """
        bound = self._bind(*args, **kwargs)
        plain = self._plain
        for one in bound:
            kind = type(one)
            if kind not in plain and (kind is not str or len(one) > _LONG_BYTES):
                break
        else:
            return bound
        typed = self._typed
        try:
            return (self._name, *[part_of(one, typed) for one in bound[1:]])
        except (KeyTypeError, RecursionError):
            values = zip(self._names, bound[1:])
        parameter, why = next(
            (parameter, why) for parameter, value in values if (why := _why_not(value, typed))
        )
        raise KeyTypeError(
            f"argument {parameter!r} of {self._name}() cannot be part of a key: {why}; "
            f"or pass ignore=({parameter!r},)"
        )


def _why_not(value: Any, typed: bool) -> Optional[str]:
    """Why an argument cannot be part of a key; None if it can."""
    try:
        part_of(value, typed)
    except KeyTypeError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deep; use a plain value"
    return None


def _binder(
    function: Callable[..., Any], name: str, names: tuple[str, ...]
) -> Callable[..., tuple[Any, ...]]:
    """Return a function with the parameters of another, which returns a name and some arguments.

    It is compiled, as those of dataclasses are: then Python itself binds the arguments and refuses
    wrong ones, ten times as fast as `inspect.Signature.bind`.
    """
    texts: list[str] = []
    kinds = inspect.Parameter
    last: object = kinds.POSITIONAL_ONLY
    parameters = list(inspect.signature(function).parameters.values())
    has_star = False
    for one in parameters:
        if last is kinds.POSITIONAL_ONLY is not one.kind and texts:
            texts.append("/")
        if one.kind is kinds.KEYWORD_ONLY and not has_star:
            texts.append("*")
            has_star = True
        has_star = has_star or one.kind is kinds.VAR_POSITIONAL
        star = "*" if one.kind is kinds.VAR_POSITIONAL else ""
        star = "**" if one.kind is kinds.VAR_KEYWORD else star
        texts.append(f"{star}{one.name}{'' if one.default is one.empty else '=None'}")
        last = one.kind
    if last is kinds.POSITIONAL_ONLY and texts:
        texts.append("/")
    returned = "".join(f"{one}," for one in names)
    scope: dict[str, Any] = {}
    # The text has only identifiers and the `repr` of a str.
    exec(f"def bind({', '.join(texts)}): return ({name!r}, {returned})", scope)  # noqa: S102
    bind = scope["bind"]
    given = [one for one in parameters if one.default is not one.empty]
    bind.__defaults__ = tuple(one.default for one in given if one.kind is not kinds.KEYWORD_ONLY)
    bind.__kwdefaults__ = {one.name: one.default for one in given if one.kind is kinds.KEYWORD_ONLY}
    bind.__name__ = getattr(function, "__name__", "call")
    bind.__qualname__ = getattr(function, "__qualname__", bind.__name__)
    return bind  # type: ignore[no-any-return]


def part_of(value: Any, typed: bool = False) -> Key:
    """Return what stands for an argument in the key of a call.

    Arguments that differ have different parts. Equal numbers have the same one, unless ``typed``.
    Whatever is no str, bytes or int is a tuple that begins with the name of its type.

    Args:
        value: The argument.
        typed: Whether ``1``, ``1.0`` and ``True`` have different parts.

    Raises:
        KeyTypeError: There is no rule for the type, or for one inside.
        RecursionError: It contains itself, or is nested too deep.

    Example:
        >>> part_of("a"), part_of(1.0), part_of(1.0, typed=True), part_of({"b": None})
        ('a', 1, ('float', '1.0'), ('dict', ('tuple', 'b', ('None',))))
    """
    kind = type(value)
    if kind is int:
        return value  # type: ignore[no-any-return]
    if kind is str or kind is bytes:
        return value if len(value) <= _LONG_BYTES else _digest(value)
    rule = _RULES.get(kind)
    return _short(_object(value, kind, typed)) if rule is None else rule(value, typed)


_Rule = Callable[[Any, bool], Key]


def _float(value: float, typed: bool) -> Key:
    return int(value) if value.is_integer() and not typed else ("float", repr(value))


def _datetime(value: dt.datetime | dt.time, _typed: bool) -> Key:
    zone = "" if value.tzinfo is None else str(value.tzinfo)
    return (type(value).__name__, value.isoformat(), zone, value.fold)


def _set(value: Iterable[Any], typed: bool) -> Key:
    return _short(("set", *sorted((part_of(one, typed) for one in value), key=_encoded)))


def _dict(value: dict[Any, Any], typed: bool) -> Key:
    pairs = (("tuple", part_of(one, typed), part_of(value[one], typed)) for one in value)
    return _short(("dict", *sorted(pairs, key=_encoded)))


def _list(value: Iterable[Any], typed: bool) -> Key:
    return _short((type(value).__name__, *[part_of(one, typed) for one in value]))


_RULES: Final[dict[type, _Rule]] = {
    type(None): lambda _value, _typed: ("None",),
    bool: lambda value, typed: ("bool", int(value)) if typed else int(value),
    float: _float,
    complex: lambda value, _typed: ("complex", repr(value)),
    decimal.Decimal: lambda value, _typed: ("Decimal", str(value)),
    bytearray: lambda value, _typed: _short(("bytearray", bytes(value))),
    list: _list,
    tuple: _list,
    set: _set,
    frozenset: _set,
    dict: _dict,
    memoryview: lambda value, _typed: _short(("memoryview", bytes(value))),
    dt.datetime: _datetime,
    dt.time: _datetime,
    dt.date: lambda value, _typed: ("date", value.isoformat()),
    dt.timedelta: lambda value, _typed: (
        "timedelta", value.days, value.seconds, value.microseconds
    ),
    uuid.UUID: lambda value, _typed: ("UUID", value.bytes),
}  # fmt: skip


def _object(value: Any, kind: type, typed: bool) -> Key:
    """The part of an object whose type is not in `_RULES`."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    part: Optional[Key] = None
    if (own := getattr(kind, "__tuckbox_key__", None)) is not None:
        part = (name, part_of(own(value), typed))
    elif isinstance(value, type):
        part = ("type", f"{value.__module__}.{value.__qualname__}")
    elif isinstance(value, enum.Flag):
        part = (name, int(value.value))
    elif isinstance(value, enum.Enum):
        part = (name, value.name)
    elif isinstance(value, pathlib.PurePath):
        part = ("path", os.fspath(value))
    elif _is_number_of_numpy(value, kind):
        plain = part_of(value.item(), typed)
        part = (name, plain) if typed else plain
    elif (fields := _fields(value)) is not None:
        part = (name, *[part_of(getattr(value, one), typed) for one in fields])
    elif kind in registry.by_type:
        name, encode = registry.by_type[kind]
        part = (name, part_of(encode(value), typed))
    if part is not None:
        return part
    raise KeyTypeError(
        f"{kind.__qualname__} objects have no rule; use a plain value or a dataclass, "
        "or give the class a method __tuckbox_key__ that returns one"
    )


def _is_number_of_numpy(value: Any, kind: type) -> bool:
    """Whether it is a number, str or bytes of NumPy, but not an array."""
    if kind.__module__ != "numpy" or getattr(value, "shape", None) != ():
        return False
    return getattr(getattr(value, "dtype", None), "kind", "") in {"b", "i", "u", "f", "S", "U"}


def _fields(value: Any) -> Iterable[str] | None:
    """The attributes that decide whether such objects are equal; None if that is not known."""
    if dataclasses.is_dataclass(value):
        return [one.name for one in dataclasses.fields(value) if one.compare]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return value._fields  # type: ignore[no-any-return]
    if hasattr(value, "__attrs_attrs__"):
        return [one.name for one in value.__attrs_attrs__ if one.eq]
    if hasattr(type(value), "model_fields"):  # A pydantic model.
        return list(type(value).model_fields)
    return None


def _short(part: Key) -> Key:
    """The part, or a digest of one that is long."""
    if not isinstance(part, tuple):
        return part
    encoded = _encoded(part)
    return part if len(encoded) <= _LONG_BYTES else _digest(part, encoded)


def _digest(part: Key, encoded: bytes | None = None) -> Key:
    return ("digest", hashlib.blake2b(encoded or _encoded(part), digest_size=32).digest())


def _encoded(part: Key) -> bytes:
    """Bytes that differ if parts do. They order parts, and are what is hashed."""
    if isinstance(part, str):
        kind, body = b"s", part.encode("utf-8", "surrogatepass")
    elif isinstance(part, bytes):
        kind, body = b"b", part
    elif isinstance(part, int):
        kind, body = b"i", b"%x" % part
    else:
        kind, body = b"t", b"".join(_encoded(one) for one in part)
    return kind + str(len(body)).encode() + b":" + body
