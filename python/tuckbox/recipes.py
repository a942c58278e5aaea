"""How objects of known kinds become plain data, and back.

A recipe is found by the class: a dataclass, an enum, a named tuple and so on. Decoding functions
may get any plain data, since a file can be forged, and raise instead of running what it names.
Arrays and tables are in `tuckbox.buffers`. Must not know names, caches or files.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import uuid
from typing import Any, Callable, NamedTuple

from tuckbox.buffers import buffers_of
from tuckbox.errors import EntryCorrupt, EntryRefused, InvalidArgument

__all__ = ["PLAIN_TYPES", "Recipe", "recipe_of"]

PLAIN_TYPES: frozenset[type] = frozenset(
    {
        type(None),
        bool,
        int,
        float,
        str,
        bytes,
        bytearray,
        list,
        tuple,
        dict,
        set,
        frozenset,
        dt.datetime,
        dt.date,
        dt.time,
        dt.timedelta,
        decimal.Decimal,
        uuid.UUID,
    }
)
"""The types that the codec stores without a registration."""
# Fields are not all that these contain.
_CONTENT_TYPES = (str, bytes, bytearray, int, float, list, tuple, dict, set, frozenset)

_Encode = Callable[[Any], Any]
_Decode = Callable[[Any], Any]


class Recipe(NamedTuple):
    """How to store objects of some types."""

    types: tuple[type, ...]
    encode: _Encode
    """Returns the state of an object: plain data, registered objects, memoryviews."""
    decode: _Decode
    """Returns the object of a state."""


def recipe_of(cls: type) -> Recipe:  # noqa: PLR0911 - One for each kind.
    """Return the recipe of a class.

    Raises:
        InvalidArgument: No recipe is known.
    """
    if issubclass(cls, enum.Enum):
        return Recipe((cls,), *_enum(cls))
    if issubclass(cls, pathlib.PurePath):
        concrete = type(pathlib.Path()) if cls is pathlib.Path else cls
        return Recipe((cls, concrete), str, lambda text: concrete(_checked(text, str)))
    buffers = buffers_of(cls)
    if buffers is not None:
        return Recipe(*buffers)
    if issubclass(cls, tuple) and hasattr(cls, "_field_defaults"):
        return Recipe((cls,), *_named_tuple(cls))
    if not issubclass(cls, _CONTENT_TYPES):
        if dataclasses.is_dataclass(cls):
            return Recipe((cls,), *_attributes(cls, _dataclass_defaults(cls)))
        if hasattr(cls, "__attrs_attrs__"):
            return Recipe((cls,), *_attributes(cls, _attrs_defaults(cls)))
        if hasattr(cls, "__pydantic_private__") and hasattr(cls, "model_fields"):
            return Recipe((cls,), *_pydantic(cls))
        if hasattr(cls, "__struct_fields__"):
            return Recipe((cls,), *_struct(cls))
    raise InvalidArgument(
        f"{cls.__qualname__} is not of a kind that register knows; pass encode=, a function of the "
        "object that returns plain values, and decode=, a function that makes the object of them"
    )


def _enum(cls: type[enum.Enum]) -> tuple[_Encode, _Decode]:
    if issubclass(cls, enum.Flag):
        return (lambda flag: flag._value_), lambda value: cls(_checked(value, int))

    def decode(name: object) -> enum.Enum:
        member = cls.__members__.get(_checked(name, str))
        if member is None:
            raise EntryRefused(f"{cls.__qualname__} has no member {name!r}; delete the entry")
        return member

    return (lambda member: member._name_), decode


_Defaults = dict[str, Callable[[], Any]]
"""The names of fields, with the function that returns the default or raises."""


def _none_of(cls: type, name: str) -> Callable[[], Any]:
    def refuse() -> Any:
        raise EntryRefused(
            f"it was stored without the field {name!r}, and {cls.__qualname__} has no default for "
            "it; give the field a default, or delete the entry"
        )

    return refuse


def _constant(value: object) -> Callable[[], Any]:
    return lambda: value


def _values(state: object, defaults: _Defaults) -> dict[str, Any]:
    """Return a value for each field: the stored one, or the default."""
    stored: dict[str, Any] = _checked(state, dict)
    if stored.keys() == defaults.keys():
        return stored
    return {
        name: stored[name] if name in stored else default() for name, default in defaults.items()
    }


def _named_tuple(cls: Any) -> tuple[_Encode, _Decode]:
    own = cls._field_defaults
    defaults: _Defaults = {
        name: _constant(own[name]) if name in own else _none_of(cls, name) for name in cls._fields
    }

    def decode(state: object) -> tuple[Any, ...]:
        values = _values(state, defaults)
        made: tuple[Any, ...] = tuple.__new__(cls, [values[name] for name in defaults])
        return made

    return (lambda one: dict(zip(cls._fields, one))), decode


def _attributes(cls: Any, defaults: _Defaults) -> tuple[_Encode, _Decode]:
    """Fields that are attributes. They are set without ``__init__``."""
    names = tuple(defaults)

    def decode(state: object) -> object:
        made: object = cls.__new__(cls)
        for name, value in _values(state, defaults).items():
            # Frozen classes, and those that validate, override `__setattr__`.
            object.__setattr__(made, name, value)
        return made

    return (lambda one: {name: getattr(one, name) for name in names}), decode


def _dataclass_defaults(cls: type) -> _Defaults:
    defaults: _Defaults = {}
    for field in dataclasses.fields(cls):
        if field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory
        elif field.default is not dataclasses.MISSING:
            defaults[field.name] = _constant(field.default)
        else:
            defaults[field.name] = _none_of(cls, field.name)
    return defaults


def _attrs_defaults(cls: Any) -> _Defaults:
    import attr

    defaults: _Defaults = {}
    for field in cls.__attrs_attrs__:
        # A factory that takes the instance would see one without its other fields.
        if isinstance(field.default, attr.Factory) and not field.default.takes_self:  # type: ignore[arg-type]
            defaults[field.name] = field.default.factory
        elif field.default is attr.NOTHING or isinstance(field.default, attr.Factory):  # type: ignore[arg-type]
            defaults[field.name] = _none_of(cls, field.name)
        else:
            defaults[field.name] = _constant(field.default)
    return defaults


def _pydantic(cls: Any) -> tuple[_Encode, _Decode]:
    defaults = _pydantic_defaults(cls, cls.model_fields)
    private = _pydantic_defaults(cls, cls.__private_attributes__)

    def encode(one: Any) -> Any:
        fields = {name: one.__dict__[name] for name in defaults}
        hidden = one.__pydantic_private__
        return fields, set(one.__pydantic_fields_set__), one.__pydantic_extra__, hidden

    def decode(state: object) -> object:
        fields, names, extra, hidden = _checked(state, tuple)
        made = cls.__new__(cls)
        object.__setattr__(made, "__dict__", _values(fields, defaults))
        extra = None if extra is None else _checked(extra, dict)
        known = defaults.keys() | (extra or {}).keys()
        object.__setattr__(made, "__pydantic_fields_set__", _checked(names, set) & known)
        object.__setattr__(made, "__pydantic_extra__", extra)
        hidden = _values(hidden or {}, private) if private else None
        object.__setattr__(made, "__pydantic_private__", hidden)
        return made

    return encode, decode


def _pydantic_defaults(cls: type, fields: dict[str, Any]) -> _Defaults:
    return {
        name: _none_of(cls, name)
        if repr(field.default) == "PydanticUndefined" and field.default_factory is None
        else _constant(field.default)
        if field.default_factory is None
        else field.default_factory
        for name, field in fields.items()
    }


def _struct(cls: Any) -> tuple[_Encode, _Decode]:
    names: tuple[str, ...] = cls.__struct_fields__

    def decode(state: object) -> object:
        stored = _checked(state, dict)
        # Its own check of missing fields says which.
        return cls(**{name: stored[name] for name in names if name in stored})

    return (lambda one: {name: getattr(one, name) for name in names}), decode


def _checked(state: Any, kind: type) -> Any:
    if type(state) is not kind:
        raise EntryCorrupt(
            f"it has a {type(state).__name__} in place of a {kind.__name__}: another program "
            "stored it, or it is forged; delete it"
        )
    return state
