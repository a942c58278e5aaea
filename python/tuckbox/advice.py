"""What to say to a user who calls a parameter by the name that it has in another cache."""

from __future__ import annotations

import difflib
import functools
import inspect
from typing import Any, Callable, TypeVar, cast

__all__ = ["explains_names", "unexpected"]

_Function = TypeVar("_Function", bound=Callable[..., None])

# Our parameter, what to know about it, and what other caches call it.
_NAMES: tuple[tuple[str, str, str], ...] = (
    (
        "ttl",
        " (seconds or a timedelta)",
        "duration ex exp expiration expire expire_in expires expires_in expiry exptime lifetime "
        "max_age px seconds time time_to_live timeout",
    ),
    ("delta", "", "amount by increment step value"),
    ("default", "", "initial initial_value start"),
    (
        "path",
        " (the path of a file, or a name)",
        "cache_dir database db dir directory file filename folder location name root url",
    ),
    (
        "size",
        ' (bytes, or text such as "256 MB")',
        "byte_limit bytes capacity limit map_size max_bytes max_memory max_size maxbytes maxmemory "
        "maxsize memory memory_limit size_bytes size_limit",
    ),
    (
        "max_entries",
        "",
        "capacity count count_limit limit max_count max_items max_keys max_len max_length "
        "max_size maxlen maxsize",
    ),
    (
        "favour",
        ' ("balanced", "hits" or "bytes")',
        "evict eviction eviction_policy favor policy strategy",
    ),
    ("lock_timeout", " (seconds that a write waits)", "block_timeout timeout wait"),
    ("read_only", "", "readonly ro"),
    ("group", "", "gid group_id group_name"),
)
_LIFETIMES = next(theirs for ours, _, theirs in _NAMES if ours == "ttl")
# Names that stand for another operation.
_OTHERWISE: dict[str, dict[str, str]] = {
    "Cache": dict.fromkeys(
        ["default_timeout", "default_ttl", "ttl", *_LIFETIMES.split()],
        "each operation that stores has its own ttl: set(key, value, ttl=60)",
    )
    | {"timeout": "lock_timeout limits how long a write waits; set(key, value, ttl=60) expires"},
    "set": {
        "nx": "use add(), which stores only if the key has no value",
        "xx": "use replace(), which stores only if the key has a value",
        "cas": "use cas(), which stores only if the version is still the given one",
        "version": "use cas(), which stores only if the version is still the given one",
    },
    "get": {
        "expire_time": "use get_entry(), which also returns the expiry",
        "version": "use get_entry(), which also returns the version",
    },
}


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
        "it is called 'ttl' (seconds or a timedelta)"
    """
    shown = "Cache" if function.__name__ == "__init__" else function.__name__
    known = [one for one in inspect.signature(function).parameters if one != "self"]
    return f"{shown}() got an unexpected keyword argument {name!r}; {_hint(shown, known, name)}"


def _hint(shown: str, known: list[str], name: str) -> str:
    sentence = _OTHERWISE.get(shown, {}).get(name.lower())
    if sentence is not None:
        return sentence
    same = [
        f"{ours!r}{about}"
        for ours, about, theirs in _NAMES
        if ours in known and name.lower() in theirs.split()
    ]
    if same:
        return f"it is called {' or '.join(same)}"
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"its parameters are {', '.join(known)}"


def explains_names(function: _Function) -> _Function:
    """Let a function refuse unknown keyword arguments with `unexpected`. Its signature is kept."""
    known = frozenset(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> None:
        for name in kwargs:
            if name not in known:
                raise TypeError(unexpected(function, name))
        function(*args, **kwargs)

    return cast("_Function", checked)
