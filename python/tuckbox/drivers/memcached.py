"""`Memcached`: a driver for one or several memcached servers, through pymemcache."""

from __future__ import annotations

import binascii
import collections
import hashlib
import importlib
import math
import os
import re
import select
import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import methodcaller
from typing import Any, Callable, NamedTuple, NoReturn, Optional, TypeVar, Union, cast

from tuckbox.brief import refuse_if_brief
from tuckbox.drivers.contract import Capabilities, Found, Version
from tuckbox.drivers.urls import as_bool, host_and_port, parse
from tuckbox.errors import (
    CacheClosed,
    ClientMissing,
    InvalidArgument,
    Refused,
    TuckboxError,
    Unreachable,
    Unsupported,
    ValueTooLarge,
)

__all__ = ["VALUE_BYTES_MAX", "Memcached", "key_at_server", "server_of"]

VALUE_BYTES_MAX = (1 << 20) - 512
"""What fits into a server's item of 1 MB, its default, with the longest key."""

FLAGS = 0x7CB0
"""The flags of values that this driver stored. It takes others for missing."""

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_PLAIN_KEY = re.compile(rb"[\x21-\x7d][\x21-\x7e]{0,249}")
_RELATIVE_S_MAX = 30 * 24 * 3600
_MOMENT_MAX = (1 << 31) - 1
# A server answers while it reads: with more, both sides could wait for the other to read.
_BATCH = 1000

_T = TypeVar("_T")
_Server = Union[str, tuple[str, int]]
_SCHEMES = {"memcached": "memcached://user:password@host:11211,other:11211"}
_OPTIONS: dict[str, Callable[[str], Any]] = {
    "timeout_s": float,
    "value_bytes_max": int,
    "tls": as_bool,
    "tls_ca_file": str,
    "tls_cert_file": str,
    "tls_key_file": str,
}


def key_at_server(key: bytes) -> bytes:
    """Return the name under which a key is stored.

    A key of 1 to 250 visible ASCII characters that does not begin with ``~`` is its own name. Any
    other is ``~`` and the BLAKE2b digest of the key, 32 bytes in URL-safe base64 without padding.
    This rule never changes: another one would lose all entries.

    Example:
        >>> key_at_server(b"user:42"), key_at_server(b"two words")
        (b'user:42', b'~eqkpx2EalxJpdH9wi05Jf_50jyaYTm2I24SJxS3oBnU')
    """
    if _PLAIN_KEY.fullmatch(key):
        return key
    digest = hashlib.blake2b(key, digest_size=32).digest()
    # Quicker than `base64.urlsafe_b64encode`.
    return b"~" + binascii.b2a_base64(digest).translate(_URL_SAFE, b"=\n")


def server_of(name: bytes, titles: Sequence[str]) -> int:
    """Return which server has a key: that with the largest hash of the key and its title.

    So a server that is added takes its part from each of the others, and no other key moves. This
    rule never changes, either. A server that is down keeps its keys: if others took them, they
    would have old values when it is back.

    Example:
        >>> server_of(b"user:42", ["a:11211", "b:11211", "c:11211"])
        0
    """
    if len(titles) == 1:
        return 0
    hashes = [
        hashlib.blake2b(name, digest_size=8, key=hashlib.blake2b(title.encode()).digest()).digest()
        for title in titles
    ]
    return hashes.index(max(hashes))


class _Connection(NamedTuple):
    """A `pymemcache.Client`, and what tells whether there is data to read."""

    client: Any
    poll: select.poll


class _Serde:
    """Values are bytes already; those with other flags are None."""

    @staticmethod
    def deserialize(_key: bytes, value: bytes, flags: int) -> Optional[bytes]:
        return value if flags == FLAGS else None


