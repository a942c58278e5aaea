"""What is given to a cache as key, value and ttl, what must become of it, and who judges that.

The rules are written here a second time, in Python and from the documentation alone, so that the
codec is not its own witness.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import math
import mmap
import random
import re
import reprlib
import uuid
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from properties.test_round_trips import canonical
from tuckbox import Cache
from tuckbox.errors import InvalidTTL, KeyTooLong, KeyTypeError, ValueTooLarge, ValueTypeError

KEY_BYTES_MAX = 65_536
DEPTH_MAX = 64
LENGTHS = [0, 1, 7, 8, 15, 16, 249, 250, 251, 255, 256, 257, 4095, 4096, 4097]
LONG_LENGTHS = [65_535, 65_536, 65_537]
TEXTS = [
    "nul\0inside",
    "\r\n",
    " \t",
    "\x7f",
    "".join(map(chr, range(0x80, 0x100))),
    "\ud800",
    "\udfff\ud800",
    "\ud83d\ude00",
    "😀",
    "é",
    "e\u0301",
    "\u00c5",
    "\u212b",
    "\u202eabc\u200f",
    "👩\u200d👩\u200d👧",
    "\uffff\U0010ffff",
    "1",
    "None",
]
INTEGERS = [0, 1, -1, 2**31, 2**63 - 1, -(2**63), 2**63, 2**64, -(2**64), 10**400, -(10**400)]


class OwnError(Exception):
    """What the hostile objects here raise."""


class Word(str):
    __slots__ = ()


class Level(enum.IntEnum):
    LOW = 1


Point = collections.namedtuple("Point", "x y")  # noqa: PYI024


class RaisingHash(str):
    __slots__ = ()

    def __hash__(self) -> int:
        raise OwnError


class RaisingEq(str):
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        raise OwnError


class Raising:
    """Raises at whatever it is asked."""

    def __reduce__(self) -> Any:
        raise OwnError

    def __eq__(self, other: object) -> bool:
        raise OwnError

    def __hash__(self) -> int:
        raise OwnError

    def __buffer__(self, flags: int) -> memoryview:
        raise OwnError

    def __repr__(self) -> str:
        raise OwnError

    def __bytes__(self) -> bytes:
        raise OwnError

    def __index__(self) -> int:
        raise OwnError

    def __float__(self) -> float:
        raise OwnError

    def __len__(self) -> int:
        raise OwnError

    def __iter__(self) -> Any:
        raise OwnError

    @property
    def __class__(self) -> Any:
        raise OwnError

    def __getattr__(self, name: str) -> Any:
        raise OwnError


class Liar:
    """Says that it is a str."""

    __class__ = str  # type: ignore[assignment]


class BytesLike(bytes):
    __slots__ = ()

    def __len__(self) -> int:
        return 0


class OwnZone(tzinfo):
    def utcoffset(self, when: datetime | None) -> timedelta:
        raise OwnError


class RaisingList(list):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        raise OwnError


@dataclasses.dataclass
class Plain:
    x: int


def nested(kind: Any, depth: int) -> Any:
    value = kind()
    for _ in range(depth - 1):
        value = kind([value])
    return value


def circle() -> list[Any]:
    value: list[Any] = [1]
    value.append({"again": value})
    return value


def keys() -> list[Any]:
    """Keys of every kind, those that are refused as well."""
    good = [*TEXTS, *INTEGERS, *(text.encode("utf-8", "surrogatepass") for text in TEXTS)]
    good += [True, False, Level.LOW, Word("word"), Point(1, "y"), (), ((),), ("a", b"a", 1)]
    good += [tuple(TEXTS), tuple(INTEGERS), (1, (True, ("é",))), BytesLike(b"abc"), b"\xff" * 20]
    good += [nested(tuple, DEPTH_MAX)]
    good += ["k" * length for length in (*LENGTHS, 65_535, KEY_BYTES_MAX)]
    good += [b"k" * length for length in (*LENGTHS, 65_533, KEY_BYTES_MAX - 2)]
    bad = [None, 1.0, -0.0, math.nan, math.inf, 1j, [1], {1: 2}, {1}, frozenset(), bytearray(b"k")]
    bad += [memoryview(b"k"), mmap.mmap(-1, 1), object(), Raising(), Liar(), Decimal(1), Plain(1)]
    bad += [RaisingHash("k"), RaisingEq("k"), ("a", Raising()), (1, (2, 1.0)), iter("k"), ...]
    bad += [nested(tuple, DEPTH_MAX + 1), nested(tuple, 10**5), (n for n in "k"), datetime.min]
    bad += ["k" * (KEY_BYTES_MAX + 1), b"k" * (KEY_BYTES_MAX - 1), 1 << 8 * KEY_BYTES_MAX]
    bad += ["é" * (KEY_BYTES_MAX // 2 + 1), "\ud800" * (KEY_BYTES_MAX // 3 + 1), range(3)]
    bad += [("k" * 60_000,) * 2, ("k" * 60_000,) * 10**6]
    explosion: Any = ("laugh",)
    for _ in range(60):
        explosion = (explosion,) * 10
    return [*good, *bad, explosion]


def values(cache: Cache) -> list[Any]:
    """Values of every kind, those that are refused as well."""
    segment = cache.stats().segment_bytes
    longest = longest_value(cache)
    moment = datetime(2026, 10, 25, 2, 30, 15, 123456)
    good = [None, True, 1, 1.0, False, 0, -0.0, 0.0, math.nan, math.inf, *TEXTS, *INTEGERS]
    good += [1 << 8 * 1500, -1 << 8 * 1500, [1, True, 1.0], (1, (2,)), [1, [2]], {1: [], "é": ()}]
    good += [{1, "a", (1,)}, frozenset([b"x"]), bytearray(b"\0\xff"), set(), {}, [], ()]
    good += [moment, moment.date(), moment.time(), timedelta(-1, 2, 3), Decimal("-0.10")]
    good += [moment.replace(tzinfo=ZoneInfo("Europe/Berlin"), fold=1), date.max, time.max]
    good += [moment.replace(tzinfo=timezone.utc), uuid.UUID(int=2**128 - 1), TEXTS, INTEGERS]
    good += [nested(list, DEPTH_MAX), {"k": nested(tuple, DEPTH_MAX - 1)}, Decimal("NaN123")]
    good += [b"v" * length for length in (*LENGTHS, *LONG_LENGTHS)]
    good += ["v" * length for length in (*LENGTHS, *LONG_LENGTHS)]
    good += [b"v" * length for length in (segment - 1, segment, segment + 1, 2 * segment)]
    good += [["v" * 300] * 300, bytearray(65_537), b"v" * (longest - 1), b"v" * longest]
    bad = [object(), Plain(1), Raising(), Liar(), Word("w"), Level.LOW, Point(1, 2), 1j, range(3)]
    bad += [memoryview(b"v"), mmap.mmap(-1, 4096), BytesLike(b"v"), RaisingList([1]), iter([1])]
    bad += [(n for n in "v"), circle(), nested(list, DEPTH_MAX + 1), nested(tuple, 10**5), ...]
    bad += [[1, {"a": Raising()}], {"a": (1, Plain(2))}, {Level.LOW: 1}, frozenset([Word("w")])]
    bad += [moment.replace(tzinfo=OwnZone()), collections.OrderedDict(a=1), int, len, ZoneInfo]
    bad += [
        b"v" * (longest + 1),
        "v" * (longest + 1),
        bytearray(longest + 20),
        [b"v" * (longest + 20)],
    ]
    bad += [1 << 8 * (longest + 20), "\ud800" * longest]
    return [*good, *bad]


TTLS: list[Any] = [None, 60, 0.5e6, timedelta(1), math.inf, 2**63, 10**30, 1e300, timedelta.max]
TTLS += ["5m", "1h 30m", "1.5d", "9" * 400 + "w"]
EXPIRED_TTLS = [0, 0.0, -0.0, timedelta(0), -1, -1e-9, -(2**63), -math.inf, timedelta.min, "0s"]
TTLS += EXPIRED_TTLS
BAD_TTLS: list[Any] = [math.nan, True, "60", "5 min", "-5m", "1m1h", "\ud800", 1j]
BAD_TTLS += [Decimal(60), Raising(), [60]]


def longest_value(cache: Cache) -> int:
    """The longest `bytes` that this cache takes, as its refusal of one says."""
    try:
        Cache.set(cache, "longest", [bytes(cache.size + 1)])
    except ValueTooLarge as refusal:
        (longest,) = re.findall(r"the limit of this cache is (\d+) bytes", str(refusal))
        return int(longest)
    raise AssertionError("a value longer than the file was stored")


# The rules.


def key_errors(key: Any) -> set[type[Exception]]:
    """The exceptions of which one must be raised for a key; none if it can be one."""
    errors: set[type[Exception]] = set()
    length = key_bytes(key, errors)
    return errors | {KeyTooLong} if length > KEY_BYTES_MAX else errors


def key_bytes(key: Any, errors: set[type[Exception]]) -> int:
    """How long a key is when it is encoded, or that it is too long."""
    return _key_bytes(key, 1, errors, KEY_BYTES_MAX + 1)


def _key_bytes(key: Any, depth: int, errors: set[type[Exception]], limit: int) -> int:
    kind = type(key)
    for base in (str, bytes, int, tuple):
        if issubclass(kind, base):
            break
    else:
        errors.add(KeyTypeError)
        return 0
    if kind.__eq__ is not base.__eq__ or kind.__hash__ is not base.__hash__:
        errors.add(KeyTypeError)
        return 0
    if base is str:
        return len(str.encode(key, "utf-8", "surrogatepass"))
    if base is bytes:
        return 2 + bytes.__len__(key)
    if base is int:
        return 3 + int.bit_length(key) // 8
    if depth > DEPTH_MAX:
        errors.add(KeyTypeError)
        return 0
    total = 2
    for item in tuple.__iter__(key):
        part = _key_bytes(item, depth + 1, errors, limit - total)
        total += part + (1 if part < 128 else 2 if part < 1 << 14 else 3)
        if total >= limit:
            break
    return total


def value_errors(value: Any, longest: int) -> set[type[Exception]]:
    """The exceptions of which one must be raised for a value; none if it can be stored."""
    errors: set[type[Exception]] = set()
    length = _value_bytes(value, 1, errors)
    if length > longest + 16 or (type(value) in {bytes, str} and length > longest):
        errors.add(ValueTooLarge)
    return errors


def _value_bytes(value: Any, depth: int, errors: set[type[Exception]]) -> int:
    """About how many bytes; exact for `bytes` and `str`."""
    kind = type(value)
    if kind in {bool, type(None), float, date, time, datetime, timedelta, uuid.UUID, Decimal}:
        if kind in {time, datetime} and isinstance(value.tzinfo, OwnZone):
            errors.add(ValueTypeError)
        return 8
    if kind is int:
        return value.bit_length() // 8
    if kind is str:
        return len(value.encode("utf-8", "surrogatepass"))
    if kind in {bytes, bytearray}:
        return len(value)
    if kind not in {list, tuple, dict, set, frozenset} or depth > DEPTH_MAX:
        errors.add(ValueTypeError)
        return 0
    items = [*value.keys(), *value.values()] if kind is dict else value
    return sum(_value_bytes(item, depth + 1, errors) for item in items)


def ttl_errors(ttl: Any) -> set[type[Exception]]:
    kind = type(ttl)
    if ttl is None or kind in {int, timedelta}:
        return set()
    if kind is float:
        return {InvalidTTL} if math.isnan(ttl) else set()
    if kind is str:
        number = r"\s*\d+(\.\d+)?\s*"
        units = "".join(f"({number}{unit})?" for unit in "wdhms")
        is_duration = ttl.strip() and re.fullmatch(units + r"\s*", ttl, re.ASCII)
        return set() if is_duration else {InvalidTTL}
    return {InvalidTTL}


# The judge.


OPERATIONS = ["set", "add", "replace", "cas", "set_many", "__setitem__"]


class Judge:
    """Stores, reads back, and demands that either all is as it should be or nothing changed."""

    def __init__(self, cache: Cache, seed: int) -> None:
        self.cache = cache
        self.random = random.Random(seed)
        self.longest = longest_value(cache)
        self.witnesses = {("witness", n): [n, str(n) * n] for n in range(50)}
        cache.set_many(self.witnesses)
        self.hits = 0
        self.refusals = 0

    def case(self, operation: str, key: Any, value: Any, ttl: Any = None) -> None:
        """One operation that stores.

        Raises:
            AssertionError: It did not do what the documentation says.
        """
        what = What(operation, key, value, ttl)
        wrong_key = key_errors(key)
        # What a key has above 256 bytes counts against the value.
        longest = self.longest - max(0, key_bytes(key, set()) - 256)
        expected = wrong_key | value_errors(value, longest)
        if operation != "__setitem__":
            expected |= ttl_errors(ttl)
        before = None
        if not wrong_key:
            self.cache.delete(key)
            over = operation != "add" and self.random.random() < 0.5
            if operation in {"replace", "cas"} or over:
                self.cache.set(key, "before")
                before = self.cache.get_entry(key)
                assert before is not None, f"{what}: a value of before is not there"
        count = len(self.cache)
        try:
            self._store(operation, key, value, ttl, before)
        except Exception as error:
            assert type(error) in expected, f"{what}: raised {error!r} instead of {expected}"
            assert len(self.cache) == count, f"{what}: raised, and changed how many there are"
            if not wrong_key:
                assert self.cache.get_entry(key) == before, f"{what}: raised, and changed the entry"
            self.refusals += 1
        else:
            assert not expected, f"{what}: raised none of {expected}"
            self._prove_stored(what, key, value, None if operation == "__setitem__" else ttl)
        witness = self.random.choice(list(self.witnesses))
        assert self.cache.get(witness) == self.witnesses[witness], f"{what}: {witness} changed"

    def _store(self, operation: str, key: Any, value: Any, ttl: Any, before: Any) -> None:
        if operation == "set_many":
            self.cache.set_many(_Pair(key, value), ttl)
        elif operation == "__setitem__":
            self.cache[key] = value
        elif operation == "cas":
            version = before.version if before else 1
            stored = self.cache.cas(key, value, version, ttl)
            assert stored, "cas did not store"
        elif operation == "set":
            self.cache.set(key, value, ttl)
        else:
            assert getattr(self.cache, operation)(key, value, ttl), f"{operation} did not store"

    def _prove_stored(self, what: What, key: Any, value: Any, ttl: Any) -> None:
        lives = ttl is None or ttl not in EXPIRED_TTLS
        assert (key in self.cache) == lives, f"{what}: it is there: {not lives}"
        missing = object()
        entry = self.cache.get_entry(key)
        for found in (self.cache.get(key, missing), entry.value if entry else missing):
            if not lives:
                assert found is missing, f"{what}: it was returned at its expiry"
                continue
            assert found is not missing, f"{what}: it is not there"
            assert is_same(found, value), f"{what}: {_shown(found)} came back"
        if lives:
            self.hits += 1
            self.cache.delete(key)

    def end(self) -> None:
        """Demand that nothing happened to anybody else."""
        found = self.cache.get_many(self.witnesses)
        assert found == self.witnesses, "witnesses changed"
        report = self.cache.check()
        assert report.is_sound, report


def is_same(found: Any, value: Any) -> bool:
    """Equal in every respect."""
    if type(value) in {bytes, str, bytearray}:
        return type(found) is type(value) and bool(found == value)
    return bool(canonical(found) == canonical(value))


class What(NamedTuple):
    """A case, for messages."""

    operation: str
    key: Any
    value: Any
    ttl: Any

    def __str__(self) -> str:
        return f"{self.operation}({', '.join(map(_shown, self[1:]))})"


class _Pair:
    """A mapping of one pair, whose key need not be hashable."""

    def __init__(self, key: Any, value: Any) -> None:
        self.pair = (key, value)

    def items(self) -> Any:
        return iter([self.pair])


def _shown(thing: Any) -> str:
    try:
        return f"{type(thing).__name__} {reprlib.repr(thing)}"[:60]
    except Exception:
        return type(thing).__name__
