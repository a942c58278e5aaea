"""Objects that are no plain values: pickled, signed, and never read without a proof."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import os
import pickle
import uuid
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse
from django.test import override_settings
from django.utils.safestring import mark_safe

from attackers import Attacker, Raw
from tuckbox import register
from tuckbox.errors import EntryCorrupt, ValueTypeError
from tuckbox.integrations.django_settings import secrets
from tuckbox.integrations.handles import ExactCache
from tuckbox.signing import Signer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tuckbox.integrations.django import TuckboxCache

    Opened = Callable[..., TuckboxCache]

NEVER = {"pickle": "never"}
SIGNED = 23


class Basket:
    """What an application caches."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Basket) and self.items == other.items


class Evil:
    """Its pickle leaves a mark where it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def raw(backend: TuckboxCache, location: str) -> Iterator[Attacker]:
    """The file of `backend`, as somebody sees it who has no secret."""
    with Attacker(location) as cache:
        yield cache


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """What is there as soon as an evil pickle was read."""
    return tmp_path / "mark"


@pytest.mark.parametrize(
    "value",
    [
        "text",
        b"bytes",
        17,
        2**70,
        None,
        True,
        1.5,
        {"roles": ["admin"], "since": datetime(2024, 2, 29, tzinfo=timezone.utc)},
        (Decimal("1.10"), uuid.UUID(int=7), {1, 2}),
    ],
)
def test_plain_values_are_stored_as_such(backend: TuckboxCache, raw: Attacker, value: Any) -> None:
    backend.set("key", value)
    assert raw[":1:key"] == backend.get("key") == value
    assert type(raw[":1:key"]) is type(value)


@pytest.mark.parametrize(
    "value",
    [Basket(1, Basket("two")), [Basket()], {"key": {"key": Basket()}}, Basket, range(3), ...],
)
def test_objects_come_back_by_every_way(backend: TuckboxCache, raw: Attacker, value: Any) -> None:
    backend.set("set", value)
    assert backend.add("add", value)
    backend.set_many({"many": value, "plain": 1})
    assert backend.get_or_set("made", lambda: value) == value
    assert backend.incr_version("set") == 2
    backend.set("set", value)
    assert [backend.get(key) for key in ("set", "add", "many", "made")] == [value] * 4
    assert backend.get("set", version=2) == value
    keys = ["set", "add", "many", "plain"]
    assert backend.get_many(keys) == dict(zip(keys, [value, value, value, 1]))
    assert raw[":1:set"].code == SIGNED


class Season(str, enum.Enum):
    SPRING = "spring"


@pytest.mark.parametrize(
    "value",
    [mark_safe("<b>"), Season.SPRING, np.int64(5), np.float64(0.5), np.bool_(True), np.str_("s")],
    ids=repr,
)
def test_values_keep_their_exact_type(backend: TuckboxCache, value: Any) -> None:
    backend.set_many({"key": value, "nested": {"list": [value]}})
    for found in (backend.get("key"), backend.get("nested")["list"][0]):
        assert found == value
        assert type(found) is type(value)


def test_a_pickled_handle_reads_and_stores_the_same(backend: TuckboxCache, raw: Attacker) -> None:
    backend.set("key", mark_safe("<b>"))
    with pickle.loads(pickle.dumps(backend._opened())) as handle:
        assert type(handle[":1:key"]) is type(mark_safe(""))
        handle[":1:other"] = np.int64(5)
    assert type(backend.get("other")) is np.int64


@dataclasses.dataclass
class Point:
    x: int


def test_registered_types_are_not_pickled(opened: Opened, backend: TuckboxCache) -> None:
    register(Point)
    backend.set("key", [Point(1)])
    assert opened(OPTIONS=NEVER).get("key") == [Point(1)]


def test_what_contains_itself_comes_back_so(backend: TuckboxCache) -> None:
    value: list[Any] = [1]
    value.append(value)
    backend.set("key", value)
    found = backend.get("key")
    assert found[1] is found


def test_responses_come_back(backend: TuckboxCache) -> None:
    response = HttpResponse("content", headers={"X-Of": "ours"})
    response.set_cookie("flavour", "plain")
    backend.set("key", response)
    found = backend.get("key")
    assert (found.content, found.headers["X-Of"]) == (b"content", "ours")
    assert found.cookies["flavour"].value == "plain"


def forgeries(genuine: bytes, evil: bytes) -> dict[str, Raw]:
    mac = genuine[:32]
    return {
        "nothing": Raw(SIGNED, b""),
        "a pickle": Raw(SIGNED, evil),
        "an unsigned pickle": Raw(22, evil),
        "no signature": Raw(SIGNED, bytes(32) + evil),
        "another's signature": Raw(SIGNED, mac + evil),
        "cut short": Raw(SIGNED, genuine[:-1]),
        "within the signature": Raw(SIGNED, genuine[:20]),
        "too long": Raw(SIGNED, genuine + b"."),
        "an unknown codec": Raw(24, b"\x06pickle" + evil),
        "an unknown code": Raw(26, evil),
        "signed with an empty key": Raw(SIGNED, Signer([b""]).sign(bytes(16), b":1:key", evil)),
    }


@pytest.mark.parametrize("forgery", forgeries(bytes(99), b""))
def test_what_is_not_signed_is_a_miss_and_is_not_unpickled(
    backend: TuckboxCache,
    raw: Attacker,
    mark: Path,
    caplog: pytest.LogCaptureFixture,
    forgery: str,
) -> None:
    backend.set("key", Basket())
    forged = forgeries(raw[":1:key"].content, pickle.dumps(Evil(mark)))[forgery]
    for read in (
        lambda: backend.get("key", "missing") == "missing",
        lambda: backend.get_many(["key"]) == {},
        lambda: backend.get_or_set("key", "anew") == "anew",
    ):
        caplog.clear()
        raw[":1:key"] = forged
        assert read()
        assert not mark.exists()
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert "':1:key'" in record.getMessage()
    assert backend.get("key") == "anew"
    raw[":1:key"] = forged
    with pytest.raises(ValueError, match="not found"):
        backend.incr("key", 1.5)
    assert backend.add("key", "stored again")
    assert not mark.exists()


def test_every_bit_of_a_signed_pickle_is_verified(backend: TuckboxCache, raw: Attacker) -> None:
    backend.set("key", Basket("content"))
    genuine = raw[":1:key"]
    for place in range(8 * len(genuine.content)):
        forged = bytearray(genuine.content)
        forged[place // 8] ^= 1 << place % 8
        raw[":1:key"] = Raw(SIGNED, bytes(forged))
        assert backend.get("key") is None, place
    raw[":1:key"] = genuine
    assert backend.get("key") == Basket("content")


def test_a_signature_is_good_for_one_entry(backend: TuckboxCache, raw: Attacker) -> None:
    backend.set("of:ada", Basket("Ada's"))
    raw[":1:of:eve"] = raw[":1:of:ada"]
    raw[":2:of:ada"] = raw[":1:of:ada"]
    assert backend.get("of:eve") is None
    assert backend.get("of:ada", version=2) is None
    assert backend.get("of:ada") == Basket("Ada's")


def test_an_event_loop_neither_pickles_nor_unpickles(backend: TuckboxCache) -> None:
    async def operate() -> None:
        await backend.aset("key", Where())
        assert (await backend.aget("key")).loops == [False, False]

    asyncio.run(operate())
    backend.set("key", Where())
    assert backend.get("key").loops == [False, False]


class Where:
    """Notes whether it is pickled and unpickled in the thread of a running event loop."""

    def __init__(self, *loops: bool) -> None:
        self.loops = [*loops, asyncio._get_running_loop() is not None] if loops else []

    def __reduce__(self) -> Any:
        return Where, (asyncio._get_running_loop() is not None,)


def test_the_pickle_of_this_test_is_evil(mark: Path) -> None:
    pickle.loads(pickle.dumps(Evil(mark)))
    assert mark.exists()


def test_what_was_signed_is_unpickled(backend: TuckboxCache, mark: Path) -> None:
    backend.set("key", Evil(mark))
    backend.get("key")
    assert mark.exists()


def test_a_new_secret_key_reads_what_its_fallbacks_signed(backend: TuckboxCache) -> None:
    with override_settings(SECRET_KEY="old"):
        backend.set("object", Basket())
        backend.set("plain", [1, 2])
    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["older", "old"]):
        assert backend.get("object") == Basket()
        backend.set("of-new", Basket())
    with override_settings(SECRET_KEY="new"):
        assert backend.get("of-new") == Basket()
        assert backend.get("object") is None
        assert backend.get("plain") == [1, 2]


def test_without_a_secret_key_plain_values_pass(backend: TuckboxCache) -> None:
    with override_settings(SECRET_KEY=""):
        backend.set("key", "value")
        assert backend.get("key") == "value"
        with pytest.raises(ImproperlyConfigured, match="SECRET_KEY"):
            backend.set("key", Basket())


def test_never_means_never(
    opened: Opened, backend: TuckboxCache, raw: Attacker, caplog: pytest.LogCaptureFixture
) -> None:
    never = opened(OPTIONS=NEVER)
    never.set("plain", {"a": 1})
    assert never.get("plain") == {"a": 1}
    for store in (never.set, never.add):
        with pytest.raises(ValueTypeError, match=r"Basket, .*pickle in OPTIONS"):
            store("key", Basket())
    with pytest.raises(ValueTypeError, match="Basket"):
        never.set_many({"key": [Basket()]})
    assert ":1:key" not in raw
    backend.set("key", Basket())
    assert never.get("key") is None
    assert 'this one has pickle="never"' in caplog.text


def test_an_object_that_cannot_be_pickled_changes_nothing(backend: TuckboxCache) -> None:
    backend.set("key", "old")
    for store in (backend.set, lambda key, value: backend.set_many({key: value})):
        with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
            store("key", [lambda: 1])
    assert backend.get("key") == "old"


def test_an_error_of_an_object_that_is_read_is_raised(backend: TuckboxCache) -> None:
    backend.set("key", Vanishing())
    kind = globals().pop("Vanishing")
    try:
        with pytest.raises(AttributeError, match="Vanishing"):
            backend.get("key")
    finally:
        globals()["Vanishing"] = kind


class Vanishing:
    """A class that the next release of an application no longer has."""


class Damaged(ExactCache):
    """A file with an entry that the codec cannot read."""

    def get(self, key: Any, default: Any = None) -> Any:
        if key == ":1:damaged" and key in self:
            raise EntryCorrupt("damaged for the test")
        return super().get(key, default)

    def get_many(self, keys: Any) -> Any:
        return {key: self.get(key) for key in keys if key in self}

    def get_entry(self, key: Any) -> Any:
        self.get(key)
        return super().get_entry(key)


def test_damage_is_a_miss(
    backend: TuckboxCache, location: str, caplog: pytest.LogCaptureFixture
) -> None:
    whole, backend._cache = backend._cache, Damaged(location, pickle="signed", secret=secrets)
    for read in (
        lambda: backend.get("damaged", "missing") == "missing",
        lambda: backend.get_many(["damaged", "sound"]) == {"sound": Basket()},
        lambda: backend.get_or_set("damaged", "anew") == "anew",
    ):
        caplog.clear()
        backend.set_many({"damaged": 1, "sound": Basket()})
        assert read()
        assert "damaged for the test" in caplog.text
    backend._cache.close()
    backend._cache = whole
