"""Generated streams for what recorded traces lack: drift, pairs, deletes, overwrites, ttls.

Each stream drives the engine as in `hit_ratio.py`, and the two policies below for comparison: LRU,
and S3-FIFO as in its paper. They see the same deletes and expiries. The seed is fixed.
"""

from __future__ import annotations

import bisect
import io
import itertools
import json
import random
import subprocess
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

REQUESTS = 200_000
REPEATS = 3
ENTRIES = (200, 1_000)
Op = Literal["get", "set", "delete"]


class Request(NamedTuple):
    """A request, one millisecond after the one before. A `ttl_ms` of 0 means no ttl."""

    key: int
    op: Op = "get"
    ttl_ms: int = 0


class Lru:
    """Evicts the least recently used entry."""

    def __init__(self, entries: int) -> None:
        """Create a cache of this many entries."""
        self.entries = entries
        self.expiries: OrderedDict[int, float] = OrderedDict()

    def get(self, key: int, now_ms: int) -> bool:
        """Return whether the key is there, and count that as a use."""
        if self.expiries.get(key, -1.0) <= now_ms:
            return False
        self.expiries.move_to_end(key)
        return True

    def set(self, key: int, expiry_ms: float) -> None:
        """Store a key."""
        self.expiries[key] = expiry_ms
        self.expiries.move_to_end(key)
        if len(self.expiries) > self.entries:
            self.expiries.popitem(last=False)

    def delete(self, key: int) -> None:
        """Remove a key."""
        self.expiries.pop(key, None)


