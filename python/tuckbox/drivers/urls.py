"""The parts of a server's URL. No message about a wrong URL repeats it: it may have a password."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, NamedTuple, Optional
from urllib.parse import parse_qsl, unquote, urlsplit

from tuckbox.errors import InvalidArgument

__all__ = ["Url", "as_bool", "host_and_port", "parse"]


class Url(NamedTuple):
    """The parts of a URL, decoded."""

    scheme: str
    user: Optional[str]
    password: Optional[str]
    hosts: list[str]
    """As ``host`` or ``host:port``; several if the URL has commas."""
    path: str
    options: dict[str, Any]
    """The options of the query that were given, converted."""


def parse(url: str, schemes: Mapping[str, str], known: Mapping[str, Callable[[str], Any]]) -> Url:
    """Return the parts of a URL.

    Args:
        url: The URL.
        schemes: Each scheme with an example of its URLs.
        known: What converts each option of the query.

    Raises:
        InvalidArgument: The scheme or an option is unknown, or an option has a wrong value.

    Example:
        >>> parse("redis://:secret@host:1/2?db=3", {"redis": "redis://host"}, {"db": int}).hosts
        ['host:1']
    """
    examples = ", ".join(schemes.values())
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidArgument(f"the URL of the server is wrong: {error}; {examples}") from None
    if parts.scheme not in schemes:
        raise InvalidArgument(f"the scheme {parts.scheme!r} is not known here; {examples}")
    login, _, hosts = parts.netloc.rpartition("@")
    user, has_password, password = login.partition(":")
    options = {}
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        if name not in known:
            names = ", ".join(known)
            raise InvalidArgument(f"the URL has an unknown option {name!r}; use one of: {names}")
        try:
            options[name] = known[name](text)
        except ValueError:
            raise InvalidArgument(f"the URL's option {name!r} has a wrong value {text!r}") from None
    return Url(
        parts.scheme,
        unquote(user) or None,
        unquote(password) if has_password else None,
        [unquote(host) for host in hosts.split(",") if host],
        unquote(parts.path),
        options,
    )


def as_bool(text: str) -> bool:
    """Convert ``1``, ``true``, ``0`` or ``false``."""
    try:
        return {"1": True, "true": True, "0": False, "false": False}[text.lower()]
    except KeyError:
        raise ValueError(text) from None


def host_and_port(text: str, port: int) -> tuple[str, int]:
    """Return the parts of ``host``, ``host:port`` or ``[::1]:port``.

    Raises:
        InvalidArgument: The port is not a number.

    Example:
        >>> host_and_port("[::1]:7000", 1), host_and_port("cache", 1)
        (('::1', 7000), ('cache', 1))
    """
    host, colon, digits = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, digits = text, str(port)
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits) < 1 << 16):
        raise InvalidArgument(f"{text!r} has a wrong port; give host:port, such as host:{port}")
    return host.strip("[]"), int(digits)
