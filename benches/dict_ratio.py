"""What `Cache.get` and `Cache.set` cost, as multiples of a dictionary's.

20,000 entries of a 36-character key and a 160-byte value, resident on tmpfs, one process, default
settings, loop included. Entries with a ttl are in a cache of their own. Dictionary and cache take
turns in one run; each ratio is that of the medians over the rounds, with the least and the most of
the rounds' own ratios beside it.

`get, fresh keys` looks up with equal keys that are other objects, whose hash Python has not
computed yet: what programs do that build or read their keys.
"""

import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tuckbox import Cache

ENTRIES = 20_000
ROUNDS = 15
VALUE_BYTES = 160
#: What this stage of the project promises; GOALS are tighter.
LIMITS = {"get, same keys": 4.0, "set": 10.0}


def time_ns(work: Callable[[], None]) -> float:
    """Return what one operation of `work` took, in nanoseconds."""
    began = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - began) / ENTRIES


def fresh(keys: list[str]) -> list[str]:
    """Return equal keys that are other objects."""
    return [key.encode().decode() for key in keys]


def measure(cache: Cache, timed_cache: Cache) -> dict[str, tuple[list[float], list[float]]]:
    """Return for each row the dictionary's and the cache's times of all rounds."""
    value = bytes(VALUE_BYTES)
    keys = [
        str(uuid.UUID(int=(n * 0x9E3779B97F4A7C15F39CC0605CEDC835) % 2**128))
        for n in range(ENTRIES)
    ]
    absent = [key.replace("-", "+") for key in keys]
    table = dict.fromkeys(keys, value)
    timed = dict.fromkeys(keys, value)
    for key in keys:
        cache.set(key, value)
        timed_cache.set(key, value, ttl=3600)

    def get_all(get: Callable[[str], object], keys: list[str]) -> Callable[[], None]:
        def work() -> None:
            for key in keys:
                get(key)

        return work

    def set_dict() -> None:
        for key in keys:
            table[key] = value

    def set_cache() -> None:
        for key in keys:
            cache.set(key, value)

    rows: dict[str, tuple[list[float], list[float]]] = {}
    for _ in range(ROUNDS):
        for name, plain, cached in (
            ("get, same keys", get_all(table.get, keys), get_all(cache.get, keys)),
            ("get, fresh keys", get_all(table.get, fresh(keys)), get_all(cache.get, fresh(keys))),
            ("get, with ttl", get_all(timed.get, keys), get_all(timed_cache.get, keys)),
            ("get, absent", get_all(table.get, absent), get_all(cache.get, absent)),
            ("set", set_dict, set_cache),
        ):
            times = rows.setdefault(name, ([], []))
            times[0].append(time_ns(plain))
            times[1].append(time_ns(cached))
    return rows


def main() -> int:
    """Print the table; return 1 if a limit is exceeded."""
    folder = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
    with (
        tempfile.TemporaryDirectory(dir=folder) as place,
        Cache(Path(place) / "bench.tuck") as cache,
        Cache(Path(place) / "timed.tuck") as timed_cache,
    ):
        rows = measure(cache, timed_cache)
    table = Table("operation", "dict ns", "cache ns", "ratio", "least .. most", "limit")
    failed = False
    for name, (plain, cached) in rows.items():
        ratio = statistics.median(cached) / statistics.median(plain)
        ratios = [ours / theirs for ours, theirs in zip(cached, plain)]
        limit = LIMITS.get(name)
        failed |= limit is not None and ratio > limit
        verdict = "" if limit is None else f"{limit:g} {'met' if ratio <= limit else 'NOT MET'}"
        table.add_row(
            name,
            f"{statistics.median(plain):.1f}",
            f"{statistics.median(cached):.1f}",
            f"{ratio:.2f}",
            f"{min(ratios):.2f} .. {max(ratios):.2f}",
            verdict,
        )
    Console().print(table)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