class Memcached:
    """Entries on memcached servers, spread by their keys.

    Connections open when they are needed, and are pooled for each server. A key of a server that is
    down raises `Unreachable`; the others work. `get_many` makes one round trip to each server for
    every 1,000 keys.

    A ttl is rounded up to whole seconds, and the server's clock ticks once a second. A ttl of more
    than 30 days becomes a moment by this machine's clock, which must agree with the server's. If
    the moment is after January 2038, the value is kept for 30 days.

    Args:
        *servers: Each as ``host``, ``host:port`` or the path of a Unix socket. All programs must
            name the servers in the same way, in any order.
        user: The user, for servers with ``--auth-file``.
        password: The password.
        tls: Whether to use TLS. Checks the server's certificate and name.
        tls_ca_file: Certificates to trust, instead of the system's.
        tls_cert_file: The client's own certificate.
        tls_key_file: The key of that certificate.
        timeout_s: How long to wait for a connection, and for each part of a reply.
        value_bytes_max: The longest value. Give more if the servers have a larger item size: what
            their option ``-I`` says, less 512.

    Raises:
        ClientMissing: pymemcache is not installed.

    Example:
        >>> driver = Memcached("10.0.0.1", "10.0.0.2:11212")
        >>> driver.title
        'memcached at 10.0.0.1:11211, 10.0.0.2:11212'
    """

    def __init__(
        self,
        *servers: str,
        user: Optional[str] = None,
        password: Optional[str] = None,
        tls: bool = False,
        tls_ca_file: Optional[str] = None,
        tls_cert_file: Optional[str] = None,
        tls_key_file: Optional[str] = None,
        timeout_s: float = 1.0,
        value_bytes_max: int = VALUE_BYTES_MAX,
    ) -> None:
        try:
            self._library: Any = importlib.import_module("pymemcache")
        except ImportError:
            raise ClientMissing(
                'the memcached driver needs pymemcache; run: pip install "tuckbox[memcached]"'
            ) from None
        self._servers: list[_Server] = [
            server if server.startswith("/") else host_and_port(server, 11211)
            for server in servers or ("localhost",)
        ]
        self._titles = [_title(server) for server in self._servers]
        self._title = f"memcached at {', '.join(self._titles)}"
        self._login = None if user is None else f"{user} {password}".encode()
        self._tls = None
        if tls:
            self._tls = ssl.create_default_context(cafile=tls_ca_file)
            if tls_cert_file is not None:
                self._tls.load_cert_chain(tls_cert_file, tls_key_file)
        self._timeout_s = timeout_s
        self._idle: dict[int, collections.deque[_Connection]] = collections.defaultdict(
            collections.deque
        )
        self._process = os.getpid()
        self._is_open = True
        self._capabilities = Capabilities(
            between_processes=True,
            between_machines=True,
            persists=False,
            scans=False,
            ttl_tolerance_s=2.0,
            value_bytes_max=value_bytes_max,
            may_evict=True,
        )

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Memcached:  # noqa: ANN401 - Those of the class.
        """Return a driver for a URL. Its query may have options of the class.

        Args:
            url: ``memcached://user:password@host:11211,other:11211``, or
                ``memcached:///path/of/socket``.
            **options: Other arguments of the class. The URL's come first.

        Raises:
            InvalidArgument: The URL is wrong. The message does not contain it.

        Example:
            >>> Memcached.from_url("memcached://a,b:11212?timeout_s=0.2").title
            'memcached at a:11211, b:11212'
        """
        parts = parse(url, _SCHEMES, _OPTIONS)
        options |= parts.options
        options |= {"user": parts.user} if parts.user else {}
        options |= {"password": parts.password} if parts.password is not None else {}
        path = [parts.path] if parts.path.strip("/") else []
        if path and parts.hosts:
            raise InvalidArgument("the URL has hosts and a path; give hosts, or a socket's path")
        return cls(*parts.hosts, *path, **options)

    @property
    def capabilities(self) -> Capabilities:
        """See `Driver.capabilities`."""
        return self._capabilities

    @property
    def title(self) -> str:
        """See `Driver.title`."""
        return self._title

    # --- Connections ---------------------------------------------------------------------------

    def _open(self, server: int) -> _Connection:
        address = self._servers[server]
        client = self._library.Client(address, serde=_Serde)
        try:
            # Not by pymemcache, which tries only the first address of a name.
            if isinstance(address, str):
                client.sock = socket.socket(socket.AF_UNIX)
                client.sock.settimeout(self._timeout_s)
                client.sock.connect(address)
            else:
                client.sock = socket.create_connection(address, self._timeout_s)
                client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is not None:
                    client.sock = self._tls.wrap_socket(client.sock, server_hostname=address[0])
            if self._login is not None:
                command = b"set login 0 0 %d\r\n%b\r\n" % (len(self._login), self._login)
                client._misc_cmd([command], b"set", False)  # noqa: SLF001
            poll = select.poll()
            poll.register(client.sock, select.POLLIN)
        except BaseException:
            client.close()
            raise
        return _Connection(client, poll)

    def _taken(self, server: int) -> _Connection:
        """An idle connection, or a new one. An idle one with data, or at its end, is closed."""
        if not self._is_open:
            raise CacheClosed("this driver is closed; open it again to use it")
        if self._process != os.getpid():
            self._process = os.getpid()
            self._close_idle()
        idle = self._idle[server]
        while idle:
            try:
                connection = idle.pop()
            except IndexError:  # Another thread has taken it.
                break
            if not connection.poll.poll(0):
                return connection
            connection.client.close()
        return self._open(server)

    def _ask(self, server: int, ask: Callable[[Any], _T]) -> _T:
        """Use a connection, which is kept only if its reply was read whole.

        Args:
            server: Its number.
            ask: Gets a `pymemcache.Client`, and reads the whole reply.
        """
        refuse_if_brief()
        connection = None
        try:
            connection = self._taken(server)
            told = ask(connection.client)
        except BaseException as error:
            if connection is not None:
                connection.client.close()
            if not isinstance(error, Exception) or isinstance(error, MemoryError):
                raise
            raise self._converted(error, server) from error
        self._idle[server].append(connection)
        if not self._is_open:
            self._close_idle()
        return told

    def _converted(self, error: Exception, server: int) -> TuckboxError:
        library, title = self._library, f"memcached at {self._titles[server]}"
        if isinstance(error, TuckboxError):
            return error
        if isinstance(error, (OSError, library.MemcacheUnexpectedCloseError)):
            reason = str(error) or "it closed the connection"
            return Unreachable(
                f"{title} does not answer: {reason}; check that it runs, and the address"
            )
        known = (library.MemcacheServerError, library.MemcacheClientError)
        if not isinstance(error, known) or isinstance(error, library.MemcacheUnknownCommandError):
            return Unreachable(
                f"{title} does not answer as a memcached server: {error!r:.200}; check the address"
            )
        reason = (error.args[0] if error.args else b"").decode("ascii", "replace")
        advice = "see its log"
        if "authenti" in reason:
            advice = "give the user and password of its --auth-file"
        elif "too large" in reason:
            advice = "give it a larger item size with -I, or the driver a smaller value_bytes_max"
        elif "memory" in reason:
            advice = "give it more memory with -m"
        return Refused(f"{title} refuses: {reason}; {advice}")

    def _close_idle(self) -> None:
        for idle in list(self._idle.values()):
            with suppress(IndexError):
                while True:
                    idle.pop().client.close()

    # --- Commands ------------------------------------------------------------------------------

    def _spread(self, keys: Iterable[bytes]) -> Iterator[tuple[int, dict[bytes, bytes]]]:
        """Batches of the names and keys of each server."""
        servers: dict[int, dict[bytes, bytes]] = {}
        for key in keys:
            name = key_at_server(key)
            servers.setdefault(server_of(name, self._titles), {})[name] = key
        for server, named in servers.items():
            names = list(named)
            for start in range(0, len(names), _BATCH):
                yield server, {name: named[name] for name in names[start : start + _BATCH]}

    def _say(self, commands: dict[bytes, bytes], known: Sequence[bytes]) -> list[bytes]:
        """Send one command for each key. Return the replies, which are known ones."""
        replies: list[bytes] = []
        for server, named in self._spread(commands):
            lines = [commands[key] for key in named.values()]
            replies += self._ask(server, partial(self._told, lines, known))
        return replies

    def _told(self, lines: list[bytes], known: Sequence[bytes], client: Any) -> list[bytes]:  # noqa: ANN401
        told: list[bytes] = client._misc_cmd(lines, b"", False)  # noqa: SLF001
        for reply in told:
            if reply not in known:
                raise self._library.MemcacheUnknownError(reply[:32])
        return told

    def _storing(
        self, verb: bytes, key: bytes, value: bytes, ttl_s: Optional[float], cas: bytes = b""
    ) -> bytes:
        longest = self._capabilities.value_bytes_max
        if longest is not None and len(value) > longest:
            raise ValueTooLarge(
                f"the value has {len(value):,} bytes, but {self.title} takes {longest:,}; store it "
                "in parts, compress it, or give value_bytes_max if the server's item size is larger"
            )
        head = (verb, key_at_server(key), FLAGS, _expiry(ttl_s), len(value), cas)
        return b"%b %b %d %d %d%b\r\n%b\r\n" % (*head, value)

    def _cas(self, key: bytes, command: bytes) -> bool:
        return self._say({key: command}, (b"STORED", b"EXISTS", b"NOT_FOUND")) == [b"STORED"]

    def get(self, key: bytes) -> Optional[Found]:
        """See `Driver.get`."""
        name = key_at_server(key)
        server = server_of(name, self._titles)
        value, version = self._ask(server, methodcaller("gets", name))
        return None if value is None else Found(value, version)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Found]:
        """See `Driver.get_many`."""
        found = {}
        for server, named in self._spread(keys):
            told = self._ask(server, methodcaller("gets_many", list(named)))
            for name, (value, version) in told.items():
                if value is not None:
                    found[named[name]] = Found(value, version)
        return found

    def set(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> None:
        """See `Driver.set`."""
        self.set_many([(key, value, ttl_s)])

    def set_many(self, items: Iterable[tuple[bytes, bytes, Optional[float]]]) -> None:
        """See `Driver.set_many`."""
        commands = {key: self._storing(b"set", key, value, ttl_s) for key, value, ttl_s in items}
        self._say(commands, (b"STORED",))

    def add(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> bool:
        """See `Driver.add`."""
        command = self._storing(b"add", key, value, ttl_s)
        return self._say({key: command}, (b"STORED", b"NOT_STORED")) == [b"STORED"]

    def swap(self, key: bytes, value: bytes, ttl_s: Optional[float], version: Version) -> bool:
        """See `Driver.swap`."""
        return self._cas(
            key, self._storing(b"cas", key, value, ttl_s, b" " + cast("bytes", version))
        )

    def delete(self, key: bytes, version: Optional[Version] = None) -> bool:
        """See `Driver.delete`."""
        if version is None:
            return self.delete_many([key]) == 1
        # The text protocol cannot compare and delete. A cas compares, and what it stores has
        # expired at that moment (-1): nobody can read it, and add and set find nothing there.
        words = key_at_server(key), FLAGS, cast("bytes", version)
        return self._cas(key, b"cas %b %d -1 0 %b\r\n\r\n" % words)

    def delete_many(self, keys: Iterable[bytes]) -> int:
        """See `Driver.delete_many`."""
        commands = {key: b"delete %b\r\n" % key_at_server(key) for key in keys}
        return self._say(commands, (b"DELETED", b"NOT_FOUND")).count(b"DELETED")

    def touch(self, key: bytes, ttl_s: Optional[float]) -> bool:
        """See `Driver.touch`."""
        command = b"touch %b %d\r\n" % (key_at_server(key), _expiry(ttl_s))
        return self._say({key: command}, (b"TOUCHED", b"NOT_FOUND")) == [b"TOUCHED"]

    def scan(self, prefix: bytes) -> NoReturn:  # noqa: ARG002
        """See `Driver.scan`."""
        raise Unsupported(f"{self.title} cannot list its keys; use get_many with keys you know")

    def clear(self, prefix: bytes) -> NoReturn:  # noqa: ARG002
        """See `Driver.clear`."""
        raise Unsupported(f"{self.title} cannot list its keys; use delete_many with keys you know")

    def ping(self) -> None:
        """See `Driver.ping`."""
        for server in range(len(self._servers)):
            self._ask(server, methodcaller("version"))

    def close(self) -> None:
        """See `Driver.close`."""
        self._is_open = False
        self._close_idle()


def _title(server: _Server) -> str:
    if isinstance(server, str):
        return server
    host, port = server
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _expiry(ttl_s: Optional[float]) -> int:
    """What memcached takes for a ttl: seconds up to 30 days, or a moment."""
    if ttl_s is None:
        return 0
    if ttl_s <= _RELATIVE_S_MAX:
        return math.ceil(ttl_s)
    moment = time.time() + ttl_s
    return int(moment) if moment <= _MOMENT_MAX else _RELATIVE_S_MAX
