"""`FaultTests`: what each driver of a server must withstand: wrong servers, dead ones, cut replies.

Subclass it, and give it two fixtures: ``server``, a `Server` of the module that listens on a port,
and ``reach``, which opens a driver at a port of loopback with a limit in seconds.

The short form leaves out what costs minutes and shows the same again; ``--nightly`` does it all.
"""

from __future__ import annotations

import http.server
import inspect
import os
import signal
import socketserver
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Callable, ClassVar, TypeVar

import pytest

from drivers.proxy import LOOPBACK, Proxy
from tuckbox.brief import WouldBlock, briefly
from tuckbox.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from _typeshed import TraceFunction

    from drivers.servers import Server
    from tuckbox.drivers.contract import Driver

Reach = Callable[[int, float], "Driver"]
Tried = Callable[["Driver"], list[Callable[[], object]]]
_R = TypeVar("_R")

# Long enough for any answer of a live server here, and waited for only where one must come.
PATIENT_S = 30.0
SHORT_S = 0.15

NONSENSE = {
    "nothing": b"",
    "text": b"220 mail.example.org ESMTP\r\n",
    "zeros": b"\x00" * 4096,
    "numbers": b":1\r\n" * 64,
    "OK": b"+OK\r\nSTORED\r\n" * 64,
    "lists": b"*2\r\n$1\r\n0\r\n*0\r\n" * 64,
    "one number": b":1\r\n",
    "one OK": b"+OK\r\n",
    "one list": b"*1\r\n*1\r\n:1\r\n",
    "one STORED": b"STORED\r\n",
    "another key": b"VALUE other 0 1 1\r\nx\r\nEND\r\n" * 64,
    "endless length": b"$999999999999999999999\r\n" * 8,
    "wrong length": b"*1\r\n$zz\r\nVALUE k 0 zz 1\r\n",
}


class Interrupted(BaseException):
    """As KeyboardInterrupt, which pytest would take for its own."""


