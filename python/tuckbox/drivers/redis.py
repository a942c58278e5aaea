"""`Redis`: a driver for Redis and Valkey servers, through redis-py."""

from __future__ import annotations

import hashlib
import importlib
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Callable, NamedTuple, Optional, TypeVar, Union

from tuckbox.brief import refuse_if_brief
from tuckbox.drivers.contract import Capabilities, Changed, Found, Version
from tuckbox.drivers.urls import as_bool, host_and_port, parse
from tuckbox.errors import (
    CacheClosed,
    ClientMissing,
    InvalidArgument,
    Refused,
    TuckboxError,
    Unreachable,
    ValueTooLarge,
)

__all__ = ["VALUE_BYTES_MAX", "Redis", "RedisWatch"]

VALUE_BYTES_MAX = (512 << 20) - 8
"""The server's own limit, less the version in front of each value."""

_VERSION_BYTES = 8
_TTL_MS_MAX = 1 << 53
_PAGE = 1000


class _Script(NamedTuple):
    text: str
    sha: str


def _script(text: str) -> _Script:
    return _Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


_SWAP = _script(
    "if redis.call('GETRANGE', KEYS[1], 0, 7) ~= ARGV[1] then return 0 end "
    "redis.call('SET', KEYS[1], ARGV[2], unpack(ARGV, 3)) return 1"
)
_DELETE = _script(
    "if redis.call('GETRANGE', KEYS[1], 0, 7) ~= ARGV[1] then return 0 end "
    "return redis.call('UNLINK', KEYS[1])"
)
# A value and its ttl must be read at one moment, or the ttl may be that of a later value.
_GET_WITH_TTL = _script(
    "local told = {} for _, key in ipairs(KEYS) do "
    "told[#told + 1] = redis.call('MGET', key)[1] told[#told + 1] = redis.call('PTTL', key) end "
    "return told"
)

_SCHEMES = {
    "redis": "redis://user:password@host:6379/0",
    "rediss": "rediss://host:6379/0 for TLS",
    "unix": "unix:///path/of/socket?database=0",
}
_OPTIONS: dict[str, Callable[[str], Any]] = {
    "database": int,
    "timeout_s": float,
    "tells_ttl": as_bool,
    "value_bytes_max": int,
    "tls_ca_file": str,
    "tls_cert_file": str,
    "tls_key_file": str,
}
_ADVICE = {
    "AuthenticationError": "give the user and password of the server",
    "AuthenticationWrongNumberOfArgsError": "leave out the user: the server knows only passwords",
    "NoPermissionError": "let its ACL allow @read, @write, @scripting and SCAN on these keys",
    "ReadOnlyError": "give the address of the primary, because this server is a replica",
    "BusyLoadingError": "try again when the server has loaded its data",
    "OutOfMemoryError": "raise its maxmemory, or set its maxmemory-policy to allkeys-lru",
    "MovedError": "give a server that is not part of a cluster",
    "MISCONF": "the server cannot save: free its disk, or turn its snapshots off",
    "NOAUTH": "give the user and password of the server",
    "WRONGTYPE": "give a database that no other program uses",
}


class _Held:
    """A connection of the pool that a thread keeps, which is faster than to ask for it each time.

    It goes back when the thread ends. In a forked child it is left alone: it is the parent's.
    """

    __slots__ = ("_pool", "connection", "pid")

    def __init__(self, pool: Any) -> None:  # noqa: ANN401 - redis-py may be missing.
        self._pool = pool
        self.pid = os.getpid()
        self.connection = pool.get_connection()

    def __del__(self) -> None:
        if hasattr(self, "connection") and self.pid == os.getpid():
            self._pool.release(self.connection)


