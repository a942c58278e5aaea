"""T-N1: every operation of a tier in front of a server, while the network breaks in every way.

Each case has a key with a copy in the near tier, and one without. One operation runs on the latter
while a fault holds. Then the network is whole again, and so is the service.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import pytest

from drivers.faults import NONSENSE, answering
from drivers.proxy import LOOPBACK, Proxy
from drivers.servers import Server
from reliability.networks import HANG_S
from tuckbox.drivers.breaker import Breaker
from tuckbox.drivers.memcached import Memcached
from tuckbox.drivers.redis import Redis
from tuckbox.errors import DriverError, Unreachable, Unsupported
from tuckbox.remote import cache as remote
from tuckbox.tiers.shared_first import SharedFirst
from tuckbox.tiers.tiering import Tiering

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-N1"), pytest.mark.timeout(120)]

TIMEOUT_S = 0.15
PATIENT_S = 20.0
MAX_STALE_S = 600.0
"""So long that no tier is cleared: after a gap, that comes after half of this."""

SERVERS: dict[str, Callable[[int, float], Any]] = {
    "redis": lambda port, limit_s: Redis(LOOPBACK, port, timeout_s=limit_s),
    "memcached": lambda port, limit_s: Memcached(f"{LOOPBACK}:{port}", timeout_s=limit_s),
}


class Asked(AssertionError):
    """The server was asked for what is near."""


# --- Faults ---------------------------------------------------------------------------------------


@contextmanager
def simple(what: Callable[[Proxy], object], proxy: Proxy) -> Iterator[None]:
    """What a proxy does by itself."""
    what(proxy)
    try:
        yield
    finally:
        proxy.heal()


@contextmanager
def resetting(proxy: Proxy) -> Iterator[None]:
    """All connections are reset again and again, and cut in between."""
    is_over = threading.Event()

    def reset() -> None:
        while not is_over.wait(0.002):
            proxy.cut_after(0)
            proxy.drop()

    thread = threading.Thread(target=reset)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        proxy.heal()


@contextmanager
def nonsense(name: str, proxy: Proxy) -> Iterator[None]:
    """Another program listens at the address."""
    server = proxy._target
    with answering(NONSENSE[name]) as port:
        proxy.lead_to((LOOPBACK, port))
        try:
            yield
        finally:
            proxy.lead_to(server)


FAULTS: dict[str, Callable[[Proxy], Any]] = {
    "refuse": partial(simple, Proxy.refuse),
    "accept and hang": partial(simple, lambda proxy: proxy.hold_after(0)),
    "hang in a reply": partial(simple, lambda proxy: proxy.hold_after(3)),
    "delay": partial(simple, lambda proxy: proxy.delay(0.01)),
    "close": partial(simple, lambda proxy: proxy.cut_after(0)),
    "cut after 1 byte": partial(simple, lambda proxy: proxy.cut_after(1)),
    "cut after 9 bytes": partial(simple, lambda proxy: proxy.cut_after(9)),
    "cut after 40 bytes": partial(simple, lambda proxy: proxy.cut_after(40)),
    "reset": resetting,
    "text": partial(nonsense, "text"),
    "endless length": partial(nonsense, "endless length"),
}


# --- Operations -----------------------------------------------------------------------------------


class Operation(NamedTuple):
    """An operation on a key that has a value."""

    run: Callable[[Any, str, int], object]
    """Gets the tier, the key and a new value."""
    misses: Callable[[object], bool] | None = None
    """For a read: whether it has returned that there is nothing."""
    lists: bool = False
    """Whether it visits keys, which memcached cannot."""


def _is(expected: object) -> Callable[[object], bool]:
    return lambda found: found == expected


def _item(tier: Any, key: str, _new: int) -> object:
    try:
        return tier[key]
    except KeyError:
        return None


OPERATIONS: dict[str, Operation] = {
    "get": Operation(lambda tier, key, _: tier.get(key), _is(None)),
    "[]": Operation(_item, _is(None)),
    "in": Operation(lambda tier, key, _: key in tier, _is(False)),
    "get_many": Operation(lambda tier, key, _: tier.get_many([key, "nothing"]), _is({})),
    "get_entry": Operation(lambda tier, key, _: tier.get_entry(key), _is(None)),
    "ttl": Operation(lambda tier, key, _: tier.ttl(key), _is(None)),
    "get_or_set": Operation(
        lambda tier, key, new: tier.get_or_set(key, lambda: new), lambda _: False
    ),
    "get in a namespace": Operation(lambda tier, _, __: tier.namespace("n").get("a"), _is(None)),
    "set": Operation(lambda tier, key, new: tier.set(key, new, 60)),
    "[] =": Operation(lambda tier, key, new: tier.__setitem__(key, new)),
    "set with a tag": Operation(lambda tier, key, new: tier.set(key, new, tags=["t"])),
    "set_many": Operation(lambda tier, key, new: tier.set_many({key: new, f"{key}+": new})),
    "add": Operation(lambda tier, key, new: tier.add(key, new)),
    "setdefault": Operation(lambda tier, key, new: tier.setdefault(key, new)),
    "replace": Operation(lambda tier, key, new: tier.replace(key, new)),
    "cas": Operation(lambda tier, key, new: tier.cas(key, new, 12345)),
    "touch": Operation(lambda tier, key, _: tier.touch(key, 600)),
    "get_and_touch": Operation(lambda tier, key, _: tier.get_and_touch(key, 600)),
    "incr": Operation(lambda tier, key, _: tier.incr(key)),
    "decr": Operation(lambda tier, key, _: tier.decr(key, default=0)),
    "delete": Operation(lambda tier, key, _: tier.delete(key)),
    "del": Operation(lambda tier, key, _: tier.__delitem__(key)),
    "delete_many": Operation(lambda tier, key, _: tier.delete_many([key, f"{key}+"])),
    "pop": Operation(lambda tier, key, _: tier.pop(key, None)),
    "evict": Operation(lambda tier, _, __: tier.evict(tag="t")),
    "set in a namespace": Operation(lambda tier, _, new: tier.namespace("n").set("a", new)),
    "clear a namespace": Operation(lambda tier, _, __: tier.namespace("n").clear()),
    "len": Operation(lambda tier, _, __: len(tier), lists=True),
    "iter": Operation(lambda tier, _, __: list(tier), lists=True),
    "expire": Operation(lambda tier, _, __: tier.expire(), lists=True),
    "popitem": Operation(lambda tier, _, __: tier.popitem(), lists=True),
    "clear": Operation(lambda tier, _, __: tier.clear(), lists=True),
}


KINDS = ("warm", "cold")
"""Keys with a copy in the near tier, and without."""


class Counting(Breaker):
    """Counts what is asked."""

    count = 0

    def get(self, key: bytes) -> Any:
        self.count += 1
        return super().get(key)

    def ask(self, operation: Any) -> Any:
        self.count += 1
        return super().ask(operation)


class Case:
    """A tier behind a proxy, and a way around that."""

    def __init__(
        self,
        stack: ExitStack,
        path: Path,
        server: Server,
        case: tuple[str, str, str],
        tier: type[SharedFirst],
    ) -> None:
        self.kind, self.fault, self.on_outage = kind, fault, on_outage = case
        self.proxy = stack.enter_context(Proxy((LOOPBACK, server.port)))
        self.limit_s = PATIENT_S if fault == "delay" else TIMEOUT_S
        self.driver = Counting(SERVERS[kind](self.proxy.port, self.limit_s))
        prefix = f"{fault} {on_outage}"
        far = remote.Cache(self.driver, prefix)
        near = {"size": "4 MiB", "max_stale": MAX_STALE_S, "on_outage": on_outage}
        self.tier: Any = tier(far, str(path), **near)  # type: ignore[arg-type]
        stack.callback(self.tier.close)
        self.direct: Any = remote.Cache(SERVERS[kind](server.port, PATIENT_S), prefix)
        stack.callback(self.direct.close)
        self.unanswered = 0
        self.told: list[bytes] = []
        """The keys of messages about changes, after they were applied."""
        coverage = self.tier._tiers.coverage
        if coverage is not None:
            (side,) = coverage._sides
            side.apply = partial(self._apply, side.apply)

    def _apply(self, apply: Callable[[Any], None], keys: Any) -> None:
        apply(keys)
        self.told.extend(keys or ())

    def _until_told(self) -> None:
        """Wait until the tier has heard of all former changes: a message may come late."""
        fence = f"fence {time.monotonic()}"
        self.direct.set(fence, 1)
        sent_s = time.monotonic()

        def is_told() -> bool:
            nonlocal sent_s
            if time.monotonic() > sent_s + 1:  # The watch has begun after it.
                self.direct.set(fence, 1)
                sent_s = time.monotonic()
            with suppress(DriverError):
                self.tier.get("nothing")  # The first read starts the watch.
            return any(fence.encode() in key for key in self.told)

        self._until(is_told, "it is not told of changes")
        self.told.clear()

    def run(self) -> int:
        """Try all operations under the fault. Return how many that were."""
        values = {name: 1000 * (number + 1) for number, name in enumerate(OPERATIONS)}
        self.direct.set_many({f"{kind} {name}": values[name] for kind in KINDS for name in values})
        if self.tier._tiers.coverage is not None:
            self._until_told()
        for name, value in values.items():
            self._until(partial(self._is_near, f"warm {name}", value), "the copy is not kept")
        for name, value in values.items():
            try:
                self._try(name, value)
            except Exception as error:
                raise AssertionError(
                    f"{self.kind}, {self.fault}, on_outage={self.on_outage!r}, {name}: {error!r}"
                ) from error
        assert self.unanswered or self.fault == "delay", f"{self.fault} does nothing"
        return len(OPERATIONS)

    def _try(self, name: str, old: int) -> None:
        warm, cold, new = f"warm {name}", f"cold {name}", old + 500
        with FAULTS[self.fault](self.proxy):
            if name != "clear":
                self._demand_near(warm, old)
            is_done = self._operate(OPERATIONS[name], cold, old, new)
            if name not in {"popitem", "clear"}:
                self._demand_near(warm, old)
        # Normal service.
        self._until(self._stores, "it does not store")
        known = {None, old, new, old + 1, old - 1}
        truth = self.direct.get(cold)
        assert truth in known, f"the server has {truth}"
        if is_done and name in {"set", "[] =", "set with a tag", "set_many", "replace"}:
            assert truth == new, f"acknowledged, but the server has {truth}"
        found: object = None

        def is_found() -> bool:
            # On a busy machine, a whole network can be too slow, too.
            nonlocal found
            with suppress(DriverError):
                found = self.tier.get(cold)
            return found is not None or truth is None

        self._until(is_found, "what the server has is not found")
        assert found == truth, f"the tier has {found}, and the server {truth}"

    def _until(self, holds: Callable[[], bool], otherwise: str) -> None:
        give_up_s = time.monotonic() + HANG_S
        while not holds():
            assert time.monotonic() < give_up_s, f"{otherwise}: {self.tier.health()}"
            time.sleep(0.01)

    def _is_near(self, key: str, value: int) -> bool:
        with suppress(DriverError):
            if self.tier.get(key) == value:
                before = self.driver.count
                return bool(self.tier.get(key) == value and self.driver.count == before)
        return False

    def _stores(self) -> bool:
        with suppress(DriverError):
            self.tier.set("probe", 1)
            return True
        return False

    def _demand_near(self, key: str, value: int) -> None:
        """Near entries are served, and the server is not asked."""
        before = self.driver.count
        found = [
            self.tier.get(key),
            self.tier[key],
            self.tier.get_many([key]).get(key),
            self.tier.get_or_set(key, lambda: -1),
        ]
        assert found == [value] * len(found), found
        assert key in self.tier
        if self.driver.count != before:
            raise Asked(key)

    def _operate(self, operation: Operation, key: str, old: int, new: int) -> bool:
        """Run it. Return whether it was done."""
        try:
            found = operation.run(self.tier, key, new)
        except Unsupported:
            assert operation.lists
            assert self.kind == "memcached"
            self.unanswered += 1
            return False
        except Unreachable:
            assert self.fault != "delay", "a slow answer is one"
            is_read = operation.misses is not None
            assert not is_read or self.on_outage == "raise", "a read raises"
            self.unanswered += 1
            return False
        if operation.misses is not None and operation.misses(found):
            self.unanswered += self.fault != "delay"
        elif isinstance(found, int) and not isinstance(found, bool) and not operation.lists:
            assert found in {old, new, old + 1, old - 1, 1}, f"a wrong value: {found}"
        return True


CASES = [(fault, "miss") for fault in FAULTS] + [
    (fault, on_outage)
    for fault in ("refuse", "accept and hang", "cut after 9 bytes")
    for on_outage in ("serve", "raise")
]


def tried(
    folder: Path, rounds: int, cases: list[tuple[str, str]], tier: type[SharedFirst] = SharedFirst
) -> int:
    """Try faults on all servers, side by side. Return how many cases there were."""
    count = 0
    with ExitStack() as stack:
        servers = {}
        for kind in SERVERS:
            (folder / kind).mkdir()
            servers[kind] = stack.enter_context(Server(kind, folder / kind))
        for turn in range(rounds):
            with ExitStack() as inner, ThreadPoolExecutor(2 * len(cases)) as pool:
                jobs = [
                    pool.submit(
                        Case(
                            inner,
                            folder / f"{turn} {number} {kind}",
                            server,
                            (kind, *case),
                            tier,
                        ).run
                    )
                    for number, case in enumerate(cases)
                    for kind, server in servers.items()
                ]
                count += sum(job.result() for job in jobs)
    return count


def test_every_operation_under_every_fault(tmp_path: Path, trials: Trials, size: Any) -> None:
    trials.add(tried(tmp_path, size(1, 20), CASES), "operations under a fault")


@pytest.mark.parametrize("kind", SERVERS)
def test_every_read_serves_old_copies_in_an_outage(
    tmp_path: Path, trials: Trials, kind: str
) -> None:
    """With ``on_outage="serve"``, after `max_stale`."""
    (tmp_path / "server").mkdir()
    with ExitStack() as stack:
        server = stack.enter_context(Server(kind, tmp_path / "server"))
        proxy = stack.enter_context(Proxy((LOOPBACK, server.port)))
        far = remote.Cache(Breaker(SERVERS[kind](proxy.port, TIMEOUT_S)))
        tier: Any = SharedFirst(far, str(tmp_path / "near"), max_stale=0.2, on_outage="serve")
        stack.callback(tier.close)
        tier.set_many({"a": 1, "b": 2})
        give_up_s = time.monotonic() + HANG_S
        while True:  # A message about the change may end the first copies.
            time.sleep(0.1)
            assert tier.get_many(["a", "b"]) == {"a": 1, "b": 2}
            if kind == "memcached" or tier.health().far_hits > 2:
                break
            assert time.monotonic() < give_up_s
        proxy.refuse()
        time.sleep(0.5)
        assert tier.get("a") == 1
        assert tier.get_many(["a", "b"]) == {"a": 1, "b": 2}
        assert "a" in tier
        assert tier.get_or_set("a", lambda: -1) == 1
    trials.add(4, "reads in an outage")


# --- Controls -------------------------------------------------------------------------------------


class AlwaysAsks(SharedFirst):
    """Asks the server for what is near."""

    def __contains__(self, key: object) -> bool:
        return key in self._far


class Raises(SharedFirst):
    """A read raises while the server does not answer."""

    def _asked(self, read: Any, _otherwise: Any) -> Any:
        return read()


class Acknowledges(SharedFirst):
    """Tells that a value is stored although it may not be."""

    def replace(self, *arguments: Any, **terms: Any) -> bool:
        with suppress(DriverError):
            return super().replace(*arguments, **terms)
        return True


class Keeps(SharedFirst):
    """Keeps a value near that the server may not have."""

    def set(self, key: Any, value: Any, ttl: Any = None, **terms: Any) -> None:
        try:
            super().set(key, value, ttl, **terms)
        except DriverError:
            super(Tiering, self).set(key, value)
            raise


@pytest.mark.parametrize("tier", [AlwaysAsks, Raises, Acknowledges, Keeps])
def test_a_tier_that_depends_on_its_server_is_caught(
    tmp_path: Path, tier: type[SharedFirst]
) -> None:
    with pytest.raises(AssertionError, match="refuse, on_outage"):
        tried(tmp_path, 1, [("refuse", "miss")], tier)
