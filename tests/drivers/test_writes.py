"""Ways of writing: what `set` leaves near, what waits, what is lost, and who sees it meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Callable

import pytest

import tuckbox
from drivers.machines import PATIENT_S, client, in_child, is_near, listening, until
from drivers.proxy import LOOPBACK, Proxy
from tuckbox import connect
from tuckbox.errors import DriverError, InvalidArgument, InvalidTag, KeyTypeError, ValueTypeError
from tuckbox.tiers import behind
from tuckbox.tiers.tiering import _near

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from drivers.servers import Server

_Open = Callable[..., Any]


class TestThrough:
    @pytest.fixture(params=["memcached", "redis"])
    def opened(
        self, request: pytest.FixtureRequest, machine: _Open, memcached: Server, redis: Server
    ) -> _Open:
        """Opens tiers whose far one tells no changes."""
        port = {"memcached": memcached, "redis": redis}[request.param].port
        far = f"{request.param}://{LOOPBACK}:{port}"

        def open_through(**options: Any) -> Any:
            how = {"far": far, "writes": "through", "tracking": False, **options}
            return machine(**how)

        return open_through

    STORES: tuple[Callable[[Any], object], ...] = (
        lambda cache: cache.set("k", [1], 60, tags=["t"]),
        lambda cache: cache.set_many({"k": [1], "other": 2}, "1m", tags=iter(["t"])),
        lambda cache: cache.update(k=[1]),
        lambda cache: cache.__setitem__("k", [1]),
        lambda cache: cache.delete("k") and cache.get_or_set("k", lambda: [1], 60, tags=["t"]),
    )

    @pytest.mark.parametrize("number", range(len(STORES)))
    def test_what_is_stored_is_near(self, opened: _Open, number: int) -> None:
        cache = opened(max_stale=600)
        cache.set("k", "old")
        self.STORES[number](cache)
        assert is_near(cache, "k")
        assert cache.get("k") == [1]
        assert opened().get("k") == [1]

    def test_the_copy_has_the_terms_of_the_entry(self, opened: _Open) -> None:
        cache = opened(max_stale=600)
        cache.set("short", 1, ttl=0.5)
        ends_s = time.monotonic() + 0.5
        cache.set("tagged", 1, tags=["t"])
        cache.namespace("part").set("k", 1)
        assert is_near(cache, "tagged")
        cache.evict(tag="t")
        cache.namespace("part").clear()
        assert cache.get("tagged") is None
        assert cache.namespace("part").get("k") is None
        while time.monotonic() < ends_s:
            time.sleep(0.05)
        assert cache.get("short") is None

    def test_the_copy_is_never_older_than_max_stale(self, opened: _Open) -> None:
        cache = opened(max_stale=1.0)
        cache.set("k", 1)
        assert is_near(cache, "k")
        opened().set("k", 2)
        time.sleep(1.0)
        assert cache.get("k") == 2

    @pytest.mark.parametrize("change", ["set", "delete", "incr"])
    def test_a_change_in_between_refuses_the_copy(
        self, opened: _Open, tmp_path: Path, change: str
    ) -> None:
        near = f"shared://{tmp_path}/both.tuck"
        cache, other = (opened(near=near, max_stale=600) for _ in range(2))
        store = cache._far.set

        def store_and_be_overtaken(*arguments: Any, **terms: Any) -> None:
            store(*arguments, **terms)
            {"set": lambda: other.set("k", 2), "incr": lambda: other.incr("k")}.get(
                change, lambda: other.delete("k")
            )()

        cache._far.set = store_and_be_overtaken
        cache.set("k", 1)
        assert cache.get("k") == other.get("k") == (None if change == "delete" else 2)

    def test_an_older_value_that_is_on_its_way_is_refused(
        self, opened: _Open, tmp_path: Path
    ) -> None:
        near = f"shared://{tmp_path}/both.tuck"
        cache, other = (opened(near=near, max_stale=600) for _ in range(2))
        opened().set("k", 1)
        begin, leases = cache._begin_copy, []

        def begin_second(key: str) -> Any:
            leases.append(other._begin_copy(key)[2])
            return begin(key)

        cache._begin_copy = begin_second
        old = other.get_entry("k")
        cache.set("k", 2)
        assert other._kept_until(leases[0], "k", old, other._now_us()) is None
        assert cache.get("k") == other.get("k") == 2

    def test_a_write_that_failed_leaves_no_copy(self, machine: _Open, proxy: Proxy) -> None:
        cache = machine(proxy.port, writes="through", tracking=False)
        cache.set("k", 1)
        proxy.refuse()
        with pytest.raises(DriverError):
            cache.set("k", 2)
        with pytest.raises(DriverError):
            cache.set_many({"k": 2})
        assert cache.get("k") is None

    def test_it_is_refused_where_messages_would_remove_the_copy(self, machine: _Open) -> None:
        with pytest.raises(InvalidArgument, match="tracking=False"):
            machine(writes="through")


class TestBehind:
    @pytest.fixture
    def down(self, machine: _Open, proxy: Proxy) -> Iterator[Any]:
        """Tiers whose server has ``k`` and does not answer."""
        cache = listening(machine(proxy.port, writes="behind", max_stale=600))
        cache.set("k", 1)
        assert cache.flush(PATIENT_S)
        proxy.refuse()
        yield cache
        proxy.heal()

    def test_a_write_arrives(self, machine: _Open) -> None:
        cache, other = machine(writes="behind"), machine()
        assert cache._tiers.behind._thread is None
        cache.set("k", 1, 60, tags=["t"])
        cache.set_many({"a": 1, "b": 2}, ttl="1h")
        cache["c"] = 3
        cache.update(d=4)
        part = cache.namespace("part")
        part.set("k", 5)
        assert (cache.get("k"), cache["c"], part.get("k")) == (1, 3, 5)
        until(lambda: other.get_many(list("kabcd")) == dict(zip("kabcd", (1, 1, 2, 3, 4))))
        until(lambda: other.namespace("part").get("k") == 5)
        entry = other.get_entry("k")
        assert entry.tags == ("t",)
        assert entry.expiry < time.time() + 60
        assert 3500 < other.ttl("a") < 3600
        assert cache.flush(PATIENT_S)
        assert (cache.health().waiting, cache.health().dropped) == (0, 0)

    def test_it_waits_for_a_server_that_is_down(
        self, down: Any, machine: _Open, proxy: Proxy
    ) -> None:
        for number in range(100):
            down.set("k", number)
            down.set_many({"a": number, "b": [number]}, ttl=60)
        assert not down.flush(0.3)
        health = down.health()
        assert health.waiting == 3
        assert health.far_errors > 0
        assert health.error is not None
        proxy.heal()
        assert down.flush(PATIENT_S)
        assert down.health().waiting == 0
        assert machine().get_many(["k", "a", "b"]) == {"k": 99, "a": 99, "b": [99]}

    def test_this_process_reads_what_waits(self, down: Any) -> None:
        value = [2]
        down.set("k", value)
        value.append(3)  # What is stored is a copy.
        down.set("short", 1, ttl=0.2)
        assert down.get("k") == down["k"] == down.get("k", default=0) == [2]
        assert "k" in down
        assert down.get_many(["k", "missing"]) == {"k": [2]}
        assert down.get_or_set("k", lambda: 3) == [2]
        assert down.setdefault("k", 3) == [2]
        assert down.get_or_set("k", lambda: 3, early=1) == [2]
        time.sleep(0.2)
        assert down.get("short") is None
        assert "short" not in down
        assert down.get_many(["short"]) == {}
        assert down.get(1.5) is None
        with pytest.raises(KeyTypeError):
            down.get([])

    def test_even_if_an_older_value_is_copied(
        self, down: Any, machine: _Open, tmp_path: Path
    ) -> None:
        down.set("k", 2)
        _near(down).clear()  # As after a gap.
        other = listening(machine(near=f"shared://{down.path}", max_stale=600))
        until(lambda: other.get("k") == 1 and is_near(other, "k"))
        assert down.get("k") == 2
        assert down.get_many(["k"]) == {"k": 2}
        assert down.get_or_set("k", lambda: 3, early=1) == 2

    def test_other_processes_of_the_machine_read_it(
        self, down: Any, machine: _Open, proxy: Proxy
    ) -> None:
        down.set_many({"k": [2], "new": 3})
        other = machine(near=f"shared://{down.path}", tracking=False, writes="behind")
        assert other.get("k") == [2]
        assert other.get_many(["k", "new", "none"]) == {"k": [2], "new": 3}
        down.set("k", 4)
        assert other.get("k") == 4
        assert other.delete("k")
        assert other.get("k") is None
        proxy.heal()
        assert down.flush(PATIENT_S)
        other.set("k", 5)
        assert down.get("k") == 5

    def test_a_ttl_counts_from_the_write(self, down: Any, machine: _Open, proxy: Proxy) -> None:
        down.set("k", 2, ttl=0.3)
        down.set("long", 2, ttl=60)
        time.sleep(0.5)
        proxy.heal()
        assert down.flush(PATIENT_S)
        assert machine().get("k") is None
        assert machine().ttl("long") < 59.6

    def test_an_operation_with_an_answer_comes_after_it(
        self, machine: _Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(behind.Behind, "_run", lambda _: None)  # Only they send.
        cache, other = machine(writes="behind"), machine()
        cache.set("n", 5, tags=["t"])
        assert cache.incr("n") == 6
        cache.set("n", 7)
        assert cache.add("n", 8) is False
        cache.set("n", 9)
        assert cache.delete("n") is True
        cache.set("n", 10)
        entry = cache.get_entry("n")
        assert (entry.value, cache.cas("n", 11, entry.version)) == (10, True)
        cache.set("n", 12, ttl=60)
        cache.set("n", 13, keep_ttl=True)
        assert 0 < cache.ttl("n") <= 60
        cache.set("n", 14, ttl=0)
        assert other.get("n") is None
        cache.set("a", 1, tags=["t"])
        cache.evict(tag="t")
        assert other.get("a") is cache.get("a") is None
        cache.set("b", 1)
        assert list(cache) == ["b"]
        cache.namespace("part").set("k", 1)
        cache.namespace("part").clear()
        assert other.namespace("part").get("k") is None
        cache.set("b", 2)
        assert cache.touch("b", 60)
        assert other.get("b") == 2
        cache.set("b", 3)
        cache.clear()
        assert len(other) == 0

    def test_wrong_arguments_raise_at_once(self, down: Any, machine: _Open) -> None:
        with pytest.raises(ValueTypeError):
            down.set("k", object())
        with pytest.raises(KeyTypeError):
            down.set_many({"a": 1, 2.5: 1})
        with pytest.raises(InvalidTag):
            down.set("k", 2, tags="t")
        with pytest.raises(TypeError):
            down.set_many(7)
        assert down.health().waiting == 0
        with pytest.raises(tuckbox.errors.CacheReadOnly):
            machine(writes="behind", read_only=True).set("k", 1)

    def test_a_queue_that_is_full_is_sent_by_the_writer(
        self, down: Any, machine: _Open, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(behind, "_BYTES_MAX", 4000)
        with pytest.raises(DriverError):
            for number in range(100):
                down.set(number, b"x" * 100)
        assert number > 3
        assert down.health().waiting == number
        proxy.heal()
        until(lambda: down.flush(1))
        for number in range(100):
            down.set(number, b"x" * 100)
        assert down.flush(PATIENT_S)
        assert len(machine().get_many(range(100))) == 100

    def test_one_write_that_cannot_be_sent_does_not_hold_up_others(
        self, machine: _Open, redis: Server
    ) -> None:
        rights = ("on", "nopass", "~*good*", "%R~*", "+@all")
        client(redis).execute_command("ACL", "SETUSER", "partly", *rights)
        far = f"redis://partly:any@{LOOPBACK}:{redis.port}"
        cache = machine(far=far, writes="behind", tracking=False)
        cache.set("bad", 1)
        cache.set_many({f"good{number}": number for number in range(200)})
        other = machine()
        until(lambda: len(other.get_many([f"good{number}" for number in range(200)])) == 200)
        until(lambda: cache.health().waiting == 1)
        assert not cache.flush(0)
        client(redis).execute_command("ACL", "SETUSER", "partly", "~*")
        assert cache.flush(PATIENT_S)
        assert other.get("bad") == 1

    def test_a_value_that_cannot_be_stored_is_given_up(self, machine: _Open) -> None:
        class Thing:
            pass

        tuckbox.register(Thing, name="thing", encode=lambda _: 1, decode=_raise)
        cache, other = machine(writes="behind"), machine()
        cache.set_many({"a": 1, "thing": Thing(), "b": 2})
        assert not cache.flush(PATIENT_S)
        assert (cache.health().waiting, cache.health().dropped) == (0, 1)
        assert other.get_many(["a", "b", "thing"]) == {"a": 1, "b": 2}
        assert cache.flush(PATIENT_S)

    def test_close_sends_what_waits(self, machine: _Open) -> None:
        cache = machine(writes="behind")
        cache.set_many({number: number for number in range(1000)})
        cache.close()
        assert cache._tiers.behind._thread is None or not cache._tiers.behind._thread.is_alive()
        assert len(machine().get_many(range(1000))) == 1000

    def test_close_gives_up(
        self, down: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(behind, "CLOSE_S", 0.2)
        down.set("k", 2)
        down.close()
        assert "1 writes were given up" in caplog.text
        assert down._tiers.behind.dropped == 1

    PROGRAM = """
