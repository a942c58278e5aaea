"""T-Q2: each item is pulled once, whoever is killed while it pushes or pulls."""

from __future__ import annotations

import collections
import os
import random
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable

import pytest

from drivers.proxy import LOOPBACK
from drivers.servers import Server
from tuckbox import Cache, connect
from tuckbox.coordination.queues import Queue
from tuckbox.errors import QueueFull

if TYPE_CHECKING:
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-Q2"), pytest.mark.timeout(300)]

WORKERS = 2
"""As many push, and as many pull."""
MAXLEN = 100

Open = Callable[[], Any]


class Storm:
    """Pushers and pullers, and what each noted after a push or pull had returned."""

    def __init__(self, folder: Path, open_cache: Open, kind: type[Queue] = Queue) -> None:
        self.folder = folder
        self.open = open_cache
        self.kind = kind
        self.killed = {"push": 0, "pull": 0}
        self.workers: dict[int, str] = {}

    def start(self, deed: str) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                queue = self.kind(self.open()._coordination(), "a", MAXLEN)
                # One write for each line: a line is whole.
                with (self.folder / f"{deed} {os.getpid()}").open("ab", buffering=0) as notes:
                    (self.push if deed == "push" else self.pull)(queue, notes)
            finally:
                os._exit(1)
        self.workers[pid] = deed

    def push(self, queue: Queue, notes: Any) -> None:
        number = 0
        while True:
            try:
                queue.push([os.getpid(), number])
            except QueueFull:
                time.sleep(0.001)
                continue
            notes.write(b"%d %d\n" % (os.getpid(), number))
            number += 1

    def pull(self, queue: Queue, notes: Any) -> None:
        while True:
            notes.write(b"%d %d\n" % tuple(queue.pull(timeout=None)))

    def kill(self, pid: int) -> str:
        deed = self.workers.pop(pid)
        self.killed[deed] += 1
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return deed

    def run(self, kills: int, seed: int) -> int:
        """Kill workers; return how many items were pulled."""
        dice = random.Random(seed)
        try:
            for deed in ("push", "pull") * WORKERS:
                self.start(deed)
            for _ in range(kills):
                time.sleep(dice.random() / 20)
                self.start(self.kill(dice.choice(list(self.workers))))
        finally:
            for pid in list(self.workers):
                with suppress(ProcessLookupError):
                    self.kill(pid)
        return self.judge()

    def notes(self, deed: str) -> list[list[tuple[int, int]]]:
        """What each process noted."""
        return [
            [tuple(map(int, line.split())) for line in path.read_text().splitlines()]  # type: ignore[misc]
            for path in self.folder.glob(f"{deed} *")
        ]

    def judge(self) -> int:
        cache = self.open()
        queue = cache.queue("a")
        drained: list[tuple[int, int]] = []
        while (item := queue.pull()) is not None:
            drained.append(tuple(item))
        pulls = [*self.notes("pull"), drained]
        for one in pulls:
            last: dict[int, int] = {}
            for pusher, number in one:
                assert last.get(pusher, -1) < number, f"out of order: {number} of {pusher}"
                last[pusher] = number
        counts = collections.Counter(item for one in pulls for item in one)
        twice = [item for item, count in counts.items() if count > 1]
        assert not twice, f"pulled twice: {twice[:10]}"
        pushed = {item for one in self.notes("push") for item in one}
        lost = pushed - counts.keys()
        assert len(lost) <= self.killed["pull"], f"lost, more than pullers: {sorted(lost)[:10]}"
        # Its pusher died before it noted the push.
        unknown = counts.keys() - pushed
        assert len(unknown) <= self.killed["push"], f"nobody pushed: {sorted(unknown)[:10]}"
        queue.push("usable")
        assert queue.pull() == "usable"
        cache.close()
        assert pushed, "nothing was pushed"
        return len(counts)


def on_file(folder: Path) -> Open:
    return lambda: Cache(folder / "cache.tuck", size="4 MiB")


def test_pushers_and_pullers_that_are_killed(
    tmp_path: Path, trials: Trials, size: Any, seed: int
) -> None:
    storm = Storm(tmp_path, on_file(tmp_path))
    trials.figure("items", storm.run(size(200, 6000), seed))
    trials.add(sum(storm.killed.values()), "killed processes")
    assert Cache(tmp_path / "cache.tuck").check().is_sound


def test_pushers_and_pullers_that_are_killed_where_a_server_has_the_queue(
    tmp_path: Path, trials: Trials, size: Any, seed: int
) -> None:
    with Server("redis", tmp_path, ("--save", "")) as server:
        storm = Storm(tmp_path, lambda: connect(f"redis://{LOOPBACK}:{server.port}"))
        storm.run(size(50, 1000), seed)
    trials.add(sum(storm.killed.values()), "killed processes")


class WithoutCas(Queue):
    """The last one to store the order wins."""

    def _number(self, side: Any) -> Any:
        entry = yield self._space.entry(self._order_key)
        if entry is None:
            return (yield from super()._number(side))
        if len(entry.value) >= MAXLEN:
            raise QueueFull("full")
        number, more = entry.value.pushed(side)
        yield 0.001  # Others are as fast.
        yield lambda: self._space.store.set(self._order_key, more)
        return number


class WithoutClaim(Queue):
    """To have read an item is taken for having pulled it."""

    def _pull(self, side: Any, default: Any, timeout: Any) -> Any:
        while True:
            number, value = yield from self._first(side)
            if number is None:
                if timeout == 0:
                    return default
                yield 0.001
                continue
            yield 0.001
            yield from self._drop(number)
            yield self._space.delete(self._item_key(number))
            return value


class PulledFirst(Queue):
    """The number leaves the order before its item is there, and nobody looks again."""

    def _push(self, value: Any, side: Any) -> Any:
        number = yield from self._number(side)
        yield from self._drop(number)
        yield self._space.add(self._item_key(number), value)


@pytest.mark.parametrize("kind", [WithoutCas, WithoutClaim, PulledFirst])
def test_a_broken_queue_is_caught(kind: type[Queue], tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"twice|lost|nobody pushed|out of order|no item"):
        Storm(tmp_path, on_file(tmp_path), kind).run(300, 1)
