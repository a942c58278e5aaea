"""T-B1: whatever is given as key, value or ttl comes back as it was, or is refused by the
documented error and has changed nothing."""

from __future__ import annotations

import contextlib
import itertools
import random
import subprocess
import sys
import unicodedata
from typing import TYPE_CHECKING, Any, Callable

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from properties import strategies
from reliability import inputs
from tuckbox import Cache, TuckboxError
from tuckbox.errors import ValueTypeError

if TYPE_CHECKING:
    from reliability.conftest import Trials

pytestmark = pytest.mark.family("T-B1")


def run_table(cache: Cache, seed: int, count: int | None = None) -> inputs.Judge:
    """Each key with each value; operations and ttls in turn."""
    generator = random.Random(seed)
    judge = inputs.Judge(cache, seed)
    ttls = [*inputs.TTLS, *inputs.BAD_TTLS]
    pairs = list(itertools.product(inputs.keys(), inputs.values(cache)))
    generator.shuffle(pairs)
    for key, value in pairs[:count]:
        ttl = generator.choice(ttls) if generator.random() < 0.3 else None
        judge.case(generator.choice(inputs.OPERATIONS), key, value, ttl)
    judge.end()
    return judge


@pytest.mark.timeout(180)
def test_every_kind_of_key_with_every_kind_of_value(
    opened: Callable[..., Cache], path: str, trials: Trials, size: Any, seed: int
) -> None:
    judge = run_table(opened(path, size="24 MiB"), seed, size(4000, None))
    assert judge.hits > judge.refusals / 4
    assert judge.refusals > judge.hits / 4
    trials.add(judge.hits + judge.refusals, "cases")
    trials.figure("hits", judge.hits)
    trials.figure("refusals", judge.refusals)


def test_every_ttl_with_every_operation(cache: Cache, trials: Trials, seed: int) -> None:
    judge = inputs.Judge(cache, seed)
    ttls = [*inputs.TTLS, *inputs.BAD_TTLS]
    for operation, ttl in itertools.product(inputs.OPERATIONS, ttls):
        judge.case(operation, "key", ["value", operation], ttl)
    judge.end()
    trials.add(len(inputs.OPERATIONS) * len(ttls), "cases")


def test_texts_that_look_alike_are_two_keys_and_two_values(cache: Cache, trials: Trials) -> None:
    generator = (chr(code) for code in range(0xC0, 0x250))
    pairs = [(one, unicodedata.normalize("NFD", one)) for one in generator]
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    for composed, decomposed in pairs:
        cache[composed] = decomposed
        cache[decomposed] = composed
    for composed, decomposed in pairs:
        assert cache[composed] == decomposed
        assert cache[decomposed] == composed
    assert len(cache) == 2 * len(pairs)
    assert len(pairs) > 100
    trials.add(len(pairs), "cases")


def interrupted(items: list[Any]) -> Any:
    yield from items
    raise inputs.OwnError


def test_an_iterable_that_raises_changes_nothing(cache: Cache, trials: Trials) -> None:
    cache.set_many({"a": 1, "b": 2})
    with pytest.raises(inputs.OwnError):
        cache.delete_many(interrupted(["a", "b"]))
    with pytest.raises(inputs.OwnError):
        cache.get_many(interrupted(["a", "b"]))
    with pytest.raises(inputs.OwnError):
        cache.set_many(Items(interrupted([("a", 3), ("c", 4)])))  # type: ignore[arg-type]
    assert dict(cache) == {"a": 1, "b": 2}
    assert cache.get_many(key for key in "abc") == {"a": 1, "b": 2}
    assert cache.delete_many(key for key in "abc") == 2
    trials.add(5, "cases")


class Items:
    def __init__(self, found: Any) -> None:
        self.items = lambda: found


