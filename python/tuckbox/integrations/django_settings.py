"""Django's settings for a Tuckbox cache.

Validates the settings, and derives the path of the file and the secrets. Opens no file.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.crypto import salted_hmac

from tuckbox.errors import InvalidArgument
from tuckbox.integrations.handles import OpenOptions, validate
from tuckbox.places import Place, is_name, private_folder

__all__ = ["Configuration", "read_settings", "secrets"]

_PARAMS = ("TIMEOUT", "OPTIONS", "KEY_PREFIX", "VERSION", "KEY_FUNCTION")
_CREATION_OPTIONS = ("size", "max_entries", "favour", "after_power_cut", "evict")
_OPEN_OPTIONS = (*_CREATION_OPTIONS, "lock_timeout", "group")
_OPTIONS = (*_OPEN_OPTIONS, "on_error", "pickle", "MAX_ENTRIES", "CULL_FREQUENCY")
_ON_ERROR = ("log", "raise")
_PICKLE = ("signed", "never")
_CULL_FREQUENCY = 3
_SALT = "tuckbox.integrations.django"


class Configuration(NamedTuple):
    """Valid settings of one cache."""

    open_options: OpenOptions
    """The arguments of `Cache`."""
    folder: Optional[Path]
    """The private directory of the file; None if LOCATION is an absolute path."""
    max_entries: Optional[int]
    """Django's MAX_ENTRIES: storing one more culls entries. None is no limit."""
    cull_frequency: int
    """Culling removes one entry in this many, or all of them if it is 0."""
    raises: bool
    """Whether an operation raises if the cache fails, instead of logging the failure."""


def read_settings(location: object, params: Mapping[str, Any]) -> Configuration:
    """Validate the settings of one cache.

    Args:
        location: LOCATION; "" if it is not set.
        params: All other settings except BACKEND.

    Returns:
        The settings, with types checked and the path of the file.

    Raises:
        ImproperlyConfigured: A setting is unknown or invalid, or SECRET_KEY is required but not
            set.
    """
    options = params.get("OPTIONS") or {}
    _refuse_unknown("CACHES", params, _PARAMS)
    _refuse_unknown("OPTIONS", options, _OPTIONS)
    if params.get("TIMEOUT") is not None:
        _int("TIMEOUT", params["TIMEOUT"])
    pickles = _choice("pickle", options.get("pickle", "signed"), _PICKLE) == "signed"
    raises = _choice("on_error", options.get("on_error", "log"), _ON_ERROR) == "raise"
    for name in _OPEN_OPTIONS:
        if not isinstance(options.get(name), (int, float, str, type(None))):
            raise ImproperlyConfigured(
                f"{name} in OPTIONS of a Tuckbox cache cannot be {options[name]!r}"
            )
    path, folder = _place(location)
    if folder is not None and options.get("group") is not None:
        raise ImproperlyConfigured(
            "group in OPTIONS of a Tuckbox cache needs an absolute path as LOCATION: a name is "
            "a file in a directory that only one user can enter"
        )
    given = {name: options[name] for name in _OPEN_OPTIONS if name in options}
    if pickles:
        given.update(pickle="signed", secret=secrets)
    open_options = OpenOptions(path, **given)
    try:
        validate(open_options)
    except InvalidArgument as error:
        raise ImproperlyConfigured(f"OPTIONS of a Tuckbox cache: {error}") from error
    culling = _culling(options)
    return Configuration(open_options, folder, *culling, raises=raises)


def secrets() -> tuple[bytes, ...]:
    """Return what signs pickles, derived from SECRET_KEY and SECRET_KEY_FALLBACKS.

    Raises:
        ImproperlyConfigured: SECRET_KEY is not set.
    """
    return _secrets((settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


@functools.lru_cache(maxsize=8)
def _secrets(keys: tuple[str | bytes, ...]) -> tuple[bytes, ...]:
    return tuple(_derived("pickle", key) for key in keys)


def _derived(purpose: str, secret: str | bytes | None = None) -> bytes:
    """Derive 32 bytes for one purpose from a secret, by default SECRET_KEY."""
    derived: bytes = salted_hmac(_SALT, purpose, secret, algorithm="sha256").digest()
    return derived


def _place(location: object) -> Place:
    if not isinstance(location, (str, os.PathLike)):
        kind = type(location).__name__
        raise ImproperlyConfigured(f"LOCATION of a Tuckbox cache must be one path, not {kind}")
    place = os.fspath(location)
    if not isinstance(place, str):
        place = os.fsdecode(place)
    if Path(place).is_absolute():
        return Place(place, None)
    name = place or "default"
    if not is_name(name):
        raise ImproperlyConfigured(
            f"LOCATION of a Tuckbox cache must be an absolute path, or a name of letters, digits, "
            f"'.', '_' and '-', not {place!r}: a relative path would depend on the directory in "
            "which each process was started"
        )
    folder = private_folder()
    # Keeps the caches of two projects apart that use the same name.
    project = _derived("location").hex()[:16]
    return Place(os.fspath(folder / f"{name}-{project}.tuck"), folder)


def _culling(options: Mapping[str, Any]) -> tuple[int | None, int]:
    frequency = _int("CULL_FREQUENCY", options.get("CULL_FREQUENCY", _CULL_FREQUENCY))
    if frequency < 0:
        raise ImproperlyConfigured(
            f"CULL_FREQUENCY in OPTIONS of a Tuckbox cache must not be negative, got {frequency}"
        )
    if "MAX_ENTRIES" not in options:
        return None, frequency
    if options.get("max_entries") is not None:
        raise ImproperlyConfigured(
            "OPTIONS of a Tuckbox cache has both MAX_ENTRIES and max_entries; give one: "
            "MAX_ENTRIES culls as Django does, max_entries evicts one entry for each new one"
        )
    max_entries = _int("MAX_ENTRIES", options["MAX_ENTRIES"])
    if max_entries < 1:
        raise ImproperlyConfigured(
            f"MAX_ENTRIES in OPTIONS of a Tuckbox cache must be positive, not {max_entries}"
        )
    return max_entries, frequency


def _choice(name: str, given: Any, choices: tuple[str, ...]) -> object:
    if given not in choices:
        raise ImproperlyConfigured(
            f"{name} in OPTIONS of a Tuckbox cache must be one of {_listed(choices)}, not {given!r}"
        )
    return given


def _int(name: str, given: object) -> int:
    try:
        return int(given)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        raise ImproperlyConfigured(
            f"{name} of a Tuckbox cache must be an int, not {given!r}"
        ) from None


def _refuse_unknown(where: str, given: Iterable[str], known: Iterable[str]) -> None:
    unknown = sorted(set(given) - set(known), key=str)
    if unknown:
        raise ImproperlyConfigured(
            f"{where} of a Tuckbox cache has unknown names: {_listed(unknown)}; valid names are "
            f"{_listed(known)}"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
