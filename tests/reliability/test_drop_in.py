"""T-X2: the drop-in for DiskCache keeps its promises, whoever is killed at any moment."""

from __future__ import annotations

import collections
import os
import random
import signal
import time
import traceback
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from reliability.crowds import HANG_S
from tuckbox.compat.diskcache import Cache, Disk, EmptyDirWarning, Index, UnknownFileWarning
from tuckbox.compat.diskcache.entries import FILENAME, Entries, field_of
from tuckbox.compat.diskcache.locks import WriteLock
from tuckbox.compat.diskcache.passing import Passing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-X2"), pytest.mark.timeout(300)]

WORKERS = 3
ACCOUNTS = 8
MONEY = 400
FILE_BYTES = 1000
"""A value of this length is a file."""
LIMIT_BYTES = 100_000
LONGEST = 3000
BEGUN = 2**48
"""What the engine adds to the weight from before a change until after it."""
LEFTOVERS = (UnknownFileWarning, EmptyDirWarning)
"""What a killed process may leave: files that no entry names."""


class Shop:
    """Workers that change three directories, and what each noted after an operation had returned.

    - ``bank``: transactions that move money between accounts, of which every second is a file; a
      counter; a queue. Nothing is evicted.
    - ``index``: an `Index`, into which each worker puts its own row of keys.
    - ``values``: values that tell their keys, small and in files, more than there is room for.
    """

    def __init__(self, folder: Path, hang_s: float = HANG_S) -> None:
        self.folder = folder
        self.hang_s = hang_s
        self.workers: list[int] = []
        self.names: dict[int, int] = {}
        """Of each process, a number that no other one has: the system uses its numbers again."""
        self.me = 0
        self.dead: list[int] = []
        self.kills = self.deaths = self.leftovers = 0
        self.open()
        for number in range(ACCOUNTS):
            self.put(number, MONEY // ACCOUNTS)

    def open(self) -> None:
        path, shared = str(self.folder), {"disk_min_file_size": FILE_BYTES}
        self.bank = Cache(f"{path}/bank", self.hang_s, eviction_policy="none", **shared)
        self.values = Cache(f"{path}/values", self.hang_s, size_limit=LIMIT_BYTES, **shared)
        self.index = Index.fromcache(
            Cache(f"{path}/index", self.hang_s, eviction_policy="none", **shared)
        )

    def caches(self) -> list[Cache]:
        return [self.bank, self.values, self.index.cache]

    def notes(self, name: int, deed: str) -> list[str]:
        path = self.folder / f"{deed} {name}"
        # A line without its end was not written.
        return path.read_text().split("\n")[:-1] if path.exists() else []

    # --- Workers ---------------------------------------------------------------------------------

    def start(self, seed: int) -> None:
        self.me += 1
        pid = os.fork()
        if pid == 0:
            try:
                self.work(random.Random(seed))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        self.workers.append(pid)
        self.names[pid] = self.me

    def work(self, dice: random.Random) -> None:
        if dice.random() < 0.8:
            die_at_step(dice.randrange(1, 2000), self.folder / "deaths")
        self.open()
        deeds = [self.move, self.count, self.push, self.pull, self.enter, self.leave, self.store]
        files = {}
        for deed in deeds:
            name = deed.__name__
            files[name] = (self.folder / f"{name} {self.me}").open("ab", buffering=0)
        done = collections.Counter[str]()
        while True:
            deed = dice.choice(deeds)
            name = deed.__name__
            told = deed(dice, done[name])
            if told is not None:
                done[name] += 1
                files[name].write(f"{told}\n".encode())

    def account(self, number: int) -> int:
        text = str(self.bank.get(f"account {number}", 0)).rstrip()
        assert text.isdigit(), f"torn or foreign: account {number}: {text}"
        return int(text)

    def put(self, number: int, money: int) -> None:
        key = f"account {number}"
        if not money:
            self.bank.delete(key, retry=True)
        else:
            self.bank.set(key, f"{money:<{FILE_BYTES}}" if number % 2 else money, retry=True)

    def move(self, dice: random.Random, _: int) -> str | None:
        with self.bank.transact(retry=True):
            source, *targets = dice.sample(range(ACCOUNTS), 3)
            owned = self.account(source)
            if owned < 5:
                return None
            amount = dice.randrange(3, owned + 1)
            self.bank.incr(f"of {self.me}", retry=True)
            self.put(source, owned - amount)
            first = dice.randrange(amount)
            for target, share in zip(targets, (first, amount - 1 - first)):
                self.put(target, self.account(target) + share)
        return ""

    def count(self, dice: random.Random, _: int) -> str:
        return str(self.bank.incr("counter", retry=True))

    def push(self, dice: random.Random, number: int) -> str:
        item = f"{self.me} {number}"
        padded = item.ljust(dice.choice((10, 2 * FILE_BYTES)))
        self.bank.push(padded, prefix="queue", retry=True)
        return item

    def pull(self, dice: random.Random, _: int) -> str | None:
        _, item = self.bank.pull(prefix="queue", retry=True)
        return item and item.rstrip()

    def enter(self, dice: random.Random, number: int) -> str:
        self.index[f"{self.me} {number}"] = "x" * dice.randrange(2 * FILE_BYTES)
        return str(number)

    def leave(self, dice: random.Random, _: int) -> None:
        with self.index.transact():
            if len(self.index) > 50:
                first = next(iter(self.index))
                assert self.index.popitem(last=False)[0] == first
                assert self.index.peekitem()[0] == next(reversed(self.index))

    def store(self, dice: random.Random, number: int) -> None:
        values = self.values
        key = f"key {dice.randrange(200)}"
        chance = dice.random()
        if chance < 0.6:
            value = value_of(key, dice.randrange(10**9), dice.randrange(LONGEST))
            expire = dice.choice((None, 0.005, 100))
            values.set(key, value, expire, tag=dice.choice((None, "tag")), retry=True)
        elif chance < 0.9:
            judge_value(key, values.get(key))
        elif chance < 0.95:
            judge_value(key, values.pop(key, retry=True))
        else:
            dice.choice((values.cull, values.expire, lambda **retry: values.evict("tag", **retry)))(
                retry=True
            )

    # --- The judge -------------------------------------------------------------------------------

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        assert os.WIFSIGNALED(status), "a worker has failed"
        self.workers.remove(pid)
        name = self.names.pop(pid)
        self.dead.append(name)
        self.kills += 1
        self.audit_bank(name)
        self.audit_index(name)
        for cache in self.caches():
            self.audit_counters(cache)

    def audit_bank(self, name: int) -> None:
        bank, own = self.bank, f"of {name}"
        with bank.transact():
            held = {number: self.account(number) for number in range(ACCOUNTS)}
            spent = {key: bank[key] for key in bank if str(key).startswith("of ")}
            missing = MONEY - sum(held.values()) - sum(spent.values())
            assert missing == 0, f"{missing} of {MONEY} are missing: {held}"
            committed, noted = spent.get(own, 0), len(self.notes(name, "move"))
            assert noted <= committed <= noted + 1, f"{committed} committed, {noted} returned"
            # Its money goes back, so that there is always some to move.
            bank.delete(own)
            self.put(0, held[0] + committed)

    def audit_index(self, name: int) -> None:
        index, own = self.index, f"judge {self.kills}"
        with index.transact():
            index[own] = 0
            keys = list(index)
            assert keys[-1] == own, f"the order is wrong: {keys[-3:]}, and {own} came last"
            assert index.peekitem()[0] == own, "the order is wrong: not the newest"
            numbers = collections.defaultdict(list)
            for key in keys:
                who, number = key.split()
                numbers[who].append(int(number))
            for who, row in numbers.items():
                if who != "judge":
                    # Those before were removed; none is missing in between.
                    assert row == list(range(row[0], row[-1] + 1)), f"the order is wrong: {row}"
            row, noted = numbers.get(str(name)), len(self.notes(name, "enter"))
            assert row is None or noted - 1 <= row[-1] <= noted, f"{row[-1]} is last, not {noted}"

    def audit_counters(self, cache: Cache) -> None:
        with cache.transact():
            # The check repairs a shard whose writer was killed before it had counted an entry.
            found = cache.check()
            assert len(cache) == len(list(cache)), "a counter is wrong: len"
        wrong = [str(one.message) for one in found if not issubclass(one.category, LEFTOVERS)]
        assert not wrong, f"a counter is wrong: {cache.directory}: {wrong}"
        limit = LIMIT_BYTES + 2 * LONGEST
        assert cache is not self.values or cache.volume() < limit, "a counter is wrong: volume"
        assert cache is not self.values or all(
            judge_value(key, cache.get(key)) for key in list(cache)
        )

    def judge_queue(self) -> None:
        drained = []
        while (item := self.bank.pull(prefix="queue")[1]) is not None:
            drained.append(item.rstrip())
        pulls = [*(self.notes(name, "pull") for name in self.dead), drained]
        for one in pulls:
            last: dict[str, int] = {}
            for item in one:
                pusher, number = item.split()
                assert last.get(pusher, -1) < int(number), f"out of order: {item}"
                last[pusher] = int(number)
        counts = collections.Counter(item for one in pulls for item in one)
        twice = [item for item, count in counts.items() if count > 1]
        assert not twice, f"pulled twice: {twice[:10]}"
        pushed = {item for name in self.dead for item in self.notes(name, "push")}
        lost = pushed - counts.keys()
        assert len(lost) <= self.kills, f"lost, more than were killed: {sorted(lost)[:10]}"
        unknown = counts.keys() - pushed
        assert len(unknown) <= self.kills, f"nobody pushed: {sorted(unknown)[:10]}"

    def judge_counter(self) -> None:
        told = [int(one) for name in self.dead for one in self.notes(name, "count")]
        assert len(told) == len(set(told)), "a counter was lost: two got the same"
        total = self.bank.get("counter", 0)
        assert len(told) <= total <= len(told) + self.kills, f"{total} counted, {len(told)} told"

    def run(self, kills: int, seed: int) -> None:
        dice = random.Random(seed)
        try:
            for _ in range(WORKERS):
                self.start(dice.getrandbits(32))
            for _ in range(kills):
                time.sleep(dice.random() / 30)
                self.kill(dice.choice(self.workers))
                self.start(dice.getrandbits(32))
            for pid in list(self.workers):
                self.kill(pid)
        finally:
            for pid in list(self.workers):
                with suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
        self.judge_queue()
        self.judge_counter()
        for cache in self.caches():
            # Directories that are empty when their files are removed.
            for _ in range(3):
                found = cache.check(fix=True)
                self.leftovers += sum(issubclass(one.category, LEFTOVERS[0]) for one in found)
            assert [str(one.message) for one in cache.check()] == []
            cache.close()
        deaths = self.folder / "deaths"
        self.deaths = len(deaths.read_bytes()) if deaths.exists() else 0


def value_of(key: str, number: int, length: int) -> str:
    unit = f"{key} is {number} for {length}; "
    return (unit * (1 + length // len(unit)))[: len(unit) + length]


def judge_value(key: str, value: str | None) -> bool:
    if value is not None:
        number, length = value.split("; ")[0].split(" is ")[1].split(" for ")
        assert value == value_of(key, int(number), int(length)), f"torn or foreign: {key}: {value}"
    return True


def die_at_step(left: int, deaths: Path) -> None:
    """Kill this process at a step: more often than by chance between two changes."""

    def is_last() -> bool:
        nonlocal left
        left -= 1
        return left == 0

    def die() -> None:
        with deaths.open("ab") as file:
            file.write(b"x")
        os.kill(os.getpid(), signal.SIGKILL)

    def dying(plain: Callable[..., Any]) -> Any:
        def step(*args: Any, **kwargs: Any) -> Any:
            if is_last():
                die()
            result = plain(*args, **kwargs)
            if is_last():
                die()
            return result

        return step

    for owner, name in STEPS:
        setattr(owner, name, dying(getattr(owner, name)))
    store = Entries._store

    def dropping(entries: Entries, key: Any, entry: Any) -> None:
        if is_last():
            # As Tuckbox does with an entry that is killed while it is overwritten in place.
            entries.file.delete(key)
            die()
        store(entries, key, entry)

    Entries._store = dropping  # type: ignore[method-assign]
    replace = Entries._replace

    def begun(entries: Entries, key: Any, value: Any, delta: int) -> int | None:
        if is_last():
            # As a change that is killed when it is counted as begun, and its entry is as before.
            entries.file._weigh(BEGUN + delta)
            die()
        return replace(entries, key, value, delta)

    Entries._replace = begun  # type: ignore[method-assign]
    write = os.write

    def torn(fd: int, content: bytes) -> int:
        if is_last():
            write(fd, content[: len(content) // 2])
            die()
        return write(fd, content)

    os.write = torn


STEPS: list[tuple[Any, str]] = [
    (Entries, "open"),
    (Entries, "_store"),
    (Entries, "_save"),
    (Entries, "_note"),
    (Entries, "_replace"),
    (Entries, "_leave"),
    (Passing, "put"),
    (Cache, "set"),
    (Passing, "add_to"),
    (Passing, "take"),
    (Entries, "_doom"),
    (Entries, "_undo"),
    (WriteLock, "append"),
    (WriteLock, "forget"),
    (WriteLock, "release"),
    (Disk, "remove"),
    (Disk, "_store_file"),
]


def test_processes_that_are_killed(tmp_path: Path, trials: Trials, size: Any, seed: int) -> None:
    kills = size(80, 6_000)
    shop = Shop(tmp_path)
    shop.run(kills, seed)
    trials.add(shop.kills, "killed processes")
    trials.figure("at a step of a change", shop.deaths)
    trials.figure("files left", shop.leftovers)
    assert shop.deaths, "nobody was killed at a step"


# --- Each step -----------------------------------------------------------------------------------

LARGE = "y" * FILE_BYTES


def transact(cache: Cache) -> None:
    with cache.transact():
        cache["a"], cache["b"] = LARGE, 2
        cache.delete("c")
        cache.push(LARGE, prefix="queue")
        cache.push("x", prefix="new queue")


def fail(cache: Cache) -> None:
    with suppress(ZeroDivisionError), cache.transact():
        transact(cache)
        raise ZeroDivisionError


DEEDS: dict[str, Callable[[Cache], object]] = {
    "set a new value": lambda cache: cache.set("new", 1),
    "set a new file": lambda cache: cache.set("new", LARGE),
    "set with an expiry": lambda cache: cache.set("new", 1, expire=100, tag="tag"),
    "replace a value": lambda cache: cache.set("a", "other"),
    "replace a value by a file": lambda cache: cache.set("a", LARGE),
    "replace a file": lambda cache: cache.set("c", "z" * FILE_BYTES),
    "replace a file by a value": lambda cache: cache.set("c", 1),
    "incr": lambda cache: cache.incr("d"),
    "touch": lambda cache: cache.touch("a", expire=100),
    "delete a value": lambda cache: cache.delete("a"),
    "delete a file": lambda cache: cache.delete("c"),
    "push": lambda cache: cache.push("second", prefix="queue"),
    "push at the front": lambda cache: cache.push("second", prefix="queue", side="front"),
    "push into a new queue": lambda cache: cache.push(1),
    "pull": lambda cache: cache.pull(prefix="queue"),
    "transact": transact,
    "a transaction that fails": fail,
    "reset": lambda cache: cache.reset("cull_limit", 5),
}
MANY: dict[str, Callable[[Cache], object]] = {
    "clear": lambda cache: cache.clear(),
    "evict": lambda cache: cache.evict("red"),
    "cull": lambda cache: (cache.reset("size_limit", 1), cache.cull()),
}
"""Those that remove entries one after the other."""


NEVER = 1000
STRIDES = {"transact": 9, "a transaction that fails": 13, "push": 1}
"""Of how many steps the short lane tries one."""


def fill(cache: Cache) -> None:
    cache.set("a", 1, tag="red")
    cache["b"] = "text"
    cache.set("c", LARGE, tag="red")
    cache["d"] = 4
    cache.push("first", prefix="queue")


def state_of(cache: Cache) -> list[tuple[Any, Any]]:
    return [(key, cache.get(key)) for key in cache]


def die_doing(deed: Callable[[Cache], object], folder: Path, step: int, path: str) -> bool:
    """Do something in a process that is killed at a step; return whether it came to that step."""
    pid = os.fork()
    if pid == 0:
        try:
            die_at_step(step, folder / "deaths")
            deed(Cache(path, 10, disk_min_file_size=FILE_BYTES))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    status = os.waitpid(pid, 0)[1]
    assert os.WIFSIGNALED(status) or not os.WEXITSTATUS(status), "a worker has failed"
    return os.WIFSIGNALED(status)


def judge_state(cache: Cache, states: list[Any], *, is_whole: bool) -> None:
    with cache.transact():
        # The lock: whoever takes it undoes what the killed process has left.
        found = cache.check()
    wrong = [str(one.message) for one in found if not issubclass(one.category, LEFTOVERS)]
    assert not wrong, wrong
    state = state_of(cache)
    assert not is_whole or state in states, f"neither before nor after: {state}"
    assert len(cache) == len(state)
    pulled = [value for _, value in iter(lambda: cache.pull(prefix="queue"), (None, None))]
    queued = [value for key, value in state if str(key).startswith("queue-")]
    assert sorted(pulled) == sorted(queued), "the queue has lost an item"
    cache.reset("size_limit", 2**30)
    cache["last"] = LARGE
    assert list(cache)[-1] == cache.peekitem()[0] == "last", "the order is wrong"


def die_at_each_step(folder: Path, name: str, stride: int) -> int:
    """Do something in processes that are killed at one step each; return how many there are."""
    is_whole = name in DEEDS
    deed = DEEDS[name] if is_whole else MANY[name]
    path = str(folder / "cache")
    states: list[Any] = []
    # The first process is not killed, to see what the deed does.
    steps = (NEVER, *range(1, NEVER, stride))
    for turn, step in enumerate(steps):
        cache = Cache(path, 10, disk_min_file_size=FILE_BYTES)
        cache.clear()
        fill(cache)
        with cache.transact():
            pass  # This leaves the gate closed. So each process takes the lock.
        if not states:
            states.append(state_of(cache))
        is_killed = die_doing(deed, folder, step, path)
        if step == NEVER:
            states.append(state_of(cache))
        elif turn % 2:
            # Otherwise it is a handle from before the kill.
            cache = Cache(path, 10)
        judge_state(cache, states, is_whole=is_whole)
        if step < NEVER and not is_killed:
            break
    assert 2 < turn < len(steps) - 1
    return turn - 1


@pytest.mark.parametrize("name", [*DEEDS, *MANY])
def test_a_process_that_is_killed_at_each_step(
    tmp_path: Path, trials: Trials, size: Any, name: str
) -> None:
    trials.add(die_at_each_step(tmp_path, name, size(STRIDES.get(name, 3), 1)), "steps")


def test_a_process_that_is_killed_at_each_step_of_creating(tmp_path: Path, trials: Trials) -> None:
    step, is_killed = 0, True
    while is_killed:
        step += 1
        path = str(tmp_path / f"{step}")
        is_killed = die_doing(lambda cache: None, tmp_path, step, path)
        with Cache(path, 10) as cache:
            assert (len(cache), cache.volume(), cache.stats()) == (0, 0, (0, 0))
            judge_state(cache, [[]], is_whole=True)
    assert step > 3
    trials.add(step - 1, "steps")


# --- Controls ------------------------------------------------------------------------------------


def forgotten(entries: Entries) -> None:
    """A journal of a killed process is dropped."""
    entries.lock.forget()


def unnoted(entries: Entries, key: Any, old: Any) -> None:
    """The journal has no entries."""


def unlocked(lock: WriteLock, fd: int, timeout: float, retry: bool) -> None:
    """No process waits for another one."""


_HELD_PATHS: set[str] = set()
"""The files that this process has made as locks."""


def held_by_the_dead(lock: WriteLock, fd: int, timeout: float, retry: bool) -> None:
    """A file is the lock, which stays when its holder is killed."""
    path, deadline_s = f"{lock._path}.held", time.monotonic() + HANG_S / 30
    while True:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            assert time.monotonic() < deadline_s, "the lock of a killed process is never free"
            time.sleep(0.001)
        else:
            _HELD_PATHS.add(path)
            return


def release_the_file(lock: WriteLock) -> None:
    """Also called by a process that gave up waiting. The file is another one's then."""
    held, path = lock._own(), f"{lock._path}.held"
    held.depth -= 1
    if not held.depth and path in _HELD_PATHS:
        _HELD_PATHS.discard(path)
        os.unlink(path)
    held.mutex.release()


def removed_at_once(entries: Entries, entry: Any) -> None:
    """A file is removed before the end of the transaction that removes its entry."""
    if entry is not None and field_of(entry, FILENAME) is not None:
        entries.remove_file(entry[FILENAME])


def in_two_steps(entries: Entries, key: Any, value: Any, delta: int) -> int:
    """The weight is changed after the entry, in a step of its own."""
    entries._store(key, value)
    return entries.file._weigh(delta)


def not_added_up(entries: Entries, inline_bytes: int) -> None:
    """A weight that a killed process has left unsure is trusted."""


def overwritten(
    disk: Disk, key: Any, value: Any, mode: int, chunks: Any
) -> tuple[int, int, str, None]:
    """The file of a key is overwritten while its old entry is there."""
    name = f"{zlib.crc32(str(key).encode())}.val"
    with open(os.path.join(disk._directory, name), "wb", buffering=0) as file:
        return sum(map(file.write, chunks)), mode, name, None


BROKEN: dict[str, list[tuple[Any, str, Any]]] = {
    "journals are not undone": [(Entries, "_undo", forgotten)],
    "the journal has no entries": [(Entries, "_note", unnoted)],
    "the lock is ignored": [(WriteLock, "_lock_file", unlocked)],
    "the dead keep the lock": [
        (WriteLock, "_lock_file", held_by_the_dead),
        (WriteLock, "release", release_the_file),
    ],
    "files are removed at once": [(Entries, "_doom", removed_at_once)],
    "files are overwritten": [(Disk, "_store_file", overwritten)],
    "counters are stored last": [(Entries, "_replace", in_two_steps)],
    "weights are not added up": [(Entries, "_weigh_again", not_added_up)],
}
STEPPED = {"counters are stored last", "weights are not added up"}
"""Those that are caught at a certain step."""
CAUGHT = (
    r"are missing|committed|a worker has failed|the order is wrong|is last|a counter|"
    r"never free|file not found|wrong file size|torn|twice|lost|the counter|nobody pushed|"
    r"out of order|counted"
)


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_drop_in_is_caught(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name, broken in BROKEN[kind]:
        monkeypatch.setattr(owner, name, broken)
    with pytest.raises(Exception, match=CAUGHT):
        if kind in STEPPED:
            die_at_each_step(tmp_path, "set with an expiry", 1)
        else:
            Shop(tmp_path).run(400, 1)
