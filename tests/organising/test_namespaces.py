"""A namespace is a cache of its own in the same store, and is emptied in an instant."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tuckbox import Cache, memory
from tuckbox.contract import LEASE, Store
from tuckbox.errors import CacheClosed, CacheReadOnly, InvalidArgument, KeyTooLong, LoadRecursion
from tuckbox.namespaces import Namespace

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS_ON = ("shared", "memory", "remote")

NAMES = ["blog", "b", "blog:v2", "ü" * 127, "x" * 255, "\0", "post:7"]


@pytest.fixture
def blog(cache: Cache) -> Namespace:
    """A namespace of `cache`."""
    return cache.namespace("blog")


def test_it_is_a_store_and_a_cache(cache: Cache, blog: Namespace) -> None:
    assert isinstance(blog, (Namespace, Store))
    assert isinstance(blog, type(cache))
    assert repr(blog) == f"<Namespace 'blog' of {cache!r}>"


def test_its_keys_are_its_own(cache: Cache) -> None:
    parts: list[Any] = [cache, *map(cache.namespace, NAMES)]
    parts += [part.namespace("blog") for part in parts]
    parts = list({repr(part): part for part in parts}.values())
    for number, part in enumerate(parts):
        part["post:7"] = number
        part[b"b", 1] = number
    for number, part in enumerate(parts):
        assert dict(part) == {"post:7": number, (b"b", 1): number}
        assert sorted(part.keys(), key=str) == [(b"b", 1), "post:7"]
        assert list(part.values()) == [number] * 2
        assert part.get_many(["post:7", "none"]) == {"post:7": number}
        assert part.delete("post:7") is True
    assert [dict(part) for part in parts] == [{(b"b", 1): n} for n in range(len(parts))]
    assert len(cache) == len(parts)
    assert [len(part) for part in parts[1:]] == [1] * (len(parts) - 1)


def test_the_same_name_is_the_same_part(cache: Cache, opened: Callable[..., Cache]) -> None:
    cache.namespace("blog").namespace("en")["k"] = 1
    assert cache.namespace("blog").namespace("en")["k"] == 1
    assert "k" not in cache.namespace("blog:en")


def test_names_that_run_together_are_different(cache: Cache) -> None:
    one = cache.namespace("a").namespace("b")
    other = cache.namespace("ab")
    one["k"] = 1
    assert "k" not in other
    other.clear()
    assert one["k"] == 1


@pytest.mark.parametrize("name", ["", "x" * 256, "ü" * 128, "\ud800", b"blog", None, 7, ("a",)])
def test_a_bad_name_is_refused(cache: Cache, name: Any) -> None:
    with pytest.raises(InvalidArgument, match="namespace"):
        cache.namespace(name)
    with pytest.raises(TypeError, match="its parameters are name"):
        cache.namespace(title="blog")  # type: ignore[call-arg]


def test_a_key_is_refused_if_it_is_too_long_with_its_namespace(blog: Namespace) -> None:
    blog.set("x" * 65_000, 1)
    for operation in (blog.get, lambda key: blog.set(key, 1), lambda key: blog.set_many({key: 1})):
        with pytest.raises(KeyTooLong, match=r"^key 'xxx.* is 655\d\d bytes long"):
            operation("x" * 65_530)


class TestClear:
    def test_empties_the_namespace_and_nothing_else(self, cache: Cache, blog: Namespace) -> None:
        blog.set_many(dict.fromkeys(range(100), "x"), ttl=60)
        other = cache.namespace("shop")
        other["k"] = cache["k"] = 1
        assert blog.clear() is None
        assert list(blog) == [] == list(blog.scan(prefix=()))
        assert len(blog) == 0
        assert [number for number in range(100) if number in blog] == []
        assert blog.get_many(range(100)) == {}
        with pytest.raises(KeyError):
            blog.popitem()
        assert other["k"] == cache["k"] == 1
        blog["k"] = 2
        assert dict(blog) == {"k": 2}

    def test_empties_the_namespaces_in_it(self, cache: Cache, blog: Namespace) -> None:
        inner = blog.namespace("en").namespace("drafts")
        inner["k"] = 1
        cache.namespace("en")["k"] = 2
        blog.clear()
        assert "k" not in inner
        inner["k"] = 3
        blog.namespace("en").clear()
        assert "k" not in inner
        assert cache.namespace("en")["k"] == 2

    def test_of_an_inner_one_keeps_the_outer(self, blog: Namespace) -> None:
        inner = blog.namespace("en")
        inner["k"] = blog["k"] = 1
        inner.clear()
        assert ("k" in inner, blog["k"]) == (False, 1)

    def test_counts_for_every_handle(self, opened: Callable[..., Cache], path: str) -> None:
        one, other = (opened(path).namespace("blog") for _ in range(2))
        one["k"] = 1
        assert other["k"] == 1
        other.clear()
        assert "k" not in one
        one["k"] = 2
        assert other["k"] == 2

    def test_of_the_whole_cache_empties_namespaces(self, cache: Cache, blog: Namespace) -> None:
        blog["k"] = cache["k"] = 1
        assert cache.clear() == 2
        assert len(blog) == 0

    def test_leaves_entries_that_expire_frees(self, cache: Cache, blog: Namespace) -> None:
        blog.set_many(dict.fromkeys(range(50), "x"))
        blog.namespace("en").set_many(dict.fromkeys(range(20), "x"))
        cache["k"] = 1
        blog.clear()
        blog["new"] = blog.namespace("en")["new"] = 1
        assert len(cache) == 73
        assert cache.expire() == 70
        assert len(cache) == 3
        assert (list(blog), list(blog.namespace("en"))) == (["new"], ["new"])
        assert cache.expire() == 0

    def test_refuses_what_is_being_made(self, cache: Cache, blog: Namespace) -> None:
        for inner in (blog, blog.namespace("en")):
            state, _, token = inner._begin("k", False)
            assert state == LEASE
            blog.clear()
            assert inner._finish(token, "k", "old", None, None, (), None) is False
            assert "k" not in inner
            assert inner._wait_made("k", 0) is True
            assert inner.get_or_set("k", lambda: "new") == "new"
        assert list(cache) == []

    def test_in_the_middle_of_an_iteration_ends_it(self, blog: Namespace) -> None:
        blog.set_many({number: number for number in range(100)})
        keys = iter(blog)
        next(keys)
        blog.clear()
        assert list(keys) == []

    def test_of_many_threads_hides_what_they_stored_before(self, blog: Namespace) -> None:
        """After a clear that began after a store, nobody finds the stored value."""
        mistakes: list[object] = []

        def work(number: int) -> None:
            for turn in range(300):
                blog[number] = turn
                blog.clear()
                if number in blog:
                    mistakes.append((number, turn))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not mistakes


class TestWholeApi:
    def test_popitem_takes_its_own_entries_only(self, cache: Cache, blog: Namespace) -> None:
        entries: dict[Any, Any] = {number: f"value {number}" for number in range(50)}
        cache["k"] = blog.namespace("en")["k"] = 1
        blog.update(entries)
        assert dict(blog.popitem() for _ in range(50)) == entries
        with pytest.raises(KeyError, match="no entries"):
            blog.popitem()
        assert cache.popitem() == ("k", 1)
        with pytest.raises(KeyError):
            cache.popitem()
        assert list(blog.namespace("en")) == ["k"]

    def test_errors_name_the_key_without_the_namespace(self, blog: Namespace) -> None:
        with pytest.raises(KeyError, match=r"^'missing'$"):
            blog["missing"]
        with pytest.raises(KeyError, match=r"^\('user', 7\)$"):
            del blog["user", 7]

    def test_loading_has_leases_of_its_own(self, cache: Cache, blog: Namespace) -> None:
        """The same key elsewhere is another one: no recursion, no waiting."""

        def outer() -> object:
            return cache.get_or_set("k", lambda: "inner", timeout=5)

        assert blog.get_or_set("k", outer) == "inner"
        assert (blog["k"], cache["k"]) == ("inner", "inner")
        with pytest.raises(LoadRecursion):
            blog.get_or_set("r", lambda: cache.namespace("blog").get_or_set("r", int))
        made = blog.get_or_set_many(["a", "k"], lambda keys: dict.fromkeys(keys, 1))
        assert made == {"a": 1, "k": "inner"}

    def test_memoized_functions_are_cleared_with_it(self, cache: Cache, blog: Namespace) -> None:
        calls: list[int] = []

        @blog.memoize(ttl=60)
        def double(number: int) -> int:
            calls.append(number)
            return 2 * number

        assert [double(4), double(4), double.peek(4)] == [8, 8, 8]
        assert list(blog) == [double.key(4)]
        blog.clear()
        assert double.peek(4) is None
        assert [double(4), calls] == [8, [4, 4]]
        assert list(cache) == []

    def test_tags_are_those_of_the_whole_cache(self, cache: Cache, blog: Namespace) -> None:
        cache.set("a", 1, tags=["users"])
        blog.set("a", 1, tags=["users"])
        assert list(blog.scan(tag="users")) == ["a"] == list(cache.scan(tag="users"))
        blog.evict(tag="users")
        assert ("a" in cache, "a" in blog) == (False, False)

    @pytest.mark.one_machine
    def test_it_shares_limits_and_statistics(self, cache: Cache, blog: Namespace) -> None:
        blog.set_many(dict.fromkeys(range(10), "x"))
        assert (blog.size, blog.max_entries, blog.id) == (cache.size, cache.max_entries, cache.id)
        assert (blog.path, blog.read_only, blog.favour) == (cache.path, False, cache.favour)
        assert blog.stats().entries == cache.stats().entries == 10
        assert blog.check().is_sound
        blog.resize("8 MiB", max_entries=100)
        assert (cache.size, cache.max_entries) == (8 << 20, 100)
        assert sorted(blog) == list(range(10))

    @pytest.mark.one_machine
    def test_its_entries_are_evicted_with_the_others(self, opened: Callable[..., Cache]) -> None:
        cache = opened(max_entries=100)
        blog = cache.namespace("blog")
        for number in range(300):
            blog[number] = number
        assert len(blog) == len(cache) == 100

    @pytest.mark.one_machine
    def test_counters_and_ttls_work(self, timed: Cache, clock: Any) -> None:
        blog = timed.namespace("blog")
        assert (blog.incr("n", ttl=10), blog.incr("n"), timed.get("n")) == (1, 2, None)
        clock.advance(10)
        assert blog.ttl("n") is None
        assert timed.expire() == 1


class TestHandles:
    @pytest.mark.one_machine
    def test_closing_closes_the_shared_handle(self, cache: Cache, blog: Namespace) -> None:
        inner = blog.namespace("en")
        _, _, token = inner._begin("k", False)
        inner.close()
        assert cache.closed
        assert blog.closed
        for operation in (lambda: blog["k"], blog.clear, lambda: list(inner), lambda: len(blog)):
            with pytest.raises(CacheClosed):
                operation()
        with pytest.raises(CacheClosed):
            cache.namespace("blog")
        with pytest.raises(CacheClosed):
            pickle.dumps(blog)
        with pytest.raises(CacheClosed):
            copy.copy(blog)
        inner._abandon(token)
        inner.close()

    def test_the_leases_of_a_namespace_end_with_its_handle(
        self, opened: Callable[..., Cache], path: str
    ) -> None:
        one, other = opened(path), opened(path)
        _, _, token = one.namespace("blog")._begin("k", False)
        assert other.namespace("blog")._wait_made("k", 0) is False
        one.close()
        assert other.namespace("blog")._wait_made("k", 5) is True
        one._abandon(token)

    @pytest.mark.one_machine
    @pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, "pickle"])
    def test_copies_are_the_same_part_with_a_handle_of_their_own(
        self, blog: Namespace, duplicate: Any
    ) -> None:
        inner = blog.namespace("en")
        inner["k"] = 1
        if duplicate == "pickle":
            duplicated = pickle.loads(pickle.dumps(inner))
        else:
            duplicated = duplicate(inner)
        assert type(duplicated) is type(inner)
        assert repr(duplicated) == repr(inner)
        duplicated["k"] = 2
        assert inner["k"] == 2
        blog.clear()
        assert "k" not in duplicated
        duplicated.close()
        assert not inner.closed

    def test_it_can_be_used_in_a_with_statement(self, blog: Namespace) -> None:
        with blog.namespace("en") as inner:
            inner["k"] = 1
        assert blog.closed

    def test_a_subclass_keeps_its_own_operations_out(self, path: str, store: str) -> None:
        base: Any = memory.Cache if store == "memory" else Cache

        class Loud(base):
            def get(self, key: Any, default: Any = None) -> Any:
                return "loud"

        with Loud() as cache:
            blog = cache.namespace("blog")
            assert (cache.get("k"), blog.get("k")) == ("loud", None)
            assert isinstance(blog, base)


def test_a_read_only_handle_reads_it_and_cannot_clear_it(
    opened: Callable[..., Cache], path: str
) -> None:
    opened(path).namespace("blog").set("k", 1, tags=["t"], ttl=60)
    reader = opened(path, read_only=True)
    blog = reader.namespace("blog")
    assert (blog["k"], list(blog), len(blog)) == (1, ["k"], 1)
    assert list(blog.scan(tag="t")) == ["k"]
    assert 59 < (blog.ttl("k") or 0) <= 60
    for operation in (
        blog.clear,
        lambda: blog.set("k", 2),
        lambda: blog.evict(tag="t"),
        lambda: blog.get_and_touch("k", 5),
        lambda: blog.delete_prefix("k"),
        blog.expire,
    ):
        with pytest.raises(CacheReadOnly):
            operation()
    opened(path).namespace("blog").clear()
    assert (list(blog), "k" in blog) == ([], False)
    reader.close()
