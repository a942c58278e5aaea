"""`Sql`: a driver that keeps its values in a table of SQLite, PostgreSQL, MariaDB or MySQL.

It uses SQLAlchemy's Core. The table has a row for each key:

==========  =========================================================================
``place``   primary key: the key, or the beginning and the digest of a long one
``name``    the key, if ``place`` does not contain it
``value``   the bytes that were stored
``ends``    when the ttl ends, in microseconds since 1970 by the database's clock
``version`` eight random bytes of each write
==========  =========================================================================

Each statement is a transaction of its own. A row whose ttl has ended is missing; every 1,000th
write, and the first one of each driver, removes some of them.
"""

from __future__ import annotations

import itertools
import math
import os
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Optional, TypeVar

from tuckbox.brief import refuse_if_brief
from tuckbox.drivers.contract import Capabilities, Found, Version
from tuckbox.drivers.places import PREFIX_BYTES_MAX, place
from tuckbox.errors import (
    CacheClosed,
    ClientMissing,
    DriverError,
    InvalidArgument,
    Refused,
    TuckboxError,
    Unreachable,
    ValueTooLarge,
)

if TYPE_CHECKING:
    import sqlalchemy as sa

__all__ = ["Sql"]

_R = TypeVar("_R")
_Row = Mapping[str, Any]

_CLIENTS = {
    "sqlite": ("sqlite", "sql"),
    "postgresql": ("postgresql+psycopg", "postgresql"),
    "mysql": ("mysql+pymysql", "mysql"),
    "mariadb": ("mariadb+pymysql", "mysql"),
}
_MYSQL = ("mysql", "mariadb")
_OPTIONS: dict[str, Callable[[str], Any]] = {
    "table": str, "timeout_s": float, "value_bytes_max": int
}  # fmt: skip
_VERSION_BYTES = 8
_ROWS_AT_ONCE = 500  # SQLite takes 999 parameters in its oldest builds.
_WRITES_BETWEEN_SWEEPS = 1000
_ROWS_SWEPT_MAX = 2000
_TTL_US_MAX = 1 << 52
_TRIES_MAX = 5
# PostgreSQL: deadlock, serialization; MySQL: deadlock. The statement has changed nothing.
_TRY_AGAIN = {"40P01", "40001", 1213}
_REFUSALS = {
    # PostgreSQL. Rights, read-only, disk full, too many connections, no such database.
    "42501", "25006", "53100", "53300", "3D000",
    # MySQL. Login, unknown database, rights, read-only, disk full, too many connections.
    1044, 1045, 1049, 1142, 1143, 1227, 1698, 1290, 1792, 1836, 1021, 1114, 1040, 1203, 1226, 3159,
}  # fmt: skip
# Errors that have no number: of SQLite before Python 3.11, and of a login at PostgreSQL.
_REFUSING_WORDS = ("FATAL", "readonly", "database or disk is full", "unable to open")
_OPTION_WORDS = ("keyword argument", "invalid connection option")
_STARTING_WORDS = ("starting up", "shutting down", "recovery mode")


