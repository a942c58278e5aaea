"""`register`: which types may be stored as objects, and under which names.

The registry belongs to the process, because types do. A file names a type; only what this process
has registered under that name is called, and nothing is imported. How an object of a type becomes
plain data is in `tuckbox.recipes`. Must not know caches, pickle or codecs.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, NamedTuple, Optional, TypeVar, Union, overload

from tuckbox.errors import EntryCorrupt, EntryRefused, InvalidArgument
from tuckbox.recipes import PLAIN_TYPES, Recipe, recipe_of

__all__ = ["by_name", "by_type", "register", "unregistered"]

_Type = TypeVar("_Type", bound=type)

by_type: dict[type, tuple[str, Callable[[Any], Any]]] = {}
"""The name and the encoding function of each type."""
by_name: dict[str, _Maker] = {}
"""The decoding function of each name."""

_NAME_BYTES_MAX = 255
_registering = threading.Lock()


class _Maker(NamedTuple):
    """Calls a decoding function with what was in the file, which may be anything."""

    name: str
    of: str
    """The type, to notice another one with the same name."""
    decode: Callable[[Any], Any]

    def __call__(self, state: object) -> Any:
        try:
            return self.decode(state)
        except EntryCorrupt as error:
            raise type(error)(f"an object of registered type {self.name}: {error}") from error
        except Exception as error:
            raise EntryCorrupt(
                f"an object of registered type {self.name} cannot be decoded "
                f"({type(error).__name__}: {error}); store it again, or delete it"
            ) from error


@overload
def register(
    cls: _Type,
    *,
    name: Optional[str] = None,
    encode: Optional[Callable[[Any], Any]] = None,
    decode: Optional[Callable[[Any], Any]] = None,
) -> _Type: ...
@overload
def register(
    cls: None = None,
    *,
    name: Optional[str] = None,
    encode: Optional[Callable[[Any], Any]] = None,
    decode: Optional[Callable[[Any], Any]] = None,
) -> Callable[[_Type], _Type]: ...


def register(
    cls: Optional[_Type] = None,
    *,
    name: Optional[str] = None,
    encode: Optional[Callable[[Any], Any]] = None,
    decode: Optional[Callable[[Any], Any]] = None,
) -> Union[_Type, Callable[[_Type], _Type]]:
    """Let every cache of this process store objects of exactly this type, and read them back.

    Works for dataclasses, attrs classes, Pydantic models, msgspec structs, enums, named tuples,
    ``pathlib.Path``, ``numpy.ndarray``, ``numpy.generic`` (all scalars), ``pandas.DataFrame``,
    ``pandas.Series``, ``pyarrow.Table`` and ``pyarrow.RecordBatch``, and for any other class with
    ``encode`` and ``decode``. An object may be in a list or another container, and contain other
    registered objects. No ``__init__`` and no validation runs on reading, except those of msgspec.

    Fields are stored by name. A stored field that the class lacks is ignored; a field of the class
    that was not stored gets its default, or raises EntryRefused if it has none.

    Args:
        cls: The class. Without it, returns a decorator.
        name: What the file calls the type; its module and name by default. Processes that share
            the file must agree on it, so pass a name before you move or rename the class.
        encode: A function of the object that returns plain values, registered objects, or a
            ``memoryview`` of bytes, which ``decode`` gets as a ``bytearray``.
        decode: A function of what ``encode`` returned that returns the object. The file may have
            been forged: it must be safe to call with any plain value.

    Returns:
        The class, so that ``register`` can decorate it.

    Raises:
        InvalidArgument: The class needs ``encode`` and ``decode``, is a plain type, or another
            class has the name.

    Example:
        >>> from dataclasses import dataclass
        >>> @register(name="point")
        ... @dataclass
        ... class Point:
        ...     x: int
        ...     y: int
        >>> cache.set("corner", [Point(0, 1)])
        >>> cache.get("corner")
        [Point(x=0, y=1)]
        >>> register(complex, encode=lambda c: (c.real, c.imag), decode=lambda pair: complex(*pair))
        <class 'complex'>
        >>> cache.set("z", 1 + 2j)
        >>> cache.get("z")
        (1+2j)
    """
    if cls is None:
        return lambda one: register(one, name=name, encode=encode, decode=decode)
    if not isinstance(cls, type):
        raise InvalidArgument(f"register needs a class, not {cls!r}; pass the type of the object")
    if cls in PLAIN_TYPES:
        raise InvalidArgument(f"{cls.__name__} is a plain type, which needs no registration")
    if (encode is None) != (decode is None):
        raise InvalidArgument("register needs both encode and decode, or neither")
    if encode is not None and decode is not None:
        recipe = Recipe((cls,), encode, decode)
    else:
        recipe = recipe_of(cls)
    own_name = f"{cls.__module__}.{cls.__qualname__}"
    _add(own_name if name is None else name, own_name, recipe)
    return cls


def _add(name: object, of: str, recipe: Recipe) -> None:
    if not isinstance(name, str) or not name or len(name.encode()) > _NAME_BYTES_MAX:
        raise InvalidArgument(f"name must be a str of 1 to {_NAME_BYTES_MAX} bytes, not {name!r}")
    with _registering:
        known = by_name.get(name)
        if known is not None and known.of != of:
            raise InvalidArgument(
                f"name {name!r} is that of {known.of}, which is registered; choose another"
            )
        for kind in recipe.types:
            by_type[kind] = (name, recipe.encode)
        by_name[name] = _Maker(name, of, recipe.decode)


def unregistered(name: str) -> EntryRefused:
    """Return the error for a name in a file that this process has not registered."""
    return EntryRefused(
        f"it contains an object of type {name[:_NAME_BYTES_MAX]!r}, which this process has not "
        "registered; call tuckbox.register with the class before reading it, or delete it"
    )
