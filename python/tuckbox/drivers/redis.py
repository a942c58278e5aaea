"""`Redis`: a driver for Redis and Valkey servers, through redis-py."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable, NamedTuple, Optional, Union, cast

from tuckbox.drivers.contract import Capabilities, Changed, Found, Version
from tuckbox.drivers.redis_cluster import Cluster
from tuckbox.drivers.redis_nodes import (
    Command,
    Node,
    converted,
    exchange,
    library,
    nonsense,
)
from tuckbox.drivers.redis_routes import Closed, Route, Sentinels, Single
from tuckbox.drivers.redis_watch import RedisWatch
from tuckbox.drivers.urls import as_bool, host_and_port, parse
from tuckbox.errors import InvalidArgument, ValueTooLarge

__all__ = ["VALUE_BYTES_MAX", "Redis"]

VALUE_BYTES_MAX = (512 << 20) - 8
"""The server's own limit, less the version in front of each value."""

_VERSION_BYTES = 8
_TTL_MS_MAX = 1 << 53
_PAGE = b"1000"


class _Script(NamedTuple):
    text: bytes
    sha: bytes


def _script(text: bytes) -> _Script:
    return _Script(text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode())


_SWAP = _script(
    b"if redis.call('GETRANGE', KEYS[1], 0, 7) ~= ARGV[1] then return 0 end "
    b"redis.call('SET', KEYS[1], ARGV[2], unpack(ARGV, 3)) return 1"
)
_DELETE = _script(
    b"if redis.call('GETRANGE', KEYS[1], 0, 7) ~= ARGV[1] then return 0 end "
    b"return redis.call('UNLINK', KEYS[1])"
)
# A value and its ttl must be read at one moment, or the ttl may be that of a later value.
_GET_WITH_TTL = _script(
    b"local told = {} for _, key in ipairs(KEYS) do "
    b"told[#told + 1] = redis.call('MGET', key)[1] told[#told + 1] = redis.call('PTTL', key) end "
    b"return told"
)

_SCHEMES = {
    "redis": "redis://user:password@host:6379/0",
    "rediss": "rediss://host:6379/0 for TLS",
    "unix": "unix:///path/of/socket?database=0",
    "redis+sentinel": "redis+sentinel://sentinel:26379,other:26379/service/0",
    "rediss+sentinel": "rediss+sentinel://... for TLS",
    "redis+cluster": "redis+cluster://host:7000,other:7001",
    "rediss+cluster": "rediss+cluster://... for TLS",
}
_OPTIONS: dict[str, Callable[[str], Any]] = {
    "database": int,
    "timeout_s": float,
    "tells_ttl": as_bool,
    "value_bytes_max": int,
    "tls_ca_file": str,
    "tls_cert_file": str,
    "tls_key_file": str,
    "sentinel_user": str,
    "sentinel_password": str,
}


