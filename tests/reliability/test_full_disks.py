"""T-D1: a file system without room: while a cache is made, while it grows, and ever after.

Each trial has a tmpfs of its own, which a second process fills: before the cache is made, at the
same time, or when it holds entries already. The cache is refused with CacheFull, which names the
file and the sizes, or works; nothing half made stays; what was stored stays; nobody dies of SIGBUS.
"""

from __future__ import annotations

import errno
import os
import random
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import pytest

import tuckbox
from reliability.actors import Actor, ActorDied, demand_mounts, mount, own_mounts, unmount
from tuckbox import Cache

if TYPE_CHECKING:
    from collections.abc import Iterator

DISKS = {"64 KiB": 64 << 10, "1 MiB": 1 << 20, "4 MiB": 4 << 20}
MOMENTS = ("before", "during", "growth")
CANARIES = 50
PAGE = 4096


def fill(folder: str, leave_bytes: int, wait: int | None = None) -> None:
    """Take all room but some, in a process of its own."""
    pid = os.fork()
    if pid == 0:
        try:
            if wait is not None:
                os.read(wait, 1)
            room = os.statvfs(folder)
            left = room.f_bavail * room.f_frsize - leave_bytes
            with open(f"{folder}/filler", "wb", buffering=0) as stream:
                while left > 0:
                    left -= stream.write(b"x" * min(left, 64 << 10))
        except OSError:
            pass
        os._exit(0)
    if wait is None:
        os.waitpid(pid, 0)


def refusal(error: tuckbox.errors.CacheFull, path: str) -> str | None:
    """What is wrong with a refusal, if anything."""
    if error.errno != 28 or error.filename != path or not re.search(r"\d+ .*bytes", str(error)):
        return f"not exact: {error.errno} {error.filename} {error}"
    return None


def canary(number: int) -> bytes:
    return number.to_bytes(4, "big") * 25


def grow(cache: Cache, wanted_bytes: float) -> None:
    """Let the file grow, and leave its room free."""
    number = 0
    while cache.stats().file_bytes < wanted_bytes and number < 10_000:
        cache.set(("early", number), b"x" * 1000)
        number += 1
    cache.clear()


def store(
    cache: Cache, path: str, key: tuple[str, int], value: bytes, found: dict[str, Any]
) -> list[str]:
    """Store a value, or be refused exactly; what was wrong."""
    try:
        cache.set(key, value)
    except tuckbox.errors.CacheFull as error:
        found["full"] += 1
        return [message] if (message := refusal(error, path)) else []
    found["stored"] += 1
    return [] if cache.get(key, value) == value else ["a wrong value"]


@dataclass(frozen=True)
class Disk:
    """A small file system, and how it gets full."""

    folder: str
    len_bytes: int
    moment: str
    draw: random.Random

    @property
    def path(self) -> str:
        return f"{self.folder}/cache.tuck"

    def left_behind(self, *meant: str) -> list[str]:
        left = set(os.listdir(self.folder)) - {"filler", *meant}
        return [f"left behind {left}"] if left else []


def trial(
    opener: Callable[..., Any], folder: str, disk_bytes: int, moment: str, seed: int
) -> dict[str, Any]:
    """One file system, one cache; what came of it."""
    mount("tmpfs", folder, 0, f"size={disk_bytes},mode=700")
    disk = Disk(folder, disk_bytes, moment, random.Random(seed))
    wrong: list[str] = []
    counts = dict.fromkeys(("refused", "made", "stored", "full", "hits", "canaries"), 0)
    found = {**counts, "wrong": wrong}
    try:
        cache = make(opener, disk)
    except tuckbox.errors.CacheFull as error:
        found["refused"] = 1
        wrong += [message] if (message := refusal(error, disk.path)) else []
        wrong += disk.left_behind()
    else:
        found["made"] = 1
        with cache:
            kept = use(cache, disk, found)
        open_again(opener, disk, kept, wrong)
        wrong += disk.left_behind("cache.tuck")
    finally:
        unmount(folder)
    return found


