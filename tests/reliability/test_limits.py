"""T-D2: limits of the process, of the file system, and file systems that cannot be written to.

Each trial lives in a process of its own with a tmpfs of its own. Whatever the limit, the answer is
a cache that works or an exact error; no file and no descriptor stays, and a cache that was there
before is whole afterwards.
"""

from __future__ import annotations

import os
import random
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import pytest

import tuckbox
from reliability.actors import (
    MS_RDONLY,
    MS_REMOUNT,
    Actor,
    ActorDied,
    demand_mounts,
    mount,
    own_mounts,
    unmount,
)
from tuckbox import Cache

if TYPE_CHECKING:
    from collections.abc import Iterator

ENTRIES = 100
KINDS = (
    "file size",
    "address space",
    "descriptors",
    "inodes",
    "read-only",
    "read-only, nothing there",
)
# The limit, and what may be raised while a cache is opened or made.
ALLOWED = {
    "file size": {"CacheFull": "more bytes; free some space"},
    "address space": {"CacheOpenError": "Cannot allocate memory", "MemoryError": ""},
    "descriptors": {"CacheOpenError": "Too many open files"},
    "inodes": {"CacheFull": "No space left on device"},
    "read-only": {"AccessDenied": "Read-only file system"},
    "read-only, nothing there": {"AccessDenied": "Read-only file system"},
}


