"""`get` and `set` take their arguments as any Python function does, by position and by name."""

import inspect

import pytest

from tuckbox import Cache
from tuckbox.errors import InvalidTTL, KeyTypeError


@pytest.fixture
def cache(tmp_path):
    with Cache(tmp_path / "cache.tuck") as cache:
        cache.set("key", "value")
        yield cache


@pytest.mark.parametrize(
    ("arguments", "names"),
    [(("key",), {}), ((), {"key": "key"}), (("key", 1), {}), (("key",), {"default": 1})],
)
def test_get_takes_positions_and_names(cache, arguments, names):
    assert cache.get(*arguments, **names) == "value"


def test_the_default_is_given_back_itself(cache):
    default = object()
    assert cache.get("absent", default) is default
    assert cache.get(default=default, key="absent") is default
    assert cache.get("absent") is None


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("k", "v"), {}),
        (("k",), {"value": "v"}),
        ((), {"value": "v", "key": "k"}),
        (("k", "v", None), {}),
        (("k", "v", 60), {}),
        (("k", "v"), {"ttl": 60}),
    ],
)
def test_set_takes_positions_and_names(cache, arguments, names):
    assert cache.set(*arguments, **names) is None
    assert cache.get("k") == "v"
    has_expiry = 60 in arguments or "ttl" in names
    assert (cache.get_entry("k").expiry is not None) is has_expiry


@pytest.mark.parametrize(
    ("arguments", "names", "message"),
    [
        ((), {}, r"get\(\) missing 1 required positional argument: 'key'"),
        ((), {"default": 1}, r"get\(\) missing 1 required positional argument: 'key'"),
        (("k", 1, 2), {}, r"get\(\) takes from 1 to 2 positional arguments but 3 were given"),
        (("k",), {"key": 1}, r"get\(\) got multiple values for argument 'key'"),
        (("k",), {"ttl": 1}, r"get\(\) got an unexpected keyword argument 'ttl'"),
    ],
)
def test_get_refuses_other_arguments_as_python_does(cache, arguments, names, message):
    with pytest.raises(TypeError, match=message):
        cache.get(*arguments, **names)


@pytest.mark.parametrize(
    ("arguments", "names", "message"),
    [
        ((), {}, r"set\(\) missing 2 required positional arguments: 'key' and 'value'"),
        ((), {"key": 1}, r"set\(\) missing 1 required positional argument: 'value'"),
        (("k", 1, 2, 3), {}, r"set\(\) takes from 2 to 3 positional arguments but 4 were given"),
        (("k", 1), {"value": 1}, r"set\(\) got multiple values for argument 'value'"),
    ],
)
def test_set_refuses_other_arguments_and_changes_nothing(cache, arguments, names, message):
    with pytest.raises(TypeError, match=message):
        cache.set(*arguments, **names)
    assert list(cache) == ["key"]


def test_their_signatures_are_told():
    assert str(inspect.signature(Cache.get)) == "(self, /, key, default=None)"
    assert str(inspect.signature(Cache.set)) == (
        "(self, /, key, value, ttl=None, *, tags=(), stale=None, keep_ttl=False, pinned=False)"
    )
    assert "default" in Cache.get.__doc__
    assert "ttl" in Cache.set.__doc__


def test_only_caches_have_them():
    with pytest.raises(TypeError, match="descriptor 'get'"):
        Cache.get(object(), "key")


def test_a_cache_that_was_never_opened_says_so():
    with pytest.raises(Exception, match="open"):
        Cache.get(Cache.__new__(Cache), "key")


@pytest.mark.parametrize("name", [None, "blog"])
@pytest.mark.parametrize(
    "call",
    [
        lambda cache: cache.set([], 1j, ttl="soon"),
        lambda cache: cache.incr([], ttl="soon"),
        lambda cache: cache.touch([], ttl="soon"),
        lambda cache: cache.get_and_touch([], ttl="soon"),
        lambda cache: cache.delete([], version="first"),
    ],
)
def test_an_invalid_key_is_refused_before_other_arguments(cache, name, call):
    with pytest.raises(KeyTypeError, match="list cannot be a key"):
        call(cache.namespace(name) if name else cache)


@pytest.mark.parametrize("key", ["key", "\ud800", b"key", 7, ("key", 7)])
def test_an_invalid_ttl_is_refused_before_the_value(cache, key):
    for at in (cache, cache.namespace("blog")):
        with pytest.raises(InvalidTTL):
            at.set(key, 1j, ttl="soon")
        assert at.set(key, 1, ttl=60) is None
        assert (key in at, at.get(key), at.incr(key), at.touch(key)) == (True, 1, 2, True)
        assert (at.pop(key), key in at, at.delete(key)) == (2, False, False)
