"""Keys of memoized calls, as DiskCache makes them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Callable, Optional, TypeVar

from tuckbox.compat.diskcache.settings import ENOVAL

__all__ = ["args_to_key", "full_name", "memoizer"]

_F = TypeVar("_F", bound=Callable[..., Any])


def full_name(function: Callable[..., Any]) -> str:
    """Return the name of a function with its module.

    Example:
        >>> import json
        >>> full_name(json.dumps)
        'json.dumps'
    """
    return f"{function.__module__}.{function.__qualname__}"


def args_to_key(
    base: tuple[Any, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    typed: bool,
    ignore: Iterable[Any],
) -> tuple[Any, ...]:
    """Return the key of a call.

    Args:
        base: What the key begins with.
        args, kwargs: The arguments of the call.
        typed: Whether arguments of different types make different keys.
        ignore: Positions and names of arguments that make no difference.

    Example:
        >>> args_to_key(("f",), (1,), {"b": 2, "a": 3}, False, ())
        ('f', 1, None, 'a', 3, 'b', 2)
    """
    positional = [arg for place, arg in enumerate(args) if place not in ignore]
    named = sorted((name, arg) for name, arg in kwargs.items() if name not in ignore)
    key = [*base, *positional, None]
    for pair in named:
        key += pair
    if typed:
        key += [type(arg) for arg in positional]
        key += [type(arg) for _, arg in named]
    return tuple(key)


def memoizer(
    cache: Any,
    name: Optional[str],
    typed: bool,
    expire: Optional[float],
    tag: Any,
    ignore: Iterable[Any],
) -> Callable[[_F], _F]:
    """Return the decorator that `Cache.memoize` returns.

    Raises:
        TypeError: The name is a function.
    """
    if callable(name):
        raise TypeError("name must be a str: write @cache.memoize() with parentheses")

    def decorate(function: _F) -> _F:
        base = (full_name(function) if name is None else name,)

        def cache_key(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
            """Return the key of a call."""
            return args_to_key(base, args, kwargs, typed, ignore)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            key = cache_key(*args, **kwargs)
            result = cache.get(key, default=ENOVAL, retry=True)
            if result is ENOVAL:
                result = function(*args, **kwargs)
                if expire is None or expire > 0:
                    cache.set(key, result, expire, tag=tag, retry=True)
            return result

        wrapper.__cache_key__ = cache_key  # type: ignore[attr-defined]
        return wrapper  # type: ignore[return-value]

    return decorate