class Sql:
    """Values in a table, which is created when it is first used.

    Nothing is evicted but rows whose ttl has ended. SQLite is set to ``journal_mode=WAL`` and
    ``synchronous=NORMAL``: the last values may be missing after a power cut.

    Args:
        where: A URL of SQLAlchemy: ``sqlite:////absolute/path``, ``postgresql://user:password@host/
            database``, ``mysql://...`` or ``mariadb://...``. Without the name of a client library
            it means psycopg 3, or PyMySQL. The query has the options of the client library, such as
            ``sslmode=verify-full`` or ``unix_socket=/path``. Or an engine of SQLAlchemy; give it
            time limits yourself.
        table: The name of the table.
        timeout_s: How long to wait for a free connection, for a new one (at PostgreSQL, at least
            2 s), and for each answer.
        value_bytes_max: The longest value. MariaDB takes statements of 16 MB, in which each byte
            may need two.

    Raises:
        ClientMissing: SQLAlchemy or the client library is not installed.
        InvalidArgument: The URL is wrong. The message does not contain it.

    Example:
        >>> import tempfile
        >>> driver = Sql(f"sqlite:///{tempfile.mkdtemp()}/cache.db")
        >>> driver.set(b"k", b"value", 60)
        >>> driver.get(b"k").value
        b'value'
    """

    def __init__(
        self,
        where: Any,  # noqa: ANN401 - An engine of a library that may be missing.
        *,
        table: str = "tuckbox",
        timeout_s: float = 1.0,
        value_bytes_max: int = 8_000_000,
    ) -> None:
        try:
            import sqlalchemy  # noqa: PLC0415
        except ImportError:
            raise _missing("SQLAlchemy", "sql") from None
        self._timeout_s = timeout_s
        self._is_own = isinstance(where, str)
        self._engine = _engine(where, timeout_s) if isinstance(where, str) else where
        self._errors = sqlalchemy.exc
        self._table = _table(table, self._engine.dialect.name)
        self._statements = _statements(self._table, self._engine.dialect.name)
        self._writes = itertools.count()
        self._is_there = False
        self._is_open = True
        url = self._engine.url
        at = f" at {url.host or 'localhost'}" + (f":{url.port}" if url.port else "")
        is_file = url.get_backend_name() == "sqlite"
        self.title = f"{url.get_backend_name()}{'' if is_file else at}, {url.database}"
        self.capabilities = Capabilities(
            between_processes=True,
            between_machines=not is_file,
            persists=True,
            scans=True,
            tells_ttl=True,
            value_bytes_max=value_bytes_max,
        )
        _drivers.add(self)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Sql:  # noqa: ANN401 - Those of the class.
        """Return a driver for a URL of the class, whose query may have options of the class.

        Raises:
            ClientMissing: As the class.
            InvalidArgument: As the class.
        """
        parsed, query = _parsed(url), {}
        for name, kind in _OPTIONS.items():
            if name in parsed.query:
                try:
                    # A tuple, if it is there twice.
                    query[name] = kind("".join([parsed.query[name]]))  # type: ignore[list-item]
                except (TypeError, ValueError):
                    raise InvalidArgument(
                        f"the URL's option {name!r} has a wrong value {parsed.query[name]!r}"
                    ) from None
        rest = parsed.difference_update_query(query)
        return cls(rest.render_as_string(hide_password=False), **{**options, **query})

    # --- Talking -------------------------------------------------------------------------------

    def _run(self, work: Callable[[sa.Connection], _R], *, again: bool = False) -> _R:
        """Do work with a connection, once more if it was lost and ``again``. Convert errors."""
        refuse_if_brief()
        if not self._is_open:
            raise CacheClosed("this driver is closed; open it again to use it")
        begun = time.monotonic()
        for attempt in itertools.count(1):
            try:
                return self._once(work)
            except TuckboxError:  # noqa: PERF203
                raise
            except Exception as error:
                self._is_there = False  # It may be another database now.
                lost = again and attempt == 1 and _is_lost(error)
                in_time = time.monotonic() - begun < self._timeout_s / 2
                if attempt < _TRIES_MAX and (_codes(error) & _TRY_AGAIN or (lost and in_time)):
                    continue
                raise self._converted(error) from error
        raise AssertionError("unreachable")

    def _once(self, work: Callable[[sa.Connection], _R]) -> _R:
        with self._engine.connect() as connection:
            try:
                if not self._is_there:
                    self._create(connection)
                return work(connection)
            except BaseException:
                # The rest of an answer must not answer the next statement.
                connection.invalidate()
                raise

    def _create(self, connection: sa.Connection) -> None:
        """Create the table unless it is there. Another process may do so at the same time."""
        import sqlalchemy  # noqa: PLC0415

        if not sqlalchemy.inspect(connection).has_table(self._table.name):
            try:
                self._table.create(connection, checkfirst=True)
            except self._errors.DBAPIError:
                if not sqlalchemy.inspect(connection).has_table(self._table.name):
                    raise
        self._is_there = True

    def _converted(self, error: Exception) -> TuckboxError:
        # The whole text of SQLAlchemy has the statement and its values.
        cause = getattr(error, "orig", None) or error
        text = " ".join(str(cause).split())[:300]
        if any(word in text for word in _OPTION_WORDS):
            return InvalidArgument(f"{self.title}: the URL has a wrong option: {text}")
        refuses = any(word in text for word in _REFUSING_WORDS)
        is_starting = any(word in text for word in _STARTING_WORDS)
        if (_codes(error) & _REFUSALS or refuses) and not is_starting:
            return Refused(
                f"{self.title} refuses: {text}; check user, password, rights and free space"
            )
        return Unreachable(
            f"{self.title} does not answer: {text}; check that it runs, and the address"
        )

    def _changed(self, statement: str, row: _Row, *, again: bool = False) -> int:
        """Run a statement that writes. Return how many rows it changed."""

        def work(connection: sa.Connection) -> int:
            options = {"preserve_rowcount": True}
            result = connection.execute(self._statements[statement], row, execution_options=options)
            return result.rowcount

        count = self._run(work, again=again)
        self._sweep_sometimes()
        return count

    def _sweep_sometimes(self) -> None:
        if next(self._writes) % _WRITES_BETWEEN_SWEEPS:
            return

        def work(connection: sa.Connection) -> None:
            ended = _all(connection, self._statements["ended"], {"count": _ROWS_SWEPT_MAX})
            for some in _batches(sorted(bytes(one.place) for one in ended)):
                connection.execute(self._statements["sweep"], {"places": some})

        # The write is done, whatever happens to others' rows.
        with suppress(DriverError):
            self._run(work)

    def _row(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> dict[str, Any]:
        longest = self.capabilities.value_bytes_max
        if longest is not None and len(value) > longest:
            raise ValueTooLarge(
                f"the value has {len(value):,} bytes, but {self.title} takes {longest:,}; "
                "store it in parts, or compress it"
            )
        at, name = place(key)
        version = os.urandom(_VERSION_BYTES)
        return {"at": at, "whole": name, "bytes": value, "ttl": _us(ttl_s), "new": version}

    # --- Operations ----------------------------------------------------------------------------

    def get(self, key: bytes) -> Optional[Found]:
        """See `Driver.get`."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Found]:
        """See `Driver.get_many`. One query for each 500 keys."""
        wanted = {place(key)[0]: key for key in keys}

        def work(connection: sa.Connection) -> list[Any]:
            rows: list[Any] = []
            for some in _batches(list(wanted)):
                rows += connection.execute(self._statements["get"], {"places": some})
            return rows

        found = {}
        for row in self._run(work, again=True) if wanted else []:
            key = wanted[bytes(row.place)]
            if row.name is None or bytes(row.name) == key:
                ttl_s = None if row.rest is None else int(row.rest) / 1e6
                found[key] = Found(bytes(row.value), bytes(row.version), ttl_s)
        return found

    def set(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> None:
        """See `Driver.set`."""
        self._changed("set", self._row(key, value, ttl_s), again=True)

    def set_many(self, items: Iterable[tuple[bytes, bytes, Optional[float]]]) -> None:
        """See `Driver.set_many`."""
        rows = {row["at"]: row for row in itertools.starmap(self._row, items)}
        # In one order, so that two callers do not lock rows of each other.
        ordered = [rows[at] for at in sorted(rows)]

        def work(connection: sa.Connection) -> None:
            # PyMySQL sends several rows at once only if they have no expression.
            now_us = int(connection.execute(self._statements["now"]).scalar_one())
            for some in _batches(ordered):
                ended = [
                    {**row, "until": None if row["ttl"] is None else now_us + row["ttl"]}
                    for row in some
                ]
                connection.execute(self._statements["set many"], ended)

        if ordered:
            self._run(work, again=True)
            for _ in ordered:
                self._sweep_sometimes()

    def add(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> bool:
        """See `Driver.add`."""
        row = self._row(key, value, ttl_s)
        if self._changed("add", row) == 1:
            return True
        # MySQL does not tell in one statement whether a row was replaced.
        if "delete ended" not in self._statements:
            return False
        return bool(self._changed("delete ended", {"at": row["at"]}) and self._changed("add", row))

    def swap(self, key: bytes, value: bytes, ttl_s: Optional[float], version: Version) -> bool:
        """See `Driver.swap`."""
        return self._changed("swap", {**self._row(key, value, ttl_s), "old": version}) == 1

    def delete(self, key: bytes, version: Optional[Version] = None) -> bool:
        """See `Driver.delete`."""
        row = {"at": place(key)[0]}
        if version is None:
            return self._changed("delete", row) == 1
        return self._changed("delete version", {**row, "old": version}) == 1

    def delete_many(self, keys: Iterable[bytes]) -> int:
        """See `Driver.delete_many`."""
        places = sorted({place(key)[0] for key in keys})
        return sum(self._changed("delete many", {"places": some}) for some in _batches(places))

    def touch(self, key: bytes, ttl_s: Optional[float]) -> bool:
        """See `Driver.touch`."""
        return self._changed("touch", {"at": place(key)[0], "ttl": _us(ttl_s)}) == 1

    def scan(self, prefix: bytes) -> Iterator[bytes]:
        """See `Driver.scan`. Uses the primary key, for prefixes of up to 468 bytes alone."""
        begin = prefix[:PREFIX_BYTES_MAX]
        after, statement = begin, "scan from"

        def page(connection: sa.Connection) -> list[Any]:
            row = {"after": after, "count": _ROWS_AT_ONCE}
            return _all(connection, self._statements[statement], row)

        while rows := self._run(page, again=True):
            for row in rows:
                if not bytes(row.place).startswith(begin):
                    return
                key = bytes(row.place if row.name is None else row.name)
                if key.startswith(prefix):
                    yield key
            after, statement = bytes(rows[-1].place), "scan after"

    def clear(self, prefix: bytes) -> None:
        """See `Driver.clear`."""
        keys = self.scan(prefix)
        while some := list(itertools.islice(keys, _ROWS_AT_ONCE)):
            self.delete_many(some)

    def ping(self) -> None:
        """See `Driver.ping`. Creates the table if it is not there."""
        self._run(lambda connection: connection.execute(self._statements["now"]), again=True)

    def close(self) -> None:
        """See `Driver.close`. An engine that was given remains open."""
        if self._is_open and self._is_own:
            self._engine.dispose()
        self._is_open = False


# --- Engines -----------------------------------------------------------------------------------


def _missing(library: str, extra: str) -> ClientMissing:
    return ClientMissing(f'{library} is not installed; run: pip install "tuckbox[{extra}]"')


def _parsed(url: str) -> sa.URL:
    try:
        import sqlalchemy  # noqa: PLC0415
    except ImportError:
        raise _missing("SQLAlchemy", "sql") from None
    schemes = "sqlite:////path, postgresql://host/database, mysql://host/database"
    try:
        parsed = sqlalchemy.make_url(url)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        raise InvalidArgument(f"the URL of the database is wrong; use {schemes}") from None
    backend = parsed.get_backend_name()
    if backend not in _CLIENTS:
        raise InvalidArgument(f"the database {backend!r} is not known here; use {schemes}")
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise InvalidArgument("a database in memory has one connection; use sqlite:////path")
    if backend == "sqlite" and (unknown := set(parsed.query) - set(_OPTIONS)):
        raise InvalidArgument(
            f"the URL has an unknown option {min(unknown)!r}; use one of: {', '.join(_OPTIONS)}"
        )
    if parsed.drivername == backend:
        parsed = parsed.set(drivername=_CLIENTS[backend][0])
    return parsed


def _engine(url: str, timeout_s: float) -> sa.Engine:
    parsed = _parsed(url)
    import sqlalchemy  # noqa: PLC0415

    client = parsed.drivername.partition("+")[2]
    limits: dict[str, Any] = {"timeout": timeout_s} if not client else {}
    if client == "psycopg":
        limits = {"connect_timeout": math.ceil(timeout_s)}
    elif client == "pymysql":
        limits = dict.fromkeys(("connect_timeout", "read_timeout", "write_timeout"), timeout_s)
        # Its default locks the gaps between rows, so that writes of other keys wait, or deadlock.
        limits["init_command"] = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
    pool: dict[str, Any] = {"poolclass": sqlalchemy.QueuePool, "pool_timeout": timeout_s}
    try:
        engine = sqlalchemy.create_engine(
            parsed,
            connect_args={name: limits[name] for name in limits if name not in parsed.query},
            isolation_level="AUTOCOMMIT",
            skip_autocommit_rollback=True,
            hide_parameters=True,
            **pool,
        )
    except ImportError as error:
        raise _missing(str(error.name), _CLIENTS[parsed.get_backend_name()][1]) from None
    except TypeError as error:
        raise InvalidArgument(f"the URL has a wrong option: {error}") from None
    if client == "psycopg":
        _limit_psycopg(engine, timeout_s)
    elif not client:
        _set_up_sqlite(engine)
    return engine


def _limit_psycopg(engine: sa.Engine, timeout_s: float) -> None:
    """Let connections wait for an answer no longer than this: libpq has no such limit."""
    import psycopg  # noqa: PLC0415
    import sqlalchemy  # noqa: PLC0415

    def limited(steps: Any) -> Generator[Any, Any, Any]:  # noqa: ANN401 - As in psycopg, which waits in steps.
        until = time.monotonic() + timeout_s
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted
                if time.monotonic() > until:
                    raise psycopg.OperationalError(f"no answer within {timeout_s} s")
                wanted = steps.send(ready)
        except StopIteration as end:
            return end.value

    class Connection(psycopg.Connection[Any]):
        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            return super().wait(limited(gen), *arguments, **options)

    @sqlalchemy.event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: Any, options: Any) -> Connection:  # noqa: ANN401
        return Connection.connect(*arguments, **options)


def _set_up_sqlite(engine: sa.Engine) -> None:
    import sqlalchemy  # noqa: PLC0415

    @sqlalchemy.event.listens_for(engine, "connect")
    def connected(connection: Any, _record: Any) -> None:  # noqa: ANN401
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")


# --- Statements --------------------------------------------------------------------------------


def _table(name: str, dialect: str) -> sa.Table:
    import sqlalchemy as sa  # noqa: PLC0415
    from sqlalchemy.dialects import mysql  # noqa: PLC0415

    def binary(count: int) -> Any:  # noqa: ANN401
        return mysql.VARBINARY(count) if dialect in _MYSQL else sa.LargeBinary()

    whole = mysql.LONGBLOB() if dialect in _MYSQL else sa.LargeBinary()
    return sa.Table(
        name,
        sa.MetaData(),
        sa.Column("place", binary(512), primary_key=True),
        sa.Column("name", whole),
        sa.Column("value", whole, nullable=False),
        sa.Column("ends", sa.BigInteger),
        sa.Column("version", binary(_VERSION_BYTES), nullable=False),
        sa.Index(f"{name}_ends", "ends"),
        implicit_returning=False,  # An insert has nothing to return but its count.
    )


def _now(dialect: str) -> sa.ColumnElement[Any]:
    """Microseconds since 1970 by the clock of the database."""
    import sqlalchemy as sa  # noqa: PLC0415

    return sa.literal_column(
        {
            "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
            "postgresql": "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)",
        }.get(dialect, "timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))"),
        sa.BigInteger,
    )


def _statements(table: sa.Table, dialect: str) -> dict[str, Any]:
    import sqlalchemy as sa  # noqa: PLC0415

    at, ends, now = table.c.place, table.c.ends, _now(dialect)
    is_alive = sa.or_(ends.is_(None), ends > now)
    # By its column, a parameter has the right type also if it is None.
    given_at = sa.bindparam("at", type_=at.type)
    is_it = sa.and_(at == given_at, is_alive)
    is_version = sa.and_(is_it, table.c.version == sa.bindparam("old"))
    is_one = at.in_(sa.bindparam("places", expanding=True))
    new_ends = now + sa.bindparam("ttl", type_=sa.BigInteger)
    content = {
        "name": sa.bindparam("whole", type_=table.c.name.type),
        "value": sa.bindparam("bytes", type_=table.c.value.type),
        "ends": new_ends,
        "version": sa.bindparam("new", type_=table.c.version.type),
    }
    row = {"place": given_at, **content}
    page = sa.select(at, table.c.name).where(is_alive).order_by(at).limit(sa.bindparam("count"))
    found = sa.select(at, table.c.name, table.c.value, (ends - now).label("rest"), table.c.version)
    statements: dict[str, Any] = {
        "get": found.where(is_one, is_alive),
        "swap": sa.update(table).where(is_version).values(content),
        "touch": sa.update(table).where(is_it).values(ends=new_ends),
        "delete": sa.delete(table).where(is_it),
        "delete version": sa.delete(table).where(is_version),
        "delete many": sa.delete(table).where(is_one, is_alive),
        "scan from": page.where(at >= sa.bindparam("after")),
        "scan after": page.where(at > sa.bindparam("after")),
        "ended": sa.select(at).where(ends <= now).limit(sa.bindparam("count")),
        "sweep": sa.delete(table).where(is_one, ends <= now),
        "now": sa.select(now),
    }
    statements["set"] = _upsert(table, dialect, row)
    known_ends = {"ends": sa.bindparam("until", type_=sa.BigInteger)}
    statements["set many"] = _upsert(table, dialect, {**row, **known_ends})
    if dialect in _MYSQL:
        statements["add"] = sa.insert(table).values(row).prefix_with("IGNORE")
        statements["delete ended"] = sa.delete(table).where(at == given_at, ends <= now)
    else:
        statements["add"] = _upsert(table, dialect, row, where=ends <= now)
    return statements


def _upsert(table: sa.Table, dialect: str, row: _Row, where: Any = None) -> Any:  # noqa: ANN401
    from sqlalchemy.dialects import mysql, postgresql, sqlite  # noqa: PLC0415

    others = [column for column in row if column != "place"]
    if dialect in _MYSQL:
        insert = mysql.insert(table).values(row)
        return insert.on_duplicate_key_update({one: insert.inserted[one] for one in others})
    upsert = (postgresql if dialect == "postgresql" else sqlite).insert(table).values(row)
    taken = {one: upsert.excluded[one] for one in others}
    return upsert.on_conflict_do_update(index_elements=["place"], set_=taken, where=where)


# --- Small things ------------------------------------------------------------------------------


def _all(connection: sa.Connection, statement: Any, row: _Row) -> list[Any]:  # noqa: ANN401
    return list(connection.execute(statement, row))


def _us(ttl_s: Optional[float]) -> Optional[int]:
    return None if ttl_s is None else max(1, int(min(ttl_s * 1e6, _TTL_US_MAX)))


def _batches(items: list[_R]) -> Iterator[list[_R]]:
    return (items[i : i + _ROWS_AT_ONCE] for i in range(0, len(items), _ROWS_AT_ONCE))


def _codes(error: Exception) -> set[Any]:
    """The numbers of an error: an SQLSTATE of PostgreSQL, or the number of MySQL."""
    cause = getattr(error, "orig", None)
    first = getattr(cause, "args", ())[:1]
    return {getattr(cause, "sqlstate", None), *(one for one in first if isinstance(one, int))}


def _is_lost(error: Exception) -> bool:
    return bool(getattr(error, "connection_invalidated", False)) or isinstance(error, OSError)


# --- Fork --------------------------------------------------------------------------------------

_drivers: weakref.WeakSet[Sql] = weakref.WeakSet()
# Connections of the parent, which a child must not close.
_parents: list[Any] = []


def _after_fork() -> None:
    for driver in list(_drivers):
        _parents.append(driver._engine.pool)  # noqa: SLF001
        driver._engine.dispose(close=False)  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