class S3Fifo:
    """Three queues (Yang, Zhang, Qiu, Yue and Rashmi 2023): a tenth small, a main one, ghosts."""

    def __init__(self, entries: int) -> None:
        """Create a cache of this many entries."""
        self.small_entries = max(1, entries // 10)
        self.main_entries = entries - self.small_entries
        self.small: deque[int] = deque()
        self.main: deque[int] = deque()
        self.ghosts: OrderedDict[int, None] = OrderedDict()
        self.expiries: dict[int, float] = {}
        self.uses: dict[int, int] = {}

    def get(self, key: int, now_ms: int) -> bool:
        """Return whether the key is there, and count that as a use."""
        if self.expiries.get(key, -1.0) <= now_ms:
            return False
        self.uses[key] = min(3, self.uses[key] + 1)
        return True

    def set(self, key: int, expiry_ms: float) -> None:
        """Store a key."""
        if key in self.expiries:
            self.expiries[key] = expiry_ms
            return
        while len(self.expiries) >= self.small_entries + self.main_entries:
            self._evict()
        is_ghost = key in self.ghosts
        self.ghosts.pop(key, None)
        (self.main if is_ghost else self.small).append(key)
        self.expiries[key], self.uses[key] = expiry_ms, 0

    def delete(self, key: int) -> None:
        """Remove a key."""
        if self.expiries.pop(key, None) is not None:
            del self.uses[key]
            (self.small if key in self.small else self.main).remove(key)

    def _evict(self) -> None:
        if self.small and (len(self.small) >= self.small_entries or not self.main):
            key = self.small.popleft()
            if self.uses[key] > 1:
                self.uses[key] = 0
                self.main.append(key)
                return
            self.ghosts[key] = None
            if len(self.ghosts) > self.main_entries:
                self.ghosts.popitem(last=False)
        else:
            key = self.main.popleft()
            if self.uses[key] > 0:
                self.uses[key] -= 1
                self.main.append(key)
                return
        del self.expiries[key], self.uses[key]


class Zipf:
    """Ranks from 0, rank n with a weight of 1 / (n + 1) ** exponent."""

    def __init__(self, count: int, exponent: float, source: random.Random) -> None:
        """Draw from `count` ranks."""
        weights = [(rank + 1) ** -exponent for rank in range(count)]
        self.sums = list(itertools.accumulate(weights))
        self.source = source

    def draw(self) -> int:
        """Return a rank."""
        return bisect.bisect_left(self.sums, self.source.random() * self.sums[-1])


def steady(source: random.Random) -> Iterator[Request]:
    """Popularity that does not change."""
    zipf = Zipf(20_000, 0.9, source)
    while True:
        yield Request(zipf.draw())


def drift(source: random.Random) -> Iterator[Request]:
    """Popularity that moves by one key every 20 requests."""
    zipf = Zipf(20_000, 0.9, source)
    for n in itertools.count():
        yield Request(n // 20 + zipf.draw())


def phases(source: random.Random) -> Iterator[Request]:
    """Every 20,000 requests, other popular keys or a loop a little longer than the cache."""
    zipf = Zipf(20_000, 0.9, source)
    for n in itertools.count():
        phase = n // 20_000
        yield Request(10**6 * phase + (n % 1_300 if phase % 2 else zipf.draw()))


def scans(source: random.Random) -> Iterator[Request]:
    """Steady popularity, and every 5,000 requests a scan of 3,000 keys never seen again."""
    zipf = Zipf(20_000, 0.9, source)
    for n in itertools.count():
        yield Request(10**6 + n if n % 5_000 >= 2_000 else zipf.draw())


def loop(source: random.Random) -> Iterator[Request]:
    """A loop of 1.5 times the cache, and a tenth of other requests."""
    for n in itertools.count():
        yield Request(10**6 + source.randrange(10**6) if source.random() < 0.1 else n % 1_500)


def sweeps(source: random.Random) -> Iterator[Request]:
    """Up and down over twice the cache."""
    del source
    for n in itertools.count():
        place = n % 4_000
        yield Request(place if place < 2_000 else 3_999 - place)


def pairs(source: random.Random) -> Iterator[Request]:
    """Popular keys for half of the requests; other keys twice, 100 to 1,600 requests apart."""
    zipf = Zipf(2_000, 0.9, source)
    due: dict[int, int] = {}
    for n in itertools.count():
        if n in due:
            yield Request(due.pop(n))
        elif source.random() < 0.5:
            yield Request(zipf.draw())
        else:
            later = n + source.randrange(100, 1_600)
            while later in due:
                later += 1
            due[later] = 10**6 + n
            yield Request(10**6 + n)


def overwrites(source: random.Random) -> Iterator[Request]:
    """Steady popularity; a fifth of the requests overwrite, one in fifty deletes."""
    zipf = Zipf(20_000, 0.9, source)
    while True:
        chance = source.random()
        yield Request(zipf.draw(), "set" if chance < 0.2 else "delete" if chance < 0.22 else "get")


def expiries(source: random.Random) -> Iterator[Request]:
    """Steady popularity; a third of the keys live 2 s, a third 20 s, which is 20,000 requests."""
    zipf = Zipf(20_000, 0.9, source)
    while True:
        key = zipf.draw()
        yield Request(key, "get", (0, 2_000, 20_000)[key % 3])


def write_through(source: random.Random) -> Iterator[Request]:
    """Every key is stored when created, then read soon or never, as in a session store."""
    recent: deque[int] = deque(maxlen=1_500)
    for n in itertools.count():
        if n % 4 == 0 or not recent:
            recent.append(n)
            yield Request(n, "set")
        else:
            yield Request(recent[min(len(recent) - 1, int(source.expovariate(1 / 400)))])


STREAMS: tuple[Callable[[random.Random], Iterator[Request]], ...] = (
    steady,
    drift,
    phases,
    scans,
    loop,
    sweeps,
    pairs,
    overwrites,
    expiries,
    write_through,
)


def hit_ratio(cache: Lru | S3Fifo, requests: list[Request]) -> float:
    """Return the hit ratio of a reference policy, in per cent."""
    gets = hits = 0
    for now_ms, request in enumerate(requests, 1):
        if request.op == "delete":
            cache.delete(request.key)
            continue
        if request.op == "get":
            gets += 1
            if cache.get(request.key, now_ms):
                hits += 1
                continue
        cache.set(request.key, now_ms + request.ttl_ms if request.ttl_ms else float("inf"))
    return 100 * hits / gets


def engine_ratios(program: Path, requests: list[Request], arguments: list[str]) -> list[float]:
    """Return the engine's hit ratios, in per cent."""
    text = io.StringIO("key,size,op,ttl_ms\n")
    text.seek(0, io.SEEK_END)
    for request in requests:
        text.write(f"{request.key},1,{request.op},{request.ttl_ms or ''}\n")
    out = subprocess.run(
        [program, *arguments], input=text.getvalue(), text=True, capture_output=True, check=True
    ).stdout
    found = [json.loads(line) for line in out.splitlines()]
    return [100 * run["hits"] / run["gets"] for run in found]


def measure(program: Path) -> tuple[list[str], list[list[str]]]:
    """Return the heading and the rows of a table of all streams, at two sizes."""
    heading = ["stream", "entries", "LRU", "S3-FIFO", "Tuckbox", "Tuckbox, 4 shards"]
    rows = []
    for entries in ENTRIES:
        for stream in STREAMS:
            source = random.Random(7)
            requests = list(itertools.islice(stream(source), REQUESTS))
            one, four = f"entries:{entries}:1", f"entries:{entries}:4"
            found = engine_ratios(program, requests, [one] * REPEATS + [four] * REPEATS)
            row = [stream.__name__, f"{entries:,}"]
            row += [f"{hit_ratio(kind(entries), requests):.2f}" for kind in (Lru, S3Fifo)]
            row += [f"{sum(part) / REPEATS:.2f}" for part in (found[:REPEATS], found[REPEATS:])]
            rows.append(row)
    return heading, rows
