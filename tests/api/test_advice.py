"""A parameter that has another name in other caches: the error says what it is called here."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable

import pytest

from tuckbox import Cache, advice, memory

if TYPE_CHECKING:
    from pathlib import Path

METHODS = {name: getattr(Cache, name) for name in dir(Cache) if callable(getattr(Cache, name))} | {
    "__init__": Cache.__init__
}
METHODS = {name: one for name, one in METHODS.items() if name == "__init__" or name[0] != "_"}


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda cache: cache.set("k", 1, expire=60), r"set\(\) .* 'expire'; it is called 'ttl'$"),
        (lambda cache: cache.set("k", 1, ex=60), "it is called 'ttl'"),
        (lambda cache: cache.set("k", 1, nx=True), r"'nx'; use add\(\)"),
        (lambda cache: cache.set("k", 1, xx=True), r"use replace\(\)"),
        (lambda cache: cache.set(key="k", value=1, tll=60), "did you mean 'ttl'"),
        (lambda cache: cache.set("k", 1, tag="x"), r"set\(\) .* 'tag'; it is called 'tags'"),
        (lambda cache: cache.set("k", 1, keepttl=True), "it is called 'keep_ttl'"),
        (lambda cache: cache.set("k", 1, shared=1), "its parameters are key, value, ttl, tags"),
        (lambda cache: cache.set_many({"k": 1}, tag="x"), "it is called 'tags'"),
        (lambda cache: cache.get_or_set("k", int, tag="x"), "it is called 'tags'"),
        (lambda cache: cache.memoize(labels=["x"]), "it is called 'tags'"),
        (lambda cache: cache.evict(tags="x"), r"evict\(\) .* it is called 'tag'"),
        (lambda cache: cache.scan(tags="x"), r"scan\(\) .* it is called 'tag'"),
        (lambda cache: cache.scan(pattern="x*"), "it is called 'prefix'"),
        (lambda cache: cache.delete_prefix(match="x*"), "it is called 'prefix'"),
        (lambda cache: cache.get("k", ex=60), r"get\(\) .*; use get_and_touch\(\)"),
        (lambda cache: cache.get("k", expire_time=True), r"get\(\) .*; use get_entry\(\)"),
        (lambda cache: cache.get("k", fallback=1), "its parameters are key, default"),
        (lambda cache: cache.setdefault("k", 1, ex=60), r"setdefault\(\) .* it is called 'ttl'"),
        (lambda cache: cache.set_many({"k": 1}, expire=60), r"set_many\(\) .* it is called 'ttl'"),
        (lambda cache: cache.add("k", 1, expire=60), r"^add\(\) .* 'expire'; it is called 'ttl'$"),
        (lambda cache: cache.replace("k", 1, ex=60), r"^replace\(\) .* it is called 'ttl'$"),
        (lambda cache: cache.cas("k", 1, cas=7), r"^cas\(\) .* it is called 'version'$"),
        (lambda cache: cache.touch("k", expire=60), r"^touch\(\) .* it is called 'ttl'$"),
        (lambda cache: cache.incr("k", amount=2), r"^incr\(\) .* it is called 'delta'$"),
        (lambda cache: cache.decr("k", initial=2), r"^decr\(\) .* it is called 'default'$"),
        (lambda cache: cache.delete("k", retry=True), "its parameters are key"),
    ],
)
def test_an_operation_says_what_a_parameter_is_called(
    cache: Cache, call: Callable[[Cache], object], told: str
) -> None:
    with pytest.raises(TypeError, match=told):
        call(cache)
    assert len(cache) == 0


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ({"favor": "hits"}, "'favor'; it is called 'favour'"),
        ({"eviction_policy": "lru"}, "one eviction policy, .*; favour='hits' or 'bytes' changes"),
        ({"size_limit": 10**6}, "it is called 'size'"),
        ({"maxbytes": 10**6}, "it is called 'size'"),
        ({"max_size": 10**6}, "it is called 'size' or 'max_entries'"),
        ({"maxsize": 100}, "it is called 'size' or 'max_entries'"),
        ({"capacity": 100}, "it is called 'size' or 'max_entries'"),
        ({"max_entrys": 100}, "did you mean 'max_entries'"),
        ({"directory": "/tmp"}, "it is called 'path'"),
        ({"ttl": 60}, r"entries expire by the ttl of each operation: set\(key, value, ttl=60\)"),
        ({"expire": 60}, "entries expire by the ttl of each operation"),
        ({"timeout": 60}, "it is called 'lock_timeout'; entries expire by the ttl"),
        ({"readonly": True}, "it is called 'read_only'"),
        ({"shards": 8}, "its parameters are path, size, max_entries, favour"),
    ],
    ids=str,
)
def test_opening_says_what_a_parameter_is_called(
    tmp_path: Path, path: str, names: dict[str, Any], told: str
) -> None:
    with pytest.raises(TypeError, match=rf"^Cache\(\) got an unexpected keyword .*{told}"):
        Cache(path, **names)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("method", METHODS)
def test_a_name_of_another_cache_leads_to_a_parameter(method: str) -> None:
    parameters = set(inspect.signature(METHODS[method]).parameters)
    for ours, theirs in advice._NAMES.items():
        if ours not in parameters:
            continue
        # Where `timeout` is a parameter, it is no other name of `ttl`.
        assert parameters & set(theirs.split()) <= {"timeout"}
        for name in set(theirs.split()) - parameters:
            message = advice.unexpected(METHODS[method], name)
            assert f"'{ours}'" in message.partition("; it is called ")[2]
    for (operation, _), other in advice._OPERATIONS.items():
        assert {operation, other} <= set(METHODS)


def test_a_subclass_has_parameters_of_its_own(opened: Any, path: str) -> None:
    class Sessions(Cache):
        def __init__(self, timeout: int) -> None:
            super().__init__(path)
            self.timeout = timeout

    with Sessions(timeout=60) as sessions:
        assert sessions.timeout == 60
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'expire'"):
        Sessions(expire=60)  # type: ignore[call-arg]


def test_signatures_show_the_parameters() -> None:
    assert list(inspect.signature(Cache).parameters)[:3] == ["path", "size", "max_entries"]
    terms = "ttl=None, *, tags=(), stale=None, pinned=False"
    assert str(inspect.signature(Cache.add)) == f"(self, /, key, value, {terms})"
    assert str(inspect.signature(Cache.set_many)) == f"(self, /, mapping, {terms})"
    assert str(inspect.signature(Cache.scan)) == str(inspect.signature(memory.Cache.scan))
    others = [name for name, one in METHODS.items() if "others" in str(inspect.signature(one))]
    assert not others
