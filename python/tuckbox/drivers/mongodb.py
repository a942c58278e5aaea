"""`Mongodb`: a driver that keeps its values in a collection of MongoDB.

A document has ``_id``, the key as text with a character for each byte, or the beginning and the
digest of a long one; ``key``, the whole key if ``_id`` does not contain it; ``value``; ``version``,
eight random bytes of each write; and ``ends``, when its ttl ends.

MongoDB removes ended documents about once a minute, by an index. Until then, the driver takes them
for missing. It reads the server's clock once a minute and counts on from there by the clock of this
machine that nobody sets. What it does not know, it counts against the value: the round trip of that
reading, and milliseconds, which are MongoDB's unit. So a value is never returned after its ttl, and
may be missing up to two round trips earlier.
"""

from __future__ import annotations

import datetime as dt
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, TypeVar
from urllib.parse import parse_qsl, urlencode

from tuckbox.brief import refuse_if_brief
from tuckbox.drivers.contract import KEY_BYTES_MAX, Capabilities, Found, Version
from tuckbox.drivers.places import PREFIX_BYTES_MAX, place
from tuckbox.errors import (
    CacheClosed,
    ClientMissing,
    InvalidArgument,
    Refused,
    TuckboxError,
    Unreachable,
    ValueTooLarge,
)

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.collection import Collection

__all__ = ["Mongodb"]

_R = TypeVar("_R")
_Document = dict[str, Any]

_VERSION_BYTES = 8
# A document has 16 MiB. The rest is for the key, its place, and names of fields.
_VALUE_BYTES_MAX = (16 << 20) - KEY_BYTES_MAX - 2 * 500 - 500
_KEYS_AT_ONCE = 1000
_SECONDS_BETWEEN_CLOCKS = 60.0
_MS = dt.timedelta(milliseconds=1)
_TTL_S_MAX = 1e9  # The year 9999 is the last of a datetime.
_AFTER_ALL_BYTES = "\u0100"
# What is no refusal: out of time, shutting down, and interrupted by that.
_UNREACHABLE_CODES = {50, 91, 262, 11600, 11602}
_NEEDS_OPTIONS = "use the options of PyMongo, or database, collection, timeout_s, value_bytes_max"


class _Clock(NamedTuple):
    """The server's clock, as it was read. The true one is between `low` and `high`."""

    server: dt.datetime
    sent_s: float
    received_s: float

    def low(self) -> dt.datetime:
        return self.server + dt.timedelta(seconds=time.monotonic() - self.received_s)

    def high(self) -> dt.datetime:
        return self.server + _MS + dt.timedelta(seconds=time.monotonic() - self.sent_s)


