"""T-L1: whatever is done, for however long, takes up no more memory, descriptors, mappings, slots
or names than at its beginning."""

from __future__ import annotations

import gc
import mmap
import os
import random
import struct
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import pytest

from tuckbox import Cache
from tuckbox.errors import KeyTypeError, NotAnInteger, ValueTypeError

if TYPE_CHECKING:
    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-L1"), pytest.mark.timeout(240)]

# The beginning of the slots of processes, and of what is in each, by docs/explanation/format.md.
SLOTS_AT = 4096
SLOT_BYTES = 128
SLOT_COUNT = 32
TAKEN = 1 << 32
# Python's own allocator takes memory in pieces of this size.
PIECE_BYTES = 1 << 20


class Usage(NamedTuple):
    """What this process takes up."""

    memory_bytes: int
    descriptors: int
    mappings: int
    slots: int
    names: int
    children: int


def usage(path: str) -> Usage:
    gc.collect()
    folder = os.path.dirname(path)
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    with open("/proc/self/maps") as maps:
        # The allocators' own come and go.
        mappings = sum("/" in line or "memfd" in line for line in maps)
    with open(path, "rb") as file:
        file.seek(SLOTS_AT)
        table = file.read(SLOT_COUNT * SLOT_BYTES)
    states = [struct.unpack_from("Q", table, n * SLOT_BYTES)[0] for n in range(SLOT_COUNT)]
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        children = len(file.read().split())
    return Usage(
        int(fields["RssAnon"].split()[0]) << 10,
        len(os.listdir("/proc/self/fd")),
        mappings,
        sum(bool(state & TAKEN) for state in states),
        len(os.listdir(folder)),
        children,
    )


