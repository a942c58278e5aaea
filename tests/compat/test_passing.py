"""Changes of one entry: without the lock while nobody holds it, and never during a transaction."""

from __future__ import annotations

import fcntl
import importlib
import multiprocessing
import os
import pickle
import signal
import time
from concurrent.futures import ProcessPoolExecutor

import pytest

from compat.cache_workers import (
    change_all,
    die_in_a_transaction,
    die_with_the_lock,
    hold,
    set_for_ever,
    set_in_turn,
)
from tuckbox.compat.diskcache import entries
from tuckbox.errors import EntryRefused

BEGUN = 2**48
"""What the engine adds to the weight from before a change until after it."""
SPAWN = multiprocessing.get_context("spawn")
ours = importlib.import_module("tuckbox.compat.diskcache")


@pytest.fixture
def other(dc, cache):
    """Another handle of the directory, which has no time to wait."""
    with dc.Cache(cache.directory, timeout=0.01) as other:
        yield other


def warm(*caches):
    """Make changes pass in each of these handles."""
    for _ in range(2):
        for cache in caches:
            cache.set("warm", "x")


def run(work, *arguments):
    process = SPAWN.Process(target=work, args=arguments)
    process.start()
    process.join(30)
    return process.exitcode


# --- Without the lock ----------------------------------------------------------------------------


