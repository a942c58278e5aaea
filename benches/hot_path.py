"""Runs the operations of the hot paths repeatedly, for callgrind to count.

Owns what is run: `python -m benches.hot_path [NAME ...] FOLDER`. Imports only the package, because
callgrind emulates everything. Must not time anything. The counted passes lie between two calls of
`os.getppid`, at which callgrind dumps its counts. An earlier pass lets the interpreter adapt its
code, and the answer of the last operation is verified.
"""

from __future__ import annotations

import gc
import os
import sys
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tuckbox import Cache

#: The function called before and after what is counted.
MARK = "getppid"
#: The operations of a pass.
KEYS = 2_000
#: The passes that are counted.
PASSES = 5
_BATCH = 100
_VALUE = bytes(range(160))
_MULTIPLIER = 0x9E3779B97F4A7C15F39CC0605CEDC835

_DICT = {"name": "Ada", "age": 36, "score": 99.5, "admin": True, "email": "ada@example.com"}

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
    """Look up with equal keys that are new objects, whose hash is not computed."""
    # All keys are made before the first pass.
    fresh = iter([[key.encode().decode() for key in keys] for _ in range(1 + PASSES)])
    return lambda: _each(cache.get, next(fresh)), _VALUE


def _get_kept(cache: Cache, keys: list[str], value: object = _VALUE) -> tuple[_Pass, object]:
    """Look up in a handle that keeps the objects it has returned."""
    kept = Cache(cache.path, local="32 MB")
    for key in keys:
        kept.set(key, value)
    return partial(_each, kept.get, keys), value


def _get_kept_dict(cache: Cache, keys: list[str]) -> tuple[_Pass, object]:
    return _get_kept(cache, keys, _DICT)


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
    return partial(_each, cache.incr, keys), 1 + PASSES


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


#: The operations. Each returns a pass, and what its last operation returns.
OPERATIONS: dict[str, Callable[[Cache, list[str]], tuple[_Pass, object]]] = {
    "dict.get": _dict_get,
    "get": _get,
    "get, fresh keys": _get_fresh,
    "get, with ttl": _get_with_ttl,
    "get, kept object": _get_kept,
    "get, copy of a kept dict": _get_kept_dict,
    "get, absent": _get_absent,
    "set": _set,
    "incr": _incr,
    "get_many of 100": _get_many,
    "set_many of 100": _set_many,
}


def run(folder: Path, *names: str) -> None:
    """Run the named operations, or all, in order, each on a new cache.

    Raises ValueError for a wrong answer.
    """
    keys = [str(uuid.UUID(int=(n + 1) * _MULTIPLIER % 2**128)) for n in range(KEYS)]
    for name in names or OPERATIONS:
        with Cache(folder / "hot-path.tuck") as cache:
            for key in keys:
                cache.set(key, _VALUE)
            work, expected = OPERATIONS[name](cache, keys)
            answer = work()
            os.getppid()
            for _ in range(PASSES):
                answer = work()
            os.getppid()
        Path(folder, "hot-path.tuck").unlink()
        if answer != expected:
            raise ValueError(f"{name} answered {answer!r}, not {expected!r}")


if __name__ == "__main__":
    # The cycle collector is not part of any operation.
    gc.disable()
    run(Path(sys.argv[-1]), *sys.argv[1:-1])
