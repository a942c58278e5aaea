"""One operation of the package, again and again, for a tool that counts instructions.

Owns what is run: `python -m benches.hot_path OPERATION PASSES FOLDER`. It imports nothing but the
package, because everything that it does is counted, and must not time anything. The value that the
last operation returned is verified.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tuckbox import Cache

#: Operations of one pass,
KEYS = 2_000
#: and the most passes.
PASSES_MAX = 12
_BATCH = 100
_VALUE = bytes(range(160))
_MULTIPLIER = 0x9E3779B97F4A7C15F39CC0605CEDC835

_Pass = Callable[[], object]


def _each(operation: Callable[[str], object], wanted: list[str]) -> object:
    answer = None
    for key in wanted:
        answer = operation(key)
    return answer


def _each_set(set_: Callable[[str, bytes], object], wanted: list[str]) -> object:
    answer = None
    for key in wanted:
        answer = set_(key, _VALUE)
    return answer


def _get(cache: Cache, keys: list[str]) -> tuple[_Pass, object]:
    return partial(_each, cache.get, keys), _VALUE


def _get_fresh(cache: Cache, keys: list[str]) -> tuple[_Pass, object]:
    """Look up with equal keys that are other objects: their hash is not known yet."""
    # All are made at once, however many are needed, so that making them is no part of a pass.
    fresh = iter([[key.encode().decode() for key in keys] for _ in range(PASSES_MAX)])
    return lambda: _each(cache.get, next(fresh)), _VALUE


def _get_absent(cache: Cache, keys: list[str]) -> tuple[_Pass, object]:
    return partial(_each, cache.get, [key.replace("-", "+") for key in keys]), None


def _get_with_ttl(cache: Cache, keys: list[str]) -> tuple[_Pass, object]:
    for key in keys:
        cache.set(key, _VALUE, ttl=3600)
    return partial(_each, cache.get, keys), _VALUE


def _set(cache: Cache, keys: list[str]) -> tuple[_Pass, object]:
    return partial(_each_set, cache.set, keys), None


def _incr(cache: Cache, keys: list[str]) -> tuple[_Pass, object]:
    for key in keys:
        cache.set(key, 0)
    return partial(_each, cache.incr, keys), None


def _batches(keys: list[str]) -> list[list[str]]:
    return [keys[at : at + _BATCH] for at in range(0, len(keys), _BATCH)]


def _get_many(cache: Cache, keys: list[str]) -> tuple[_Pass, object]:
    wanted = _batches(keys)

    def work() -> object:
        found: dict[str, object] = {}
        for batch in wanted:
            found = cache.get_many(batch)
        return found

    return work, dict.fromkeys(wanted[-1], _VALUE)


def _set_many(cache: Cache, keys: list[str]) -> tuple[_Pass, object]:
    mappings = [dict.fromkeys(batch, _VALUE) for batch in _batches(keys)]

    def work() -> object:
        for mapping in mappings:
            cache.set_many(mapping)
        return None

    return work, None


def _dict_get(_cache: Cache, keys: list[str]) -> tuple[_Pass, object]:
    return partial(_each, dict.fromkeys(keys, _VALUE).get, keys), _VALUE


#: What can be run: each makes a pass, and what its last operation returns.
OPERATIONS: dict[str, Callable[[Cache, list[str]], tuple[_Pass, object]]] = {
    "dict.get": _dict_get,
    "get": _get,
    "get, fresh keys": _get_fresh,
    "get, with ttl": _get_with_ttl,
    "get, absent": _get_absent,
    "set": _set,
    "incr": _incr,
    "get_many of 100": _get_many,
    "set_many of 100": _set_many,
}


def run(operation: str, passes: int, folder: Path) -> None:
    """Make so many passes over all keys, on a new cache.

    Raises ValueError for a wrong answer, and for more than PASSES_MAX.
    """
    if not 0 < passes <= PASSES_MAX:
        raise ValueError(f"there are 1 to {PASSES_MAX} passes, not {passes}")
    keys = [str(uuid.UUID(int=(n + 1) * _MULTIPLIER % 2**128)) for n in range(KEYS)]
    with Cache(folder / "hot-path.tuck") as cache:
        for key in keys:
            cache.set(key, _VALUE)
        work, expected = OPERATIONS[operation](cache, keys)
        answer: object = None
        for _ in range(passes):
            answer = work()
    if operation == "incr":
        expected = passes
    if answer != expected:
        raise ValueError(f"{operation} answered {answer!r}, not {expected!r}")


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