def test_changes_of_one_entry_need_no_lock(tmp_path):
    with ours.Cache(str(tmp_path), timeout=0.01) as cache:
        cache.set("old", 1, expire=1000)
        warm(cache)
        # The lock is taken, but not as a handle takes it: the gate is open.
        with (tmp_path / "cache.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            assert cache.set("text", "x" * 100)
            assert cache.set("text", "y" * 1000)
            cache["bytes"] = b"x"
            assert cache.set("number", 1.5, tag="red")
            assert cache.set("object", {"a": [1]}, expire=2000)
            assert cache.set((1, "a"), "tuple")
            assert cache.set(1, "one")
            assert cache.set("k" * 10_000, "long key")
            assert cache.add("added", 1)
            assert not cache.add("added", 2)
            assert cache.incr("count") == 1
            assert cache.incr("count", 5) == 6
            assert cache.pop("bytes") == b"x"
            assert cache.delete("warm")
            assert not cache.delete("warm")
            assert cache.get("object", expire_time=True)[1] > time.time()
            assert cache.get("number", tag=True) == (1.5, "red")
            # These concern more than one entry.
            for needs_it in (
                lambda: cache.set("file", "x" * 40_000),
                lambda: cache.set("soonest", 1, expire=10),
                lambda: cache.push("item"),
                lambda: cache.evict("red"),
                lambda: cache.transact().__enter__(),
            ):
                with pytest.raises(ours.Timeout):
                    needs_it()
        assert list(cache) == [
            "old", "text", "number", "object", (1, "a"), 1, "k" * 10_000, "added", "count",
        ]  # fmt: skip
        assert cache["text"] == "y" * 1000
        assert cache.check() == []


def test_what_is_set_counts_the_same_whichever_way_it_takes(dc, tmp_path):
    """The most common values are set in one step, all others in several."""
    keys = ["a", "k" * 200, "\u00e9\u20ac", "\u00e9" * 90]
    values = ["", "x" * 500, "\u00e9" * 70, b"", b"\xff" * 90, 0, 2**40, -(2**63), 1.5]
    values += [2**70, None, (1, 2), True]
    paths = [tmp_path / "one step", tmp_path / "several"]
    with dc.Cache(str(paths[0])) as quick, dc.Cache(str(paths[1])) as slow:
        for cache in (quick, slow):
            cache.set("first", 1)
            cache.set("with a tag", 1, tag="red")
        for value in values:
            for key in [*keys, "with a tag"]:
                assert quick.set(key, value)
                # With a tag an entry takes the longer way, and so does its replacement.
                assert slow.set(key, value, tag="red")
                assert slow.set(key, value)
                assert quick[key] == slow[key] == value
                assert type(quick[key]) is type(value)
                assert quick.get(key, expire_time=True, tag=True) == (value, None, None)
        assert list(quick) == list(slow) == ["first", "with a tag", *keys]
        assert quick.check() == slow.check() == []


def test_files_that_are_replaced_are_removed(cache, tmp_path):
    for change in (
        lambda: cache.set("file", "small"),
        lambda: cache.set("file", {"a": 1}, tag="red"),
        lambda: cache.delete("file"),
        lambda: cache.pop("file"),
    ):
        cache.set("file", "x" * 40_000)
        warm(cache)
        change()
        assert [path.name for path in tmp_path.glob("**/*.val")] == []


# --- While somebody holds the lock ---------------------------------------------------------------


def test_nothing_is_changed_during_a_transaction(dc, cache, other):
    cache.set("red", 1, tag="red")
    cache.set("count", 7)
    warm(cache, other)
    before = {key: cache[key] for key in cache}
    with cache.transact():
        for change in (
            lambda: other.set("warm", "y"),
            lambda: other.set("new", "y"),
            lambda: other.set("new", ["y"], tag="t", expire=10),
            lambda: other.add("new", "y"),
            lambda: other.delete("warm"),
            lambda: other.pop("warm"),
            lambda: other.incr("count"),
            lambda: other.incr("another"),
        ):
            with pytest.raises(dc.Timeout):
                change()
        assert {key: cache[key] for key in cache} == before
        assert cache.incr("count") == 8
    assert other.incr("count") == 9
    assert other.delete("warm")


def test_nothing_is_changed_during_a_transaction_of_another_process(dc, cache, other):
    warm(cache, other)
    ready, release = SPAWN.Event(), SPAWN.Event()
    process = SPAWN.Process(target=hold, args=(dc.__name__, cache.directory, ready, release))
    process.start()
    assert ready.wait(30)
    with pytest.raises(dc.Timeout):
        other.set("warm", "y")
    with pytest.raises(dc.Timeout):
        other.delete("missing")
    release.set()
    process.join(30)
    assert other.set("warm", "y")


def test_a_change_that_has_looked_does_not_pass_later(tmp_path, monkeypatch):
    with ours.Cache(str(tmp_path)) as cache, ours.Cache(str(tmp_path)) as other:
        warm(cache, other)
        file = cache._entries.file
        look = file._look

        def interrupted(key, word):
            seen = look(key, word)
            monkeypatch.undo()
            with other.transact():
                other["warm"] = "of the transaction"
                other["first"] = 1
            return seen

        class Between:
            def __getattr__(self, name):
                return interrupted if name == "_look" else getattr(file, name)

        monkeypatch.setattr(cache._entries, "file", Between())
        cache.set("second", 2, tag="red")
        # It was refused, and so came after the transaction.
        assert list(cache) == ["warm", "first", "second"]
        assert cache.check() == []


def test_processes_lose_nothing_of_each_other(dc, cache):
    cache["passing"], cache["by hand"] = 0, 0
    arguments = [(dc.__name__, cache.directory, seed, 200) for seed in range(4)]
    with ProcessPoolExecutor(4, mp_context=SPAWN) as pool:
        added = list(pool.map(change_all, *zip(*arguments)))
    assert cache["passing"] == sum(first for first, _ in added)
    assert cache["by hand"] == sum(second for _, second in added)
    # The fixture compares the volume with the entries.
    assert len(list(cache)) == len(cache)


# --- Deaths --------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["set", "add", "delete", "pop", "incr"])
def test_a_change_after_a_death_in_a_transaction_undoes_it(tmp_path, change):
    with ours.Cache(str(tmp_path)) as cache:
        cache["small"], cache["large"] = "old", "x" * 40_000
        warm(cache)
        before = list(cache)
        assert run(die_in_a_transaction, str(tmp_path)) == -signal.SIGKILL
        arguments = {"set": ("small", "y"), "add": ("another", 1), "incr": ("count",)}
        getattr(cache, change)(*arguments.get(change, ("small",)))
        kept = [key for key in before if change not in {"delete", "pop"} or key != "small"]
        assert [key for key in cache if key not in {"another", "count"}] == kept
        assert cache["large"] == "x" * 40_000
        assert "new" not in cache
        found = [str(warning.message) for warning in cache.check()]
        # A file that no entry names any more may be left.
        assert [message for message in found if not message.startswith("unknown file")] == []


def test_changes_pass_again_after_a_death_with_the_lock(tmp_path):
    with ours.Cache(str(tmp_path), timeout=0.01) as cache:
        warm(cache)
        assert run(die_with_the_lock, str(tmp_path)) == -signal.SIGKILL
        # The first one takes the lock and opens the gate.
        cache.set("warm", "y")
        with (tmp_path / "cache.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            cache.set("warm", "z")
        assert cache["warm"] == "z"


def test_kills_leave_whole_entries_and_go_on(tmp_path):
    processes = [
        SPAWN.Process(target=set_for_ever, args=(str(tmp_path), seed)) for seed in range(3)
    ]
    for process in processes:
        process.start()
    with ours.Cache(str(tmp_path), size_limit=20_000) as cache:
        for process in processes:
            before = cache.get("count", 0)
            deadline = time.monotonic() + 60
            while cache.get("count", 0) < before + 200 and time.monotonic() < deadline:
                time.sleep(0.001)
            assert cache.get("count", 0) >= before + 200, "the others go on"
            os.kill(process.pid, signal.SIGKILL)
            process.join(30)
        with cache.transact():
            # The lock: whoever takes it adds up the weight again.
            assert cache.check() == []
        for key in cache:
            assert key == "count" or cache[key] == key * (len(cache[key]) // len(key))
        cache.set("new", "x" * 1000)
        assert cache["new"] == "x" * 1000
        assert cache.volume() <= 20_000


def test_who_takes_the_lock_adds_up_what_a_dead_change_has_weighed(tmp_path):
    with ours.Cache(str(tmp_path)) as cache, ours.Cache(str(tmp_path)) as other:
        warm(cache, other)
        volume = cache.volume()
        # As the engine counts a change that has begun, of 100 bytes.
        cache._entries.file._weigh(BEGUN + 100)
        assert other.set("warm", "y")
        assert cache.volume() == volume + 100, "nobody has taken the lock since"
        with other.transact():
            assert other.check() == []
        assert cache.volume() == other.volume() == volume
        assert cache.set("warm", "z")
        assert not cache._entries.file._is_weight_unsure


def test_pickles_of_changes_that_pass_are_signed(tmp_path):
    with ours.Cache(str(tmp_path), timeout=0.01, secret="a secret") as cache:
        warm(cache)
        with (tmp_path / "cache.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            assert cache.set((1, 2), {"a": [1]}, tag="red")
            assert cache.add("object", [1])
            assert cache.pop("object") == [1]
            assert cache.incr("count") == 1
        assert cache[1, 2] == {"a": [1]}
        place, _ = cache._place((1, 2))
        entry = cache._entries.peek(place)
        disk = ours.Disk(str(tmp_path), 1000, cache.disk_pickle_protocol)
        plain = {"key": disk.put((1, 2))[0], "value": disk.store({"a": [1]}, False)[3]}
        for kind, signed in (("key", place[0]), ("value", entry[0])):
            assert bytes(cache.disk._signatures.verify(kind, signed)) == plain[kind]
        cache._entries.file[place] = (plain["value"], *entry[1:])
        with pytest.raises(EntryRefused):
            cache[1, 2]


# --- What other handles must know ----------------------------------------------------------------


def test_the_order_of_two_handles(cache, other):
    warm(cache, other)
    expected = ["warm"]
    for number in range(50):
        for handle in (cache, other):
            key = f"{number} {handle is other}"
            handle.set(key, number)
            handle.set(expected[number // 2], "again")
            expected.append(key)
    assert list(cache) == expected
    assert list(reversed(other)) == expected[::-1]


def test_the_order_of_two_processes(dc, cache):
    turns = [SPAWN.Semaphore(1), SPAWN.Semaphore(0)]
    processes = [
        SPAWN.Process(target=set_in_turn, args=(dc.__name__, cache.directory, turns, number, 50))
        for number in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert list(cache) == [f"{time} of {number}" for time in range(50) for number in range(2)]


def test_the_latest_entry_is_that_of_any_handle(cache, other):
    warm(cache, other)
    for number in range(20):
        for handle in (cache, other):
            handle.set(f"{number} {handle is other}", number)
            assert cache.peekitem()[0] == other.peekitem()[0] == f"{number} {handle is other}"
            # Now both remember the latest ones; the next change passes.
            warm(cache, other)
        other.set("gone", 1)
        warm(cache, other)
        assert cache.peekitem()[0] == "gone"
        warm(cache, other)
        other.delete("gone")
        assert cache.peekitem()[0] == f"{number} True"


def test_an_expiry_of_another_handle_is_noticed(cache, other, clock):
    warm(cache, other)
    other.set("short", 1, expire=10)
    warm(cache, other)
    other.set("long", 1, expire=1000)
    warm(cache, other)
    clock.now += 100
    cache.set("warm", "y")
    assert list(cache) == ["warm", "long"]
    clock.now += 10_000
    other.set("warm", "z")
    assert list(cache) == ["warm"]


def test_the_item_of_another_handle_is_part_of_the_queue(cache, other):
    cache.set(1, "no item")
    warm(cache, other)
    assert other.push("item", "q") == "q-500000000000000"
    warm(cache, other)
    cache.set("q-500000000000100", "also an item")
    warm(cache, other)
    assert other.push("item", "q") == "q-500000000000101"
    warm(cache, other)
    assert cache.delete("q-500000000000101")
    assert other.push("item", "q") == "q-500000000000101"
    assert [cache.pull("q")[0] for _ in range(4)] == [
        "q-500000000000000", "q-500000000000100", "q-500000000000101", None,
    ]  # fmt: skip
    assert other.push("first again", "q") == "q-500000000000000"


def test_two_handles_of_a_queue(cache, other):
    expected = []
    for number in range(300):
        handle = cache if number % 3 else other
        side = "back" if number % 5 else "front"
        handle.push(number, side=side)
        expected.insert(0 if side == "front" else len(expected), number)
        if number % 4 == 3:
            assert (other if number % 7 else cache).pull()[1] == expected.pop(0)
            assert cache.pull(side="back")[1] == expected.pop()
        assert cache.peek()[1] == other.peek()[1] == expected[0]
    assert [cache[key] for key in cache.iterkeys()] == expected


# --- Getting the most common values --------------------------------------------------------------


VALUES = [
    "",
    "x",
    "x" * 63,
    "x" * 64,
    "\u00e9" * 300,
    b"",
    b"x" * 200,
    7,
    2**62,
    1.5,
    None,
    (1, "a"),
]


@pytest.mark.parametrize("policy", ["least-recently-stored", "least-frequently-used"])
@pytest.mark.parametrize("secret", [None, "secret"])
def test_a_get_returns_what_was_set_whatever_its_way(tmp_path, policy, secret):
    with ours.Cache(str(tmp_path), eviction_policy=policy, secret=secret) as cache:
        warm(cache)
        for key in ("key", "k" * 5000, "\udc80", b"key", 7, (1, "key")):
            for value in VALUES:
                cache.set(key, value)
                assert cache.get(key) == cache[key] == value
                assert type(cache.get(key)) is type(value)
                assert cache.get(key, expire_time=True, tag=True) == (value, None, None)
                cache.set(key, value, expire=1000, tag="red")
                assert cache.get(key) == value
                assert cache.get(key, tag=True) == (value, "red")
                assert cache.get(key, read=True) == value
            cache.delete(key)
            assert cache.get(key, "default") == "default"
        cache.stats(enable=True, reset=True)
        cache.set("key", "value")
        assert [cache.get("key"), cache.get("missing")] == ["value", None]
        assert cache.stats() == (1, 1)
        cache.stats(enable=False)
        cache.close()
        assert cache.get("key") == "value", "it is opened again"


# --- Waiting for the gate ------------------------------------------------------------------------


def test_a_change_waits_for_a_gate_that_opens_soon(tmp_path, monkeypatch):
    """If it took the lock as well, the next one would have to do so, too."""
    with ours.Cache(str(tmp_path)) as cache, ours.Cache(str(tmp_path)) as other:
        warm(cache, other)
        change = other._transact(opens=True)
        change.__enter__()
        naps = []

        def nap(seconds):
            if len(naps) == 3:
                change.__exit__(None, None, None)
            naps.append(seconds)

        monkeypatch.setattr(entries.time, "sleep", nap)
        monkeypatch.setattr(type(cache._entries.lock), "acquire", None)
        assert cache.set("warm", "y")
        assert len(naps) == 4
        assert other["warm"] == "y"


def test_a_change_does_not_wait_for_a_gate_that_nobody_else_opens(tmp_path, monkeypatch):
    def nap(_seconds):
        raise AssertionError("nobody would open it")

    with ours.Cache(str(tmp_path)) as cache, ours.Cache(str(tmp_path)) as other:
        warm(cache, other)
        with other.transact():
            other["warm"] = "x"
        monkeypatch.setattr(entries.time, "sleep", nap)
        assert cache.set("warm", "y")
        with cache.transact():
            cache["warm"] = cache.pop("warm") + "z"
            assert cache.add("new", 1)
            assert cache.incr("new") == 2
            assert cache.push("item") == cache.pull()[0]
        assert other["warm"] == "yz"


# --- Settings that a change must know ------------------------------------------------------------


def files(directory):
    return [name for _, _, names in os.walk(directory) for name in names if name.endswith(".val")]


def test_a_new_length_of_files_is_for_the_next_change(tmp_path):
    with ours.Cache(str(tmp_path)) as cache:
        warm(cache)
        cache.set("a", "x" * 100)
        assert files(tmp_path) == []
        cache.disk.min_file_size = 100
        cache.set("a", "x" * 99)
        assert files(tmp_path) == []
        cache.set("a", "y" * 100)
        assert len(files(tmp_path)) == 1
        cache.reset("disk_min_file_size", float("inf"))
        cache["a"] = "z" * 100
        assert files(tmp_path) == []
        assert cache["a"] == "z" * 100
        cache.reset("disk_min_file_size", 99.5)
        cache["a"] = "z" * 100
        assert len(files(tmp_path)) == 1


def test_a_new_limit_is_for_the_next_change(tmp_path):
    with ours.Cache(str(tmp_path), cull_limit=60) as cache:
        for number in range(100):
            cache.set(f"{number:03d}", "x" * 100)
        assert len(cache) == 100
        cache.reset("size_limit", 8000.5)
        cache.set("099", "y" * 100)
        assert cache.volume() < 8000.5
        assert cache["099"] == "y" * 100
        cache.size_limit = float("inf")
        for number in range(100):
            cache.set(f"{number:03d}", "x" * 100)
        assert len(cache) == 100


def test_a_copy_of_a_disk_is_of_no_cache(tmp_path):
    with ours.Cache(str(tmp_path)) as cache:
        copied = pickle.loads(pickle.dumps(cache.disk))
        assert copied.min_file_size == cache.disk.min_file_size
        copied.min_file_size = 1
        cache.set("a", "x" * 100)
        assert files(tmp_path) == []


# --- The places of replaced entries --------------------------------------------------------------


def test_a_forked_child_and_its_parent_use_no_place_twice(cache):
    """The child knows where the entry was that its parent has replaced last."""
    keys = [f"{number:03d}" for number in range(100)]
    for _ in range(3):
        for key in keys:
            cache.set(key, key * 10)
    ready, go = multiprocessing.Pipe()
    child = os.fork()
    if child == 0:
        try:
            for _ in range(50):
                for key in keys[::2]:
                    cache.set(key, key * 10)
                    assert all(cache[one] == one * 10 for one in keys[:6])
            ready.send("done")
        finally:
            os._exit(0)
    for _ in range(50):
        for key in keys[1::2]:
            cache.set(key, key * 10)
            assert all(cache[one] == one * 10 for one in keys[-6:])
    os.waitpid(child, 0)
    assert go.poll()
    assert [cache[key] for key in keys] == [key * 10 for key in keys]


# --- Volume --------------------------------------------------------------------------------------


def test_two_handles_keep_the_limit(tmp_path):
    limit = 20_000
    with ours.Cache(str(tmp_path), size_limit=limit) as cache, ours.Cache(str(tmp_path)) as other:
        stored = []
        for number in range(600):
            handle = cache if number % 3 else other
            key = f"{number:03d}"
            handle.set(key, "x" * 100)
            stored.append(key)
            assert cache.volume() == other.volume() < limit
        kept = list(cache)
        assert kept == stored[-len(kept) :], "the oldest were evicted"
        # One more is 167 bytes; ten are evicted at a time.
        assert cache.volume() > limit - 11 * 167
        assert cache.check() == []


def test_the_file_grows_with_entries_that_pass(tmp_path):
    with ours.Cache(str(tmp_path)) as cache:
        warm(cache)
        size = os.path.getsize(tmp_path / "cache.tuck")
        value = b"x" * 30_000
        count = size // len(value) + 10
        for number in range(count):
            cache.set(f"{number}", value)
        assert all(cache[f"{number}"] == value for number in range(count))
        assert os.path.getsize(tmp_path / "cache.tuck") > size
        assert cache.check() == []


def test_a_forked_child_changes_entries_too(cache):
    warm(cache)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            cache.set("of the child", 1)
            with cache.transact():
                cache.incr("count")
            cache.incr("count")
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    cache.set("of the parent", 1)
    assert cache.incr("count") == 3
    assert list(cache) == ["warm", "of the child", "count", "of the parent"]
