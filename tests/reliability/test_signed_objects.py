"""T-S4: with `pickle="signed"`, an object comes back only under the key, in the namespace and from
the cache that it was stored in, and nothing that others wrote into the file is unpickled."""

from __future__ import annotations

import os
import pickle
import random
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import pytest

from reliability.test_hostile_values import TAG_COUNT, Evil, File, is_plain
from tuckbox import Cache, _engine
from tuckbox.errors import EntryCorrupt
from tuckbox.memory.keys import encode
from tuckbox.objects import Objects
from tuckbox.signing import Signer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-S4"), pytest.mark.timeout(120)]

SECRET = "a secret"
KEYS: list[Any] = ["key", b"key", "", "key\0", 107, ("key",), ("key", 1), "other key", "k" * 300]
CODES = (22, 23, 24)
"""The codes of objects: see `tuckbox.objects`."""
MISSING = object()


class Thing(NamedTuple):
    """An object that tells where it belongs. No plain value: plain tuples have no names."""

    key: Any
    number: int
    padding: bytes = b"\xa5" * 40


READS: dict[str, Callable[[Cache, Any], Any]] = {
    "get": lambda cache, key: cache.get(key, MISSING),
    "get_many": lambda cache, key: cache.get_many([key]).get(key, MISSING),
    "get_entry": lambda cache, key: getattr(cache.get_entry(key), "value", MISSING),
    "values": lambda cache, key: dict(cache.items()).get(key, MISSING),
    "get_or_set": lambda cache, key: cache.get_or_set(
        key, object, cached_only=True, default=MISSING
    ),
}


class Unpickled(AssertionError):
    """Forged bytes were unpickled."""


def read(cache: Cache, key: Any, mark: Path) -> list[Any]:
    """What every way to read a key gives, without those that raise EntryCorrupt."""
    found = []
    for name, way in READS.items():
        try:
            found.append(way(cache, key))
        except EntryCorrupt:
            pass
        except Exception as error:
            raise Unpickled(f"{name} of {key!r} raised {error!r}") from error
        if mark.exists():
            mark.rmdir()
            raise Unpickled(f"{name} of {key!r} ran code")
    return found


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """What is there as soon as an evil pickle was read."""
    return tmp_path / "mark"


class Victim:
    """A cache with signed objects, and what an attacker knows of it."""

    def __init__(self, path: str, mark: Path, objects: type[Objects] = Objects) -> None:
        self.cache = Cache(path, size="4 MiB", pickle="signed", secret=SECRET)
        self.mark = mark
        if objects is not Objects:
            self.cache._objects.__class__ = objects
        self.tried = 0

    def sign(self, value: object, key: Any = "key", *, prefix: bytes = b"") -> bytes:
        """What the victim itself would store."""
        signed = self.cache._objects.encode(value, prefix + encode(key), self.cache.id)
        assert signed is not None
        assert signed[0] == 23
        return signed[1]

    def plant(self, content: bytes, key: Any = "key", code: int = 23, place: Any = None) -> None:
        """Store forged bytes with checksums that are right.

        Raises:
            Unpickled: They came back as an object.
        """
        raw = encode(key) if place is None else place
        _engine._plant(self.cache, raw, code, content)
        for found in read(self.cache, key, self.mark):
            if found is not MISSING and not is_plain(found):
                raise Unpickled(f"{found!r} was returned under {key!r}")
        self.tried += 1

    def close(self) -> None:
        assert self.cache.check().is_sound
        self.cache.close()


