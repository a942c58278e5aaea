"""T-S1: whatever bytes are in the file, reading them runs no code, and gives no value that was not
stored under that key."""

from __future__ import annotations

import contextlib
import dataclasses
import decimal
import json
import os
import pickle
import random
import shutil
import uuid
from datetime import date, datetime, time, timedelta, timezone
from typing import TYPE_CHECKING, Any, Callable
from zoneinfo import ZoneInfo

import pytest

from attackers import Attacker, Raw
from integrations.django import project
from properties.test_round_trips import canonical
from tuckbox import Cache, _engine, register
from tuckbox.errors import EntryCorrupt, EntryRefused, NotAnInteger
from tuckbox.objects import Objects

if TYPE_CHECKING:
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = pytest.mark.family("T-S1")

TAG_COUNT = 64
MOMENT = datetime(2026, 10, 25, 2, 30, 15, 123456, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)
SAMPLE: list[Any] = [
    None,
    2**80,
    -1.5,
    "\ud800",
    bytearray(b"abc"),
    [1, "two", b"three", [None, True, False], -70, "x" * 70],
    ("a", (1, (2,))),
    {"k": 1, 2: [3], (4, "5"): {}},
    {1, "a", b"b"},
    frozenset([(1, 2)]),
    MOMENT,
    MOMENT.replace(tzinfo=timezone(timedelta(hours=5, seconds=1), "Own")),
    MOMENT.date(),
    MOMENT.timetz(),
    timedelta(-1, 2, 3),
    decimal.Decimal("-1.50E+7"),
    uuid.UUID(int=12345),
]
PLAIN = (type(None), bool, int, float, str, bytes, bytearray, decimal.Decimal, uuid.UUID)
PLAIN += (datetime, date, time, timedelta)