class Mongodb:
    """Values in a collection, which is created when it is first used, with its index.

    Nothing is evicted but documents whose ttl has ended. The collection must compare text byte by
    byte, which is MongoDB's default.

    Args:
        where: A URL of MongoDB, ``mongodb://user:password@host:27017`` or ``mongodb+srv://...``,
            whose path may name the database, and whose query has the options of PyMongo, such as
            ``tls=true``. Or a client of PyMongo;
            give it time limits yourself, and use it in a child process as PyMongo says.
        database: The name of the database, if the URL has none.
        collection: The name of the collection.
        timeout_s: How long an operation may take, with its connection.
        value_bytes_max: The longest value.

    Raises:
        ClientMissing: PyMongo is not installed.
        InvalidArgument: The URL is wrong. The message does not contain it.

    Example:
        >>> Mongodb("mongodb://user:secret@10.0.0.1").title
        'mongodb at 10.0.0.1:27017, tuckbox.entries'
    """

    def __init__(
        self,
        where: Any = "mongodb://localhost",  # noqa: ANN401 - A client that may be missing.
        *,
        database: str = "tuckbox",
        collection: str = "entries",
        timeout_s: float = 1.0,
        value_bytes_max: int = _VALUE_BYTES_MAX,
    ) -> None:
        try:
            import pymongo  # noqa: PLC0415
            from pymongo import errors, uri_parser  # noqa: PLC0415
        except ImportError:
            raise ClientMissing(
                'PyMongo is not installed; run: pip install "tuckbox[mongodb]"'
            ) from None
        if value_bytes_max > _VALUE_BYTES_MAX:
            raise InvalidArgument(f"value_bytes_max is {_VALUE_BYTES_MAX:,} at most")
        self._pymongo, self._errors = pymongo, errors
        self._url = where if isinstance(where, str) else None
        self._client: Optional[MongoClient[Any]] = None if isinstance(where, str) else where
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._clock: Optional[_Clock] = None
        self._is_indexed = False
        self._is_open = True
        at = "the nodes of a client"
        if isinstance(where, str):
            # One with srv:// would ask a name server.
            plain = where.replace("mongodb+srv://", "mongodb://", 1)
            try:
                parsed = uri_parser.parse_uri(plain, validate=True, warn=False)
            except (errors.PyMongoError, ValueError, TypeError) as error:
                said = f": {error}" if isinstance(error, errors.ConfigurationError) else ""
                raise InvalidArgument(
                    f"the URL of MongoDB is wrong{said}; write mongodb://host:27017, "
                    f"and {_NEEDS_OPTIONS}"
                ) from None
            nodes = parsed["nodelist"]
            at = ", ".join(f"{host}:{port}" if port else host for host, port in nodes)
            database = parsed["database"] or database
        self._names = (database, collection)
        self.title = f"mongodb at {at}, {database}.{collection}"
        self.capabilities = Capabilities(
            between_processes=True,
            between_machines=True,
            persists=True,
            scans=True,
            tells_ttl=True,
            value_bytes_max=value_bytes_max,
        )
        _drivers.add(self)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Mongodb:  # noqa: ANN401 - Those of the class.
        """Return a driver for a URL of the class, whose query may have options of the class.

        Raises:
            ClientMissing: As the class.
            InvalidArgument: As the class.
        """
        kinds: dict[str, Callable[[str], Any]] = {
            "database": str, "collection": str, "timeout_s": float, "value_bytes_max": int
        }  # fmt: skip
        rest, _, query = url.partition("?")
        others = []
        for name, text in parse_qsl(query, keep_blank_values=True):
            if name not in kinds:
                others.append((name, text))
                continue
            try:
                options[name] = kinds[name](text)
            except ValueError:
                raise InvalidArgument(
                    f"the URL's option {name!r} has a wrong value {text!r}"
                ) from None
        if others:
            # An option comes after a slash.
            rest += ("" if "/" in rest.partition("://")[2] else "/") + "?" + urlencode(others)
        return cls(rest, **options)

    # --- Talking -------------------------------------------------------------------------------

    def _run(
        self, work: Callable[[Collection[_Document], _Clock], _R], *, again: bool = False
    ) -> _R:
        """Do work within the time limit, once more if a connection was lost and ``again``.

        PyMongo does so with reads.
        """
        refuse_if_brief()
        if not self._is_open:
            raise CacheClosed("this driver is closed; open it again to use it")
        try:
            with self._pymongo.timeout(self._timeout_s):
                try:
                    return work(*self._prepared())
                except self._errors.AutoReconnect:
                    if not again:
                        raise
                    return work(*self._prepared())
        except TuckboxError:
            raise
        except Exception as error:
            self._is_indexed = False  # It may be another database now.
            raise self._converted(error) from error

    def _prepared(self) -> tuple[Collection[_Document], _Clock]:
        """The collection with its index, and the server's clock."""
        with self._lock:
            client = self._client = self._client or self._new_client()
        database, name = self._names
        collection = client[database][name]
        clock = self._clock
        if clock is None or time.monotonic() > clock.sent_s + _SECONDS_BETWEEN_CLOCKS:
            sent_s = time.monotonic()
            # The name of `hello` that servers before 4.4, and those that imitate them, know, too.
            told = client[database].command("isMaster")["localTime"]
            clock = self._clock = _Clock(told.replace(tzinfo=None), sent_s, time.monotonic())
        if not self._is_indexed:
            collection.create_index("ends", expireAfterSeconds=0)
            self._is_indexed = True
        return collection, clock

    def _new_client(self) -> MongoClient[Any]:
        limit_ms = max(1, int(self._timeout_s * 1000))
        return self._pymongo.MongoClient(
            self._url,
            connect=False,
            serverSelectionTimeoutMS=limit_ms,
            connectTimeoutMS=limit_ms,
        )

    def _converted(self, error: Exception) -> TuckboxError:
        text = " ".join(str(error).split())[:300]
        if isinstance(error, self._errors.DocumentTooLarge):
            return ValueTooLarge(f"{self.title} does not take the value: {text}; compress it")
        is_answer = isinstance(error, self._errors.OperationFailure) and not error.timeout
        if is_answer and error.code not in _UNREACHABLE_CODES:  # type: ignore[attr-defined]
            return Refused(
                f"{self.title} refuses: {text}; check user, password, rights and free space"
            )
        return Unreachable(
            f"{self.title} does not answer: {text}; check that it runs, and the address"
        )

    def _document(
        self, key: bytes, value: bytes, ttl_s: Optional[float], clock: _Clock
    ) -> _Document:
        at, whole = place(key)
        document = {
            "_id": at.decode("latin-1"),
            "value": bytes(value),
            "ends": _ends(ttl_s, clock),
            "version": os.urandom(_VERSION_BYTES),
        }
        return document if whole is None else {**document, "key": whole}

    def _check(self, value: bytes) -> None:
        longest = self.capabilities.value_bytes_max
        if longest is not None and len(value) > longest:
            raise ValueTooLarge(
                f"the value has {len(value):,} bytes, but {self.title} takes {longest:,}; "
                "store it in parts, or compress it"
            )

    def _found(self, key: bytes, document: _Document, clock: _Clock) -> Optional[Found]:
        ends = document["ends"]
        left_s = None if ends is None else (ends - clock.high()).total_seconds()
        if (left_s is not None and left_s <= 0) or document.get("key", key) != key:
            return None
        return Found(bytes(document["value"]), bytes(document["version"]), left_s)

    # --- Operations ----------------------------------------------------------------------------

    def get(self, key: bytes) -> Optional[Found]:
        """See `Driver.get`."""

        def work(entries: Collection[_Document], clock: _Clock) -> Optional[Found]:
            document = entries.find_one({"_id": _id(key)})
            return None if document is None else self._found(key, document, clock)

        return self._run(work)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Found]:
        """See `Driver.get_many`. One query for each 1,000 keys."""
        wanted = {_id(key): key for key in keys}

        def work(entries: Collection[_Document], clock: _Clock) -> dict[bytes, Found]:
            found = {}
            for some in _batches(list(wanted)):
                for document in entries.find({"_id": {"$in": some}}):
                    key = wanted[document["_id"]]
                    if one := self._found(key, document, clock):
                        found[key] = one
            return found

        return self._run(work) if wanted else {}

    def set(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> None:
        """See `Driver.set`."""
        self.set_many([(key, value, ttl_s)])

    def set_many(self, items: Iterable[tuple[bytes, bytes, Optional[float]]]) -> None:
        """See `Driver.set_many`."""
        last = {key: (value, ttl_s) for key, value, ttl_s in items}
        for value, _ in last.values():
            self._check(value)

        def work(entries: Collection[_Document], clock: _Clock) -> None:
            documents = [self._document(key, *last[key], clock) for key in last]
            replace = self._pymongo.ReplaceOne
            for some in _batches(documents):
                writes = [replace({"_id": one["_id"]}, one, upsert=True) for one in some]
                try:
                    entries.bulk_write(writes, ordered=False)
                except self._errors.BulkWriteError as error:
                    # Of two that insert a document at the same time, one can fail.
                    codes = {one.get("code") for one in (error.details or {})["writeErrors"]}
                    if codes != {11000}:
                        raise
                    entries.bulk_write(writes, ordered=False)

        if last:
            self._run(work, again=True)

    def add(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> bool:
        """See `Driver.add`."""
        self._check(value)

        def work(entries: Collection[_Document], clock: _Clock) -> bool:
            # A document that has not ended does not match, and cannot be inserted again.
            ended = {"_id": _id(key), "ends": {"$lte": clock.high()}}
            try:
                entries.replace_one(ended, self._document(key, value, ttl_s, clock), upsert=True)
            except self._errors.DuplicateKeyError:
                return False
            return True

        return self._run(work)

    def swap(self, key: bytes, value: bytes, ttl_s: Optional[float], version: Version) -> bool:
        """See `Driver.swap`."""
        self._check(value)

        def work(entries: Collection[_Document], clock: _Clock) -> bool:
            document = self._document(key, value, ttl_s, clock)
            return entries.replace_one(_alive(key, clock, version), document).matched_count == 1

        return self._run(work)

    def delete(self, key: bytes, version: Optional[Version] = None) -> bool:
        """See `Driver.delete`."""
        return self._run(
            lambda entries, clock: (
                entries.delete_one(_alive(key, clock, version)).deleted_count == 1
            )
        )

    def delete_many(self, keys: Iterable[bytes]) -> int:
        """See `Driver.delete_many`."""
        ids = list({_id(key) for key in keys})

        def work(entries: Collection[_Document], clock: _Clock) -> int:
            return sum(
                entries.delete_many({"_id": {"$in": some}, **_is_alive(clock)}).deleted_count
                for some in _batches(ids)
            )

        return self._run(work) if ids else 0

    def touch(self, key: bytes, ttl_s: Optional[float]) -> bool:
        """See `Driver.touch`."""

        def work(entries: Collection[_Document], clock: _Clock) -> bool:
            change = {"$set": {"ends": _ends(ttl_s, clock)}}
            return entries.update_one(_alive(key, clock), change).matched_count == 1

        return self._run(work)

    def scan(self, prefix: bytes) -> Iterator[bytes]:
        """See `Driver.scan`. Uses the index of ``_id``, in pages."""
        begin = prefix[:PREFIX_BYTES_MAX].decode("latin-1")
        bounds = {"$gte": begin, "$lt": begin + _AFTER_ALL_BYTES}

        def page(entries: Collection[_Document], clock: _Clock) -> list[_Document]:
            wanted = {"_id": dict(bounds), **_is_alive(clock)}
            return list(entries.find(wanted, {"key": 1}).sort("_id", 1).limit(_KEYS_AT_ONCE))

        while documents := self._run(page):
            for document in documents:
                key = bytes(document.get("key") or document["_id"].encode("latin-1"))
                if key.startswith(prefix):
                    yield key
            bounds = {"$gt": documents[-1]["_id"], "$lt": begin + _AFTER_ALL_BYTES}

    def clear(self, prefix: bytes) -> None:
        """See `Driver.clear`."""
        for some in _batches(list(self.scan(prefix))):
            self.delete_many(some)

    def ping(self) -> None:
        """See `Driver.ping`. Creates the collection and its index if they are not there."""
        self._run(lambda entries, _: entries.database.command("ping"))

    def close(self) -> None:
        """See `Driver.close`. A client that was given remains open."""
        if self._is_open and self._url is not None and self._client is not None:
            self._client.close()
        self._is_open = False


def _id(key: bytes) -> str:
    # MongoDB sorts bytes by their length first, and text by its bytes.
    return place(key)[0].decode("latin-1")


def _ends(ttl_s: Optional[float], clock: _Clock) -> Optional[dt.datetime]:
    # BSON rounds down to milliseconds.
    return None if ttl_s is None else clock.low() + dt.timedelta(seconds=min(ttl_s, _TTL_S_MAX))


def _is_alive(clock: _Clock) -> _Document:
    return {"$or": [{"ends": None}, {"ends": {"$gt": clock.high()}}]}


def _alive(key: bytes, clock: _Clock, version: Optional[Version] = None) -> _Document:
    wanted = {"_id": _id(key), **_is_alive(clock)}
    return wanted if version is None else {**wanted, "version": version}


def _batches(items: list[_R]) -> Iterator[list[_R]]:
    return (items[i : i + _KEYS_AT_ONCE] for i in range(0, len(items), _KEYS_AT_ONCE))


# --- Fork --------------------------------------------------------------------------------------

_drivers: weakref.WeakSet[Mongodb] = weakref.WeakSet()
# Clients of the parent, which a child must not close.
_parents: list[Any] = []


def _after_fork() -> None:
    for driver in list(_drivers):
        driver._lock = threading.Lock()  # noqa: SLF001
        if driver._url is not None:  # noqa: SLF001
            _parents.append(driver._client)  # noqa: SLF001
            driver._client = None  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
