"""`connect`: a cache by the URL of the place that holds its entries.

Owns which scheme is which class. Imports a driver, and so its client library, when it is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional, SupportsIndex, Union
from urllib.parse import parse_qsl, unquote, urlsplit

from tuckbox.advice import explains_names
from tuckbox.compression import Algorithm
from tuckbox.errors import InvalidArgument
from tuckbox.objects import Codec, Pickle
from tuckbox.signing import SecretArgument

if TYPE_CHECKING:
    from tuckbox.cache import Cache
else:
    # Where the extension is missing, that class is, too.
    Cache = Any

__all__ = ["connect"]

_DRIVERS = {
    "file": ("files", "Files"),
    "mariadb": ("sql", "Sql"),
    "memcached": ("memcached", "Memcached"),
    "mongodb": ("mongodb", "Mongodb"),
    "mysql": ("sql", "Sql"),
    "null": ("null", "Null"),
    "postgresql": ("sql", "Sql"),
    "redis": ("redis", "Redis"),
    "rediss": ("redis", "Redis"),
    "sqlite": ("sql", "Sql"),
    "unix": ("redis", "Redis"),
}
"""Of each scheme, the module and the class of its driver."""
_LOCAL = ("shared", "memory")
_EXAMPLES = (
    "shared:pages, shared:///var/cache/app.tuck?size=1GB, memory:pages, redis://10.0.0.1, "
    "memcached://10.0.0.1, file:///var/cache/app, sqlite:////var/cache/app.db"
)


@explains_names
def connect(
    url: str,
    *,
    prefix: str = "tuckbox",
    lease_s: float = 30.0,
    read_only: bool = False,
    pickle: Pickle = "never",
    secret: Optional[SecretArgument] = None,
    codec: Union[Codec, Iterable[Codec], None] = None,
    compress: Union[float, str, SupportsIndex, None] = None,
    compressor: Algorithm = "zstd",
) -> Cache:
    """Return a cache whose entries are at a URL, with the operations of `tuckbox.Cache`.

    Args:
        url: The place. Options of the place go into its query, such as ``?timeout_s=0.2``:

            - ``shared:pages`` is ``Cache("pages")``, ``shared:///path`` a file,
              ``shared:`` a private cache; ``?size=1GB&max_entries=1000``.
            - ``memory:pages`` is in this process.
            - ``redis://user:password@host:6379/0``, ``rediss://`` with TLS, ``unix:///socket``:
              Redis or Valkey.
            - ``memcached://host:11211,other:11211``: memcached.
            - ``file:///path``: a folder of files.
            - ``sqlite:////path``, ``postgresql://...``, ``mysql://...`` or ``mariadb://...``: a
              table.
            - ``mongodb://host/database``: MongoDB.
            - ``null://`` keeps nothing.
        prefix: What the keys of this program begin with at a place that others may use too. Not
            for ``shared`` and ``memory``.
        lease_s: For how many seconds a maker has its key, at such a place.
        read_only: As for `tuckbox.Cache`, as are the others.
        pickle: ``"private"`` is for ``shared`` and ``memory`` alone.
        secret: As for `tuckbox.Cache`.
        codec: As for `tuckbox.Cache`.
        compress: As for `tuckbox.Cache`.
        compressor: As for `tuckbox.Cache`.

    Returns:
        The cache. It connects when it is first used, and `close` ends the connections.

    Raises:
        InvalidArgument: The URL, or another argument, is wrong.
        ClientMissing: The client library of the place is not installed; the message has the
            command to run.

    Example:
        >>> cache = connect("shared:pages?size=64MB")
        >>> cache.set("user:42", "Ada")
        >>> connect("shared:pages").get("user:42")
        'Ada'
    """
    given: object = url
    if not isinstance(given, str):
        raise InvalidArgument(f"url must be a str such as 'redis://10.0.0.1', not {given!r}")
    how: dict[str, Any] = {
        "read_only": read_only,
        "pickle": pickle,
        "secret": secret,
        "codec": codec,
        "compress": compress,
        "compressor": compressor,
    }
    scheme = url.partition(":")[0]
    if scheme in _LOCAL:
        return _local(url, how)
    # SQLAlchemy's URLs may name the client: postgresql+psycopg://...
    kind = scheme.partition("+")[0]
    if kind not in _DRIVERS:
        raise InvalidArgument(f"the scheme {scheme!r} is not known; use one of: {_EXAMPLES}")
    from tuckbox.remote.cache import Cache as Remote  # noqa: PLC0415 - Only if it is asked for.

    module, name = _DRIVERS[kind]
    driver = getattr(importlib.import_module(f"tuckbox.drivers.{module}"), name).from_url(url)
    return Remote(driver, prefix, lease_s=lease_s, **how)  # type: ignore[return-value] # As typed.


def _local(url: str, how: dict[str, Any]) -> Cache:
    parts = urlsplit(url)
    if parts.netloc or (parts.path.startswith("/") and not url.startswith(f"{parts.scheme}:///")):
        raise InvalidArgument(
            f"{url!r} names no cache; write {parts.scheme}:name, or shared:///path"
        )
    for option, text in parse_qsl(parts.query, keep_blank_values=True):
        if option == "max_entries" and text.isdecimal():
            how[option] = int(text)
        elif option in {"size", "favour", "after_power_cut", "group"}:
            how[option] = text
        else:
            raise InvalidArgument(
                f"{url!r} has an unknown option {option!r}, or a wrong value of it"
            )
    kind: Any
    if parts.scheme == "memory":
        from tuckbox.memory import Cache as kind  # noqa: N813, PLC0415 - As above.
    else:
        from tuckbox import Cache as kind  # noqa: N813, PLC0415
    return kind(unquote(parts.path) or None, **how)  # type: ignore[no-any-return]
