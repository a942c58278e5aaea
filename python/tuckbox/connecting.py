"""`connect`: a cache by the URLs of its tiers, or of the one place that holds its entries.

Owns which scheme is which class. Imports a driver, and so its client library, when it is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional, SupportsIndex, Union
from urllib.parse import parse_qsl, unquote, urlsplit

from tuckbox.advice import explains_names
from tuckbox.choices import OnOutage, Writes
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
_NEAR = {"memory": ("memory_first", "MemoryFirst"), "shared": ("shared_first", "SharedFirst")}
"""Of each scheme of a near tier, the module and the class."""
_EXAMPLES = (
    "shared:pages, shared:///var/cache/app.tuck?size=1GB, memory:pages, redis://10.0.0.1, "
    "memcached://10.0.0.1, file:///var/cache/app, sqlite:////var/cache/app.db"
)


@explains_names
def connect(
    *urls: str,
    max_stale: float = 5.0,
    on_outage: OnOutage = "miss",
    tracking: bool = True,
    writes: Writes = "around",
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

    With several URLs, each is a tier in front of the next one: reads ask the nearest first, and
    leave copies there; ``writes`` go to the last. All but the last are ``shared`` or ``memory``.

    Args:
        *urls: The places, nearest first. Options of a place go into its query, such as
            ``?timeout_s=0.2``:

            - ``shared:pages`` is ``Cache("pages")``, ``shared:///path`` a file,
              ``shared:`` a private cache; ``?size=1GB&max_entries=1000&local=32MB``.
            - ``memory:pages`` is in this process.
            - ``redis://user:password@host:6379/0``, ``rediss://`` with TLS, ``unix:///socket``:
              Redis or Valkey. ``redis+sentinel://user:password@sentinel,other/service/0`` is the
              primary that sentinels name (``?sentinel_password=``), and
              ``redis+cluster://user:password@host,other`` a cluster, by some of its servers;
              ``rediss+...`` with TLS.
            - ``memcached://host:11211,other:11211``: memcached.
            - ``file:///path``: a folder of files.
            - ``sqlite:////path``, ``postgresql://...``, ``mysql://...`` or ``mariadb://...``: a
              table.
            - ``mongodb://host/database``: MongoDB.
            - ``null://`` keeps nothing.
        max_stale: With several tiers: how many seconds a copy may be older than the last tier.
            Redis and Valkey tell what changes, usually within milliseconds, and then this is for
            when the connection is lost. At the other places every copy ends after it.
        on_outage: With several tiers: what reads do that need a tier which does not answer.
            ``"miss"`` (the default) is a miss, ``"serve"`` serves copies of any age, and
            ``"raise"`` raises its `tuckbox.errors.DriverError`. Writes always raise it.
        tracking: With several tiers: whether Redis and Valkey tell what changes. If false, every
            copy ends after ``max_stale``, as at other places: better where many processes write
            much.
        writes: With several tiers: what `set` and `set_many` do. Operations with an answer, such as
            `add`, `incr` and `delete`, always write around.

            - ``"around"`` (the default): the last tier stores, and the copy before it is removed.
            - ``"through"``: a copy is left. Not where the last tier tells what changes.
            - ``"behind"``: they return at once, and a thread sends the values soon after. This
              process reads them meanwhile. They are lost if it is killed before: see `flush`.
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
        >>> tiers = connect("shared:near?size=64MB", "redis://10.0.0.1")
        >>> tiers.get_or_set("report", lambda: [1, 2, 3], ttl=60)
        [1, 2, 3]
    """
    for given in urls:
        checked: object = given
        if not isinstance(checked, str):
            kind = type(given).__name__  # The URL may have a password.
            raise InvalidArgument(f"a URL must be a str such as 'redis://10.0.0.1', not {kind}")
    if not urls:
        raise InvalidArgument("connect needs at least one URL, such as 'redis://10.0.0.1'")
    *nearer, last = urls
    if writes != "around" and not nearer:
        raise InvalidArgument(
            f"writes={writes!r} is about a near tier; give one before the URL, such as shared:pages"
        )
    for url in nearer:
        if url.partition(":")[0] not in _LOCAL:
            scheme = url.partition(":")[0]
            raise InvalidArgument(
                f"a {scheme} URL can only be the last one; before it, give shared: or memory:"
            )
    how: dict[str, Any] = {
        "read_only": read_only,
        "pickle": pickle,
        "secret": secret,
        "codec": codec,
        "compress": compress,
        "compressor": compressor,
    }
    cache = _last(last, prefix, lease_s, how)
    if not nearer:
        return cache
    # A copy is stored whoever may write: writes go to the last tier, which refuses them.
    how |= {
        "read_only": False,
        "max_stale": max_stale,
        "on_outage": on_outage,
        "tracking": tracking,
        "writes": writes,
    }
    try:
        for url in reversed(nearer):
            module, name = _NEAR[url.partition(":")[0]]
            kind = getattr(importlib.import_module(f"tuckbox.tiers.{module}"), name)
            cache = _local(url, {**how, "far": cache}, kind)
            # Those before it do what it does.
            how["writes"] = "around"
    except BaseException:
        cache.close()
        raise
    return cache


def _last(url: str, prefix: str, lease_s: float, how: dict[str, Any]) -> Cache:
    scheme = url.partition(":")[0]
    if scheme in _LOCAL:
        return _local(url, dict(how))
    # SQLAlchemy's URLs may name the client: postgresql+psycopg://...
    kind = scheme.partition("+")[0]
    if kind not in _DRIVERS:
        raise InvalidArgument(f"the scheme {scheme!r} is not known; use one of: {_EXAMPLES}")
    from tuckbox.drivers.breaker import Breaker  # noqa: PLC0415 - As above.
    from tuckbox.remote.cache import Cache as Remote  # noqa: PLC0415 - As above.

    module, name = _DRIVERS[kind]
    driver = getattr(importlib.import_module(f"tuckbox.drivers.{module}"), name).from_url(url)
    driver = Breaker(driver)
    return Remote(driver, prefix, lease_s=lease_s, **how)  # type: ignore[return-value] # As typed.


def _local(url: str, how: dict[str, Any], kind: Any = None) -> Cache:
    parts = urlsplit(url)
    if parts.netloc or (parts.path.startswith("/") and not url.startswith(f"{parts.scheme}:///")):
        raise InvalidArgument(
            f"{url!r} names no cache; write {parts.scheme}:name, or shared:///path"
        )
    for option, text in parse_qsl(parts.query, keep_blank_values=True):
        if option == "max_entries" and text.isdecimal():
            how[option] = int(text)
        elif option in {"evict", "ordered"} and text in {"true", "false"}:
            how[option] = text == "true"
        elif option in {"size", "favour", "after_power_cut", "group"} or (
            option == "local" and parts.scheme == "shared"
        ):
            how[option] = text
        else:
            raise InvalidArgument(
                f"{url!r} has an unknown option {option!r}, or a wrong value of it"
            )
    if kind is None:
        # As above: only if it is asked for.
        kind = importlib.import_module(
            {"memory": "tuckbox.memory", "shared": "tuckbox"}[parts.scheme]
        )
        kind = kind.Cache
    return kind(path=unquote(parts.path) or None, **how)  # type: ignore[no-any-return]
