"""Keys are made and checked by a shorter way than Django's, which must lead to the same place."""

from __future__ import annotations

import enum
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from django.core.cache.backends.base import BaseCache, CacheKeyWarning
from django.utils.safestring import mark_safe
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tuckbox.errors import KeyTooLong
from tuckbox.integrations.django import TuckboxCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuckbox import Cache


class Colour(str, enum.Enum):
    RED = "red"


class Named:
    def __str__(self) -> str:
        return "named"

    def __format__(self, form: str) -> str:
        return "formatted"


parts = st.text(max_size=10) | st.integers()
keys = st.one_of(
    st.text(max_size=300),
    st.text(st.characters(max_codepoint=0xFF), max_size=12),
    st.integers(),
    st.floats(),
    st.none(),
    st.tuples(st.text(), st.integers()),
    st.sampled_from([Colour.RED, Named(), mark_safe("a b"), mark_safe("ab")]),
)


def made_by(make: Callable[..., Any], *arguments: Any) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = make(*arguments)
    assert all(warning.category is CacheKeyWarning for warning in caught)
    return made, [str(warning.message) for warning in caught]


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(key=keys, prefix=parts, own=parts, given=st.none() | parts)
@example(key="a" * 247, prefix="", own=1, given=None)
@example(key="a" * 248, prefix="", own=1, given=None)
@example(key="\x7f", prefix="", own=1, given=None)
@example(key="\xa0\u3000\u2028", prefix="", own=1, given=2)
@example(key="\ud800", prefix="", own=1, given=2)
@example(key=Named(), prefix=Named(), own=Named(), given=None)
@example(key=Named(), prefix=Named(), own=Named(), given=Named())
def test_keys_and_warnings_are_djangos(
    backend: TuckboxCache, key: Any, prefix: Any, own: Any, given: Any
) -> None:
    backend.key_prefix = prefix
    backend.version = own
    assert backend._fast_prefix is not None
    ours = made_by(backend.make_and_validate_key, key, given)
    assert ours == made_by(BaseCache.make_and_validate_key, backend, key, given)
    assert type(ours[0]) is str


def test_what_keys_are_made_of_can_change(backend: TuckboxCache) -> None:
    backend.set("key", "value")
    backend.key_prefix = "other"
    assert backend.get("key") is None
    backend.key_prefix, backend.version = "", 2
    assert backend.get("key") is None
    backend.key_func = lambda key, prefix, version: f":1:{key}"
    assert backend.get("key") == "value"


def test_a_key_function_may_be_given_or_named(opened: Any, raw: Cache) -> None:
    opened(KEY_FUNCTION=shout).set("key", 1)
    opened(KEY_FUNCTION=f"{__name__}.shout", KEY_PREFIX="site", VERSION=3).set("key", 2)
    assert dict(raw.items()) == {"1-KEY": 1, "site3-KEY": 2}


def shout(key: str, prefix: str, version: int) -> str:
    return f"{prefix}{version}-{key.upper()}"


def test_subclasses_make_and_validate_keys_as_they_like(opened: Any, raw: Cache) -> None:
    class Hashed(TuckboxCache):
        def make_key(self, key: Any, version: Any = None) -> Any:
            return f"#{super().make_key(key, version)}"

    class Strict(TuckboxCache):
        def validate_key(self, key: Any) -> None:
            if key != ":1:allowed":
                raise ValueError(key)

    opened(kind=Hashed).set("key", 1)
    assert raw["#:1:key"] == 1
    strict = opened(kind=Strict)
    strict.set("allowed", 2)
    for refused in (strict.get, strict.delete, strict.touch, strict.incr, strict.has_key):
        with pytest.raises(ValueError, match=":1:other"):
            refused("other")


def test_what_is_put_in_the_place_of_a_method_is_called(backend: TuckboxCache) -> None:
    backend.make_key = lambda key, version=None: f"{key}!"
    assert backend.make_and_validate_key("key") == "key!"
    del backend.make_key
    assert backend.make_and_validate_key("key") == ":1:key"
    seen: list[Any] = []
    backend.validate_key = seen.append
    backend.get("key")
    assert seen == [":1:key"]


def test_a_key_that_is_too_long_is_refused(opened: Any) -> None:
    backend = opened(OPTIONS={"on_error": "raise"})
    with pytest.warns(CacheKeyWarning, match="longer than 250"):
        backend.set("k" * 1000, "value")
    with pytest.warns(CacheKeyWarning, match="longer than 250"):
        assert backend.get("k" * 1000) == "value"
    with pytest.warns(CacheKeyWarning), pytest.raises(KeyTooLong):
        backend.set("k" * 70_000, "value")
