"""What tiers promise beyond the contract of all stores: coherence, outages, forks, and one trip.

Each near tier is a file of its own, as on another machine, unless a test says otherwise.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, ClassVar

import pytest

from drivers.machines import PATIENT_S, client, commands, in_child, is_near, keep, listening, until
from drivers.proxy import LOOPBACK, Proxy
from drivers.servers import Server
from tuckbox import connect
from tuckbox.drivers.memory import Memory
from tuckbox.errors import CacheReadOnly, DriverError, InvalidArgument, Unreachable
from tuckbox.remote.cache import Cache as Remote
from tuckbox.tiers.memory_first import MemoryFirst
from tuckbox.tiers.shared_first import SharedFirst
from tuckbox.tiers.tiering import Tiering

if TYPE_CHECKING:
    from pathlib import Path


class TestCopies:
    def test_the_second_read_is_near(self, machine: Callable[..., Any]) -> None:
        cache = listening(machine())
        cache.set("k", {"name": "Ada"}, ttl=60, tags=["users"])
        until(lambda: cache.get("k") == {"name": "Ada"} and is_near(cache, "k"))

    def test_a_copy_never_lives_longer(self, machine: Callable[..., Any]) -> None:
        cache = listening(machine())
        cache.set("k", 1, ttl=0.6)
        ends_s = time.monotonic() + 0.6
        until(lambda: cache.get("k") is None)
        assert time.monotonic() >= ends_s - 0.05
        assert "k" not in cache

    def test_many_keys_take_one_trip(self, machine: Callable[..., Any], redis: Server) -> None:
        keys = [f"k{number}" for number in range(100)]
        machine().set_many({key: key for key in keys})
        cache = listening(machine())
        with Proxy((LOOPBACK, redis.port)) as proxy:
            reader = listening(machine(proxy.port))
            before = commands(redis)
            assert reader.get_many(keys) == {key: key for key in keys}
            # One, and the PINGs of those that listen.
            assert commands(redis) - before < len(keys) / 2
        assert cache.get_many(keys) == {key: key for key in keys}
        until(lambda: is_near(cache, keys[7]))

    def test_a_key_that_cannot_be_stored_is_a_miss(self, machine: Callable[..., Any]) -> None:
        cache = listening(machine())
        cache.set(1, "one")
        assert cache.get(1.0) == "one"
        assert cache.get(None) is None
        assert 2.5 not in cache

    def test_a_value_that_is_too_large_to_be_near(self, machine: Callable[..., Any]) -> None:
        cache = listening(machine())
        cache.set("k", b"x" * (9 << 20))
        assert cache.get("k") == b"x" * (9 << 20)

    def test_read_only_tiers_keep_copies(self, machine: Callable[..., Any]) -> None:
        machine().set("k", 1)
        cache = listening(machine(read_only=True))
        assert cache.get("k") == 1
        until(lambda: is_near(cache, "k"))
        with pytest.raises(CacheReadOnly):
            cache.set("k", 2)


class TestCoherence:
    CHANGES: ClassVar[dict[str, Callable[[Any], object]]] = {
        "set": lambda cache: cache.set("k", 2),
        "set_many": lambda cache: cache.set_many({"k": 2}),
        "delete": lambda cache: cache.delete("k"),
        "delete_many": lambda cache: cache.delete_many(["k"]),
        "incr": lambda cache: cache.incr("k"),
        "replace": lambda cache: cache.replace("k", 2),
        "cas": lambda cache: cache.cas("k", 2, cache.get_entry("k").version),
        "pop": lambda cache: cache.pop("k"),
        "touch to nothing": lambda cache: cache.touch("k", 0),
        "evict": lambda cache: cache.evict(tag="t"),
        "clear": lambda cache: cache.clear(),
        "get_or_set": lambda cache: cache.get_or_set("k", lambda: 2, force=True),
    }

    @pytest.mark.parametrize("name", CHANGES)
    def test_a_change_reaches_the_other_machine(
        self, machine: Callable[..., Any], name: str
    ) -> None:
        writer, reader = listening(machine()), listening(machine(max_stale=600))
        writer.set("k", 1, tags=["t"])
        until(lambda: reader.get("k") == 1 and is_near(reader, "k"))
        self.CHANGES[name](writer)
        assert writer.get("k") != 1
        until(lambda: reader.get("k") != 1)
        assert reader.get("k") == writer.get("k")

    @pytest.mark.parametrize("names", [("blog",), ("blog", "posts")])
    def test_so_do_changes_in_namespaces(
        self, machine: Callable[..., Any], names: tuple[str, ...]
    ) -> None:
        def part(cache: Any) -> Any:
            for name in names:
                cache = cache.namespace(name)
            return cache

        writer, reader = part(listening(machine())), part(listening(machine(max_stale=600)))
        for change in (lambda: writer.set("k", 2), lambda: writer.delete("k"), writer.clear):
            writer.set("k", 1)
            until(lambda: reader.get("k") == 1 and is_near(reader, "k"))
            change()
            until(lambda: reader.get("k") != 1)

    def test_what_empties_the_server_empties_the_copies(
        self, machine: Callable[..., Any], redis: Server
    ) -> None:
        reader = listening(machine(max_stale=600))
        keep(reader, {"k": 1})
        client(redis).flushall()
        until(lambda: reader.get("k") is None)

    def test_a_value_on_its_way_is_not_kept(self, machine: Callable[..., Any]) -> None:
        cache, other = listening(machine(max_stale=600)), machine()
        cache.set("k", 1)
        fetch = cache._far.get_entry

        def fetch_slowly(key: str, *, stale: bool = False) -> Any:
            entry = fetch(key, stale=stale)
            changes = cache.health().changes
            other.set("k", 2)
            until(lambda: cache.health().changes > changes)
            return entry

        cache._far.get_entry = fetch_slowly
        assert cache.get("k") == 1  # As it was when it was asked for.
        cache._far.get_entry = fetch
        assert cache.get("k") == 2

    def test_a_value_that_is_made_again_replaces_the_copy(
        self, machine: Callable[..., Any], memcached: Server
    ) -> None:
        cache = machine(far=f"memcached://{LOOPBACK}:{memcached.port}", max_stale=600)
        cache.set("k", 1)
        assert cache.get("k") == 1
        assert cache.get_or_set("k", lambda: 2, force=True) == 2
        assert cache.get("k") == 2

    def test_copies_end_where_nobody_tells_changes(
        self, machine: Callable[..., Any], memcached: Server
    ) -> None:
        far = f"memcached://{LOOPBACK}:{memcached.port}"
        writer, reader = machine(far=far), machine(far=far, max_stale=2.0)
        writer.set("k", 1)
        assert reader.get("k") == 1
        assert is_near(reader, "k")
        writer.set("k", 2)
        until(lambda: reader.get("k") == 2)
        assert reader.health().is_listening is None

    def test_nor_where_nobody_wants_to_be_told(self, machine: Callable[..., Any]) -> None:
        writer, reader = machine(), machine(max_stale=2.0, tracking=False)
        writer.set("k", 1)
        assert reader.get("k") == 1
        assert is_near(reader, "k")
        writer.set("k", 2)
        until(lambda: reader.get("k") == 2)
        assert reader.health().is_listening is None

    def test_a_chain_never_adds_up(self, tmp_path: Path, memcached: Server) -> None:
        far = f"memcached://{LOOPBACK}:{memcached.port}"
        near = (f"memory:{tmp_path.name}", f"shared://{tmp_path}/near.tuck")
        with connect(*near, far, prefix=str(tmp_path), max_stale=600) as chain:
            middle = chain._far
            chain.set("k", 1, ttl=3600)
            assert middle.get("k") == 1
            time.sleep(2.0)
            assert chain.get("k") == 1
            # A copy of a copy ends with it, and not two seconds later.
            ends_s = [super(Tiering, one).get_entry("k").expiry for one in (chain, middle)]
            assert ends_s[0] < ends_s[1] + 1.5


class TestStart:
    def test_another_process_that_listens_keeps_the_copies(
        self, machine: Callable[..., Any], tmp_path: Path
    ) -> None:
        near = f"shared://{tmp_path}/both.tuck"
        first = listening(machine(near=near))
        keep(first, {"k": 1})
        second = listening(machine(near=near))
        assert second.health().gaps == 0
        assert is_near(second, "k")

    def test_copies_of_which_nobody_was_told_are_cleared(
        self, machine: Callable[..., Any], tmp_path: Path
    ) -> None:
        near = f"shared://{tmp_path}/both.tuck"
        first = listening(machine(near=near, max_stale=0.5))
        keep(first, {"k": 1})
        first.close()
        machine().set("k", 2)
        second = machine(near=near, max_stale=0.5)
        time.sleep(0.5)
        assert second.get("k") == 2
        assert listening(second).health().gaps == 1
        assert second.get("k") == 2

    def test_a_fork_listens_for_itself(self, machine: Callable[..., Any]) -> None:
        cache = listening(machine(max_stale=0.5))
        cache.set("k", 1)
        until(lambda: cache.get("k") == 1)
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                assert cache.get("k") == 1
                os.write(tell, b"1")
                time.sleep(0.6)
                cache.get("k")
                until(lambda: cache.health().is_listening)
                until(lambda: cache.get("k") == 2)
                status = 0
            finally:
                os._exit(status)
        os.close(tell)
        assert os.read(told, 1) == b"1"
        os.close(told)
        cache.set("k", 2)
        _, status = os.waitpid(child, 0)
        assert status == 0
        assert cache.get("k") == 2
        assert cache.health().is_listening

    def test_a_fork_while_a_thread_counts(self, machine: Callable[..., Any]) -> None:
        cache = machine()
        cache.set("k", 1)
        for owner in (cache._tiers, cache._far._store):
            held, is_forked = threading.Event(), threading.Event()

            def hold(
                owner: Any = owner,
                held: threading.Event = held,
                is_forked: threading.Event = is_forked,
            ) -> None:
                with owner._counting:
                    held.set()
                    is_forked.wait(PATIENT_S)

            thread = threading.Thread(target=hold)
            thread.start()
            held.wait(PATIENT_S)
            assert in_child(lambda: cache.get("k")) == 1
            is_forked.set()
            thread.join()


class TestOutages:
    @pytest.fixture
    def cache(self, machine: Callable[..., Any], proxy: Proxy) -> Any:
        """With a copy of `k`, and not of `other`."""
        cache = listening(machine(proxy.port, max_stale=3.0))
        cache.set("other", 2)
        until(lambda: cache.health().changes == 1)
        keep(cache, {"k": 1})
        return cache

    def test_copies_are_served_until_max_stale(self, cache: Any, proxy: Proxy) -> None:
        proxy.refuse()
        lost_s = time.monotonic()
        served_s = lost_s
        while (value := cache.get("k")) is not None:
            assert value == 1
            served_s = time.monotonic()
            assert served_s < lost_s + PATIENT_S
        assert cache.get("k") is None
        assert cache.health().far_errors > 0
        assert "does not answer" in cache.health().error
        # After the last confirmation, which was at most a fifth of that ago.
        assert served_s > lost_s + 0.5

    def test_or_longer_if_asked_to(self, machine: Callable[..., Any], proxy: Proxy) -> None:
        cache = listening(machine(proxy.port, max_stale=0.3, on_outage="serve"))
        keep(cache, {"k": 1})
        proxy.refuse()
        time.sleep(0.6)
        assert cache.get("k") == 1
        assert cache.get("other") is None

    def test_or_longer_where_copies_end(
        self, machine: Callable[..., Any], memcached: Server
    ) -> None:
        with Proxy((LOOPBACK, memcached.port)) as proxy:
            far = f"memcached://{LOOPBACK}:{proxy.port}?timeout_s=0.2"
            cache = machine(far=far, max_stale=0.3, on_outage="serve")
            cache.set("k", 1, ttl=600)
            assert cache.get("k") == 1
            proxy.refuse()
            time.sleep(0.5)
            assert cache.get("k") == 1

    def test_reads_miss_and_writes_raise(self, cache: Any, proxy: Proxy) -> None:
        proxy.refuse()
        assert cache.get("other") is None
        assert cache.get("other", "default") == "default"
        assert "other" not in cache
        assert cache.get_entry("other") is None
        assert cache.get_many(["other", "k"]) == {"k": 1}
        with pytest.raises(KeyError):
            cache["other"]
        for write in (
            lambda: cache.set("k", 3),
            lambda: cache.delete("k"),
            lambda: cache.evict(tag="t"),
            lambda: cache.incr("k"),
            cache.clear,
        ):
            with pytest.raises(Unreachable):
                write()
        # It may have been done.
        assert cache.get("k") is None

    def test_reads_raise_if_asked_to(self, machine: Callable[..., Any], proxy: Proxy) -> None:
        cache = machine(proxy.port, on_outage="raise")
        proxy.refuse()
        for read in (
            lambda: cache.get("k"),
            lambda: cache.get_many(["k"]),
            lambda: cache["k"],
            lambda: "k" in cache,
            lambda: cache.get_or_set("k", lambda: 1),
        ):
            with pytest.raises(DriverError):
                read()

    def test_a_near_hit_waits_for_nobody(self, machine: Callable[..., Any], redis: Server) -> None:
        cache = listening(machine(max_stale=600))
        keep(cache, {"k": 1})
        redis.pause()
        try:
            waiting = [threading.Thread(target=cache.get, args=(f"w{n}",)) for n in range(4)]
            for thread in waiting:
                thread.start()
            assert all(is_near(cache, "k") for _ in range(10))
            for thread in waiting:
                thread.join(PATIENT_S)
                assert not thread.is_alive()
        finally:
            redis.resume()

    def test_one_maker_goes_on_for_the_machine(self, cache: Any, proxy: Proxy) -> None:
        proxy.refuse()
        made: list[int] = []

        def make() -> int:
            made.append(1)
            time.sleep(0.2)
            return 7

        results: list[object] = []
        threads = [
            threading.Thread(target=lambda: results.append(cache.get_or_set("new", make)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENT_S)
        assert results == [7] * 8
        assert len(made) == 1
        assert cache.get("new") == 7
        proxy.heal()
        # What was made meanwhile is not in the far tier.
        until(lambda: listening(cache).get("other") == 2)
        assert cache.get("new") is None

    def test_it_recovers(self, cache: Any, proxy: Proxy) -> None:
        proxy.refuse()
        until(lambda: cache.get("k") is None)
        proxy.heal()
        until(lambda: cache.get("k") == 1)
        listening(cache)
        assert cache.health().gaps >= 2
        assert cache.health().error is None
        until(lambda: cache.get("k") == 1 and is_near(cache, "k"))

    def test_a_server_that_comes_back_empty(
        self, machine: Callable[..., Any], tmp_path: Path
    ) -> None:
        with Server("redis", tmp_path, ("--save", "", "--appendonly", "no")) as server:
            cache = listening(machine(server.port, max_stale=0.5))
            keep(cache, {"k": 1})
            server.kill()
            until(lambda: cache.get("k") is None)
            server.start()
            until(lambda: cache.health().is_listening)
            assert cache.get("k") is None
            cache.set("k", 2)
            assert cache.get("k") == 2

    def test_a_server_that_refuses_everything(
        self, machine: Callable[..., Any], redis: Server
    ) -> None:
        far = f"redis://nobody:wrong@{LOOPBACK}:{redis.port}"
        cache = machine(far=far)
        assert cache.get("k") is None
        with pytest.raises(DriverError):
            cache.set("k", 1)
        assert "password" in cache.health().error

    def test_a_server_that_nobody_runs_is_asked_rarely(
        self, machine: Callable[..., Any], proxy: Proxy
    ) -> None:
        cache = machine(proxy.port)
        proxy.refuse()
        for _ in range(1000):
            assert cache.get("k") is None
        told = set()
        # One of these may come when the server is asked again, but not all.
        for _ in range(20):
            with pytest.raises(Unreachable) as raised:
                cache.set("k", 1)
            told.add("in a row" in str(raised.value))
        assert True in told


class TestArguments:
    @pytest.mark.parametrize("max_stale", [0, -1, float("inf"), float("nan"), "5", None, True])
    def test_max_stale(self, max_stale: Any) -> None:
        for kind in (SharedFirst, MemoryFirst):
            with pytest.raises(InvalidArgument, match="max_stale"):
                kind(Remote(Memory(), "app"), max_stale=max_stale)

    def test_on_outage(self) -> None:
        with pytest.raises(InvalidArgument, match="on_outage"):
            connect("shared:", "redis://", on_outage="hope")  # type: ignore[arg-type]

    def test_tracking(self) -> None:
        with pytest.raises(InvalidArgument, match="tracking"):
            connect("shared:", "redis://", tracking="yes")  # type: ignore[arg-type]

    def test_only_the_last_may_be_a_server(self) -> None:
        with pytest.raises(InvalidArgument, match="only be the last") as raised:
            connect("redis://:secret@host", "shared:")
        assert "secret" not in str(raised.value)
        with pytest.raises(InvalidArgument, match="at least one"):
            connect()

    def test_they_say_what_they_are(self, machine: Callable[..., Any], redis: Server) -> None:
        cache = machine()
        assert repr(cache).startswith("<SharedFirst '/")
        assert f"redis at {LOOPBACK}:{redis.port}" in repr(cache)

    def test_they_cannot_be_pickled(self, machine: Callable[..., Any]) -> None:
        with pytest.raises(TypeError, match="connect in each process"):
            machine().__reduce__()
