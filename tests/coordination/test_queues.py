"""Queues: each item once, in order, at both ends, whoever dies between which steps."""

from __future__ import annotations

import collections
import random
import threading
import time
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, Callable

import pytest

from coordination.conftest import child, kill
from coordination.stepping import Stepped, orders
from tuckbox import memory
from tuckbox.coordination import queues
from tuckbox.errors import InvalidArgument, QueueFull, ValueTypeError

if TYPE_CHECKING:
    from tuckbox import Cache

RUNS_ON = ("shared", "memory", "namespace", "remote")
SIDES = ("front", "back")
STEPS_MAX = 8
"""A push or pull that nothing disturbs takes fewer."""


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number without item is dropped when it is seen."""
    monkeypatch.setattr(queues, "_DROPPED_AFTER_S", -1.0)


def drained(queue: Any) -> list[Any]:
    """Everything that can be pulled, from the front."""
    items: list[Any] = []
    while (item := queue.pull(default=None)) is not None:
        items.append(item)
    return items


class TestOneProcess:
    def test_it_does_what_a_deque_does(self, cache: Cache) -> None:
        dice, model, queue = random.Random(1), collections.deque[int](), cache.queue("a")
        for number in range(1000):
            side, deed = dice.choice(SIDES), dice.choice(["push", "push", "pull", "pull", "peek"])
            if dice.random() < 0.01:
                assert queue.clear() == len(model)
                model.clear()
            if deed == "push":
                queue.push(number, side)  # type: ignore[arg-type]
                (model.append if side == "back" else model.appendleft)(number)
            elif deed == "peek":
                expected = model[0 if side == "front" else -1] if model else None
                assert queue.peek(side) == expected  # type: ignore[arg-type]
            else:
                expected = (model.popleft if side == "front" else model.pop)() if model else None
                assert queue.pull(side) == expected  # type: ignore[arg-type]
            assert len(queue) == len(model)
        assert list(queue) == list(model)

    def test_as_a_queue_its_order_is_one_range(self, cache: Cache) -> None:
        queue = cache.queue("a")
        for number in range(50):
            queue.push(number)
            queue.push(-number)
            queue.pull()
        (order,) = [queue._space.entry(queue._order_key)().value]
        assert len(order.runs) == 1

    def test_none_is_an_item(self, cache: Cache) -> None:
        queue = cache.queue("a")
        queue.push(None)
        assert (queue.pull(default=1), queue.pull(default=1)) == (None, 1)

    def test_a_full_queue_refuses(self, cache: Cache) -> None:
        queue = cache.queue("a", maxlen=2)
        queue.push(1)
        queue.push(2, side="front")
        with pytest.raises(QueueFull, match="2 items"):
            queue.push(3)
        queue.pull()
        queue.push(3)
        assert list(queue) == [1, 3]

    def test_an_item_that_cannot_be_stored_leaves_nothing(self, cache: Cache) -> None:
        queue = cache.queue("a")
        with pytest.raises(ValueTypeError):
            queue.push(object())
        assert len(queue) == 0
        queue.push(1)
        assert drained(queue) == [1]

    def test_it_is_not_among_the_keys_and_a_clear_empties_it(self, cache: Cache) -> None:
        queue = cache.queue("a")
        queue.push(1)
        assert list(cache) == []
        cache.clear()
        assert list(queue) == []
        queue.push(2)
        assert drained(queue) == [2]

    def test_names_and_namespaces_are_apart(self, cache: Cache) -> None:
        queues = [cache.queue("a"), cache.queue("b"), cache.namespace("x").queue("a")]
        for number, queue in enumerate(queues):
            queue.push(number)
        assert [drained(queue) for queue in queues] == [[0], [1], [2]]

    def test_wrong_arguments(self, cache: Cache) -> None:
        queue = cache.queue("a")
        for act in (lambda: queue.push(1, "left"), lambda: queue.pull("left")):  # type: ignore[arg-type]
            with pytest.raises(InvalidArgument, match='side must be "front" or "back"'):
                act()
        with pytest.raises(InvalidArgument, match="maxlen"):
            cache.queue("a", maxlen=0)


def test_a_cache_with_a_codec_has_queues_and_locks() -> None:
    class Upper:
        name = "upper"

        def encode(self, value: Any) -> bytes:
            return bytes(value.upper(), "ascii")

        def decode(self, content: bytes) -> Any:
            return content.decode()

    cache = memory.Cache(codec=Upper())
    queue = cache.queue("a")
    queue.push("x")
    with cache.lock("a"):
        assert queue.pull() == "X"


def test_threads_get_each_item_once(cache: Cache) -> None:
    pulled: list[Any] = []

    def push(number: int) -> None:
        for turn in range(40):
            cache.queue("a").push([number, turn])

    def pull() -> None:
        while (item := cache.queue("a").pull(timeout=None)) != "end":
            pulled.append(item)

    pushers = [threading.Thread(target=push, args=(number,)) for number in range(3)]
    pullers = [threading.Thread(target=pull) for _ in range(3)]
    for thread in (*pushers, *pullers):
        thread.start()
    for thread in pushers:
        thread.join()
    for _ in pullers:
        cache.queue("a").push("end")
    for thread in pullers:
        thread.join()
    assert sorted(pulled) == [[number, turn] for number in range(3) for turn in range(40)]


class TestDeaths:
    @pytest.mark.parametrize("steps", range(STEPS_MAX))
    @pytest.mark.parametrize("side", SIDES)
    @pytest.mark.usefixtures("hasty")
    def test_a_pusher_that_dies_leaves_a_queue(self, cache: Cache, side: Any, steps: int) -> None:
        cache.queue("a").push("first")
        pusher = Stepped(cache.queue("a")._push("dying", side))
        for _ in range(steps):
            pusher.step()
        queue = cache.queue("a")
        queue.push("last")
        items = drained(queue)
        assert [item for item in items if item != "dying"] == ["first", "last"]
        assert items.count("dying") == 1 or not pusher.is_done
        assert len(queue) == 0

    @pytest.mark.parametrize("steps", range(STEPS_MAX))
    @pytest.mark.usefixtures("hasty")
    def test_a_puller_that_dies_takes_one_item_at_most(self, cache: Cache, steps: int) -> None:
        queue = cache.queue("a")
        for item in ("first", "second", "third"):
            queue.push(item)
        puller = Stepped(cache.queue("a")._pull("front", None, 0))
        for _ in range(steps):
            puller.step()
        items = drained(queue)
        assert items[-2:] == ["second", "third"]
        assert items[:-2] in ([], ["first"])
        assert not (puller.result == "first" and "first" in items)

    @pytest.mark.parametrize("is_hasty", [False, True])
    def test_in_every_order_of_steps_an_item_is_pulled_once(
        self, is_hasty: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if is_hasty:
            monkeypatch.setattr(queues, "_DROPPED_AFTER_S", -1.0)
        cache = memory.Cache()
        deeds: dict[str, Callable[[Any], Any]] = {
            "push": lambda queue: queue._push("new", "back"),
            "push in front": lambda queue: queue._push("new", "front"),
            "pull": lambda queue: queue._pull("front", None, 0),
            "pull from behind": lambda queue: queue._pull("back", None, 0),
        }
        count = 0
        for present in ([], ["old"]):
            for pair in combinations_with_replacement(deeds, 2):
                for order in orders(5, 5):
                    count += 1
                    name = str(count)
                    for item in present:
                        cache.queue(name).push(item)
                    both = [Stepped(deeds[deed](cache.queue(name))) for deed in pair]
                    for who in order:
                        both[who].step()
                    for one in both:
                        one.finish()
                    pulled = [one.result for one in both if one.result is not None]
                    pushes = sum(deed.startswith("push") for deed in pair)
                    everything = sorted(pulled + drained(cache.queue(name)))
                    assert everything == sorted(present + ["new"] * pushes), (pair, order)
                cache.clear()

    def test_a_slow_pusher_is_not_waited_for(self, cache: Cache) -> None:
        slow = Stepped(cache.queue("a")._push("slow", "back"))
        for _ in range(2):
            slow.step()
        queue = cache.queue("a")
        queue.push("quick")
        assert (len(queue), list(queue), queue.peek()) == (2, ["quick"], "quick")
        assert drained(queue) == ["quick"]
        slow.finish()
        assert drained(queue) == ["slow"]


class TestProcesses:
    def test_what_one_pushes_another_pulls(self, between: Callable[[], Any]) -> None:
        cache = between()

        def work() -> None:
            for number in range(5):
                between().queue("a").push(number)

        with child(work) as pid:
            kill(pid)
            assert drained(cache.queue("a")) == [0, 1, 2, 3, 4]
        cache.close()

    def test_a_pull_waits_for_a_push(self, between: Callable[[], Any]) -> None:
        cache = between()

        def work() -> None:
            time.sleep(0.05)
            between().queue("a").push("late")

        with child(work):
            assert cache.queue("a").pull(timeout=60) == "late"
            assert cache.queue("a").pull(timeout=0.01) is None
        cache.close()


def test_event_loops(cache: Cache, run: Callable[..., Any]) -> None:
    async def main() -> list[Any]:
        queue = cache.queue("a")
        await queue.apush(1)
        await queue.apush(2, side="front")
        return [await queue.apeek(), await queue.apull(), await queue.apull(timeout=1)]

    assert run(main) == [2, 2, 1]
