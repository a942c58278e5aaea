"""A file is cut short, removed or replaced: a handle uses the new one, and nobody dies."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reliability.boots import demand
from tuckbox import Cache
from tuckbox.errors import CacheClosed, CacheLost, CacheReadOnly

# Writes and misses look for their file once in a second.
NOTICED_S = 1.1


def remove(path: Path) -> None:
    path.unlink()
    time.sleep(NOTICED_S)


def replace(path: Path, **entries: int) -> None:
    other = path.with_suffix(".other")
    with Cache(other) as cache:
        cache.set_many(entries)
    other.rename(path)
    time.sleep(NOTICED_S)


OPERATIONS = {
    "get": lambda cache: cache.get("absent"),
    "in": lambda cache: "absent" in cache,
    "iteration": list,
    "set": lambda cache: cache.set("key", 1),
    "add": lambda cache: cache.add("other", 1),
    "incr": lambda cache: cache.incr("number", default=0),
    "touch": lambda cache: cache.touch("key", ttl=9),
    "clear": lambda cache: cache.clear(),
    "check": lambda cache: cache.check(),
}


@pytest.mark.parametrize("length", [0, 4096, 20_000])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_file_that_was_cut_is_lost(tmp_path: Path, name: str, length: int) -> None:
    path = tmp_path / "cut.tuck"
    with Cache(path, size="1 MiB") as cache:
        cache.set("key", b"value" * 100)
        os.truncate(path, length)
        with pytest.raises(CacheLost, match="again") as caught:
            # What lies before the cut may still be told.
            for _ in range(2):
                OPERATIONS[name](cache)
            cache.set("large", bytes(100_000))
        assert caught.value.filename == str(path)
        with pytest.raises(CacheLost, match=r"cannot be opened again: .*remove the file"):
            cache.set("key", 1)
        path.unlink()
        cache.set("key", 2)
        assert (cache.get("key"), cache.size) == (2, 1 << 20)


@pytest.mark.parametrize("name", ["set", "add", "incr", "touch", "clear", "check"])
def test_a_write_after_the_file_was_removed_creates_it_again(tmp_path: Path, name: str) -> None:
    path = tmp_path / "gone.tuck"
    with Cache(path, size="1 MB") as cache:
        cache.set("before", 1)
        remove(path)
        OPERATIONS[name](cache)
        assert cache.get("before") is None
        cache.set("after", 2)
        assert cache.stats().reopened == 1
        assert (cache.size, path.stat().st_size <= 1_000_000) == (1_000_000, True)
        with Cache(path) as other:
            assert other.get("after") == 2


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("read", ["get", "get_entry", "get_many", "in", "iteration", "len"])
def test_a_handle_that_only_reads_follows_at_its_first_miss(
    tmp_path: Path, read: str, read_only: bool
) -> None:
    path = tmp_path / "replaced.tuck"
    Cache(path).set("key", 1)
    reader = Cache(path, read_only=read_only)
    replace(path, key=2, other=3)
    # A hit makes no system call, so it notices nothing. Nobody has emptied the removed file.
    assert reader.get("key") == 1
    reads: dict[str, Any] = {
        "get": lambda: reader.get("other") == 3,
        "get_entry": lambda: reader.get_entry("other").value == 3,
        "get_many": lambda: reader.get_many(["none", "key", "other"])["other"] == 3,
        "in": lambda: "other" in reader,
        "iteration": lambda: sorted(reader.items()) == [("key", 2), ("other", 3)],
        "len": lambda: len(reader) == 2,
    }
    assert reads[read]()
    assert reader.get("key") == 2
    assert reader.stats().reopened == 1


def test_the_first_handle_that_notices_makes_the_others_miss(tmp_path: Path) -> None:
    path = tmp_path / "gone.tuck"
    with Cache(path) as writer, Cache(path) as reader:
        writer.set("key", 1)
        remove(path)
        writer.set("key", 2)
        assert reader.get("key") == 2


@pytest.mark.parametrize("read_only", [False, True])
def test_reads_without_a_file_are_misses_and_create_none(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "gone.tuck"
    Cache(path).set("key", 1)
    with Cache(path, read_only=read_only) as reader:
        remove(path)
        assert reader.get("other") is None
        # From the first miss on, also what was in the removed file.
        assert reader.get("key", "default") == "default"
        assert (reader.get_many(["key"]), list(reader), len(reader)) == ({}, [], 0)
        assert "key" not in reader
        assert reader.get_entry("key") is None
        assert not path.exists()
        if read_only:
            with pytest.raises(CacheReadOnly):
                reader.set("key", 1)
            Cache(path).set("key", 2)
            time.sleep(NOTICED_S)
        else:
            reader.set("key", 2)
        assert reader.get("key") == 2


def test_a_removed_file_gives_its_space_back(tmp_path: Path) -> None:
    path = tmp_path / "gone.tuck"
    with Cache(path) as cache, Cache(path, read_only=True) as reader:
        for removed in range(3):
            cache.set("key", bytes(100_000))
            time.sleep(NOTICED_S)
            assert reader.get("key") == bytes(100_000)
            assert reader.stats().reopened == removed
            remove(path)
            assert reader.get("other") is None
            cache.get("other")
            assert "gone.tuck" not in "".join(in_use())


def in_use() -> list[str]:
    """What this process keeps from being freed: the files that it maps, and those it has open."""
    maps = Path("/proc/self/maps").read_text()
    open_files = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            open_files.append(os.readlink(f"/proc/self/fd/{number}"))
    return [line for line in [*maps.splitlines(), *open_files] if "deleted" in line]


def test_an_iteration_does_not_go_on_in_another_file(tmp_path: Path) -> None:
    path = tmp_path / "replaced.tuck"
    with Cache(path) as cache:
        cache.set_many({"a": 1, "b": 2})
        keys = iter(cache)
        next(keys)
        replace(path, c=3)
        cache.get("none")
        with pytest.raises(CacheLost, match="start the iteration again"):
            next(keys)
        assert list(cache) == ["c"]


@pytest.mark.parametrize("kind", ["a directory", "not a Tuckbox cache"])
def test_what_cannot_be_opened_in_its_place_is_an_error_until_it_is_removed(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "gone.tuck"
    with Cache(path) as cache:
        cache.set("key", 1)
        path.unlink()
        if kind == "a directory":
            path.mkdir()
        else:
            path.write_text("notes of somebody")
        time.sleep(NOTICED_S)
        for _ in range(2):
            with pytest.raises(CacheLost, match=rf"cannot be opened again: .*{kind}"):
                cache.set("key", 2)
        with pytest.raises(CacheLost, match=kind):
            cache.get("key")
        path.rmdir() if kind == "a directory" else path.unlink()
        cache.set("key", 3)
        assert cache.get("key") == 3


def test_threads_follow_a_file_that_is_replaced_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "replaced.tuck"
    over, problems = threading.Event(), []

    def use(cache: Cache, number: int) -> None:
        try:
            count = 0
            while not over.is_set():
                count += 1
                cache.set(number, count)
                found = cache.get(number)
                assert found in {None, count}, (found, count)
                cache.get_many(["none", number])
        except BaseException as error:
            problems.append(error)

    with Cache(path, size="1 MB") as cache:
        threads = [threading.Thread(target=use, args=(cache, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for replaced in range(1, 4):
            replace(path, other=1)
            give_up_s = time.monotonic() + 60
            while cache.stats().reopened < replaced and time.monotonic() < give_up_s:
                time.sleep(0.01)
            assert cache.stats().reopened == replaced
        over.set()
        for thread in threads:
            thread.join()
        assert not problems
        cache.set("last", 1)
        with Cache(path) as other:
            assert other.get("last") == 1
            assert other.check().is_sound


def test_a_forked_child_follows_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "gone.tuck"
    with Cache(path) as cache:
        cache.set("key", 1)
        remove(path)
        child = os.fork()
        if child == 0:
            cache.set("child", 1)
            os._exit(0 if cache.get("child") == 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
        cache.set("parent", 2)
        assert (cache.get("child"), cache.get("parent")) == (1, 2)


def test_a_cache_in_memory_is_created_again_with_its_folder(memory: Path) -> None:
    """As after a logout, when systemd removes both."""
    with Cache("pages") as cache:
        copy = pickle.loads(pickle.dumps(cache))
        cache.set("key", 1)
        for handle in (cache, copy):
            shutil.rmtree(memory / f"tuckbox-{os.geteuid()}")
            time.sleep(NOTICED_S)
            handle.set("key", 2)
            assert stat.S_IMODE(Path(cache.path).parent.stat().st_mode) == 0o700
            assert (cache.get("key"), copy.get("key")) == (2, 2)


def test_a_directory_that_the_user_made_is_not_created_again(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    with Cache(folder / "gone.tuck") as cache:
        shutil.rmtree(folder)
        time.sleep(NOTICED_S)
        with pytest.raises(CacheLost, match=r"cannot be opened again: .*does not exist"):
            cache.set("key", 1)
        assert not folder.exists()


def test_a_mount_of_the_file_alone_cannot_follow_and_says_so(tmp_path: Path) -> None:
    path, mounted = tmp_path / "app.tuck", tmp_path / "mounted.tuck"
    Cache(path, size="2 MB").set("key", 1)
    mounted.touch(mode=0o600)
    prefix = ("unshare", "--mount", "sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"')
    demand((*prefix, "sh", str(path), str(mounted)))
    code = f"""
        from tuckbox import Cache
        from tuckbox.errors import CacheLost
        cache = Cache({str(mounted)!r})
        print(cache.get("key"), flush=True)
        input()
        for act in (lambda: cache.get("key"), lambda: cache.set("key", 2)):
            try:
                act()
            except CacheLost as error:
                print(error, flush=True)
    """
    command = [*prefix, "sh", str(path), str(mounted), sys.executable, "-c", textwrap.dedent(code)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "1\n"
        Cache(path, size="4 MB").close()
        answers = child.communicate("\n", timeout=60)[0].splitlines()
    assert len(answers) == 2
    assert all("mount its directory" in answer for answer in answers), answers


def test_a_closed_handle_opens_nothing(tmp_path: Path) -> None:
    path = tmp_path / "gone.tuck"
    cache = Cache(path)
    remove(path)
    cache.close()
    with pytest.raises(CacheClosed):
        cache.set("key", 1)
    with pytest.raises(CacheClosed):
        cache.get("key")
    assert not path.exists()


def test_a_file_that_was_moved_away_is_used_until_another_is_in_its_place(tmp_path: Path) -> None:
    path, kept = tmp_path / "moved.tuck", tmp_path / "kept.tuck"
    with Cache(path) as cache:
        cache.set("key", 1)
        path.rename(kept)
        time.sleep(NOTICED_S)
        cache.set("key", 2)
        with Cache(path, size="2 MB") as other:
            time.sleep(NOTICED_S)
            cache.set("key", 3)
            assert other.get("key") == 3
            assert cache.size == 2_000_000
    with Cache(kept) as cache:
        assert cache.get("key") == 2


def test_a_program_that_changes_its_directory_keeps_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with Cache("./relative.tuck") as cache:
        monkeypatch.chdir(tmp_path / "elsewhere")
        Cache("./relative.tuck").close()
        time.sleep(NOTICED_S)
        cache.set("key", 1)
        assert cache.get("key") == 1


def test_a_private_cache_is_never_lost() -> None:
    with Cache() as cache:
        cache.set("key", 1)
        time.sleep(NOTICED_S)
        cache.set("key", 2)
        assert cache.get("key") == 2


PROGRAM = """
import faulthandler, mmap, os, signal, sys
from tuckbox import Cache
from tuckbox.errors import CacheClosed, CacheLost, CacheReadOnly
cache = Cache(sys.argv[1], size="1 MiB")
cache.set("key", bytes(1000))
{setup}
os.truncate(sys.argv[1], 0)
try:
    cache.set("key", 1)
except CacheLost:
    print("lost")
"""


def run(tmp_path: Path, setup: str) -> subprocess.CompletedProcess[Any]:
    program = PROGRAM.format(setup=textwrap.dedent(setup))
    command = [sys.executable, "-c", program, str(tmp_path / "app.tuck")]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_faulthandler_may_be_enabled_after_the_cache_was_opened(tmp_path: Path) -> None:
    result = run(tmp_path, "faulthandler.enable()")
    assert (result.returncode, result.stdout) == (0, "lost\n"), result.stderr


def test_a_bus_error_that_is_not_about_a_cache_ends_the_program(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_bytes(bytes(4096))
    setup = f"""
    file = open({str(own)!r}, "r+b")
    memory = mmap.mmap(file.fileno(), 4096)
    os.truncate({str(own)!r}, 0)
    memory[0]
    """
    assert run(tmp_path, setup).returncode == -signal.SIGBUS


def test_a_bus_error_that_is_sent_ends_the_program(tmp_path: Path) -> None:
    result = run(tmp_path, "os.kill(os.getpid(), signal.SIGBUS)")
    assert result.returncode == -signal.SIGBUS