class Redis:
    """Entries on a Redis or Valkey server, or in a cluster of them, as plain strings.

    The driver puts eight random bytes in front of each value: its version. Other programs that use
    the same database must leave the driver's keys alone. Connections open when they are needed.

    Args:
        host: The server's name or address.
        port: Its port.
        path: Its Unix socket, instead of host and port.
        database: The number of the database. `clear` of an empty prefix empties it.
        user: The user, if the server has users.
        password: The password.
        tls: Whether to use TLS. Checks the server's certificate and name.
        tls_ca_file: Certificates to trust, instead of the system's.
        tls_cert_file: The client's own certificate.
        tls_key_file: The key of that certificate.
        timeout_s: How long to wait for a connection, and for each part of a reply.
        tells_ttl: Whether `get` also asks for the ttl. This makes a get about a quarter slower.
        value_bytes_max: The longest value, if the server allows less than 512 MB.
        sentinels: Sentinels that name the server, each as ``host`` or ``host:port``, instead of
            host and port. After a failover they name the new primary.
        service: What the sentinels call the server.
        sentinel_user: The user at the sentinels.
        sentinel_password: The password at the sentinels.
        cluster: Some servers of a cluster, each as ``host`` or ``host:port``, instead of host and
            port. User, password and TLS are for all.
        client: A `redis.Redis` to use instead of all these. It must not decode replies. Its
            connections are not closed here.

    Raises:
        ClientMissing: redis-py is not installed.

    Example:
        >>> driver = Redis(path="/run/redis/redis.sock", database=1)
        >>> driver.title
        'redis at /run/redis/redis.sock'
    """

    def __init__(
        self,
        host: str = "localhost",
        port: int = 6379,
        *,
        path: Optional[str] = None,
        database: int = 0,
        user: Optional[str] = None,
        password: Optional[str] = None,
        tls: bool = False,
        tls_ca_file: Optional[str] = None,
        tls_cert_file: Optional[str] = None,
        tls_key_file: Optional[str] = None,
        timeout_s: float = 1.0,
        tells_ttl: bool = False,
        value_bytes_max: int = VALUE_BYTES_MAX,
        sentinels: Sequence[str] = (),
        service: Optional[str] = None,
        sentinel_user: Optional[str] = None,
        sentinel_password: Optional[str] = None,
        cluster: Sequence[str] = (),
        client: Any = None,  # noqa: ANN401 - A redis.Redis; redis-py may be missing.
    ) -> None:
        redis = library()
        limits: dict[str, Any] = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
        limits |= {"protocol": 2, "max_connections": 1 << 31}
        # An add whose reply was lost would return False if it were sent again.
        limits["retry"] = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
        if tls:
            limits |= {
                "ssl": True,
                "ssl_check_hostname": True,
                "ssl_ca_certs": tls_ca_file,
                "ssl_certfile": tls_cert_file,
                "ssl_keyfile": tls_key_file,
            }
        options = {**limits, "db": database, "username": user, "password": password}
        self._route: Route
        if client is not None:
            pool = getattr(client, "connection_pool", None)
            if pool is None or pool.get_encoder().decode_responses:
                raise InvalidArgument(
                    f"client is a {type(client).__name__} that this driver cannot use; "
                    "give a redis.Redis with decode_responses=False"
                )
            self._route = Single(Node(client, is_own=False))
        elif cluster:
            if database:
                raise InvalidArgument("a cluster has only database 0; leave out the database")
            self._route = Cluster(
                [host_and_port(one, 6379) for one in cluster],
                lambda at: Node(redis.Redis(host=at[0], port=at[1], **options)),
                redis.crc.key_slot,
                redis.exceptions,
            )
        elif sentinels:
            if not service:
                raise InvalidArgument(
                    "the sentinels need the name of the service; "
                    f"give it as in {_SCHEMES['redis+sentinel']}"
                )
            manager = redis.sentinel.Sentinel(
                [host_and_port(one, 26379) for one in sentinels],
                sentinel_kwargs=limits | {"username": sentinel_user, "password": sentinel_password},
            )
            title = f"redis {service} by the sentinels at {', '.join(sentinels)}"
            node = Node(manager.master_for(service, **options), title)
            self._route = Sentinels(node, manager, service)
        else:
            where = {"host": host, "port": port} if path is None else {"unix_socket_path": path}
            self._route = Single(Node(redis.Redis(**where, **options)))
        self._capabilities = Capabilities(
            between_processes=True,
            between_machines=True,
            persists=True,
            scans=True,
            tells_ttl=tells_ttl,
            value_bytes_max=value_bytes_max,
            tells_changes=True,
        )

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Redis:  # noqa: ANN401 - Those of the class.
        """Return a driver for a URL. Its query may have options of the class.

        Args:
            url: ``redis://user:password@host:6379/0``, or ``unix:///path/of/socket?database=0``.
                ``redis+sentinel://user:password@sentinel:26379,other/service/0`` is the primary
                that sentinels name; they get ``?sentinel_user=`` and ``sentinel_password``.
                ``redis+cluster://user:password@host:7000,other:7001`` is a cluster, by some of its
                servers. ``rediss``, ``rediss+sentinel`` and ``rediss+cluster`` use TLS.
            **options: Other arguments of the class. The URL's come first.

        Raises:
            InvalidArgument: The URL is wrong. The message does not contain it.

        Example:
            >>> Redis.from_url("redis://:secret@10.0.0.1/1?timeout_s=0.2").title
            'redis at 10.0.0.1:6379'
            >>> Redis.from_url("redis+sentinel://:secret@10.0.0.1,10.0.0.2/pages").title
            'redis pages by the sentinels at 10.0.0.1, 10.0.0.2'
            >>> Redis.from_url("redis+cluster://10.0.0.1:7000,10.0.0.2:7000").title
            'redis cluster at 10.0.0.1:7000, 10.0.0.2:7000'
        """
        parts = parse(url, _SCHEMES, _OPTIONS)
        options |= parts.options
        options |= {"user": parts.user} if parts.user else {}
        options |= {"password": parts.password} if parts.password is not None else {}
        if parts.scheme == "unix":
            return cls(path=parts.path, **options)
        scheme, _, kind = parts.scheme.partition("+")
        options["tls"] = scheme == "rediss"
        hosts = parts.hosts or ["localhost"]
        path = parts.path.strip("/")
        if kind == "sentinel":
            options["sentinels"] = hosts
            options["service"], _, path = path.partition("/")
        if path:
            if not (path.isascii() and path.isdigit()):
                raise InvalidArgument(f"the URL's database {path!r} is not a number")
            options.setdefault("database", int(path))
        if kind == "sentinel":
            return cls(**options)
        if kind == "cluster":
            return cls(cluster=hosts, **options)
        if len(hosts) > 1:
            raise InvalidArgument(
                "the URL has several hosts; give one, or use redis+sentinel:// or redis+cluster://"
            )
        return cls(*host_and_port(hosts[0], 6379), **options)

    @property
    def capabilities(self) -> Capabilities:
        """See `Driver.capabilities`."""
        return self._capabilities

    @property
    def title(self) -> str:
        """See `Driver.title`."""
        return self._route.title

    # --- Talking -------------------------------------------------------------------------------

    def _ask(
        self,
        commands: Sequence[Command],
        keys: Sequence[bytes],
        kind: Union[type, tuple[type, ...]] = int,
    ) -> list[Any]:
        """Send commands, each to the server of its key. Return the replies, of this kind."""
        return self._checked(self._route.send(commands, keys), kind)

    def _checked(self, replies: list[Any], kind: Union[type, tuple[type, ...]]) -> list[Any]:
        for reply in replies:
            if isinstance(reply, Exception):
                raise converted(self.title, reply) from reply
            if not isinstance(reply, kind):
                raise nonsense(self.title, reply)
        return replies

    def _run(self, script: _Script, groups: Sequence[Sequence[bytes]], *rest: bytes) -> list[Any]:
        """Run a script for groups of keys, and send it whole to servers that do not know it."""

        def send(chosen: list[int], verb: bytes, what: bytes) -> list[Any]:
            commands = [(verb, what, b"%d" % len(groups[i]), *groups[i], *rest) for i in chosen]
            return self._route.send(commands, [groups[i][0] for i in chosen])

        replies = send([*range(len(groups))], b"EVALSHA", script.sha)
        missing = library().exceptions.NoScriptError
        again = [index for index, reply in enumerate(replies) if isinstance(reply, missing)]
        if again:
            for index, reply in zip(again, send(again, b"EVAL", script.text)):
                replies[index] = reply
        return self._checked(replies, object)

    def _stored(self, value: bytes) -> bytes:
        longest = self._capabilities.value_bytes_max
        if longest is not None and len(value) > longest:
            raise ValueTooLarge(
                f"the value has {len(value):,} bytes, but {self.title} takes {longest:,}; "
                "store it in parts, or compress it"
            )
        return os.urandom(_VERSION_BYTES) + value

    # --- Operations ----------------------------------------------------------------------------

    def get(self, key: bytes) -> Optional[Found]:
        """See `Driver.get`."""
        if self._capabilities.tells_ttl:
            return self.get_many([key]).get(key)
        (values,) = self._ask([(b"MGET", key)], [key], list)
        value = values[0] if len(values) == 1 else values
        if value is None:
            return None
        if not isinstance(value, bytes):
            raise nonsense(self.title, value)
        if len(value) < _VERSION_BYTES:
            return None
        return Found(value[_VERSION_BYTES:], value[:_VERSION_BYTES])

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Found]:
        """See `Driver.get_many`."""
        if not keys:
            return {}
        groups = self._route.groups(keys)
        if self._capabilities.tells_ttl:
            replies = self._checked(self._run(_GET_WITH_TTL, groups), list)
            told = [one for reply in replies for one in reply]
            values, ttls = told[::2], told[1::2]
        else:
            # MGET, also for one key: it takes a key of another type for a missing one.
            commands: list[Command] = [(b"MGET", *group) for group in groups]
            replies = self._ask(commands, [group[0] for group in groups], list)
            values = [one for reply in replies for one in reply]
            ttls = [-1] * len(keys)
        if not len(values) == len(ttls) == len(keys):
            raise nonsense(self.title, values)
        found = {}
        for key, value, ttl_ms in zip(keys, values, ttls):
            if value is None:
                continue
            if not isinstance(value, bytes):
                raise nonsense(self.title, value)
            if len(value) >= _VERSION_BYTES:
                ttl_s = None if ttl_ms < 0 else ttl_ms / 1000
                found[key] = Found(value[_VERSION_BYTES:], value[:_VERSION_BYTES], ttl_s)
        return found

    def set(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> None:
        """See `Driver.set`."""
        self.set_many([(key, value, ttl_s)])

    def set_many(self, items: Iterable[tuple[bytes, bytes, Optional[float]]]) -> None:
        """See `Driver.set_many`."""
        given = list(items)
        commands = [(b"SET", key, self._stored(value), *_px(ttl_s)) for key, value, ttl_s in given]
        if commands:
            self._ask(commands, [key for key, _, _ in given], bytes)

    def add(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> bool:
        """See `Driver.add`."""
        command = (b"SET", key, self._stored(value), b"NX", *_px(ttl_s))
        return self._ask([command], [key], (bytes, type(None)))[0] is not None

    def swap(self, key: bytes, value: bytes, ttl_s: Optional[float], version: Version) -> bool:
        """See `Driver.swap`."""
        rest = cast("bytes", version), self._stored(value), *_px(ttl_s)
        return self._run(_SWAP, [[key]], *rest) == [1]

    def delete(self, key: bytes, version: Optional[Version] = None) -> bool:
        """See `Driver.delete`."""
        if version is not None:
            return self._run(_DELETE, [[key]], cast("bytes", version)) == [1]
        return self.delete_many([key]) == 1

    def delete_many(self, keys: Iterable[bytes]) -> int:
        """See `Driver.delete_many`."""
        keys = list(keys)
        if not keys:
            return 0
        groups = self._route.groups(keys)
        commands = [(b"UNLINK", *group) for group in groups]
        return sum(self._ask(commands, [group[0] for group in groups]))

    def touch(self, key: bytes, ttl_s: Optional[float]) -> bool:
        """See `Driver.touch`."""
        if ttl_s is not None:
            return bool(self._ask([(b"PEXPIRE", key, _ms(ttl_s))], [key])[0])
        # PERSIST returns 0 also for a value that has no ttl.
        return bool(self._ask([(b"PERSIST", key), (b"EXISTS", key)], [key, key])[1])

    def _pages(self, prefix: bytes) -> Iterator[list[bytes]]:
        pattern = b"".join(b"\\" + bytes([b]) if b in b"*?[]\\" else bytes([b]) for b in prefix)
        for node in self._route.primaries():
            cursor = b""
            while cursor != b"0":
                command = (b"SCAN", cursor or b"0", b"MATCH", pattern + b"*", b"COUNT", _PAGE)
                (reply,) = self._checked(exchange([(node, [command])])[0], list)
                if len(reply) != 2 or not isinstance(reply[1], list):  # noqa: PLR2004
                    raise nonsense(self.title, reply)
                cursor, keys = reply
                yield keys

    def scan(self, prefix: bytes) -> Iterator[bytes]:
        """See `Driver.scan`. Keeps the keys that it has returned, because SCAN repeats some.

        In a cluster, it may miss a key whose slot migrates meanwhile.
        """
        seen: set[bytes] = set()
        for keys in self._pages(prefix):
            new = dict.fromkeys(key for key in keys if key not in seen)
            seen.update(new)
            yield from new

    def clear(self, prefix: bytes) -> None:
        """See `Driver.clear`."""
        for keys in self._pages(prefix):
            self.delete_many(keys)

    def ping(self) -> None:
        """See `Driver.ping`."""
        pings: list[tuple[Node, Sequence[Command]]] = [
            (node, [(b"PING",)]) for node in self._route.primaries()
        ]
        for replies in exchange(pings):
            if self._checked(replies, bytes) != [b"PONG"]:
                raise nonsense(self.title, "the reply to PING is not PONG")

    def watch(self, prefix: bytes, changed: Changed) -> RedisWatch:
        """See `Watchable.watch`. Needs Redis 6 or Valkey; on each server that takes writes."""
        connections, check = self._route.watched()
        return RedisWatch(self.title, connections, prefix, changed, check)

    def close(self) -> None:
        """See `Driver.close`."""
        route, self._route = self._route, Closed(self.title)
        route.close()


def _ms(ttl_s: float) -> bytes:
    return b"%d" % max(1, min(ttl_s * 1000, _TTL_MS_MAX))


def _px(ttl_s: Optional[float]) -> tuple[bytes, ...]:
    return () if ttl_s is None else (b"PX", _ms(ttl_s))