SPARSE = """
import mmap, resource, sys, tempfile
from tuckbox import Cache
from tuckbox.errors import KeyTooLong, KeyTypeError, ValueTooLarge, ValueTypeError

def memory_kib(which):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(which))

cache = Cache(sys.argv[1], size="8 MiB")
cache["k"] = "old"
count = 0
for length in (1 << 31, (1 << 32) + 1):
    with tempfile.TemporaryFile() as file:
        file.truncate(length)
        mapping = mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ)
    zeros = bytes(length)  # The system gives such memory page by page, as it is touched.
    before_kib = memory_kib("VmHWM:")
    for refused, things in (
        ((ValueTypeError,), (mapping, memoryview(mapping), memoryview(zeros))),
        ((ValueTooLarge,), (zeros, [zeros], {"a": (1, zeros)}, {zeros[:0]: zeros})),
    ):
        for thing in things:
            for store in (cache.set, cache.add, cache.replace, cache.__setitem__,
                          lambda key, value: cache.set_many({key: value})):
                count += 1
                try:
                    store("k", thing)
                except refused:
                    continue
                sys.exit(f"{type(thing)} of {length} bytes was stored")
    store = lambda key: cache.set(key, 1)
    every = (cache.get, cache.delete, cache.touch, store)
    # What cannot be a key is a miss, unless it is to be stored.
    for key, refused, operations in (
        (zeros, KeyTooLong, every),
        ((1, zeros), KeyTooLong, every),
        (mapping, KeyTypeError, [store]),
    ):
        for operation in operations:
            count += 1
            try:
                operation(key)
            except refused:
                continue
            sys.exit(f"a key of {length} bytes was taken")
    del zeros
    grown_kib = memory_kib("VmHWM:") - before_kib
    if grown_kib > 16 << 10:
        sys.exit(f"{grown_kib} KiB of something of {length} bytes were copied")

# What cannot be had without being touched, where a copy of it would not fit.
long = [bytearray(200 << 20), 1 << (200 << 23), "\\ud800" * (50 << 20)]
size_kib = memory_kib("VmSize:")
resource.setrlimit(resource.RLIMIT_AS, ((size_kib << 10) + (64 << 20),) * 2)
for thing in long:
    for value in (thing, [thing]):
        count += 1
        try:
            cache["k"] = value
        except ValueTooLarge:
            continue
        sys.exit(f"{type(thing)} was stored")
for key in (*long[1:], ("x" * 60000,) * 10**6):
    count += 1
    try:
        cache.get(key)
    except KeyTooLong:
        continue
    sys.exit(f"a long {type(key)} was taken as a key")
if dict(cache) != {"k": "old"} or not cache.check().is_sound:
    sys.exit("something changed")
print(count)
"""


def test_what_is_far_too_long_is_refused_before_it_is_copied(path: str, trials: Trials) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SPARSE.replace("\\\\", "\\"), path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    trials.add(int(done.stdout), "cases")


@pytest.mark.timeout(240)
def test_random_keys_and_values(
    opened: Callable[..., Cache], path: str, trials: Trials, size: Any, seed: int
) -> None:
    judge = inputs.Judge(opened(path, size="24 MiB"), seed)
    examples = 0

    @seeded(seed)
    @settings(
        deadline=None,
        database=None,
        max_examples=size(2_000, 20_000),
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(key=strategies.keys, value=strategies.values)
    def example(key: Any, value: Any) -> None:
        nonlocal examples
        examples += 1
        judge.case(judge.random.choice(inputs.OPERATIONS), key, value)

    example()
    judge.end()
    assert judge.refusals == 0
    trials.add(examples, "examples")


class Missing(Cache):
    def get(self, key: Any, default: Any = None) -> Any:
        return default


class Forgetting(Cache):
    def set(self, key: Any, value: Any, ttl: Any = None) -> None:
        inputs.ttl_errors(ttl)


class Truncating(Cache):
    def get(self, key: Any, default: Any = None) -> Any:
        found = super().get(key, default)
        return found[:-1] if isinstance(found, bytes) and len(found) > 4096 else found


class Rounding(Cache):
    """Takes what is equal for the same: 1 for True."""

    def get(self, key: Any, default: Any = None) -> Any:
        found = super().get(key, default)
        return int(found) if isinstance(found, bool) else found


class Normalizing(Cache):
    def set(self, key: Any, value: Any, ttl: Any = None) -> None:
        if type(value) is str:
            value = unicodedata.normalize("NFC", value)
        super().set(key, value, ttl)


class Swapping(Cache):
    """Answers now and then with the value of another key."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(("witness", 7) if key == "k" * 251 else key, default)


class Immortal(Cache):
    def set(self, key: Any, value: Any, ttl: Any = None) -> None:
        inputs.ttl_errors(ttl)
        super().set(key, value, None if ttl == 0 else ttl)


class Obliging(Cache):
    """Stores what cannot be stored as text."""

    def set(self, key: Any, value: Any, ttl: Any = None) -> None:
        try:
            super().set(key, value, ttl)
        except ValueTypeError:
            super().set(key, str(type(value)), ttl)


class Clobbering(Cache):
    """Makes room before it knows that the value can be stored."""

    def set(self, key: Any, value: Any, ttl: Any = None) -> None:
        if not inputs.key_errors(key):
            self.delete(key)
        super().set(key, value, ttl)


class Silent(Cache):
    def set(self, key: Any, value: Any, ttl: Any = None) -> None:
        with contextlib.suppress(TuckboxError):
            super().set(key, value, ttl)


class Rude(Cache):
    def set(self, key: Any, value: Any, ttl: Any = None) -> None:
        try:
            super().set(key, value, ttl)
        except TuckboxError as error:
            raise RuntimeError from error


LIARS = [Missing, Forgetting, Truncating, Rounding, Normalizing, Swapping, Immortal, Obliging]
LIARS += [Clobbering, Silent, Rude]


@pytest.mark.parametrize("liar", LIARS)
def test_a_cache_that_does_otherwise_is_caught(
    liar: type[Cache], path: str, size: Any, seed: int, trials: Trials
) -> None:
    with liar(path, size="24 MiB") as cache, pytest.raises(AssertionError):
        run_table(cache, seed, size(4000, None))
    trials.figure("controls_caught", len(LIARS))