class Evil:
    """Its pickle makes a directory where it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.mark,)


@dataclasses.dataclass(frozen=True)
class Point:
    """A registered type."""

    x: Any
    y: Any = None


def is_plain(value: Any) -> bool:
    if type(value) is Point:
        return is_plain(value.x) and is_plain(value.y)
    if type(value) in {list, tuple, set, frozenset}:
        return all(map(is_plain, value))
    if type(value) is dict:
        return all(is_plain(part) for pair in value.items() for part in pair)
    # Complex numbers are registered with functions of their own.
    return type(value) in {*PLAIN, complex}


READS: dict[str, Callable[[Cache, Any], Any]] = {
    "get": lambda cache, key: cache.get(key),
    "get_entry": lambda cache, key: cache.get_entry(key),
    "getitem": lambda cache, key: cache[key],
    "get_many": lambda cache, key: cache.get_many([key]),
    "values": lambda cache, key: list(cache.values()),
    "items": lambda cache, key: [list(pair) for pair in cache.items()],
    "keys": lambda cache, key: list(cache),
    "incr": lambda cache, key: cache.incr(key, default=None),
    "pop": lambda cache, key: cache.pop(key),
}


def read_every_way(cache: Cache, key: Any, mark: Path) -> bool:
    """Read a value; whether any way gave one.

    Raises:
        AssertionError: Code ran, or something came back that is no plain value.
    """
    given = set()
    for name, read in READS.items():
        try:
            found = read(cache, key)
        except (EntryCorrupt, NotAnInteger, KeyError):
            continue
        except Exception as error:
            raise AssertionError(f"{name} raised {error!r}") from error
        finally:
            assert not mark.exists(), f"{name} ran code"
        given.add(name)
        if name == "get_entry":
            found = None if found is None else found.value
        assert is_plain(found), f"{name} gave {found!r}"
    assert ("getitem" in given) == ("pop" in given)
    return "getitem" in given


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """What is there as soon as an evil pickle was read."""
    return tmp_path / "mark"


def plant_pickles(cache: Cache, mark: Path, generator: random.Random) -> int:
    evil = [Evil(mark), [Evil(mark)], {"k": (1, Evil(mark))}]
    planted = 0
    for tag in range(TAG_COUNT):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            pickled = pickle.dumps(evil[planted % len(evil)], protocol)
            head = generator.choice([b"", bytes([len(pickled) & 0x7F]), b"\1", b"\x01\x07"])
            _engine._plant(cache, b"k", tag, head + pickled)
            read_every_way(cache, "k", mark)
            planted += 1
    for prefix in (b"", b"\xff", b"\xffb", b"\xffi", b"\xfft", b"\xfft\x05"):
        _engine._plant(cache, prefix + pickle.dumps(evil[0]), 0, pickle.dumps(evil[0]))
        read_every_way(cache, "k", mark)
        cache.clear()
        planted += 1
    return planted


def test_pickles_in_the_file_are_never_read(
    cache: Cache, mark: Path, trials: Trials, seed: int
) -> None:
    pickle.loads(pickle.dumps(Evil(mark)))
    assert mark.exists(), "the pickle of this test is not evil"
    mark.rmdir()
    trials.add(plant_pickles(cache, mark, random.Random(seed)), "planted pickles")


class Unpickling(Cache):
    """Takes bytes that look like a pickle for one."""

    def get(self, key: Any, default: Any = None) -> Any:
        found = super().get(key, default)
        return pickle.loads(found) if isinstance(found, bytes) else found


class Guessing(Cache):
    """Reads as a pickle what is no value."""

    def __getitem__(self, key: Any) -> Any:
        try:
            return super().__getitem__(key)
        except EntryCorrupt:
            return pickle.loads(READ_RAW["k"])


READ_RAW: dict[str, bytes] = {}


@pytest.mark.parametrize("liar", [Unpickling, Guessing])
def test_a_cache_that_unpickles_is_caught(
    liar: type[Cache], path: str, mark: Path, seed: int
) -> None:
    READ_RAW["k"] = pickle.dumps(Evil(mark))
    with liar(path) as cache, pytest.raises(AssertionError, match=r"ran code|raised"):
        plant_pickles(cache, mark, random.Random(seed))


def test_every_tag_and_bit_of_an_encoded_value(cache: Cache, mark: Path, trials: Trials) -> None:
    """With a checksum that is right: what another program may have written."""
    flips = values = 0
    for value in SAMPLE:
        tag, content = _engine._encoded(cache, value)
        _engine._plant(cache, b"k", tag, content)
        assert canonical(cache["k"]) == canonical(value)
        forged = [(other, content) for other in range(TAG_COUNT)]
        for place in range(8 * len(content)):
            flipped = bytearray(content)
            flipped[place // 8] ^= 1 << place % 8
            forged.append((tag, bytes(flipped)))
        forged += [(tag, content[:length]) for length in range(len(content))]
        forged += [(tag, content + more) for more in (b"\0", b"\1", b"\xff")]
        for other, bytes_ in forged:
            _engine._plant(cache, b"k", other, bytes_)
            values += read_every_way(cache, "k", mark)
            flips += 1
    assert 0 < values < flips
    trials.add(flips, "forged values")


class Json:
    """A codec."""

    name = "json"

    def encode(self, value: Any) -> Any:
        return json.dumps(value).encode() if type(value) in {list, str} else NotImplemented

    def decode(self, content: bytes) -> Any:
        return json.loads(content)


OBJECTS: dict[str, tuple[dict[str, Any], Any]] = {
    "registered": ({}, [Point(1, [Point("two")]), {Point(b"k"): Point(None)}]),
    "own functions": ({}, [1 + 2j, {"k": 3j}]),
    "signed": ({"pickle": "signed", "secret": "a secret"}, range(3)),
    "codec": ({"codec": Json()}, ["a", 1, None]),
    "zstd": ({"compress": 1}, {"k": "x" * 100}),
    "lz4": ({"compress": 1, "compressor": "lz4"}, {"k": "x" * 100}),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_every_tag_and_bit_of_an_object(
    opened: Callable[..., Cache], mark: Path, kind: str, seed: int, trials: Trials
) -> None:
    """Registered types, signed pickles, codecs and compression, damaged with a right checksum."""
    register(Point)
    register(complex, encode=lambda z: [z.real, z.imag], decode=lambda parts: complex(*parts))
    options, value = OBJECTS[kind]
    cache = opened(mark.with_name("cache.tuck"), size="4 MiB", **options)
    generator = random.Random(seed)
    cache["k"] = value
    with Attacker(cache.path) as attacker:
        found = attacker["k"]
    tag, content = found if isinstance(found, Raw) else _engine._encoded(cache, value)
    assert cache["k"] == value
    evil = pickle.dumps(Evil(mark))
    forged = [(other, content) for other in range(TAG_COUNT) if other != tag]
    for place in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        forged.append((tag, bytes(flipped)))
    forged += [(tag, content[:length]) for length in range(len(content))]
    forged += [(tag, content[:length] + evil) for length in range(len(content))]
    forged += [
        (code, generator.randbytes(generator.randrange(64)))
        for code in (21, 22, 23, 24, 25)
        for _ in range(100)
    ]
    for code, bytes_ in forged:
        _engine._plant(cache, b"k", code, bytes_)
        read_every_way(cache, "k", mark)
    trials.add(len(forged), "damaged objects")


# Damage of the file itself: there the checksum has to see it.


class File:
    """The bytes of a cache's file, behind its back."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDWR)

    def find(self, content: bytes) -> int:
        """Where the latest copy of these bytes is that the file has only once or more."""
        whole = os.pread(self.fd, os.fstat(self.fd).st_size, 0)
        at = whole.rfind(content)
        assert at >= 0
        return at

    def read(self, at: int, length: int) -> bytes:
        return os.pread(self.fd, length, at)

    def write(self, at: int, content: bytes) -> None:
        os.pwrite(self.fd, content, at)

    def flip(self, bit: int) -> None:
        (byte,) = self.read(bit // 8, 1)
        self.write(bit // 8, bytes([byte ^ 1 << bit % 8]))


HEAD_BYTES = 12
MISSING = object()


def flip_every_bit(cache: Cache, path: str, value: Any, bits: Any) -> tuple[int, int]:
    """Flip bits of the record of `value`; how many, and how many reads were answered with it.

    Raises:
        AssertionError: A wrong value came back, or others were lost.
    """
    others = {f"other {n}": [n] * n for n in range(200)}
    cache.set_many(others)
    file = File(path)
    key = "the key of the record"
    flips = right = 0
    try:
        cache[key] = value
        start = file.find(key.encode()) - HEAD_BYTES
        for bit in bits:
            place = start * 8 + bit
            file.flip(place)
            found: Any = MISSING
            with contextlib.suppress(EntryCorrupt):
                found = cache.get(key, MISSING)
            file.flip(place)
            assert found is MISSING or canonical(found) == canonical(value), f"bit {bit}: {found}"
            flips += 1
            right += found is not MISSING
            if key not in cache:
                cache[key] = value
                start = file.find(key.encode()) - HEAD_BYTES
        assert cache[key] == value
        assert cache.get_many(others) == others, "others were lost"
    finally:
        os.close(file.fd)
    return flips, right


def record_bits(value: Any, cache: Cache) -> int:
    _, content = _engine._encoded(cache, value)
    return 8 * (HEAD_BYTES + len("the key of the record") + len(content))


@pytest.mark.parametrize("value", [["a value", 1, 2.5], {"k": [None, "text"]}, {1, 2, 3}], ids=repr)
def test_every_bit_of_a_record_in_the_file(
    opened: Callable[..., Cache], path: str, value: Any, trials: Trials
) -> None:
    cache = opened(path, size="4 MiB")
    flips, right = flip_every_bit(cache, path, value, range(record_bits(value, cache)))
    assert right == 0, "a record that is not what was written was answered with"
    trials.add(flips, "flipped bits")
    cache.check()


class Unchecked(Cache):
    """Believes the file: as if there were no checksum."""

    def get(self, key: Any, default: Any = None) -> Any:
        if not str(key).startswith("the key"):
            return super().get(key, default)
        file = File(self.path or "")
        at = file.find(b"a value") - 1
        content = file.read(at, 8)
        os.close(file.fd)
        return [content[1:].decode("latin-1"), 1, 2.5]


def test_a_cache_that_checks_nothing_is_caught(path: str) -> None:
    with Unchecked(path, size="4 MiB") as cache, pytest.raises(AssertionError):
        flip_every_bit(cache, path, ["a value", 1, 2.5], range(record_bits(["a value"], cache)))


class Missing(Cache):
    def get(self, key: Any, default: Any = None) -> Any:
        return default

    def get_many(self, keys: Any) -> Any:
        return {}


def test_a_cache_that_always_misses_is_caught(path: str) -> None:
    with Missing(path, size="4 MiB") as cache, pytest.raises(AssertionError, match="were lost"):
        flip_every_bit(cache, path, ["a value", 1, 2.5], range(64, 80))


def test_values_that_change_places(
    opened: Callable[..., Cache], tmp_path: Path, trials: Trials
) -> None:
    """Between two keys, between two files, and between two times."""
    paths = [str(tmp_path / name) for name in ("one", "two")]
    caches = [opened(path, size="4 MiB") for path in paths]
    files = [File(path) for path in paths]
    keys = [f"key {n:04}" for n in range(200)]
    marks = [f"<{n:04}>" for n in range(200)]
    swaps = 0
    for number, cache in enumerate(caches):
        for key, mark in zip(keys, marks):
            cache[key] = [mark, number]
    for one, other in zip(range(0, 200, 2), range(1, 200, 2)):
        file, cache = files[0], caches[0]
        places = [file.find(marks[n].encode()) for n in (one, other)]
        values = [file.read(place, 6) for place in places]
        for place, value in zip(places, reversed(values)):
            file.write(place, value)
        for n in (one, other):
            assert cache.get(keys[n]) is None, "a value of another key"
        for place, value in zip(places, values):
            file.write(place, value)
        # The whole records, which name their keys and carry a checksum.
        starts = [file.find(keys[n].encode()) - HEAD_BYTES for n in (one, other)]
        length = HEAD_BYTES + len(keys[0]) + 16
        records = [file.read(start, length) for start in starts]
        for start, record in zip(starts, reversed(records)):
            file.write(start, record)
        for n in (one, other):
            assert cache.get(keys[n]) is None, "a record of another key"
        for start, record in zip(starts, records):
            file.write(start, record)
            swaps += 2
        # And those of the other file, which have the same places there.
        assert files[1].read(starts[0] + HEAD_BYTES, 8) == keys[one].encode()
        for start, record in zip(starts, records):
            own = files[1].read(start, length)
            files[1].write(start, record)
            n = starts.index(start)
            assert caches[1].get(keys[(one, other)[n]]) is None, "a value of another file"
            files[1].write(start, own)
            swaps += 1
    for number, cache in enumerate(caches):
        assert all(cache[key] == [mark, number] for key, mark in zip(keys, marks))
        os.close(files[number].fd)
    trials.add(swaps, "swaps")


def test_what_has_expired_cannot_be_put_back(
    path: str, clock: _engine.ManualClock, trials: Trials
) -> None:
    cache = Cache.__new__(Cache)
    _engine.Core.__init__(cache, path, size_bytes=4 << 20, clock=clock)
    file = File(path)
    entries = {f"key {n:04}": [f"<old {n:04}>"] for n in range(100)}
    cache.set_many(entries, 60)
    cache.set("lasting", ["for ever"])
    old = file.read(0, os.fstat(file.fd).st_size)
    assert cache.get_many(entries) == entries
    clock.advance(61)
    assert cache.get_many(entries) == {}
    cache.set_many({key: ["new"] for key in list(entries)[:50]})
    for key in entries:
        at = file.find(b"lasting")
        assert at
        start = old.index(key.encode()) - HEAD_BYTES - 8
        file.write(start, old[start : start + 64])
        assert cache.get(key) in (None, ["new"]), "an expired value"
    file.write(0, old)
    assert cache.get_many(entries) == {}, "an expired value of the file as it was"
    assert cache["lasting"] == ["for ever"]
    cache.close()
    os.close(file.fd)
    again = Cache.__new__(Cache)
    _engine.Core.__init__(again, path, clock=clock)
    with again:
        assert again.get_many(entries) == {}
        assert again["lasting"] == ["for ever"]
    trials.add(2 * len(entries), "replays")


# Objects of the Django backend.


@pytest.fixture
def signed(tmp_path: Path) -> Any:
    project.configure()
    from tuckbox.integrations.django import TuckboxCache

    return lambda name, kind=TuckboxCache: kind(str(tmp_path / name), {})


SIGNED = 23
OURS, OTHER = b"1" * 16, b"2" * 16


def forge(decode: Callable[[bytes, bytes, bytes], Any], mark: Path) -> int:
    """Try signed pickles with one bit flipped, and those of another entry or cache.

    Raises:
        AssertionError: One was unpickled.
    """
    signing = Objects(pickle="signed", secret=b"k" * 32)
    refused = 0
    for value in (Evil(mark), {"k": [Evil(mark)]}, ("x" * 100, Evil(mark))):
        encoded = signing.encode(value, b"key", OURS)
        assert encoded is not None
        genuine = encoded[1]
        forged = [(OURS, b"other key", genuine), (OTHER, b"key", genuine), (OURS, b"", genuine)]
        forged += [(OURS, b"\xfft\xffbkey", genuine), (OURS, b"key\0", genuine)]
        for bit in range(8 * len(genuine)):
            flipped = bytearray(genuine)
            flipped[bit // 8] ^= 1 << bit % 8
            forged.append((OURS, b"key", bytes(flipped)))
        for cache_id, key, content in forged:
            try:
                decode(cache_id, key, content)
            except EntryRefused:
                refused += 1
            except Exception as error:
                raise AssertionError(f"{key!r} was unpickled, and raised {error!r}") from error
            assert not mark.exists(), f"{key!r} was unpickled"
    return refused


def decoded(cache_id: bytes, key: bytes, content: bytes) -> Any:
    objects = Objects(pickle="signed", secret=[b"other" * 8, b"k" * 32])
    return objects.decode(SIGNED, content, key, cache_id)


def test_every_bit_of_a_signed_object(mark: Path, trials: Trials) -> None:
    refused = forge(decoded, mark)
    assert refused > 3000
    encoded = Objects(pickle="signed", secret=b"k" * 32).encode({1}, b"key", OURS)
    assert encoded is not None
    assert decoded(OURS, b"key", encoded[1]) == {1}
    trials.add(refused, "forged objects")


@pytest.mark.parametrize(
    "decode",
    [
        lambda cache_id, key, content: pickle.loads(content[32:]),
        lambda cache_id, key, content: decoded(OURS, key, content),
        lambda cache_id, key, content: decoded(cache_id, b"key", content),
    ],
    ids=["no signature", "any cache", "any key"],
)
def test_a_backend_that_believes_is_caught(decode: Any, mark: Path) -> None:
    with pytest.raises(AssertionError, match="was unpickled"):
        forge(decode, mark)


def test_objects_are_good_for_one_entry_of_one_cache(
    signed: Any, tmp_path: Path, trials: Trials
) -> None:
    one, two = signed("one"), signed("two")
    for backend in (one, two):
        for number in range(51):
            backend.set(f"key-{number}", {"of": ("one", ...)})
    raw, raw_two = Attacker(tmp_path / "one"), Attacker(tmp_path / "two")
    for number in range(50):
        key = f":1:key-{number}"
        genuine = raw[key]
        assert genuine.code == SIGNED
        raw_two[key] = genuine
        assert two.get(f"key-{number}") is None
        raw[f":1:key-{number + 1}"] = genuine
        assert one.get(f"key-{number + 1}") is None
        raw[f":2:key-{number}"] = genuine
        assert one.get(f"key-{number}", version=2) is None
        assert one.get(f"key-{number}") == {"of": ("one", ...)}
        one.set(f"key-{number + 1}", {"of": ("one", ...)})
    trials.add(150, "objects in wrong places")
    for cache in (one._cache, two._cache, raw, raw_two):
        cache.close()


def test_a_copy_of_the_file_is_the_same_cache(signed: Any, tmp_path: Path) -> None:
    one = signed("one")
    one.set("key", {"of": ...})
    shutil.copy(tmp_path / "one", tmp_path / "copy")
    copy = signed("copy")
    assert copy.get("key") == {"of": ...}
    for backend in (one, copy):
        backend._cache.close()