def measure(path: str, repeat: Callable[[int], None], count: int) -> Usage:
    """What `count` rounds take up, once a fifth of them have warmed everything up.

    Raises:
        AssertionError: It is more than nothing.
    """
    repeat(max(count // 5, 1))
    before = usage(path)
    halves = []
    for _ in range(2):
        repeat(count // 2)
        halves.append(usage(path))
    growth = Usage(*(after - start for start, after in zip(before, halves[1])))
    for name, grown in growth._asdict().items():
        if name != "memory_bytes":
            assert grown <= 0, f"{grown} {name} more than before"
    # Memory that is leaked grows in each half; what a heap does by itself settles.
    second = halves[1].memory_bytes - halves[0].memory_bytes
    assert second <= PIECE_BYTES, f"{second:,} bytes of memory more in the second half"
    return growth


def operations(cache: Cache, seed: int) -> Callable[[int], None]:
    """All operations in turn, refused ones as well."""
    generator = random.Random(seed)
    values: list[Any] = [1, "text", b"x" * 3000, [1, {"k": (2.5, None)}], {1, 2}, 2**80, "\ud800"]
    values += [bytearray(300_000), {"k" * 50: list(range(100))}]
    keys: list[Any] = ["k", b"k", 7, ("k", 7), 2**80, "\ud800", ("deep", ("er", (1,)))]

    def refused() -> None:
        cache["text"] = "text"
        for operation, error in (
            (lambda: cache.set(None, 1), KeyTypeError),  # type: ignore[arg-type]
            (lambda: cache.set("k", object()), ValueTypeError),
            (lambda: cache.set("k", [1, [object()]]), ValueTypeError),
            (lambda: cache.incr("text"), NotAnInteger),
        ):
            with pytest.raises(error):
                operation()

    mine: list[Callable[[Any], Any]] = [
        lambda key: cache.set(key, generator.choice(values)),
        lambda key: cache.set(key, generator.choice(values), 60),
        lambda key: cache.set(key, generator.choice(values), 0),
        cache.get,
        cache.get_entry,
        lambda key: key in cache,
        lambda key: cache.add(key, generator.choice(values)),
        lambda key: cache.pop(key, None),
        cache.delete,
        lambda key: cache.touch(key, 60),
        lambda key: cache.incr("count", default=0),
        lambda key: cache.get_many(keys),
        lambda key: cache.set_many({key: 1, "other": 2}),
    ]
    rare: list[Callable[[], Any]] = [
        lambda: list(cache.items()),
        cache.stats,
        cache.expire,
        refused,
        cache.check,
        cache.clear,
        lambda: next(iter(cache.keys()), None),
    ]

    def repeat(count: int) -> None:
        for number in range(count):
            key = generator.choice(keys)
            generator.choice(mine)((key, number % 300) if number % 2 else key)
            if number % 500 == 0:
                rare[number // 500 % len(rare)]()

    return repeat


def test_operations(opened: Any, path: str, trials: Trials, size: Any, seed: int) -> None:
    cache = opened(path, size="8 MiB")
    count = size(300_000, 5_000_000)
    measure(path, operations(cache, seed), count)
    assert cache.stats().hits > 0
    trials.add(count, "operations")


def opens(path: str, kind: type[Cache] = Cache) -> Callable[[int], None]:
    def repeat(count: int) -> None:
        for number in range(count):
            with kind(path) as cache:
                assert cache["kept"] == "value"
                if number % 2:
                    cache["k"] = number
            if number % 10 == 0:
                with kind(size="1 MiB") as private:
                    private["k"] = number
            if number % 25 == 0:
                unclosed = kind(path)
                assert unclosed["kept"] == "value"
                del unclosed

    return repeat


def test_opening_and_closing(opened: Any, path: str, trials: Trials, size: Any) -> None:
    opened(path, size="1 MiB")["kept"] = "value"
    count = size(1_000, 20_000)
    measure(path, opens(path), count)
    trials.add(count, "opens")


def forks(cache: Cache) -> Callable[[int], None]:
    def repeat(count: int) -> None:
        for number in range(count):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    assert cache["kept"] == "value"
                    cache["k", number % 10] = number
                    if number % 3 == 0:
                        cache.close()
                    status = 0
                finally:
                    os._exit(status)
            _, status = os.waitpid(child, 0)
            assert status == 0

    return repeat


def test_forks(opened: Any, path: str, trials: Trials, size: Any) -> None:
    cache = opened(path, size="1 MiB", lock_timeout=30)
    cache["kept"] = "value"
    count = size(500, 10_000)
    measure(path, forks(cache), count)
    assert cache.check().is_sound or cache.check().is_sound
    trials.add(count, "forks")


# What leaks is caught.


class LeaksMemory(Cache):
    leaked: list[mmap.mmap] = []  # noqa: RUF012 - Shared on purpose.

    def close(self) -> None:
        # Not from the heap, which would not grow if the tests before have left it free memory.
        memory = mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.write(b"x" * len(memory))
        self.leaked.append(memory)
        super().close()


class LeaksDescriptors(Cache):
    leaked: list[int] = []  # noqa: RUF012 - Shared on purpose.

    def close(self) -> None:
        self.leaked.append(os.open("/dev/null", os.O_RDONLY))
        super().close()


class LeaksSlots(Cache):
    kept: list[Cache] = []  # noqa: RUF012 - Shared on purpose.

    def __init__(self, path: str | None = None, **kwargs: Any) -> None:
        super().__init__(path, **kwargs)
        if path is not None and len(self.kept) < 8:
            self.kept.append(Cache(path))


class LeaksNames(Cache):
    def close(self) -> None:
        if self.path is not None:
            with open(f"{self.path}.{os.urandom(8).hex()}", "w"):
                pass
        super().close()


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (LeaksMemory, "bytes of memory"),
        (LeaksDescriptors, "descriptors"),
        (LeaksSlots, "descriptors|mappings|slots"),
        (LeaksNames, "names"),
    ],
)
def test_a_cache_that_leaks_is_caught(opened: Any, path: str, kind: type[Cache], what: str) -> None:
    opened(path, size="1 MiB")["kept"] = "value"
    try:
        with pytest.raises(AssertionError, match=what):
            measure(path, opens(path, kind), 6 if kind is LeaksSlots else 300)
    finally:
        for cache in LeaksSlots.kept:
            cache.close()
        for descriptor in LeaksDescriptors.leaked:
            os.close(descriptor)
        for leaked in (LeaksSlots.kept, LeaksDescriptors.leaked, LeaksMemory.leaked):
            leaked.clear()


def test_children_that_are_left_are_counted(path: str) -> None:
    with Cache(path, size="1 MiB"):
        before = usage(path)
        child = os.fork()
        if child == 0:
            os._exit(0)
        try:
            assert usage(path).children == before.children + 1
        finally:
            os.waitpid(child, 0)
