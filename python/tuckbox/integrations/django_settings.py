"""What Django's settings say of a cache in a Tuckbox file.

Owns the names of the settings, what is refused, where the file lies, and what signs. Opens nothing.
"""

from __future__ import annotations

import functools
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.crypto import salted_hmac

from tuckbox.errors import AccessDenied, DirectoryMissing
from tuckbox.integrations.carriers import Carriers
from tuckbox.integrations.handles import Way

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Configuration", "carriers", "make_private", "read_settings"]

_PARAMS = ("TIMEOUT", "OPTIONS", "KEY_PREFIX", "VERSION", "KEY_FUNCTION")
_WAY_OPTIONS = ("size", "max_entries", "favour", "lock_timeout", "group")
_OPTIONS = (*_WAY_OPTIONS, "pickle", "MAX_ENTRIES", "CULL_FREQUENCY")
_PICKLE = ("signed", "never")
_CULL_FREQUENCY = 3
_MEMORY = Path("/dev/shm")  # noqa: S108 - What is made there is private: see `make_private`.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_SALT = "tuckbox.integrations.django"


class Configuration(NamedTuple):
    """Settings that make sense."""

    way: Way
    """How the file is opened."""
    folder: Path | None
    """The private folder that the file lies in; None if it lies where LOCATION says."""
    max_entries: int | None
    """Django's limit: with so many entries, a new one makes others go. None if there is none."""
    cull_frequency: int
    """One entry in so many goes then; with 0 every one."""
    pickles: bool
    """Whether what is no plain value is pickled and signed."""


def read_settings(location: object, params: Mapping[str, Any]) -> Configuration:
    """Make sense of the settings of one cache.

    Args:
        location: LOCATION; "" if it is not set.
        params: All others but BACKEND.

    Raises:
        ImproperlyConfigured: A setting is not known or makes no sense, or SECRET_KEY is needed and
            not set.
    """
    options = params.get("OPTIONS") or {}
    _refuse_unknown("CACHES", params, _PARAMS)
    _refuse_unknown("OPTIONS", options, _OPTIONS)
    if params.get("TIMEOUT") is not None:
        _int("TIMEOUT", params["TIMEOUT"])
    pickle = options.get("pickle", "signed")
    if pickle not in _PICKLE:
        raise ImproperlyConfigured(
            f"pickle in OPTIONS of a Tuckbox cache must be one of {_listed(_PICKLE)}, "
            f"not {pickle!r}"
        )
    for name in _WAY_OPTIONS:
        if not isinstance(options.get(name), (int, float, str, type(None))):
            raise ImproperlyConfigured(
                f"{name} in OPTIONS of a Tuckbox cache cannot be {options[name]!r}"
            )
    path, folder = _place(location)
    if folder is not None and options.get("group") is not None:
        raise ImproperlyConfigured(
            "group in OPTIONS of a Tuckbox cache needs an absolute path as LOCATION: what has a "
            "name lies in a folder that one user alone can enter"
        )
    way = Way(path, **{name: options[name] for name in _WAY_OPTIONS if name in options})
    return Configuration(way, folder, *_culling(options), pickles=pickle == "signed")


def make_private(folder: Path) -> None:
    """Make a folder that nobody else can enter, or prove that it is one.

    Raises:
        AccessDenied: Somebody else can enter it, or has made something else of its name.
        DirectoryMissing: There is no place for it on this machine.
        OSError: The system refused.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileNotFoundError as error:
        message = f"there is no {folder.parent} on this machine; give LOCATION an absolute path"
        raise DirectoryMissing(error.errno, message, os.fspath(folder)) from None
    except FileExistsError:
        found = folder.lstat()
        is_private = (
            stat.S_ISDIR(found.st_mode)
            and found.st_uid == os.geteuid()
            and not stat.S_IMODE(found.st_mode) & 0o077
        )
        if not is_private:
            message = (
                f"{folder} is not a folder that only this user can enter (mode 0700); remove it if "
                "you know how it came there, or give LOCATION an absolute path"
            )
            raise AccessDenied(None, message, os.fspath(folder)) from None


def carriers(*, pickles: bool) -> Carriers:
    """Return what carries objects, under the keys that SECRET_KEY and its fallbacks give now.

    Raises:
        ImproperlyConfigured: SECRET_KEY is needed and not set.
    """
    if not pickles:
        return _carriers(())
    return _carriers((settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


@functools.lru_cache(maxsize=8)
def _carriers(secrets: tuple[str | bytes, ...]) -> Carriers:
    return Carriers([_derived("pickle", secret) for secret in secrets])


def _derived(purpose: str, secret: str | bytes | None = None) -> bytes:
    """Derive 32 bytes from SECRET_KEY, or another secret, which serve this purpose alone."""
    derived: bytes = salted_hmac(_SALT, purpose, secret, algorithm="sha256").digest()
    return derived


def _place(location: object) -> tuple[str, Path | None]:
    if not isinstance(location, (str, os.PathLike)):
        kind = type(location).__name__
        raise ImproperlyConfigured(f"LOCATION of a Tuckbox cache must be one path, not a {kind}")
    place = os.fspath(location)
    if not isinstance(place, str):
        place = os.fsdecode(place)
    if Path(place).is_absolute():
        return place, None
    name = place or "default"
    if not _NAME.fullmatch(name):
        raise ImproperlyConfigured(
            f"LOCATION of a Tuckbox cache must be an absolute path, or a name of letters, digits, "
            f"'.', '_' and '-', not {place!r}: what a relative path means depends on the directory "
            "that each process was started in"
        )
    folder = _MEMORY / f"tuckbox-{os.geteuid()}"
    # Two projects may well choose one name; two projects with one SECRET_KEY are one.
    project = _derived("location").hex()[:16]
    return os.fspath(folder / f"{name}-{project}.tuck"), folder


def _culling(options: Mapping[str, Any]) -> tuple[int | None, int]:
    frequency = _int("CULL_FREQUENCY", options.get("CULL_FREQUENCY", _CULL_FREQUENCY))
    if frequency < 0:
        raise ImproperlyConfigured(f"CULL_FREQUENCY in OPTIONS must not be negative: {frequency}")
    if "MAX_ENTRIES" not in options:
        return None, frequency
    if options.get("max_entries") is not None:
        raise ImproperlyConfigured(
            "OPTIONS has MAX_ENTRIES and max_entries; give one: with MAX_ENTRIES the cache culls "
            "as Django's do, with max_entries an old entry goes for each new one"
        )
    max_entries = _int("MAX_ENTRIES", options["MAX_ENTRIES"])
    if max_entries < 1:
        raise ImproperlyConfigured(f"MAX_ENTRIES in OPTIONS must be positive, not {max_entries}")
    return max_entries, frequency


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
            f"{where} of a Tuckbox cache has {_listed(unknown)}, which it does not know; it knows "
            f"{_listed(known)}"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
