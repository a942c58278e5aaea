"""`Deque` is a `collections.deque` in a directory."""

from __future__ import annotations

import collections
import functools
import multiprocessing
import operator
import pickle
import random
import threading
from typing import TYPE_CHECKING

import pytest

from compat.workers import append_numbers, pop_all

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture
def deque(dc: ModuleType, tmp_path):
    return dc.Deque(directory=str(tmp_path / "deque"))


@pytest.mark.parametrize("maxlen", [None, 1, 4])
def test_random_operations_do_what_they_do_on_a_deque_in_memory(dc, tmp_path, maxlen):
    rng = random.Random(f"deque-{maxlen}")
    model = collections.deque(maxlen=maxlen)
    deque = dc.Deque(directory=str(tmp_path), maxlen=maxlen)
    operations = {
        "append": 4, "appendleft": 4, "pop": 2, "popleft": 2, "extend": 1, "extendleft": 1,
        "rotate": 1, "reverse": 1, "remove": 1, "count": 1, "getitem": 2, "setitem": 2,
        "delitem": 1, "contains": 1, "clear": 0.1,
    }  # fmt: skip
    arguments = {
        "append": lambda: (rng.randrange(9),),
        "appendleft": lambda: (rng.choice(["a", b"b", None, 0.5, ("c", 1)]),),
        "extend": lambda: ([rng.randrange(9) for _ in range(rng.randrange(4))],),
        "extendleft": lambda: ([rng.randrange(9) for _ in range(rng.randrange(4))],),
        "rotate": lambda: (rng.randrange(-7, 8),),
        "remove": lambda: (rng.randrange(9),),
        "count": lambda: (rng.randrange(9),),
        "contains": lambda: (rng.randrange(9),),
        "getitem": lambda: (rng.randrange(-6, 6),),
        "setitem": lambda: (rng.randrange(-6, 6), rng.randrange(9)),
        "delitem": lambda: (rng.randrange(-6, 6),),
    }
    for step in range(250):
        [name] = rng.choices([*operations], [*operations.values()])
        given = arguments.get(name, tuple)()
        results = []
        for target in (model, deque):
            method = getattr(target, name, None) or getattr(target, f"__{name}__")
            try:
                results.append(method(*given))
            except (IndexError, ValueError) as error:
                results.append(type(error))
        assert results[0] == results[1], (step, name, given)
        assert list(deque) == list(model), (step, name, given)
    assert list(reversed(deque)) == list(reversed(model))


def test_it_is_still_there_when_it_is_opened_again(dc, tmp_path):
    deque = dc.Deque("abc", str(tmp_path))
    assert deque.directory == str(tmp_path)
    assert dc.Deque(directory=str(tmp_path)) == "abc"
    assert repr(deque) == f"Deque(directory={str(tmp_path)!r})"


def test_without_a_directory_each_has_its_own(dc):
    assert dc.Deque("a").directory != dc.Deque("b").directory


def test_a_copy_is_another_handle_of_the_same_items(deque):
    deque.extend("ab")
    other = deque.copy()
    other.append("c")
    assert deque == "abc"
    assert other.directory == deque.directory


def test_the_ends_can_be_read_without_removing(deque):
    deque.extend([b"x" * 100_000, 2, "y" * 100_000])
    assert deque.peekleft() == b"x" * 100_000
    assert deque.peek() == "y" * 100_000
    assert len(deque) == 3


@pytest.mark.parametrize("method", ["pop", "popleft", "peek", "peekleft"])
def test_an_empty_deque_has_no_end(deque, method):
    with pytest.raises(IndexError, match="from an empty deque"):
        getattr(deque, method)()


def test_a_value_that_is_missing_cannot_be_removed(deque):
    deque.append(1)
    with pytest.raises(ValueError, match="not in deque"):
        deque.remove(2)


def test_an_item_of_another_type_is_not_compared(deque):
    assert (deque == {}) is False
    assert deque != 5
    with pytest.raises(TypeError):
        assert deque < 5


@pytest.mark.parametrize(
    ("mine", "other"),
    [("", ""), ("a", ""), ("", "a"), ("ab", "ab"), ("ab", "abc"), ("abc", "ab"), ("ab", "ac")],
)
def test_comparisons_are_those_of_sequences(deque, mine, other):
    deque.extend(mine)
    mine, other = list(mine), list(other)
    assert (deque == other) is (mine == other)
    assert (deque != other) is (mine != other)
    assert (deque < other) is (mine < other)
    assert (deque <= other) is (mine <= other)
    assert (deque > other) is (mine > other)
    assert (deque >= other) is (mine >= other)


def test_it_cannot_be_a_key(deque):
    with pytest.raises(TypeError, match="unhashable"):
        hash(deque)


@pytest.mark.parametrize("steps", [0.5, "1", None])
def test_rotation_takes_whole_numbers(deque, steps):
    deque.extend("ab")
    with pytest.raises(TypeError):
        deque.rotate(steps)


def test_a_smaller_maxlen_discards_the_oldest(deque):
    assert deque.maxlen == float("inf")
    deque.extend("abcde")
    deque.maxlen = 3
    assert deque == "cde"


def test_maxlen_limits_what_is_given_at_first(dc):
    assert dc.Deque("abcde", maxlen=2) == "de"
    assert dc.Deque("abcde", maxlen=0) == ""


def test_a_pickled_deque_is_the_same_directory_and_maxlen(dc, tmp_path):
    other = pickle.loads(pickle.dumps(dc.Deque("abc", str(tmp_path), maxlen=3)))
    assert other == "abc"
    assert (other.directory, other.maxlen) == (str(tmp_path), 3)


def test_it_can_use_a_cache_that_is_open(dc, tmp_path):
    cache = dc.Cache(str(tmp_path))
    deque = dc.Deque.fromcache(cache, "abc", maxlen=2)
    assert deque.cache is cache
    assert deque == "bc"
    assert len(cache) == 2
    assert cache.pull()[1] == "b"


def test_adding_in_place_keeps_the_handle(deque):
    same = deque
    same += "ab"
    assert same is deque
    assert deque == "ab"


def test_no_item_is_evicted_or_made_to_fit(dc, tmp_path):
    deque = dc.Deque(directory=str(tmp_path))
    assert deque.cache.eviction_policy == "none"


def test_a_transaction_keeps_others_out(dc, tmp_path):
    deque = dc.Deque([1], str(tmp_path))
    entered, done = threading.Event(), threading.Event()

    def other():
        entered.wait()
        dc.Deque(directory=str(tmp_path)).append(3)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with deque.transact():
        entered.set()
        assert not done.wait(0.1)
        deque.append(2)
    thread.join()
    assert deque == [1, 2, 3]


def test_processes_neither_lose_nor_double_an_item(dc, tmp_path):
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        directory = str(tmp_path)
        pool.starmap(append_numbers, [(dc.__name__, directory, first, 40) for first in (0, 40, 80)])
        assert sorted(dc.Deque(directory=directory)) == list(range(120))
        parts = pool.starmap(pop_all, [(dc.__name__, directory)] * 3)
    assert sorted(functools.reduce(operator.iadd, parts, [])) == list(range(120))
