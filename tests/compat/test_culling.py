"""Expiry, eviction and the methods that remove many entries."""

from __future__ import annotations

import pytest

MILLION = b"x" * 10**6


@pytest.fixture
def full(cache, clock):
    """A cache that has room for ten values of a million bytes."""
    cache.reset("size_limit", int(10.1e6))
    return cache


def test_the_least_recently_stored_are_evicted(full):
    full.reset("cull_limit", 2)
    for key in range(10):
        full[key] = MILLION
    full[0] = MILLION
    assert list(full) == list(range(10))
    full[10] = MILLION
    assert list(full) == [0, 3, 4, 5, 6, 7, 8, 9, 10]
    full[3] = MILLION
    for key in range(11, 14):
        full[key] = MILLION
    assert list(full) == [0, 3, *range(6, 14)]


def test_the_least_recently_used_are_evicted(full):
    full.reset("eviction_policy", "least-recently-used")
    full.reset("cull_limit", 3)
    for key in range(10):
        full[key] = MILLION
    for key in (0, 2, 4, 5):
        full.get(key)
    full[10] = MILLION
    assert list(full) == [0, 2, 4, 5, 7, 8, 9, 10]
    for key in (11, 12, 13, 14):
        full[key] = MILLION
    assert list(full) == [0, 2, 4, 5, 10, 11, 12, 13, 14]


def test_the_least_frequently_used_are_evicted(full):
    full.reset("eviction_policy", "least-frequently-used")
    full.reset("cull_limit", 4)
    for key in range(10):
        full[key] = MILLION
        for _ in range(key % 5):
            full.get(key)
    full[10] = MILLION
    # It was read as rarely as 0 and 5.
    assert list(full) == [2, 3, 4, 6, 7, 8, 9]
    full[2] = MILLION
    for key in (11, 12, 13, 14):
        full[key] = MILLION
    assert list(full) == [3, 4, 6, 7, 8, 9, 14]


def test_an_entry_that_was_read_between_two_evictions_keeps_its_rank(full):
    full.reset("eviction_policy", "least-frequently-used")
    full.reset("cull_limit", 3)

    def read(key, times):
        for _ in range(times):
            full.get(key)

    for key in range(10):
        full[key] = MILLION
        read(key, key)
    full[10] = MILLION
    assert list(full) == list(range(2, 10))
    read(2, 2)
    for key in (11, 12):
        full[key] = MILLION
        read(key, 20)
    full[13] = MILLION
    # 13 was never read, 3 three times, and 2 and 4 four times.
    assert list(full) == [4, 5, 6, 7, 8, 9, 11, 12]


def test_the_policy_none_evicts_nothing(full):
    full.reset("eviction_policy", "none")
    for key in range(12):
        full[key] = MILLION
    assert len(full) == 12
    assert full.cull() == 0
    assert full.volume() > full.size_limit


def test_cull_removes_until_the_volume_is_within_the_limit(full):
    full.reset("cull_limit", 0)
    for key in range(25):
        full[key] = MILLION
    assert len(full) == 25
    assert full.cull() in {15, 20}
    assert full.volume() <= full.size_limit
    assert list(full)[-1] == 24


def test_small_values_count_as_well(cache):
    cache.reset("cull_limit", 0)
    cache.reset("size_limit", 2**16)
    for key in range(700):
        cache[key] = "x" * 100
    assert cache.volume() > 2**16
    assert cache.cull() > 0
    assert cache.volume() <= 2**16
    assert list(cache) == list(range(700 - len(cache), 700))


def test_a_set_removes_up_to_cull_limit_expired_entries(cache, clock):
    cache.reset("cull_limit", 0)
    for key in range(30):
        cache.set(key, key, expire=100 - key)
    cache.set("later", 1, expire=1000)
    clock.now += 500
    cache.reset("cull_limit", 10)
    cache["a"] = 1
    assert list(cache) == [*range(20), "later", "a"]
    cache["b"] = 1
    assert list(cache) == [*range(10), "later", "a", "b"]
    cache["c"] = 1
    cache["d"] = 1
    assert list(cache) == ["later", "a", "b", "c", "d"]
    clock.now += 1000
    cache["d"] = 2
    assert list(cache) == ["a", "b", "c", "d"]


def test_an_expiry_that_moved_is_respected(cache, clock):
    for key in "abcd":
        cache.set(key, key, expire=10)
    cache.touch("a", expire=1000)
    cache.set("b", "b", expire=1000)
    cache.set("c", "c")
    clock.now += 100
    cache["e"] = 1
    assert list(cache) == ["a", "b", "c", "e"]
    cache.touch("e", expire=5)
    clock.now += 10
    cache["f"] = 1
    assert list(cache) == ["a", "b", "c", "f"]


