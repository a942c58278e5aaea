"""What an operation of Django's backend does if the cache fails: OPTIONS["on_error"].

Knows what each operation returns, but not how it works.
"""

from __future__ import annotations

import functools
import inspect
import logging
from typing import Any, Callable, TypeVar, cast

from tuckbox.errors import (
    CacheClosed,
    CacheFileError,
    CacheLost,
    InvalidSize,
    KeyTooLong,
    LockTimeout,
    ValueTooLarge,
)

__all__ = ["FAILURES", "failed", "not_found", "operation"]

# The settings were validated, so InvalidSize means that the file system is too small.
FAILURES = (CacheClosed, CacheFileError, InvalidSize, LockTimeout, ValueTooLarge, KeyTooLong)
"""Failures of the cache, as opposed to mistakes of the program."""

_Operation = TypeVar("_Operation", bound=Callable[..., Any])

_log = logging.getLogger("tuckbox.integrations.django")


def operation(function: _Operation) -> _Operation:
    """Wrap a method of the backend, for the case that the cache fails.

    If the handle lost its file for good, or other code closed it, the operation is repeated with a
    new one. A failure that remains is raised if the backend ``_raises``. Otherwise it is logged,
    and the operation behaves as if there were no entry and none could be stored.
    """
    takes_keys = "keys" in inspect.signature(function).parameters

    @functools.wraps(function)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if takes_keys:
            # An iterator would be exhausted when the operation is repeated.
            args = (*map(list, args[:1]), *args[1:])
            kwargs |= {name: list(kwargs[name]) for name in kwargs if name == "keys"}
        try:
            return function(self, *args, **kwargs)
        except FAILURES as failure:
            remaining = failure
        if isinstance(remaining, (CacheClosed, CacheLost)):
            try:
                self._reopen(remaining)
                return function(self, *args, **kwargs)
            except FAILURES as failure:
                remaining = failure
        return failed(self, function.__name__, remaining, *args, **kwargs)

    return cast("_Operation", wrapper)


def failed(backend: Any, name: str, failure: Exception, *args: Any, **kwargs: Any) -> Any:
    """Return what an operation returns if the cache fails, and log it, or raise the failure.

    Args:
        backend: The backend, which says which of the two.
        name: The name of the operation.
        failure: One of `FAILURES`.
        *args: The arguments of the operation.
        **kwargs: Its other arguments.
    """
    if backend._raises:  # noqa: SLF001 - Of this package.
        raise failure
    path = backend._open_options.path  # noqa: SLF001 - Of this package.
    _log.error("%s: %s failed: %s", path, name, failure)
    return _ANSWERS[name](*args, **kwargs)


def not_found(key: object) -> ValueError:
    """Return the exception of a counter that has no value."""
    return ValueError(f"Key '{key}' not found")


def _no(*_: object, **__: object) -> bool:
    return False


def _nothing(*_: object, **__: object) -> None:
    return None


def _nothing_found(*_: object, **__: object) -> dict[Any, Any]:
    return {}


def _default(*args: Any, **kwargs: Any) -> Any:
    return kwargs["default"] if "default" in kwargs else (*args, None, None)[1]


def _all_keys(*args: Any, **kwargs: Any) -> list[Any]:
    return list(args[0] if args else kwargs["data"])


def _no_counter(*args: Any, **kwargs: Any) -> None:
    raise not_found(args[0] if args else kwargs["key"])


_ANSWERS: dict[str, Callable[..., Any]] = {
    "get": _default,
    "get_many": _nothing_found,
    "has_key": _no,
    "set": _nothing,
    "add": _no,
    "touch": _no,
    "delete": _no,
    "incr": _no_counter,
    "set_many": _all_keys,
    "delete_many": _nothing,
    "clear": _nothing,
}
