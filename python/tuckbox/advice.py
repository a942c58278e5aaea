"""What to say to a user who calls a parameter by the name that it has in another cache."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, TypeVar, cast

__all__ = ["explains_names", "hides_others", "unexpected"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_NAMES = {
    "ttl": "duration ex exp expiration expiration_time expire expire_after expires expires_in "
    "expiry exptime lifetime max_age seconds time timeout",
    "path": "cache_dir database db directory dir file filename folder location name url",
    "size": "bytes capacity map_size max_bytes max_memory max_size maxbytes maxmemory maxsize "
    "memory size_bytes size_limit",
    "max_entries": "capacity count_limit max_items max_keys max_size maxlen maxsize threshold",
    "favour": "favor",
    "delta": "amount by increment step",
    "default": "initial initial_value",
    "version": "cas cas_token cas_unique token",
    "lock_timeout": "block_timeout timeout",
    "read_only": "readonly",
    "tags": "label labels tag",
    "tag": "label tags",
    "stale": "grace stale_ttl stale_while_revalidate swr",
    "keep_ttl": "keepttl",
    "prefix": "match pattern startswith",
}
"""Parameters, and what other caches call them."""
_OPERATIONS = {
    ("set", "nx"): "add",
    ("set", "xx"): "replace",
    ("get", "expire_time"): "get_entry",
    ("get", "tag"): "get_entry",
    ("get", "ex"): "get_and_touch",
    ("get", "ttl"): "get_and_touch",
}
"""What does the work of a parameter that an operation does not have."""
_POLICIES = {"eviction", "eviction_policy", "policy"}
_NO_POLICIES = (
    "there is one eviction policy, which adapts itself; favour='hits' or 'bytes' changes its goal"
)


def unexpected(function: Callable[..., object], name: str) -> str:
    """Return the message of the TypeError for an unknown keyword argument.

    Args:
        function: The function that was called; a method.
        name: The name that the user gave.

    Returns:
        Python's own message, and what the parameter is called here.

    Example:
        >>> from tuckbox import Cache
        >>> unexpected(Cache.set, "expire").split("; ")[1]
        "it is called 'ttl'"
    """
    shown = "Cache" if function.__name__ == "__init__" else function.__name__
    known = [
        name
        for name, one in inspect.signature(function).parameters.items()
        if name != "self" and one.kind is not one.VAR_KEYWORD
    ]
    theirs = name.lower()
    hints = []
    if same := [repr(ours) for ours in known if theirs in _NAMES.get(ours, "").split()]:
        hints.append(f"it is called {' or '.join(same)}")
    if shown == "Cache" and theirs in ("ttl", "default_timeout", *_NAMES["ttl"].split()):
        hints.append("entries expire by the ttl of each operation: set(key, value, ttl=60)")
    if shown == "Cache" and theirs in _POLICIES:
        hints.append(_NO_POLICIES)
    if operation := _OPERATIONS.get((shown, theirs)):
        hints.append(f"use {operation}()")
    if not hints:
        # Here, because importing it takes longer than importing this package's other modules.
        import difflib  # noqa: PLC0415

    if not hints and (close := difflib.get_close_matches(name, known, n=1)):
        hints.append(f"did you mean {close[0]!r}?")
    if not hints:
        hints.append(f"its parameters are {', '.join(known)}")
    return "; ".join([f"{shown}() got an unexpected keyword argument {name!r}", *hints])


def explains_names(function: _Function) -> _Function:
    """Let a function refuse unknown keyword arguments with `unexpected`. Its signature is kept."""
    known = frozenset(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in known:
                raise TypeError(unexpected(function, name))
        return function(*args, **kwargs)

    return cast("_Function", checked)


def hides_others(function: _Function) -> _Function:
    """Leave ``**others`` out of the signature of a function that refuses them with `unexpected`.

    For operations that a wrapper would make too slow.
    """
    signature = inspect.signature(function)
    shown = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    function.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return function
