"""Objects that are no plain values: pickled, signed, and never read without a proof."""

from __future__ import annotations

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

from tuckbox import Cache
from tuckbox.errors import EntryCorrupt, ValueTypeError
from tuckbox.integrations.envelopes import EnvelopeRejected, Envelopes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tuckbox.integrations.django import TuckboxCache

    Opened = Callable[..., TuckboxCache]

NEVER = {"pickle": "never"}


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
def test_plain_values_are_stored_as_such(backend: TuckboxCache, raw: Cache, value: Any) -> None:
    backend.set("key", value)
    assert raw[":1:key"] == backend.get("key") == value
    assert type(raw[":1:key"]) is type(value)


@pytest.mark.parametrize(
    "value",
    [Basket(1, Basket("two")), [Basket()], {"key": {"key": Basket()}}, Basket, range(3), ...],
)
def test_objects_come_back_by_every_way(backend: TuckboxCache, raw: Cache, value: Any) -> None:
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
    assert type(raw[":1:set"]) is bytearray


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


def test_a_pickled_handle_keeps_exact_types_as_well(backend: TuckboxCache) -> None:
    with pickle.loads(pickle.dumps(backend._opened())) as handle:
        with pytest.raises(ValueTypeError, match="SafeString"):
            handle.set("key", mark_safe("<b>"))
        with pytest.raises(ValueTypeError, match=r"numpy\.int64"):
            handle.set("key", np.int64(5))


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


@pytest.mark.parametrize("options", [{}, NEVER])
@pytest.mark.parametrize("value", [bytearray(), bytearray(b"\0\1\2"), bytearray(b"\1" * 99)])
def test_bytearrays_are_not_mistaken_for_envelopes(
    opened: Opened, options: dict[str, Any], value: bytearray
) -> None:
    backend = opened(OPTIONS=options)
    backend.set("key", value)
    backend.set_many({"many": value, "plain": 1})
    assert backend.get("key") == value
    assert type(backend.get("key")) is bytearray
    assert backend.get_many(["many", "plain"]) == {"many": value, "plain": 1}


def forgeries(genuine: bytes, evil: bytes) -> dict[str, bytes]:
    mac = genuine[1:33]
    return {
        "nothing": b"",
        "a pickle": evil,
        "a kind and a pickle": b"\1" + evil,
        "no signature": b"\1" + bytes(32) + evil,
        "another's signature": b"\1" + mac + evil,
        "cut short": genuine[:-1],
        "within the signature": genuine[:20],
        "too long": genuine + b".",
        "an unknown kind": b"\2" + genuine[1:],
        "signed with an empty key": bytes(Envelopes([b""]).wrap(bytes(16), ":1:key", evil)),
    }


@pytest.mark.parametrize("forgery", forgeries(bytes(99), b""))
def test_what_is_not_signed_is_a_miss_and_is_not_unpickled(
    backend: TuckboxCache,
    raw: Cache,
    mark: Path,
    caplog: pytest.LogCaptureFixture,
    forgery: str,
) -> None:
    backend.set("key", Basket())
    forged = forgeries(raw[":1:key"], pickle.dumps(Evil(mark)))[forgery]
    for read in (
        lambda: backend.get("key", "missing") == "missing",
        lambda: backend.get_many(["key"]) == {},
        lambda: backend.get_or_set("key", "anew") == "anew",
    ):
        caplog.clear()
        raw[":1:key"] = bytearray(forged)
        assert read()
        assert not mark.exists()
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert "':1:key'" in record.getMessage()
    assert backend.get("key") == "anew"
    raw[":1:key"] = bytearray(forged)
    with pytest.raises(ValueError, match="not found"):
        backend.incr("key", 1.5)
    assert backend.add("key", "stored again")
    assert not mark.exists()


def test_every_bit_of_an_envelope_is_verified(backend: TuckboxCache, raw: Cache) -> None:
    backend.set("key", Basket("content"))
    genuine = bytes(raw[":1:key"])
    for place in range(8 * len(genuine)):
        forged = bytearray(genuine)
        forged[place // 8] ^= 1 << place % 8
        raw[":1:key"] = forged
        found = backend.get("key")
        # A changed kind may make it a plain bytearray, which runs no code.
        assert found is None or (place < 8 and found == genuine[1:]), place
    raw[":1:key"] = bytearray(genuine)
    assert backend.get("key") == Basket("content")


def test_a_signature_is_good_for_one_entry(backend: TuckboxCache, raw: Cache) -> None:
    backend.set("of:ada", Basket("Ada's"))
    raw[":1:of:eve"] = raw[":1:of:ada"]
    raw[":2:of:ada"] = raw[":1:of:ada"]
    assert backend.get("of:eve") is None
    assert backend.get("of:ada", version=2) is None
    assert backend.get("of:ada") == Basket("Ada's")


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
    opened: Opened, backend: TuckboxCache, raw: Cache, caplog: pytest.LogCaptureFixture
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
    assert "unpickling is disabled" in caplog.text


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


class Damaged(Cache):
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
    whole, backend._cache = backend._cache, Damaged(location)
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


def test_without_keys_nothing_is_unpickled() -> None:
    with pytest.raises(EnvelopeRejected):
        Envelopes([]).unwrap(b"id", "key", Envelopes([b"key"]).wrap(b"id", "key", Basket))