def descriptors() -> list[str]:
    """What is open, but for the directory that tells it."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
        except OSError:
            continue
    return sorted(name for name in found if "/proc/" not in name)


def make(path: str) -> None:
    with Cache(path, size="256 KiB") as cache:
        for number in range(ENTRIES):
            cache[number] = f"value {number}"


def limited(opener: Callable[..., Any], folder: str, kind: str, seed: int) -> dict[str, Any]:
    """Run one trial in a child, whose limits end with it."""
    draw = random.Random(seed)
    options = "size=64m,mode=700" + (f",nr_inodes={draw.randint(1, 4)}" if kind == "inodes" else "")
    mount("tmpfs", folder, 0, options)
    try:
        return _limited(opener, folder, kind, draw)
    finally:
        unmount(folder)


def _limited(
    opener: Callable[..., Any], folder: str, kind: str, draw: random.Random
) -> dict[str, Any]:
    wrong: list[str] = []
    answer: dict[str, Any] = {"wrong": wrong, "refused": 0, "opened": 0, "hits": 0}
    old = f"{folder}/old.tuck"
    if kind not in {"inodes", "read-only, nothing there"}:
        make(old)
    there = set(os.listdir(folder))
    paths = [old, f"{folder}/new.tuck"]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = _attempts(opener, paths, kind, draw)
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if not os.WIFEXITED(status):
        wrong.append(f"it was ended by signal {os.WTERMSIG(status)}")
        return answer
    code = os.WEXITSTATUS(status)
    if code >= 64:
        wrong.append(MISTAKES[code - 64])
    answer["refused"], answer["opened"] = code >> 2 & 3, code & 3
    if kind.startswith("read-only"):
        mount("tmpfs", folder, MS_REMOUNT, "")
    left = set(os.listdir(folder)) - there
    # Without an old cache both are made; with one, the new one.
    made = (code & 3) - (1 if "old.tuck" in there else 0)
    if len(left) > max(0, made):
        wrong.append(f"left behind {left}")
    if "old.tuck" in there:
        with Cache(old) as cache:
            answer["hits"] = sum(cache.get(n) == f"value {n}" for n in range(ENTRIES))
            if not cache.check().is_sound:
                wrong.append("the cache that was there is not sound")
        if answer["hits"] < ENTRIES:
            wrong.append(f"{answer['hits']} of {ENTRIES} old entries are there")
    return answer


MISTAKES = (
    "the error is not exact",
    "descriptors stayed open",
    "entries of the old cache were not found",
    "what was stored was not found",
    "something else was raised",
)


def limit(kind: str, folder: str, draw: random.Random) -> None:
    if kind == "file size":
        most = draw.choice([0, 1, 4096, 65_536, draw.randrange(1 << 20)])
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    elif kind == "address space":
        used = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
        most = used + draw.choice([0, 8192, 1 << 20, 16 << 20, 80 << 20])
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    elif kind == "descriptors":
        lowest = os.open("/", os.O_PATH)
        os.close(lowest)
        most = lowest + draw.randrange(0, 8)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    elif kind.startswith("read-only"):
        mount("tmpfs", folder, MS_REMOUNT | MS_RDONLY)


def _attempts(opener: Callable[..., Any], paths: list[str], kind: str, draw: random.Random) -> int:
    """Open the old cache and make a new one under the limit. Bits 0 and 1 of the answer count what
    was opened, bits 2 and 3 what was refused; 64 or more is a mistake."""
    opened = refused = 0
    before = descriptors()
    limit(kind, os.path.dirname(paths[0]), draw)
    for path in paths:
        try:
            cache = opener(path, size="64 MiB" if path == paths[1] else None)
        except (tuckbox.errors.CacheFileError, MemoryError) as error:
            words = ALLOWED[kind].get(type(error).__name__)
            if words is None or words not in str(error):
                print(kind, type(error), error, flush=True)  # noqa: T201 - For who looks for it.
                return 64
            if isinstance(error, tuckbox.errors.CacheFileError) and error.filename != path:
                return 64
            refused += 1
        else:
            opened += 1
            code = use(cache, path == paths[0] and kind not in {"inodes"})
            cache.close()
            if code:
                return code
        cache = None
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    if kind != "descriptors" and descriptors() != before:
        return 65
    if kind == "descriptors" and len(os.listdir("/proc/self/fd")) - 1 > len(before):
        return 65
    return opened | refused << 2


def use(cache: Any, is_old: bool) -> int:
    if is_old and any(cache.get(n) != f"value {n}" for n in range(ENTRIES)):
        return 66
    # Little enough not to take the room of what is there.
    for number in range(10):
        try:
            cache["new"] = bytes([number]) * 100
        except tuckbox.errors.CacheFull:
            continue
        if cache.get("new") != bytes([number]) * 100:
            return 67
    cache.delete("new")
    return 0


def run(
    opener: Callable[..., Any], folder: Path, count: int, seed: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    small = folder / "small"
    small.mkdir(exist_ok=True)
    with Actor(own_mounts) as actor:
        for number in range(count):
            kind = KINDS[number % len(KINDS)]
            what = f"{kind}, seed {seed + number}"
            try:
                yield what, actor.call(limited, opener, str(small), kind, seed + number)
            except ActorDied as error:
                yield what, {"wrong": [str(error)]}
                return
            except AssertionError as error:
                yield what, {"wrong": [str(error).strip().splitlines()[-1]]}


def judge(results: list[tuple[str, dict[str, Any]]]) -> list[str]:
    failures = [f"{what}: {wrong}" for what, found in results for wrong in found["wrong"]]
    for kind in KINDS:
        mine = [found for what, found in results if what.startswith(f"{kind}, seed")]
        if not any(found.get("refused") for found in mine):
            failures.append(f"{kind}: it limited nothing")
    if not any(found.get("opened") for _, found in results):
        failures.append("nothing was ever opened")
    return failures


@pytest.mark.family("T-D2")
@pytest.mark.timeout(300)
def test_limits_are_errors_and_leave_nothing(
    tmp_path: Path, trials: Any, size: Any, seed: int
) -> None:
    demand_mounts()
    results = list(run(Cache, tmp_path, size(120, 3000), seed))
    for name in ("refused", "opened", "hits"):
        trials.figure(name, sum(found.get(name, 0) for _, found in results))
    trials.add(len(results), "trials")
    failures = judge(results)
    assert not failures, "\n".join(failures[:10])


@pytest.mark.family("T-D2")
def test_what_is_on_a_read_only_file_system_can_be_read(tmp_path: Path, trials: Any) -> None:
    demand_mounts()
    folder = tmp_path / "small"
    folder.mkdir()
    with Actor(own_mounts) as actor:
        assert actor.call(_read_from_read_only, str(folder)) == ENTRIES
    trials.add(1, "trials")


def _read_from_read_only(folder: str) -> int:
    mount("tmpfs", folder, 0, "size=1m,mode=700")
    make(f"{folder}/old.tuck")
    mount("tmpfs", folder, MS_REMOUNT | MS_RDONLY)
    with Cache(f"{folder}/old.tuck", read_only=True) as cache:
        with pytest.raises(tuckbox.errors.CacheReadOnly):
            cache["k"] = 1
        return sum(cache.get(number) == f"value {number}" for number in range(ENTRIES))


# Negative controls.


class AlwaysMissing(Cache):
    def get(self, key: Any, default: Any = None) -> Any:
        return default


def keeps_descriptors(path: str, **options: Any) -> Any:
    if os.path.exists(path):
        os.open(path, os.O_RDONLY)
    return Cache(path, **options)


def leaves_files(path: str, **options: Any) -> Any:
    Path(f"{path}.lock").touch()
    return Cache(path, **options)


def hides_the_reason(path: str, **options: Any) -> Any:
    try:
        return Cache(path, **options)
    except tuckbox.errors.CacheFileError as error:
        raise tuckbox.errors.CacheOpenError(error.errno, "it did not work", path) from error


CONTROLS = {
    "always misses": (AlwaysMissing, "not found"),
    "keeps descriptors": (keeps_descriptors, "descriptors stayed open"),
    "leaves files": (leaves_files, "left behind"),
    "hides the reason": (hides_the_reason, "not exact"),
}


@pytest.mark.family("T-D2")
@pytest.mark.parametrize("name", CONTROLS)
def test_what_is_careless_is_noticed(tmp_path: Path, trials: Any, seed: int, name: str) -> None:
    demand_mounts()
    opener, words = CONTROLS[name]
    failures = judge(list(run(opener, tmp_path, 18, seed)))
    assert any(words in failure for failure in failures), failures
    trials.add(1, "controls")