import os, sys, threading
from tuckbox import connect

cache = connect(sys.argv[1], sys.argv[2], prefix=sys.argv[3], writes="behind", max_stale=1.0)
for number in range(int(sys.argv[4])):
    cache.set(number, number)
if sys.argv[5] == "killed":
    os._exit(9)
"""

    def run(self, redis: Server, tmp_path: Path, count: int, ending: str, port: int = 0) -> int:
        near = f"shared://{tmp_path}/program.tuck"
        far = f"redis://{LOOPBACK}:{port or redis.port}?timeout_s=0.5"
        words = (near, far, str(tmp_path), str(count), ending)
        program = [sys.executable, "-c", self.PROGRAM, *words]
        return subprocess.run(program, timeout=60, check=False).returncode

    def test_the_exit_of_the_interpreter_sends_what_waits(
        self, machine: _Open, redis: Server, tmp_path: Path
    ) -> None:
        assert self.run(redis, tmp_path, 500, "exits") == 0
        assert len(machine().get_many(range(500))) == 500

    def test_a_process_that_is_killed_loses_what_waits(
        self, machine: _Open, redis: Server, proxy: Proxy, tmp_path: Path
    ) -> None:
        proxy.refuse()
        assert self.run(redis, tmp_path, 10, "killed", proxy.port) == 9
        near = f"shared://{tmp_path}/program.tuck"
        cache = machine(near=near, writes="behind", max_stale=1.0)
        # Others of the machine see the lost value for no longer than `max_stale`.
        time.sleep(1.0)
        assert cache.get_many(range(10)) == {}

    def test_a_fork_has_a_queue_of_its_own(self, down: Any, machine: _Open, proxy: Proxy) -> None:
        down.set("k", 2)
        locks = down._tiers.behind._sending, down._tiers.behind._changing
        held, is_forked = threading.Event(), threading.Event()

        def hold() -> None:
            with locks[0], locks[1]:
                held.set()
                is_forked.wait(PATIENT_S)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(PATIENT_S)

        def work() -> int:
            assert down.health().waiting == 0
            assert down.get("k") == 2  # As every process of the machine.
            down.set("child", 3)
            assert down.get("child") == 3
            assert down.health().waiting == 1
            proxy_is_healed.wait()
            return 0 if down.flush(PATIENT_S) else 1

        proxy_is_healed = _Signal()
        child = threading.Thread(target=lambda: results.append(in_child(work)))
        results: list[int] = []
        child.start()
        time.sleep(0.3)
        is_forked.set()
        thread.join()
        proxy.heal()
        proxy_is_healed.set()
        child.join()
        assert results == [0]
        assert down.flush(PATIENT_S)
        assert machine().get_many(["k", "child"]) == {"k": 2, "child": 3}

    def test_many_threads_write(self, machine: _Open, redis: Server) -> None:
        patient = f"redis://{LOOPBACK}:{redis.port}?timeout_s={PATIENT_S}"
        cache = machine(far=patient, writes="behind")
        errors: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for turn in range(200):
                    cache.set(("own", number), turn)
                    assert cache.get(("own", number)) == turn
                    cache.set("shared", [number, turn])
                    if turn % 50 == 49:
                        assert cache.flush(PATIENT_S)
                        assert cache.get_entry(("own", number)).value == turn
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert cache.flush(PATIENT_S)
        other = machine(far=patient)
        assert other.get_many([("own", number) for number in range(6)]) == {
            ("own", number): 199 for number in range(6)
        }
        assert other.get("shared")[1] == 199

    def test_event_loops(self, machine: _Open) -> None:
        import asyncio

        cache = machine(writes="behind")

        async def work() -> None:
            await cache.aset("k", 1)
            assert await cache.aget("k") == 1
            assert await cache.aincr("k") == 2
            await cache.aset_many({"a": 1})
            assert await cache.aget_or_set("a", lambda: 2) == 1

        asyncio.run(work())
        assert cache.flush(PATIENT_S)
        assert machine().get("k") == 2

    def test_it_needs_a_server(self) -> None:
        with pytest.raises(InvalidArgument, match="server"):
            connect("memory:", "shared:", writes="behind")
        with pytest.raises(InvalidArgument, match="near tier"):
            connect("shared:", writes="behind")
        with pytest.raises(InvalidArgument, match="writes must be one of"):
            connect("shared:", "redis://", writes="later")  # type: ignore[arg-type]


class _Signal:
    """An event for a child that is forked after this."""

    def __init__(self) -> None:
        self._told, self._tell = os.pipe()

    def set(self) -> None:
        os.write(self._tell, b"1")
        os.close(self._tell)

    def wait(self) -> None:
        os.read(self._told, 1)
        os.close(self._told)


def _raise(_: object) -> object:
    raise RuntimeError("it cannot be decoded")