class Redis:
    """Entries on a Redis or Valkey server, as plain strings.

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
        client: A `redis.Redis` to use instead of all these, such as that of a Sentinel. It must
            not decode replies. Its connections are not closed here.

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
        client: Any = None,  # noqa: ANN401 - A redis.Redis; redis-py may be missing.
    ) -> None:
        try:
            library: Any = importlib.import_module("redis")
        except ImportError:
            raise ClientMissing(
                'the redis driver needs redis-py; run: pip install "tuckbox[redis]"'
            ) from None
        self._errors = library.exceptions
        self._is_own = client is None
        if client is None:
            where: dict[str, Any] = {"host": host, "port": port}
            if path is not None:
                where = {"unix_socket_path": path}
            elif tls:
                where |= {
                    "ssl": True,
                    "ssl_check_hostname": True,
                    "ssl_ca_certs": tls_ca_file,
                    "ssl_certfile": tls_cert_file,
                    "ssl_keyfile": tls_key_file,
                }
            client = library.Redis(
                **where,
                db=database,
                username=user,
                password=password,
                socket_timeout=timeout_s,
                socket_connect_timeout=timeout_s,
                max_connections=1 << 31,
                protocol=2,
                # An add whose reply was lost would return False if it were sent again.
                retry=library.retry.Retry(library.backoff.NoBackoff(), 0),
            )
        self._pool: Any = getattr(client, "connection_pool", None)
        self._of_thread = threading.local()
        if self._pool is None or self._pool.get_encoder().decode_responses:
            raise InvalidArgument(
                f"client is a {type(client).__name__} that this driver cannot use; "
                "give a redis.Redis with decode_responses=False"
            )
        known = self._pool.connection_kwargs
        self._title = f"redis at {known.get('path') or '{host}:{port}'.format_map(known)}"
        self._is_open = True
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
            url: ``redis://user:password@host:6379/0``, ``rediss://...`` for TLS, or
                ``unix:///path/of/socket?database=0``.
            **options: Other arguments of the class. The URL's come first.

        Raises:
            InvalidArgument: The URL is wrong. The message does not contain it.

        Example:
            >>> Redis.from_url("redis://:secret@10.0.0.1/1?timeout_s=0.2").title
            'redis at 10.0.0.1:6379'
        """
        parts = parse(url, _SCHEMES, _OPTIONS)
        options |= parts.options
        options |= {"user": parts.user} if parts.user else {}
        options |= {"password": parts.password} if parts.password is not None else {}
        if len(parts.hosts) > 1:
            raise InvalidArgument("the URL has several hosts; give one, or a Sentinel's client")
        if parts.scheme == "unix":
            return cls(path=parts.path, **options)
        if number := parts.path.strip("/"):
            if not (number.isascii() and number.isdigit()):
                raise InvalidArgument(f"the URL's database {number!r} is not a number")
            options.setdefault("database", int(number))
        host, port = host_and_port((parts.hosts or ["localhost"])[0], 6379)
        return cls(host, port, tls=parts.scheme == "rediss", **options)

    @property
    def capabilities(self) -> Capabilities:
        """See `Driver.capabilities`."""
        return self._capabilities

    @property
    def title(self) -> str:
        """See `Driver.title`."""
        return self._title

    # --- Talking -------------------------------------------------------------------------------

    def _send(self, *commands: Sequence[object]) -> list[Any]:
        """Send commands in one round trip. Return their replies; an error may be among them."""
        refuse_if_brief()
        if not self._is_open:
            raise CacheClosed("this driver is closed; open it again to use it")
        try:
            # Taken away meanwhile: a signal handler that uses the driver gets another one.
            held = vars(self._of_thread).pop("held", None)
            if held is None or held.pid != os.getpid():
                held = _Held(self._pool)
            else:
                self._ensure_usable(held.connection)
            connection = held.connection
            try:
                if len(commands) == 1:
                    # Quicker: this is not written in Python.
                    packed = connection.pack_command(*commands[0])
                else:
                    packed = connection.pack_commands(commands)
                connection.send_packed_command(packed, check_health=False)
                return [self._reply(connection) for _ in commands]
            except BaseException:
                # The rest of a reply must not answer the next command.
                connection.disconnect()
                raise
            finally:
                self._of_thread.held = held
        except MemoryError:
            raise
        except Exception as error:  # A wrong server can break the parser anywhere.
            raise self._converted(error) from error

    def _ensure_usable(self, connection: Any) -> None:  # noqa: ANN401 - As above.
        """Connect, or connect again if the server has closed the connection. As the pool does."""
        try:
            connection.connect()
            is_usable = not connection.can_read()
        except (self._errors.ConnectionError, self._errors.TimeoutError, OSError):
            is_usable = False
        if not is_usable:
            connection.disconnect()
            connection.connect()

    def _reply(self, connection: Any) -> Any:  # noqa: ANN401 - What redis-py has read.
        try:
            return connection.read_response()
        except self._errors.ResponseError as error:
            return error

    def _converted(self, error: Exception) -> TuckboxError:
        words = str(error).split(" ", 1)
        advice = _ADVICE.get(type(error).__name__) or _ADVICE.get(words[0])
        if advice or isinstance(error, self._errors.ResponseError):
            then = f"; {advice}" if advice else ""
            return Refused(f"{self._title} refuses: {error}{then}")
        if isinstance(error, (self._errors.ConnectionError, self._errors.TimeoutError, OSError)):
            return Unreachable(
                f"{self._title} does not answer: {error}; check that it runs, and the address"
            )
        return self._nonsense(error)

    def _nonsense(self, what: object) -> Unreachable:
        return Unreachable(
            f"{self._title} does not answer as a Redis server: {what!r:.200}; check the address"
        )

    def _ask(
        self, *commands: Sequence[object], kind: Union[type, tuple[type, ...]] = int
    ) -> list[Any]:
        """Send commands in one round trip and return their replies, which are of this kind."""
        replies = self._send(*commands)
        for reply in replies:
            if isinstance(reply, Exception):
                raise self._converted(reply) from reply
            if not isinstance(reply, kind):
                raise self._nonsense(reply)
        return replies

    def _run(self, script: _Script, keys: Sequence[bytes], *rest: object) -> object:
        """Run a script, and send it whole if the server does not know it."""
        (reply,) = self._send(("EVALSHA", script.sha, len(keys), *keys, *rest))
        if isinstance(reply, self._errors.NoScriptError):
            (reply,) = self._send(("EVAL", script.text, len(keys), *keys, *rest))
        if isinstance(reply, Exception):
            raise self._converted(reply) from reply
        return reply

    def _stored(self, value: bytes) -> bytes:
        longest = self._capabilities.value_bytes_max
        if longest is not None and len(value) > longest:
            raise ValueTooLarge(
                f"the value has {len(value):,} bytes, but {self._title} takes {longest:,}; "
                "store it in parts, or compress it"
            )
        return os.urandom(_VERSION_BYTES) + value

    # --- Operations ----------------------------------------------------------------------------

    def get(self, key: bytes) -> Optional[Found]:
        """See `Driver.get`."""
        if self._capabilities.tells_ttl:
            return self.get_many([key]).get(key)
        (values,) = self._ask(("MGET", key), kind=list)
        value = values[0] if len(values) == 1 else values
        if value is None:
            return None
        if not isinstance(value, bytes):
            raise self._nonsense(value)
        if len(value) < _VERSION_BYTES:
            return None
        return Found(value[_VERSION_BYTES:], value[:_VERSION_BYTES])

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Found]:
        """See `Driver.get_many`."""
        if not keys:
            return {}
        if self._capabilities.tells_ttl:
            told = self._run(_GET_WITH_TTL, keys)
            values, ttls = (told[::2], told[1::2]) if isinstance(told, list) else (told, [])
        else:
            # MGET, also for one key: it takes a key of another type for a missing one.
            (values,) = self._ask(("MGET", *keys), kind=list)
            ttls = [-1] * len(keys)
        if not isinstance(values, list) or not len(values) == len(ttls) == len(keys):
            raise self._nonsense(values)
        found = {}
        for key, value, ttl_ms in zip(keys, values, ttls):
            if value is None:
                continue
            if not isinstance(value, bytes):
                raise self._nonsense(value)
            if len(value) >= _VERSION_BYTES:
                ttl_s = None if ttl_ms < 0 else ttl_ms / 1000
                found[key] = Found(value[_VERSION_BYTES:], value[:_VERSION_BYTES], ttl_s)
        return found

    def set(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> None:
        """See `Driver.set`."""
        self.set_many([(key, value, ttl_s)])

    def set_many(self, items: Iterable[tuple[bytes, bytes, Optional[float]]]) -> None:
        """See `Driver.set_many`."""
        commands = [("SET", key, self._stored(value), *_px(ttl_s)) for key, value, ttl_s in items]
        if commands:
            self._ask(*commands, kind=bytes)

    def add(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> bool:
        """See `Driver.add`."""
        command = ("SET", key, self._stored(value), "NX", *_px(ttl_s))
        return self._ask(command, kind=(bytes, type(None)))[0] is not None

    def swap(self, key: bytes, value: bytes, ttl_s: Optional[float], version: Version) -> bool:
        """See `Driver.swap`."""
        return self._run(_SWAP, [key], version, self._stored(value), *_px(ttl_s)) == 1

    def delete(self, key: bytes, version: Optional[Version] = None) -> bool:
        """See `Driver.delete`."""
        if version is not None:
            return self._run(_DELETE, [key], version) == 1
        return self.delete_many([key]) == 1

    def delete_many(self, keys: Iterable[bytes]) -> int:
        """See `Driver.delete_many`."""
        keys = list(keys)
        count: int = self._ask(("UNLINK", *keys))[0] if keys else 0
        return count

    def touch(self, key: bytes, ttl_s: Optional[float]) -> bool:
        """See `Driver.touch`."""
        if ttl_s is not None:
            return bool(self._ask(("PEXPIRE", key, _ms(ttl_s)))[0])
        # PERSIST returns 0 also for a value that has no ttl.
        return bool(self._ask(("PERSIST", key), ("EXISTS", key))[1])

    def _pages(self, prefix: bytes) -> Iterator[list[bytes]]:
        pattern = b"".join(b"\\" + bytes([b]) if b in b"*?[]\\" else bytes([b]) for b in prefix)
        cursor = b"0"
        while True:
            command = ("SCAN", cursor, "MATCH", pattern + b"*", "COUNT", _PAGE)
            (reply,) = self._ask(command, kind=list)
            if len(reply) != 2 or not isinstance(reply[1], list):  # noqa: PLR2004
                raise self._nonsense(reply)
            cursor, keys = reply
            yield keys
            if cursor == b"0":
                return

    def scan(self, prefix: bytes) -> Iterator[bytes]:
        """See `Driver.scan`. Keeps the keys that it has returned, because SCAN repeats some."""
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
        if self._ask(("PING",), kind=bytes) != [b"PONG"]:
            raise self._nonsense("the reply to PING is not PONG")

    def watch(self, prefix: bytes, changed: Changed) -> RedisWatch:
        """See `Watchable.watch`. Needs Redis 6 or Valkey."""
        known = {**self._pool.connection_kwargs, "protocol": 3}
        return RedisWatch(self._pool.connection_class(**known), prefix, changed, self._converted)

    def close(self) -> None:
        """See `Driver.close`."""
        if self._is_open:
            self._is_open = False
            # Gives back the connections of all threads.
            self._of_thread = threading.local()
            if self._is_own:
                self._pool.disconnect()


class _Message(NamedTuple):
    """A message about keys that changed, as the server sent it."""

    parts: Sequence[Any]


_Self = TypeVar("_Self", bound="RedisWatch")


class RedisWatch:
    """A `Watch`: client-side caching of Redis, in broadcasting mode, on one connection.

    https://redis.io/docs/latest/develop/reference/client-side-caching/. The server sends messages
    and replies in the order of what they are about, so the reply to PING comes after the messages
    about all earlier changes.

    Args:
        connection: A connection of redis-py for protocol 3, not connected yet. Closed with this.
        prefix: The beginning of the keys.
        changed: See `Watchable.watch`.
        converted: Makes an error of ours from one of redis-py.

    Example:
        >>> with driver.watch(b"app", print) as watch:
        ...     driver.set(b"app:1", b"new", None)
        ...     watch.confirm()
        [b'app:1']
    """

    def __init__(
        self,
        connection: Any,  # noqa: ANN401 - redis-py may be missing.
        prefix: bytes,
        changed: Changed,
        converted: Callable[[Exception], TuckboxError],
    ) -> None:
        self._connection = connection
        self._changed = changed
        self._converted = converted
        with self._talking():
            connection.connect()
            # No other way to its messages. What the handler raised would be lost there.
            connection._parser.set_invalidation_push_handler(_Message)  # noqa: SLF001
            connection.send_command("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", prefix)
            self._read_reply(b"OK")

    def wait(self, seconds: float) -> None:
        """See `Watch.wait`."""
        ends_s = time.monotonic() + seconds
        with self._talking():
            while self._connection.can_read(max(0.0, ends_s - time.monotonic())):
                self._read()

    def confirm(self) -> None:
        """See `Watch.confirm`."""
        with self._talking():
            self._connection.send_command("PING", check_health=False)
            self._read_reply(b"PONG")

    def _read_reply(self, wanted: bytes) -> None:
        while (reply := self._read()) is None:
            pass
        if reply != wanted:
            raise ConnectionError(f"{reply!r:.100} is no reply to this command")

    def _read(self) -> object:
        """Read a reply and return it, or a message and tell it."""
        read = self._connection.read_response(push_request=True)
        if not isinstance(read, _Message):
            return read
        keys = read.parts[1] if len(read.parts) > 1 else None
        self._changed(keys if isinstance(keys, list) else None)
        return None

    @contextmanager
    def _talking(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.close()
            if isinstance(error, (MemoryError, TuckboxError)) or not isinstance(error, Exception):
                raise
            raise self._converted(error) from error

    def close(self) -> None:
        """See `Watch.close`."""
        self._connection.disconnect()

    def __enter__(self: _Self) -> _Self:  # noqa: PYI019 - Self is not in Python 3.9.
        """See `Watch`."""
        return self

    def __exit__(self, *_: object) -> None:
        """See `Watch`."""
        self.close()


def _ms(ttl_s: float) -> int:
    return max(1, int(min(ttl_s * 1000, _TTL_MS_MAX)))


def _px(ttl_s: Optional[float]) -> tuple[object, ...]:
    return () if ttl_s is None else ("PX", _ms(ttl_s))