def make(opener: Callable[..., Any], disk: Disk) -> Cache:
    """Make the cache while, or after, somebody else takes the room."""
    draw = disk.draw
    size = max(64 << 10, disk.len_bytes // draw.choice([1, 2, 8]))
    if disk.moment == "during":
        go, ready = os.pipe()
        fill(disk.folder, draw.randrange(0, disk.len_bytes // 4, PAGE), go)
        os.write(ready, b"!")
        try:
            return opener(disk.path, size=size)
        finally:
            os.close(go)
            os.close(ready)
            os.wait()
    if disk.moment == "before":
        little, much = (
            draw.randrange(0, 48 << 10, PAGE),
            draw.randrange(0, disk.len_bytes // 2, PAGE),
        )
        fill(disk.folder, draw.choice([little, much]))
    return opener(disk.path, size=size)


def use(cache: Cache, disk: Disk, found: dict[str, Any]) -> int:
    """Store what fits, and then what does not; how many canaries there are."""
    draw, wrong = disk.draw, found["wrong"]
    if disk.moment == "growth":
        grow(cache, draw.choice([0.0, 0.3, 0.6]) * min(disk.len_bytes, cache.size))
    made_bytes = os.stat(disk.path).st_size
    kept = min(CANARIES, made_bytes // 3200)
    for number in range(kept):
        cache.set(f"canary {number}", canary(number))
    if disk.moment == "growth":
        fill(disk.folder, draw.choice([0, 0, PAGE, 40_000]))
    # A file of fewer than six segments may hold less; with six or more, all of this fits.
    stats = cache.stats()
    fits = stats.segments - stats.segments_index >= 6
    # Values that fit the file, written again and again: nothing has to be evicted.
    for number in range(200):
        value = draw.randbytes(draw.randrange(10, max(11, made_bytes // 400)))
        wrong += store(cache, disk.path, ("fits", number % 20), value, found)
    values = [cache.get(f"canary {number}") for number in range(kept)]
    if fits:
        found["canaries"] = kept
        found["hits"] = sum(value == canary(n) for n, value in enumerate(values))
    # Values that do not fit: others have to be evicted, and the file would have to grow.
    for number in range(100):
        value = draw.randbytes(draw.randrange(10, max(11, cache.size // 20)))
        wrong += store(cache, disk.path, ("more", number), value, found)
    wrong += [] if os.stat(disk.path).st_size >= made_bytes else ["the file became shorter"]
    wrong += [] if cache.check().is_sound else ["it is not sound"]
    return kept


def open_again(opener: Callable[..., Any], disk: Disk, kept: int, wrong: list[str]) -> None:
    """What is there is whole to who comes next, with or without room."""
    with opener(disk.path) as cache:
        values = [cache.get(f"canary {number}") for number in range(kept)]
        if any(value not in {None, canary(n)} for n, value in enumerate(values)):
            wrong.append("a wrong canary")
        cache["last"] = "value"
        wrong += [] if cache.get("last") == "value" else ["it stores nothing any more"]
        wrong += [] if cache.check().is_sound else ["it is not sound when opened again"]


def run(
    opener: Callable[..., Any], folder: Path, count: int, seed: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The trials, each told with what it was. A process that dies is told as well."""
    small = folder / "small"
    small.mkdir(exist_ok=True)
    plans = [(disk, moment) for disk in DISKS for moment in MOMENTS]
    actor: Actor | None = None
    try:
        for number in range(count):
            disk, moment = plans[number % len(plans)]
            what = f"{disk}, filled {moment}, seed {seed + number}"
            actor = actor or Actor(own_mounts)
            try:
                yield (
                    what,
                    actor.call(trial, opener, str(small), DISKS[disk], moment, seed + number),
                )
            except (ActorDied, AssertionError) as error:
                yield what, {"wrong": [str(error).strip().splitlines()[-1]]}
                actor.__exit__(None, None, None)
                actor = None
    finally:
        if actor:
            actor.__exit__(None, None, None)


def judge(results: list[tuple[str, dict[str, Any]]]) -> list[str]:
    failures = [f"{what}: {wrong}" for what, found in results for wrong in found["wrong"]]
    kept = sum(found.get("canaries", 0) for _, found in results)
    hits = sum(found.get("hits", 0) for _, found in results)
    if not kept or hits < kept * 0.99:
        failures.append(f"{hits} of {kept} canaries are there, all trials together")
    if not any(found.get("refused") for _, found in results):
        failures.append("no cache was refused: the disks were not full")
    return failures


@pytest.mark.family("T-D1")
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::tuckbox.errors.LittleSpaceWarning")
def test_a_full_disk_is_an_error_or_a_smaller_cache(
    tmp_path: Path, trials: Any, size: Any, seed: int
) -> None:
    demand_mounts()
    results = list(run(Cache, tmp_path, size(200, 5000), seed))
    for name in ("refused", "made", "stored", "full", "hits", "canaries"):
        trials.figure(name, sum(found.get(name, 0) for _, found in results))
    trials.add(len(results), "trials")
    failures = judge(results)
    assert not failures, "\n".join(failures[:10])


def create_at_the_limit(folder: str) -> tuple[str, list[str], int]:
    """Create caches as long as the file system, and a byte longer.

    Returns the refusal, what it left behind, and the size of the cache that was created.
    """
    total_bytes = DISKS["1 MiB"]
    mount("tmpfs", folder, 0, f"size={total_bytes},mode=700")
    path = f"{folder}/cache.tuck"
    with pytest.raises(tuckbox.errors.InvalidSize) as caught:
        Cache(path, size=total_bytes + 1)
    left = os.listdir(folder)
    with Cache(path, size=total_bytes) as cache:
        cache["k"] = "v"
        return str(caught.value), left, cache.size


@pytest.mark.family("T-D1")
def test_a_size_that_the_file_system_cannot_hold_is_refused(tmp_path: Path, trials: Any) -> None:
    demand_mounts()
    folder = tmp_path / "small"
    folder.mkdir()
    with Actor(own_mounts) as actor:
        refusal, left, size_bytes = actor.call(create_at_the_limit, str(folder))
    assert refusal == (
        f"size 1048577 bytes is too large for {folder}/cache.tuck: its file system has space for "
        "only 1048576 bytes; choose a smaller size"
    )
    assert (left, size_bytes) == ([], 1 << 20)
    trials.add(2, "trials")


def open_without_fallocate(folder: str) -> tuple[list[tuple[int | None, str, list[str]]], bool]:
    """Create a cache without ``fallocate``, and open one that was copied there.

    Returns the refusals, and whether the copy is unchanged and can be read.
    """
    Cache(f"{folder}/original.tuck").close()
    original = Path(folder, "original.tuck").read_bytes()
    mount("ramfs", folder, 0, "mode=700")
    path = Path(folder, "cache.tuck")
    refused: list[tuple[int | None, str, list[str]]] = []
    for content in (None, original):
        if content is not None:
            path.write_bytes(content)
            path.chmod(0o600)
        try:
            Cache(path).close()
        except tuckbox.errors.CacheOpenError as error:
            refused.append((error.errno, str(error), os.listdir(folder)))
    Cache(path, read_only=True).close()
    is_same = path.read_bytes() == original
    unmount(folder)
    return refused, is_same


@pytest.mark.family("T-D1")
def test_a_file_system_without_fallocate_is_refused(tmp_path: Path, trials: Any) -> None:
    demand_mounts()
    tmp_path.chmod(0o700)
    with Actor(own_mounts) as actor:
        refused, is_same = actor.call(open_without_fallocate, str(tmp_path))
    message = (
        f"{tmp_path}/cache.tuck is on a file system without fallocate, so the cache cannot reserve "
        "space to grow; choose a directory on ext4, XFS, Btrfs or tmpfs, for example in /dev/shm"
    )
    assert refused == [(errno.EOPNOTSUPP, message, left) for left in ([], ["cache.tuck"])]
    assert is_same
    trials.add(2, "cases")


def dump_on_a_full_disk(folder: str) -> tuple[list[int | None], list[list[str]], bool]:
    """Dump and copy a cache to a file system with too little room.

    Returns the error numbers, what was left after each, and whether the former dump is unchanged.
    """
    mount("tmpfs", folder, 0, f"size={DISKS['1 MiB']},mode=700")
    dump, errors, left = Path(folder, "app.dump"), [], []
    with Cache(size="1 MiB") as cache:
        cache["k"] = 1
        cache.dump(dump)
        former = dump.read_bytes()
        cache.set_many({number: bytes(1000) for number in range(500)})
        fill(folder, 300_000)
        for operation in (lambda: cache.dump(dump), lambda: cache.copy_to(f"{folder}/copy.tuck")):
            try:
                operation()
            except OSError as error:
                errors.append(error.errno)
            left.append(sorted(set(os.listdir(folder)) - {"filler"}))
    is_same = dump.read_bytes() == former
    unmount(folder)
    return errors, left, is_same


@pytest.mark.family("T-D1")
def test_a_full_disk_keeps_the_former_dump_and_has_no_half_copy(
    tmp_path: Path, trials: Any
) -> None:
    demand_mounts()
    with Actor(own_mounts) as actor:
        errors, left, is_same = actor.call(dump_on_a_full_disk, str(tmp_path))
    assert errors == [errno.ENOSPC] * 2
    assert left == [["app.dump"]] * 2
    assert is_same
    trials.add(2, "cases")


# Negative controls.


class AlwaysMissing(Cache):
    def get(self, key: Any, default: Any = None) -> Any:
        return default


def without_room(path: str, **options: Any) -> Any:
    """Makes the file as `ftruncate` would: long, and with nothing behind it."""
    import faulthandler
    import mmap

    faulthandler.disable()  # It would tell at length of the death that is meant.
    size = options.get("size", 64 << 10)
    with open(path, "w+b") as stream:
        stream.truncate(size)
        with mmap.mmap(stream.fileno(), size) as memory:
            memory[:] = b"x" * size
    raise AssertionError("there was room")


def forgets_its_file(path: str, **options: Any) -> Any:
    try:
        return Cache(path, **options)
    except tuckbox.errors.CacheFull:
        Path(f"{path}.new").touch()
        raise


def says_nothing(path: str, **options: Any) -> Any:
    try:
        return Cache(path, **options)
    except tuckbox.errors.CacheFull as error:
        raise tuckbox.errors.CacheFull(28, "full", path) from error


CONTROLS = {
    "always misses": (AlwaysMissing, "canaries are there"),
    "makes holes": (without_room, signal.SIGBUS.name),
    "forgets its file": (forgets_its_file, "left behind"),
    "says nothing": (says_nothing, "not exact"),
}


@pytest.mark.family("T-D1")
@pytest.mark.parametrize("name", CONTROLS)
def test_what_fails_on_a_full_disk_is_noticed(
    tmp_path: Path, trials: Any, seed: int, name: str
) -> None:
    demand_mounts()
    opener, words = CONTROLS[name]
    failures = judge(list(run(opener, tmp_path, 18, seed)))
    assert any(words in failure for failure in failures), failures
    trials.add(1, "controls")