def test_expire_removes_all_that_have_expired(cache, clock):
    cache.reset("cull_limit", 0)
    for key in range(250):
        cache.set(key, "x" * 40_000 if key < 3 else key, expire=None if key % 2 else key + 1)
    now = clock.now
    assert cache.expire(now - 1000) == 0
    assert cache.expire(now + 1000) == 125
    assert len(cache) == 125


def test_evict_removes_the_entries_of_a_tag(cache):
    for key in range(300):
        cache.set(key, key, tag=("red", "blue", None)[key % 3])
    assert cache.evict("red") == 100
    assert cache.evict("red") == 0
    assert len(cache) == 200
    assert cache.clear() == 200
    assert len(cache) == 0
    assert cache.volume() < 2**17


def test_two_handles_agree_on_what_to_evict(dc, tmp_path, clock):
    with (
        dc.Cache(str(tmp_path), size_limit=int(5.1e6), cull_limit=1) as one,
        dc.Cache(str(tmp_path)) as two,
    ):
        for key in range(20):
            (one if key % 3 else two)[key] = MILLION
        assert list(one) == list(two) == [15, 16, 17, 18, 19]


@pytest.mark.parametrize("policy", ["least-recently-used", "least-frequently-used"])
def test_two_handles_agree_on_what_was_read(dc, tmp_path, clock, policy):
    with (
        dc.Cache(str(tmp_path), size_limit=int(5.1e6), cull_limit=1, eviction_policy=policy) as one,
        dc.Cache(str(tmp_path)) as two,
    ):
        for key in range(5):
            one[key] = MILLION
        for key in (0, 1, 3, 4):
            two.get(key)
        one[5] = MILLION
        assert list(one) == [0, 1, 3, 4, 5]
        two.get(5)
        two[6] = MILLION
        if policy == "least-recently-used":
            assert list(one) == [1, 3, 4, 5, 6]


def test_a_cache_without_a_limit_keeps_everything(dc, tmp_path):
    with dc.Cache(str(tmp_path), eviction_policy="none", size_limit=0, cull_limit=100) as cache:
        with cache.transact():
            for key in range(2000):
                cache[key] = f"{key:05d}" * 4000
        cache[0] = 0
        assert list(cache) == list(range(2000))
        assert cache[1999] == "01999" * 4000
        assert cache.volume() > 39_000_000


def test_a_value_in_the_file_may_be_as_long_as_it_likes(dc, tmp_path):
    with dc.Cache(str(tmp_path), disk_min_file_size=2**30) as cache:
        cache["a"] = b"x" * 60_000_000
        cache["b"] = 1
        assert (len(cache["a"]), cache["b"]) == (60_000_000, 1)
        del cache["a"]
        assert list(cache) == ["b"]


def test_what_is_overwritten_again_and_again_takes_no_more_room(dc, tmp_path):
    with dc.Cache(str(tmp_path)) as cache:
        for key in range(100):
            cache[key] = "kept"
        for number in range(3000):
            cache[f"hot {number % 10}"] = "x" * (number * 7919 % 30_000)
        assert len(cache) == 110
        assert all(cache[key] == "kept" for key in range(100))
    size = sum(path.stat().st_size for path in tmp_path.rglob("*"))
    assert size < 70_000_000


def test_long_tags_take_room_as_well(dc, tmp_path):
    with dc.Cache(str(tmp_path)) as cache:
        for key in range(3000):
            cache.set(key, key, tag=f"{key:010d}" * 1000)
        assert list(cache) == list(range(3000))


def test_a_handle_sees_what_others_have_stored(dc, tmp_path, clock):
    with dc.Cache(str(tmp_path), cull_limit=0) as one, dc.Cache(str(tmp_path)) as two:
        one["a"] = 1
        assert one.peekitem() == ("a", 1)
        two["b"] = 2
        assert one.peekitem() == ("b", 2)
        one.set("c", 3, expire=100)
        one.reset("cull_limit", 10)
        clock.now += 200
        one["a"] = 2
        assert list(one) == ["a", "b"]
        two.set("d", 4, expire=10)
        clock.now += 50
        one["a"] = 3
        assert list(one) == ["a", "b"]
        assert one.peekitem(last=False) == ("a", 3)
        two.pop("a")
        assert one.peekitem(last=False) == ("b", 2)