def forge(victim: Victim, other_id: bytes, dice: random.Random, turns: int) -> int:
    """Try everything that can be done without the secret. How much was tried.

    Raises:
        Unpickled: Something was taken for genuine.
    """
    mark = victim.mark
    evil = Evil(mark)
    genuine = victim.sign(evil)
    pickled = genuine[32:]
    # The object of one key under each other one.
    for stored in KEYS:
        for key in KEYS:
            if key != stored or type(key) is not type(stored):
                victim.plant(victim.sign(evil, stored), key)
    # Of another cache, or signed with another secret, or for no key.
    raw = encode("key")
    forged = [Signer([SECRET.encode()]).sign(victim.cache.id, b"", pickled)]
    forged.append(Signer([SECRET.encode()]).sign(other_id, raw, pickled))
    forged.append(Signer([b"another secret"]).sign(victim.cache.id, raw, pickled))
    forged.append(Signer([b""]).sign(victim.cache.id, raw, pickled))
    # Without a signature, and with parts of one.
    forged += [b"\0" * 32 + pickled, pickled, genuine[:31] + pickled, genuine[:32]]
    forged += [genuine[:length] for length in range(0, len(genuine), 3)]
    forged += [genuine + b"\0", b"\0" + genuine, genuine[:32] + pickle.dumps(evil, 0)]
    for place in range(8 * len(genuine)):
        flipped = bytearray(genuine)
        flipped[place // 8] ^= 1 << place % 8
        forged.append(bytes(flipped))
    for content in forged:
        victim.plant(content)
    # Under every code, among them those of private pickles, codecs and compressed values.
    for code in range(TAG_COUNT):
        for content in (pickled, b"\x01x" + pickled, b"\0" * 32 + pickled):
            victim.plant(content, code=code)
        if code != 23:
            victim.plant(genuine, code=code)
    for _ in range(turns):
        bytes_ = bytearray(genuine)
        for _ in range(dice.randint(1, 8)):
            bytes_[dice.randrange(len(bytes_))] = dice.randrange(256)
        if bytes_ != genuine:
            victim.plant(bytes(bytes_), dice.choice(KEYS))
        victim.plant(dice.randbytes(dice.randint(0, 200)), dice.choice(KEYS), dice.choice(CODES))
    return victim.tried


def test_nothing_forged_is_unpickled(
    path: str, mark: Path, trials: Trials, size: Any, seed: int
) -> None:
    pickle.loads(pickle.dumps(Evil(mark)))
    assert mark.exists(), "the pickle of this test is not evil"
    mark.rmdir()
    victim = Victim(path, mark)
    with Cache(path + "2", size="4 MiB") as other:
        tried = forge(victim, other.id, random.Random(seed), size(1000, 100_000))
    # The victim itself reads what it signs.
    victim.cache.clear()
    for key in KEYS:
        victim.cache[key] = Thing(key, 1)
        assert read(victim.cache, key, mark) == [Thing(key, 1)] * 5
    victim.close()
    trials.add(tried, "forged objects")


def test_objects_of_a_namespace_stay_in_it(path: str, mark: Path, trials: Trials) -> None:
    """An attacker moves objects between namespaces, and from before a clear to after it."""
    victim = Victim(path, mark)
    file = File(path)

    def prefix_of(name: str) -> bytes:
        """The present one, as it is in the file."""
        head = b"\xffn" + bytes([len(name)]) + name.encode()
        victim.cache.namespace(name)[f"find {name}"] = 1
        end = file.find(b"find " + name.encode())
        found = file.read(end - len(head) - 8, len(head) + 8)
        assert found.startswith(head)
        return found

    try:
        for turn in range(20):
            blog, shop = victim.cache.namespace("blog"), victim.cache.namespace("shop")
            prefixes = {"blog": prefix_of("blog"), "shop": prefix_of("shop"), "": b""}
            signed = {name: victim.sign(Evil(mark), prefix=prefixes[name]) for name in prefixes}
            for name, content in signed.items():
                for target in {"blog", "shop", ""} - {name}:
                    _engine._plant(victim.cache, prefixes[target] + b"key", 23, content)
                    part = victim.cache.namespace(target) if target else victim.cache
                    assert all(found is MISSING for found in read(part, "key", mark))
                    victim.tried += 1
            blog["key"] = Thing("blog", turn)
            old = victim.sign(Thing("blog", turn), prefix=prefixes["blog"])
            blog.clear()
            assert prefix_of("blog") != prefixes["blog"]
            _engine._plant(victim.cache, prefix_of("blog") + b"key", 23, old)
            _engine._plant(victim.cache, prefixes["blog"] + b"key", 23, old)
            assert all(found is MISSING for found in read(blog, "key", mark))
            victim.tried += 1
            shop["key"] = Thing("shop", turn)
            assert shop["key"] == Thing("shop", turn)
    finally:
        os.close(file.fd)
    trials.add(victim.tried, "moved objects")
    victim.close()


class Attacker:
    """Overwrites records in the file behind the victim's back, and puts them right again."""

    def __init__(self, victim: Victim, seed: int) -> None:
        self._victim = victim
        self._cache = victim.cache
        self._file = File(victim.cache.path or "")
        self._dice = random.Random(seed)
        self._numbers = {f"key {number:03}": 0 for number in range(60)}
        self._cache.set_many({key: Thing(key, 0) for key in self._numbers})
        key = "key 000"
        self._length = 12 + len(key) + len(victim.sign(Thing(key, 0), key)) + 16
        self._old: list[bytes] = []
        self.right = 0

    def attack(self, times: int) -> None:
        """Attack two records at a time.

        Raises:
            Unpickled: A wrong object came back.
        """
        for _ in range(times):
            keys = self._dice.sample(list(self._numbers), 2)
            starts = [self._start_of(key) for key in keys]
            records = [self._file.read(start, self._length) for start in starts]
            self._overwrite(starts, self._forged(records))
            for key in keys:
                self._judge(key, read(self._cache, key, self._victim.mark))
            self._overwrite(starts, records)
            for key in keys:
                self.right += self._cache.get(key) == Thing(key, self._numbers[key])
                self._numbers[key] += 1
                self._cache[key] = Thing(key, self._numbers[key])
            self._old = [*self._old[-50:], *records]
        assert self.right > times, f"{self.right} of {2 * times} objects were found"
        os.close(self._file.fd)

    def _start_of(self, key: str) -> int:
        signed = self._victim.sign(Thing(key, self._numbers[key]), key)
        return self._file.find(key.encode() + signed[:16]) - 12

    def _overwrite(self, starts: list[int], records: list[bytes]) -> None:
        for start, record in zip(starts, records):
            self._file.write(start, record)

    def _forged(self, records: list[bytes]) -> list[bytes]:
        way = self._dice.choice(("swap", "bytes", "bit", "older", "pickle"))
        if way == "swap":
            return records[::-1]
        if way == "older" and self._old:
            return [self._dice.choice(self._old), records[1]]
        at, forged = self._dice.randrange(self._length - 8), bytearray(records[0])
        if way == "bytes":
            forged[at : at + 8] = self._dice.randbytes(8)
        elif way == "bit":
            forged[at] ^= 1 << self._dice.randrange(8)
        else:
            evil = pickle.dumps(Evil(self._victim.mark))
            at = 12 + len("key 000") + self._dice.choice((0, 32))
            forged[at : at + len(evil)] = evil
        return [bytes(forged[: self._length]), records[1]]

    def _judge(self, key: str, found: list[Any]) -> None:
        # The same entry may get its older object back.
        for one in found:
            is_right = one is MISSING or is_plain(one)
            if not is_right and (one.key != key or one.number > self._numbers[key]):
                raise Unpickled(f"{one} was returned under {key!r}")


def test_records_that_are_changed_behind_its_back(
    path: str, mark: Path, trials: Trials, size: Any, seed: int
) -> None:
    victim = Victim(path, mark)
    attacker = Attacker(victim, seed)
    times = size(1000, 50_000)
    attacker.attack(times)
    trials.add(2 * times, "changed records")
    trials.figure("right_objects", attacker.right)
    victim.close()


# Caches that must be caught.


class TrustsAll(Objects):
    """Reads pickles without looking at the signature."""

    def decode(self, code: int, content: bytes, key: bytes, cache_id: bytes) -> Any:
        return pickle.loads(content[32:] if code == 23 else content)


class TrustsAnyKey(Objects):
    """Signs for the cache, but not for the entry."""

    def encode(self, value: object, key: bytes, cache_id: bytes) -> Any:
        return super().encode(value, b"", cache_id)

    def decode(self, code: int, content: bytes, key: bytes, cache_id: bytes) -> Any:
        return super().decode(code, content, b"", cache_id)


class TrustsAnyCache(Objects):
    """Signs for the entry, but not for the cache."""

    def encode(self, value: object, key: bytes, cache_id: bytes) -> Any:
        return super().encode(value, key, b"")

    def decode(self, code: int, content: bytes, key: bytes, cache_id: bytes) -> Any:
        return super().decode(code, content, key, b"")


class TrustsPrivate(Objects):
    """Reads what a handle with pickle="private" would have stored."""

    def decode(self, code: int, content: bytes, key: bytes, cache_id: bytes) -> Any:
        return pickle.loads(content) if code == 22 else super().decode(code, content, key, cache_id)


@pytest.fixture
def liar(path: str, mark: Path, request: pytest.FixtureRequest) -> Iterator[Victim]:
    victim = Victim(path, mark, request.param)
    yield victim
    victim.cache.close()


@pytest.mark.parametrize(
    "liar", [TrustsAll, TrustsAnyKey, TrustsAnyCache, TrustsPrivate], indirect=True
)
def test_objects_that_are_not_verified_are_caught(liar: Victim) -> None:
    with pytest.raises(Unpickled):
        forge(
            liar,
            b"" if type(liar.cache._objects) is TrustsAnyCache else b"1" * 16,
            random.Random(1),
            0,
        )


class Misses(Cache):
    def get(self, key: Any, default: Any = None) -> Any:
        return default


def test_a_cache_that_always_misses_is_caught(path: str, mark: Path) -> None:
    victim = Victim(path, mark)
    victim.cache.__class__ = Misses
    with pytest.raises(AssertionError, match="objects were found"):
        Attacker(victim, 1).attack(20)
    victim.cache.close()