@contextmanager
def answering(nonsense: bytes) -> Iterator[int]:
    """A server that answers each request with these bytes, or closes. Yields its port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while self.request.recv(1 << 16) and nonsense:
                self.request.sendall(nonsense)

    class Threads(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that leaves early is no error here."""

    with Threads((LOOPBACK, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def operations(driver: Driver) -> dict[str, Callable[[], object]]:
    return {
        "get": lambda: driver.get(b"k"),
        "get_many": lambda: driver.get_many([b"k", b"l"]),
        "set": lambda: driver.set(b"k", b"v", None),
        "set_many": lambda: driver.set_many([(b"k", b"v", None), (b"l", b"v", 5)]),
        "add": lambda: driver.add(b"k", b"v", None),
        "swap": lambda: driver.swap(b"k", b"v", None, b"12345678"),
        "delete": lambda: driver.delete(b"k"),
        "delete a version": lambda: driver.delete(b"k", b"12345678"),
        "delete_many": lambda: driver.delete_many([b"k", b"l"]),
        "touch": lambda: driver.touch(b"k", 5),
        "touch for ever": lambda: driver.touch(b"k", None),
        "ping": driver.ping,
    }


def interrupted_at(line: int, operation: Callable[[], object], files: str) -> bool:
    """Interrupt an operation before it runs this many lines of some files, counted from 0.

    The files are those whose path begins with ``files``.

    Returns:
        False if it ran to its end.
    """
    left = line

    def trace(frame: FrameType, event: str, _: object) -> TraceFunction | None:
        nonlocal left
        if not frame.f_code.co_filename.startswith(files):
            return None
        if event == "line":
            left -= 1
            if left < 0:
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        operation()
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False


def patiently(operation: Callable[[], _R]) -> _R:
    """The result of an operation at a live server, with a driver whose limit is short.

    On a busy machine, the limit can be over before the server gets to run.
    """
    give_up = time.monotonic() + PATIENT_S
    while True:
        try:
            return operation()
        except Unreachable:
            if time.monotonic() > give_up:
                raise


class FaultTests:
    """See the module."""

    has_handshake: ClassVar[bool] = False
    """Whether the client talks to the server before it sends its first operation."""
    cuts: ClassVar[int] = 64
    """At about how many of its bytes the short form cuts a reply."""

    @pytest.fixture
    def is_nightly(self, request: pytest.FixtureRequest) -> bool:
        return bool(request.config.getoption("nightly"))

    @pytest.fixture
    def tried(self, is_nightly: bool) -> Tried:
        """The operations to try at a server that never answers as it must.

        If a handshake fails, no operation is sent: the short form tries three of them.
        """
        names = ("get", "set", "add") if self.has_handshake and not is_nightly else None
        return lambda driver: [
            operation
            for name, operation in operations(driver).items()
            if names is None or name in names
        ]

    @pytest.fixture
    def proxy(self, server: Server) -> Iterator[Proxy]:
        with Proxy((LOOPBACK, server.port)) as proxy:
            yield proxy

    # --- Servers that are not there, or others -------------------------------------------------

    def test_nothing_listens(self, reach: Reach, proxy: Proxy, tried: Tried) -> None:
        driver = reach(proxy.port, PATIENT_S)  # Opens no connection yet.
        proxy.refuse()
        for operation in tried(driver):
            with pytest.raises(Unreachable, match="does not answer"):
                operation()
        proxy.heal()
        driver.set(b"k", b"v", None)
        assert driver.get(b"k") is not None

    @pytest.mark.parametrize("name", NONSENSE)
    def test_nonsense_is_no_answer(self, reach: Reach, tried: Tried, name: str) -> None:
        with answering(NONSENSE[name]) as port:
            driver = reach(port, SHORT_S)  # Some nonsense looks like the beginning of an answer.
            for operation in tried(driver):
                try:
                    found = operation()
                except Unreachable:
                    continue
                # Nonsense can be a right answer by chance, but never a value.
                assert found is None or found == {} or type(found) in (bool, int), found

    def test_a_web_server_is_no_cache(self, reach: Reach, tried: Tried) -> None:
        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Nothing to say."""

        with http.server.ThreadingHTTPServer((LOOPBACK, 0), Quiet) as web:
            threading.Thread(target=web.serve_forever, args=(0.02,), daemon=True).start()
            driver = reach(web.server_port, 1.0)
            for operation in tried(driver):
                with pytest.raises(Unreachable, match="check"):
                    operation()
            web.shutdown()

    def test_a_server_that_was_restarted_is_used_again(self, reach: Reach, server: Server) -> None:
        driver = reach(server.port, PATIENT_S)
        driver.set(b"k", b"v", None)
        server.kill()
        with pytest.raises(Unreachable):
            driver.get(b"k")
        server.start()
        driver.set(b"k", b"w", None)
        server.kill()
        server.start()  # Between two calls.
        driver.set(b"k", b"x", None)
        found = driver.get(b"k")
        assert found is not None
        assert found.value == b"x"

    def test_a_stopped_server_costs_the_time_limit(
        self, reach: Reach, server: Server, tried: Tried
    ) -> None:
        driver = reach(server.port, SHORT_S)
        patiently(driver.ping)
        server.pause()
        try:
            for operation in tried(driver):
                with pytest.raises(Unreachable):
                    operation()
        finally:
            server.resume()
        reach(server.port, PATIENT_S).ping()

    # --- Replies that are cut or late ----------------------------------------------------------

    @pytest.mark.timeout(900)
    def test_after_a_cut_reply_the_next_answer_is_its_own(
        self, reach: Reach, proxy: Proxy, is_nightly: bool
    ) -> None:
        driver = reach(proxy.port, PATIENT_S)
        length = _stored(driver, proxy)
        step = 1 if is_nightly else max(1, length // self.cuts)
        for count in sorted({*range(0, length, step), length - 2, length - 1}):
            proxy.cut_after(count)
            with pytest.raises(Unreachable):
                driver.get(b"former")
            proxy.heal()
            assert _values(driver, b"next", b"former") == [b"N" * 20, b"F" * 20]

    def test_a_late_reply_answers_nothing_else(self, reach: Reach, proxy: Proxy) -> None:
        length = _stored(reach(proxy.port, PATIENT_S), proxy)
        driver = reach(proxy.port, SHORT_S)
        patiently(driver.ping)
        for count in sorted({0, 1, 4, length // 2, length - 2, length - 1}):
            proxy.hold_after(count)
            with pytest.raises(Unreachable):
                driver.get(b"former")
            proxy.heal()
            found = patiently(lambda: _values(driver, b"next", b"former"))
            assert found == [b"N" * 20, b"F" * 20]

    @pytest.mark.parametrize("count", [0, 5])
    def test_an_interrupted_operation_drops_its_connection(
        self, reach: Reach, proxy: Proxy, count: int
    ) -> None:
        driver = reach(proxy.port, PATIENT_S)
        _stored(driver, proxy)

        def interrupt(*_: object) -> None:
            raise Interrupted

        before = signal.signal(signal.SIGUSR1, interrupt)
        try:
            for name, operation in operations(driver).items():
                proxy.hold_after(count)
                alarm = threading.Timer(SHORT_S, os.kill, (os.getpid(), signal.SIGUSR1))
                alarm.start()
                try:
                    with pytest.raises(Interrupted):
                        operation()
                        signal.pause()  # Whose reply is shorter than what was let through.
                finally:
                    alarm.join()
                proxy.heal()
                assert _values(driver, b"next", b"former") == [b"N" * 20, b"F" * 20], name
        finally:
            signal.signal(signal.SIGUSR1, before)

    def test_slow_replies_are_waited_for(self, reach: Reach, proxy: Proxy) -> None:
        driver = reach(proxy.port, PATIENT_S)
        proxy.delay(0.05)
        driver.set(b"k", b"v", None)
        assert _values(driver, b"k") == [b"v"]

    def test_a_reset_connection_is_replaced(self, reach: Reach, proxy: Proxy) -> None:
        driver = reach(proxy.port, PATIENT_S)
        driver.set(b"k", b"v", None)
        proxy.drop()
        assert _values(driver, b"k") == [b"v"]

    # --- Event loops ---------------------------------------------------------------------------

    def test_an_event_loop_does_not_wait(self, reach: Reach, server: Server) -> None:
        driver = reach(server.port, PATIENT_S)
        for name, operation in operations(driver).items():
            with pytest.raises(WouldBlock):
                briefly(0.0, operation)
            assert name


class LineFaultTests(FaultTests):
    """Of drivers that send requests and read replies themselves: an interruption in between."""

    # A connection that is dropped without a close is closed by the garbage collector.
    @pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:Exception ignored")
    @pytest.mark.parametrize("name", ["get", "set_many"])
    def test_an_interruption_at_any_line_mixes_no_answers(
        self, reach: Reach, proxy: Proxy, name: str
    ) -> None:
        driver = reach(proxy.port, PATIENT_S)
        _stored(driver, proxy)
        proxy.delay(0.01)  # So that the rest of an answer comes after the next request.
        line = 0
        files = inspect.getfile(type(driver)).removesuffix(".py")
        while interrupted_at(line, operations(driver)[name], files):
            assert _values(driver, b"next", b"former") == [b"N" * 20, b"F" * 20], line
            line += 1
        assert line > 10


def _stored(driver: Driver, proxy: Proxy) -> int:
    """Store the values of two keys. Return how many bytes the server replies to a get of one."""
    driver.set_many([(b"former", b"F" * 20, 600), (b"next", b"N" * 20, 600)])
    lengths = []
    for _ in range(3):
        before = proxy.replied
        driver.get(b"former")
        lengths.append(proxy.replied - before)
    return min(lengths)  # PyMongo may ask for the server's state meanwhile.


def _values(driver: Driver, *keys: bytes) -> list[bytes]:
    return [found.value for key in keys if (found := driver.get(key)) is not None]
