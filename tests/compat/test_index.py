"""`Index` is an ordered dict in a directory."""

from __future__ import annotations

import pickle
import random
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture
def index(dc: ModuleType, tmp_path):
    return dc.Index(str(tmp_path / "index"))


def test_random_operations_do_what_they_do_on_an_ordered_dict(index):
    rng = random.Random("index")
    model = OrderedDict()
    keys = ["a", "b", 1, 2.5, b"c", ("d", 1), None]
    operations = {
        "__setitem__": lambda: (rng.choice(keys), rng.randrange(99)),
        "__getitem__": lambda: (rng.choice(keys),),
        "__delitem__": lambda: (rng.choice(keys),),
        "__contains__": lambda: (rng.choice(keys),),
        "get": lambda: (rng.choice(keys), "default"),
        "pop": lambda: (rng.choice(keys), *rng.choice([(), ("default",)])),
        "popitem": lambda: rng.choice([(), (True,), (False,)]),
        "setdefault": lambda: (rng.choice(keys), rng.randrange(99)),
        "update": lambda: ({rng.choice(keys): rng.randrange(99) for _ in range(2)},),
    }
    for step in range(300):
        name = rng.choice([*operations])
        given = operations[name]()
        results = []
        for target in (model, index):
            try:
                results.append(getattr(target, name)(*given))
            except KeyError as error:
                results.append(type(error))
        assert results[0] == results[1], (step, name, given)
        assert list(index.items()) == list(model.items()), (step, name, given)
    assert list(reversed(index)) == list(reversed(model))
    assert list(index.values()) == list(model.values())
    index.clear()
    assert len(index) == 0


def test_it_takes_a_directory_and_what_a_dict_takes(dc, tmp_path):
    directory = str(tmp_path / "one")
    index = dc.Index(directory, {"a": 1}, b=2)
    assert index.directory == directory
    assert dc.Index(directory) == {"a": 1, "b": 2}
    assert dc.Index([("a", 1)], b=2) == {"a": 1, "b": 2}
    assert dc.Index(None, {"a": 1}) == {"a": 1}
    assert repr(index) == f"Index({directory!r})"


@pytest.mark.parametrize("given", [(5,), ([1],)])
def test_it_takes_nothing_else(dc, given):
    with pytest.raises(TypeError):
        dc.Index(*given)


def test_views_follow_the_index(index):
    keys, values, items = index.keys(), index.values(), index.items()
    index.update(a=1, b=2)
    assert (list(keys), list(values), list(items)) == (["a", "b"], [1, 2], [("a", 1), ("b", 2)])
    assert keys & {"a", "c"} == {"a"}
    assert ("b", 2) in items
    assert len(values) == 2


def test_a_key_that_is_set_again_keeps_its_place(index):
    index.update(a=1, b=2)
    index["a"] = 3
    assert list(index.items()) == [("a", 3), ("b", 2)]


def test_order_counts_among_ordered_mappings_only(dc, index):
    index.update(a=1, b=2)
    turned = [("b", 2), ("a", 1)]
    assert index == {"a": 1.0, "b": 2}
    assert index == dict(turned)
    assert index != OrderedDict(turned)
    assert index != dc.Index(turned)
    assert index == OrderedDict(reversed(turned))
    assert index != {"a": 1}
    assert index != {"a": 1, "c": 2}


def test_it_cannot_be_a_key(index):
    with pytest.raises(TypeError, match="unhashable"):
        hash(index)


def test_an_empty_index_has_no_last_entry(index):
    for method in (index.popitem, index.peekitem):
        for last in (True, False):
            with pytest.raises(KeyError):
                method(last=last)


def test_the_ends_can_be_read_without_removing(index):
    index.update(a=1, b=2)
    assert index.peekitem() == ("b", 2)
    assert index.peekitem(last=False) == ("a", 1)
    assert len(index) == 2


def test_it_has_queues(index):
    first = index.push("one")
    assert index.push("two") == first + 1
    assert index.push("zero", side="front") == first - 1
    key = index.push("other", prefix="jobs")
    assert key == "jobs-500000000000000"
    assert index.pull() == (first - 1, "zero")
    assert index.pull(side="back") == (first + 1, "two")
    assert index.pull(prefix="jobs") == (key, "other")
    assert index.pull() == (first, "one")
    assert index.pull() == (None, None)
    assert index.pull(default=("none", 0)) == ("none", 0)


def test_a_pickled_index_is_the_same_directory(index):
    index["a"] = 1
    other = pickle.loads(pickle.dumps(index))
    other["b"] = 2
    assert index == {"a": 1, "b": 2}


def test_it_can_use_a_cache_that_is_open(dc, tmp_path):
    cache = dc.Cache(str(tmp_path))
    index = dc.Index.fromcache(cache, {"a": 1}, b=2)
    assert index.cache is cache
    assert cache["b"] == 2


def test_no_entry_is_evicted(index):
    assert index.cache.eviction_policy == "none"


def test_results_of_a_function_are_stored(index):
    calls = []

    @index.memoize(ignore={"log"})
    def double(number, log=None):
        calls.append(number)
        return 2 * number

    assert [double(1), double(1, log=[]), double(2), double(1)] == [2, 2, 4, 2]
    assert calls == [1, 2]
    assert index[double.__cache_key__(2)] == 4
    with pytest.raises(TypeError):
        index.memoize(double)


def test_a_transaction_keeps_others_out(dc, tmp_path):
    index = dc.Index(str(tmp_path), number=1)
    entered, done = threading.Event(), threading.Event()

    def other():
        entered.wait()
        dc.Index(str(tmp_path))["number"] = 5
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with index.transact():
        entered.set()
        assert not done.wait(0.1)
        index["number"] += 1
        assert index["number"] == 2
    thread.join()
    assert index["number"] == 5


def test_setdefault_of_many_threads_stores_one_value(dc, tmp_path):
    index = dc.Index(str(tmp_path))
    start = threading.Barrier(4)
    found = []

    def run(number):
        start.wait()
        found.append(index.setdefault("key", number))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [index["key"]] * 4
