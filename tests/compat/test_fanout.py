"""`FanoutCache`, and `memoize` of both."""

from __future__ import annotations

import os
import pickle
import threading

import pytest


@pytest.fixture
def fanout(dc, tmp_path):
    with dc.FanoutCache(str(tmp_path / "fanout"), shards=4) as fanout:
        yield fanout
        assert fanout.check() == []


def test_keys_are_spread_over_the_shards(dc, fanout):
    for key in range(100):
        fanout[key] = key
    assert len(fanout) == 100
    assert set(fanout) == set(range(100))
    assert list(reversed(fanout)) == list(fanout)[::-1]
    for shard in range(4):
        with dc.Cache(os.path.join(fanout.directory, f"{shard:03d}")) as cache:
            assert list(cache) == list(range(shard, 100, 4))


def test_operations(fanout, clock):
    assert fanout.set("a", 1, expire=10, tag="red") is True
    assert fanout.add("a", 2) is False
    assert fanout.add("b", b"x" * 40_000) is True
    assert fanout.get("a", expire_time=True, tag=True)[::2] == (1, "red")
    with fanout.read("b") as reader:
        assert reader.read() == b"x" * 40_000
    assert fanout.incr("c", 2) == 2
    assert fanout.decr("c") == 1
    assert fanout.touch("a", expire=100) is True
    clock.now += 50
    assert "a" in fanout
    assert fanout.pop("a", tag=True) == (1, "red")
    assert fanout.delete("b") is True
    assert fanout.delete("b") is False
    del fanout["c"]
    assert len(fanout) == 0
    with pytest.raises(KeyError):
        fanout["c"]
    with pytest.raises(KeyError):
        del fanout["c"]
    with pytest.raises(KeyError):
        fanout.read("c")


def test_methods_for_all_shards(fanout, clock):
    fanout.reset("cull_limit", 0)
    for key in range(90):
        fanout.set(key, key, expire=10 if key % 3 else None, tag=("red", "blue")[key % 2])
    volume = fanout.volume()
    clock.now += 20
    assert fanout.expire() == 60
    assert fanout.evict("red") == 15
    assert fanout.clear() == 15
    assert fanout.volume() <= volume
    assert fanout.stats() == (0, 0)
    fanout.get(1)
    assert fanout.stats(enable=False, reset=True) == (0, 1)
    for key in range(40):
        fanout[key] = b"x" * 40_000
    fanout.reset("size_limit", 200_000)
    assert fanout.cull() > 0
    assert fanout.volume() <= 4 * 200_000
    fanout.create_tag_index()
    assert fanout.tag_index == 1
    fanout.drop_tag_index()
    assert fanout.tag_index == 0


def test_settings(dc, tmp_path):
    with dc.FanoutCache(str(tmp_path), shards=2, size_limit=1000, cull_limit=3) as fanout:
        assert (fanout.size_limit, fanout.cull_limit, fanout.timeout) == (500, 3, 0.01)
        assert fanout.reset("cull_limit", 5) == fanout.cull_limit == 5
        other = pickle.loads(pickle.dumps(fanout))
        assert (other.directory, other.cull_limit) == (fanout.directory, 5)
        other["a"] = 1
        assert fanout["a"] == 1
        other.close()


def test_a_timeout_is_a_miss(dc, fanout):
    other = pickle.loads(pickle.dumps(fanout))
    results = []

    def change():
        results.extend([
            other.set("a", 1), other.add("b", 1), other.incr("c"), other.decr("c"),
            other.touch("a"), other.pop("a", 7), other.delete("a"), other.get("a", 8),
        ])  # fmt: skip
        other.close()

    fanout["a"] = 0
    with fanout.transact():
        fanout["a"] = 2
        thread = threading.Thread(target=change)
        thread.start()
        thread.join()
        seen = results.pop()
    assert results == [False, False, None, None, False, 7, False]
    # Readers see the changes of a transaction at once; DiskCache shows them at its end.
    assert seen == (0 if dc.__name__ == "diskcache" else 2)
    assert fanout["a"] == 2


def test_a_transaction_of_all_shards_is_undone(fanout):
    with pytest.raises(ValueError, match="stop"), fanout.transact():
        for key in range(10):
            fanout[key] = key
        raise ValueError("stop")
    assert len(fanout) == 0


@pytest.mark.parametrize("kind", ["Cache", "FanoutCache"])
def test_memoize(dc, tmp_path, kind):
    calls = []
    with getattr(dc, kind)(str(tmp_path)) as cache:

        @cache.memoize(expire=60, tag="squares", ignore={1, "noise"})
        def square(number, _ignored=0, **named):
            """Square."""
            calls.append(number)
            return number * number

        assert [square(2), square(2, 5), square(2, noise=3), square(2, power=2)] == [4] * 4
        assert calls == [2, 2]
        key = square.__cache_key__(2, 9, noise=1)
        name = f"{__name__}.test_memoize.<locals>.square"
        assert key == (name, 2, None)
        assert cache.get(key, tag=True) == (4, "squares")
        assert square.__cache_key__(2, power=2) == (name, 2, None, "power", 2)
        assert square.__doc__ == "Square."
        assert square.__wrapped__(3) == 9


def test_memoize_by_type_and_name(dc, tmp_path):
    with dc.Cache(str(tmp_path)) as cache:

        @cache.memoize(name="kind", typed=True)
        def kind(value, **named):
            return type(value).__name__

        assert [kind(1), kind(1.0), kind(True)] == ["int", "float", "bool"]
        assert kind.__cache_key__(1, a=2) == ("kind", 1, None, "a", 2, int, int)

        @cache.memoize(expire=0)
        def never():
            return len(cache)

        assert never() == never() == 3
        with pytest.raises(TypeError):
            cache.memoize(never)


def test_none_is_remembered(dc, tmp_path):
    calls = []
    with dc.Cache(str(tmp_path)) as cache:

        @cache.memoize()
        def nothing():
            calls.append(1)

        assert nothing() is nothing() is None
        assert calls == [1]
