"""Opening and making a cache: sizes, limits, and everything that can be wrong with a path."""

from __future__ import annotations

import math
import os
import pickle
import resource
import socket
import stat
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reliability.actors import common_folder
from reliability.boots import demand
from tuckbox import Cache
from tuckbox.errors import (
    CacheCorrupt,
    CacheOpenError,
    DirectoryMissing,
    InvalidFavour,
    InvalidLockTimeout,
    InvalidMaxEntries,
    InvalidSize,
    NotACache,
    NotAFile,
    SizeMismatchWarning,
    VersionMismatch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Offsets in the header that are the same in every version of the format.
FORMAT_VERSION_AT = 8
HASH_KEY_AT = 48


class TestPath:
    def test_makes_the_file_with_rights_for_its_owner_alone(self, path: str) -> None:
        old_mask = os.umask(0)
        try:
            Cache(path).close()
        finally:
            os.umask(old_mask)
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
        assert os.listdir(Path(path).parent) == [Path(path).name]

    @pytest.mark.parametrize("kind", [str, Path, os.fsencode])
    def test_takes_every_kind_of_path(
        self, opened: Any, path: str, kind: Callable[..., Any]
    ) -> None:
        assert opened(kind(path)).path == path

    def test_names_may_be_in_any_script(self, opened: Any, tmp_path: Path) -> None:
        for name in ("кэш.tuck", "with space", "-x", "\udcff.tuck"):
            cache = opened(tmp_path / name)
            assert cache.path == str(tmp_path / name)
            assert (tmp_path / name).exists()

    def test_the_same_file_twice_is_one_cache(self, opened: Any, path: str) -> None:
        one, other = opened(path), opened(path)
        one["k"] = 1
        assert other["k"] == 1

    @pytest.mark.parametrize("path", [1, 1.5, ["x"], object()], ids=type)
    def test_what_is_no_path_is_a_type_error(self, path: object) -> None:
        with pytest.raises(TypeError, match="PathLike"):
            Cache(path)  # type: ignore[arg-type]

    def test_in_a_missing_directory(self, tmp_path: Path) -> None:
        path = tmp_path / "missing" / "cache.tuck"
        with pytest.raises(DirectoryMissing, match=r"missing does not exist; create it") as caught:
            Cache(path)
        assert isinstance(caught.value, FileNotFoundError)
        assert (caught.value.errno, caught.value.filename) == (2, str(path))
        assert os.listdir(tmp_path) == []

    def test_below_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("content")
        with pytest.raises(CacheOpenError, match="Not a directory"):
            Cache(tmp_path / "file" / "cache.tuck")
        assert (tmp_path / "file").read_text() == "content"

    def test_a_name_that_the_system_cannot_take(self, tmp_path: Path) -> None:
        for name in ("x" * 300, "nul\0inside"):
            with pytest.raises(CacheOpenError) as caught:
                Cache(tmp_path / name)
            assert caught.value.filename == str(tmp_path / name)
        assert os.listdir(tmp_path) == []


def a_directory(path: Path) -> None:
    path.mkdir()


def a_named_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def a_symbolic_link(path: Path) -> None:
    target = path.with_name("target")
    target.write_text("content")
    path.symlink_to(target)


@pytest.mark.parametrize("make", [a_directory, a_named_pipe, a_socket, a_symbolic_link])
def test_what_is_not_a_file_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "cache.tuck"
    make(path)
    before = path.lstat()
    name = make.__name__.replace("_", " ")
    with pytest.raises(NotAFile, match=f"is {name}, not a cache file; give the path") as caught:
        Cache(path)
    assert caught.value.filename == str(path)
    after = path.lstat()
    assert (before.st_mode, before.st_mtime_ns) == (after.st_mode, after.st_mtime_ns)


def test_a_device_is_refused() -> None:
    with pytest.raises(NotAFile, match="is a device"):
        Cache("/dev/zero")


FOREIGN = {
    "empty": b"",
    "one byte": b"x",
    "short text": b"precious\n",
    "long text": b"precious\n" * 10_000,
    "sqlite": b"SQLite format 3\0" + bytes(8176),
    "zeros": bytes(100_000),
    "half our magic": b"Tuck" + bytes(8188),
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_is_left_byte_for_byte(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    before = Path(path).stat()
    with pytest.raises(NotACache, match=r"is not a Tuckbox cache.*was not changed") as caught:
        Cache(path)
    assert caught.value.filename == path
    assert Path(path).read_bytes() == content
    assert Path(path).stat().st_mtime_ns == before.st_mtime_ns
    assert os.listdir(Path(path).parent) == [Path(path).name]


def patched(path: str, at: int, change: bytes) -> bytes:
    Cache(path, size="1 MiB").close()
    content = bytearray(Path(path).read_bytes())
    content[at : at + len(change)] = bytes(
        old ^ new for old, new in zip(content[at : at + len(change)], change)
    )
    Path(path).write_bytes(content)
    return bytes(content)


def test_a_cache_of_another_version_is_left_byte_for_byte(path: str) -> None:
    content = patched(path, FORMAT_VERSION_AT, b"\x62")
    with pytest.raises(VersionMismatch, match=r"has format .*reads format .*not changed") as caught:
        Cache(path)
    assert caught.value.filename == path
    assert Path(path).read_bytes() == content


def test_a_cache_with_a_damaged_header_is_left_byte_for_byte(path: str) -> None:
    content = patched(path, HASH_KEY_AT, b"\x01")
    with pytest.raises(CacheCorrupt, match=r"is damaged.*checksum.*remove the file") as caught:
        Cache(path)
    assert caught.value.filename == path
    assert Path(path).read_bytes() == content


def test_a_cache_cut_down_to_its_header_is_left_byte_for_byte(path: str) -> None:
    Cache(path, size="1 MiB").close()
    content = Path(path).read_bytes()[:8192]
    Path(path).write_bytes(content)
    with pytest.raises(CacheCorrupt, match="truncated"):
        Cache(path)
    assert Path(path).read_bytes() == content


def test_a_cache_whose_end_was_cut_off_gives_right_values_or_none(path: str) -> None:
    code = """
import sys
from tuckbox import Cache
from tuckbox.errors import CacheCorrupt
try:
    cache = Cache(sys.argv[1])
except CacheCorrupt:
    print("refused")
else:
    found = sum(cache.get(n, n.to_bytes(4, "big") * 20) == n.to_bytes(4, "big") * 20
                for n in range(4000))
    cache["new"] = "value"
    assert cache["new"] == "value"
    cache.check()
    assert cache.check().is_sound
    print(found)
"""
    with Cache(path, size="1 MiB") as cache:
        for number in range(4000):
            cache[number] = number.to_bytes(4, "big") * 20
    content = Path(path).read_bytes()
    for length in range(len(content) - 4096, 0, -(len(content) // 7)):
        Path(path).write_bytes(content[:length])
        assert run(code, path).strip() in {"4000", "refused"}


class Indexed:
    """A whole number that is no int, as of NumPy."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return f"Indexed({self.number})"


class TestSize:
    def test_default_is_64_mib(self, opened: Any) -> None:
        assert opened().size == 64 << 20

    @pytest.mark.parametrize(
        ("size", "size_bytes"),
        [
            (300_000, 300_000),
            ("300000 B", 300_000),
            ("300 kB", 300_000),
            ("300KB", 300_000),
            ("1 MB", 1_000_000),
            ("1.5 mb", 1_500_000),
            (" 256\tKiB ", 262_144),
            ("0.5MiB", 524_288),
            ("0.002 gb", 2_000_000),
            ("0.001GiB", 1_073_741),
            ("0.000002TB", 2_000_000),
            ("64M", 64 << 20),
            ("0.5 m", 1 << 19),
            ("256k", 256 << 10),
            ("0.001G", 1_073_741),
            ("0.0001t", 109_951_162),
            (1.5e6, 1_500_000),
            (Indexed(300_000), 300_000),
        ],
        ids=repr,
    )
    def test_is_what_was_asked_for(
        self, opened: Any, path: str, size: int | str, size_bytes: int
    ) -> None:
        cache = opened(path, size=size)
        assert cache.size == size_bytes
        assert cache.stats().size_bytes == size_bytes
        assert Path(path).stat().st_size <= size_bytes

    @pytest.mark.parametrize(
        "size",
        ["", "MB", "10", "10 P", "10 bits", "-1 MB", "1e6 B", "1,5 MB", "1_000 B", "٣ MB", "nan B"],
    )
    def test_a_string_that_is_no_size(self, path: str, size: str) -> None:
        with pytest.raises(
            InvalidSize, match=r'(is not a size|has no unit); give bytes as an int, or .*"64 KiB"'
        ):
            Cache(path, size=size)
        assert not Path(path).exists()

    @pytest.mark.parametrize(
        "size", [0, -1, 0.0, -1e6, 1e300, "0 MB", "0.4 B", 2**63, "9000000000 TB"]
    )
    def test_a_number_that_is_no_size(self, path: str, size: int | str) -> None:
        with pytest.raises(InvalidSize, match="size must be between 1 and"):
            Cache(path, size=size)
        assert not Path(path).exists()

    @pytest.mark.parametrize("size", [1.5, math.inf, math.nan], ids=repr)
    def test_a_fraction_that_is_no_size(self, path: str, size: float) -> None:
        with pytest.raises(InvalidSize, match=f"size {size} is not a whole number of bytes; give"):
            Cache(path, size=size)
        assert not Path(path).exists()

    @pytest.mark.parametrize("size", [True, b"1 MB", [1], 1j], ids=repr)
    def test_a_type_that_is_no_size(self, path: str, size: Any) -> None:
        with pytest.raises(InvalidSize, match=f"number or a str, not {type(size).__name__}"):
            Cache(path, size=size)
        assert not Path(path).exists()

    @pytest.mark.parametrize("size", [1, 4096, "10 kB"])
    def test_too_small(self, path: str, size: int | str) -> None:
        with pytest.raises(InvalidSize, match=r"is too small; the minimum is \d+ bytes"):
            Cache(path, size=size)
        assert not Path(path).exists()

    @pytest.mark.parametrize("size", [2**43 + 1, "10000 TB", 2**63 - 1])
    def test_larger_than_any_cache(self, path: str, size: int | str) -> None:
        with pytest.raises(InvalidSize, match=r"is too large; the maximum is 8796093022208 bytes"):
            Cache(path, size=size)
        assert not Path(path).exists()
        with pytest.raises(InvalidSize, match="is too large"):
            Cache(size=size)

    def test_larger_than_the_machine(self) -> None:
        with pytest.raises(InvalidSize, match=r"(has|use) only \d+ bytes of memory and swap"):
            Cache(size="8 TiB")

    def test_the_least_works_and_a_byte_less_does_not(self, opened: Any, path: str) -> None:
        with pytest.raises(InvalidSize) as caught:
            Cache(path, size=1)
        least_bytes = int(str(caught.value).split()[-2])
        with pytest.raises(InvalidSize):
            Cache(path, size=least_bytes - 1)
        cache = opened(path, size=least_bytes)
        for number in range(1000):
            cache[number] = "x" * 50
        assert cache[999] == "x" * 50

    def test_64_kib_is_enough(self, opened: Any, path: str) -> None:
        cache = opened(path, size="64 KiB")
        cache["k"] = "v"
        assert cache["k"] == "v"

    def test_a_warning_names_the_file_and_the_line(self, opened: Any, path: str) -> None:
        opened(path, size="2 MiB")["k"] = 1
        with pytest.warns(SizeMismatchWarning, match="keeps size 2,097,152 bytes") as caught:
            cache = opened(path, size="4 MiB")
        assert "not 4,194,304 bytes: another program" in str(caught[0].message)
        assert path in str(caught[0].message)
        assert caught[0].filename == __file__ or "conftest" in caught[0].filename
        assert cache.size == 2 << 20
        assert cache["k"] == 1

    def test_no_warning_without_a_size_or_with_the_same(self, opened: Any, path: str) -> None:
        opened(path, size="2 MiB", max_entries=10)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert opened(path).size == 2 << 20
            assert opened(path, size=2 << 20, max_entries=10).max_entries == 10


class TestMaxEntries:
    def test_is_a_limit(self, opened: Any, path: str) -> None:
        cache = opened(path, max_entries=100)
        assert cache.max_entries == 100
        for number in range(1000):
            cache[number] = number
            assert len(cache) <= 100
        assert len(cache) > 50

    def test_default_is_none(self, cache: Cache) -> None:
        assert cache.max_entries is None

    @pytest.mark.parametrize(
        "limit",
        [0, -1, 2**63, 10**5000],
        ids=lambda limit: f"{limit:.3e}" if limit < 2**64 else "huge",
    )
    def test_out_of_range(self, path: str, limit: int) -> None:
        with pytest.raises(InvalidMaxEntries, match="max_entries must be between 1 and"):
            Cache(path, max_entries=limit)
        assert not Path(path).exists()

    def test_more_than_the_engine_can_count(self, path: str) -> None:
        with pytest.raises(InvalidMaxEntries, match=r"max_entries is .*between 1 and"):
            Cache(path, max_entries=2**63 - 1)
        assert not Path(path).exists()

    @pytest.mark.parametrize("limit", [1.0, True, "10"], ids=repr)
    def test_of_a_wrong_type(self, path: str, limit: Any) -> None:
        with pytest.raises(InvalidMaxEntries, match="must be an int or None, not"):
            Cache(path, max_entries=limit)
        assert not Path(path).exists()

    def test_another_programs_limit_wins_with_a_warning(self, opened: Any, path: str) -> None:
        opened(path, max_entries=7)
        with pytest.warns(SizeMismatchWarning, match="keeps max_entries 7, not 5: another program"):
            assert opened(path, max_entries=5).max_entries == 7


class TestFavour:
    @pytest.mark.parametrize("favour", ["balanced", "hits", "bytes"])
    def test_is_kept_by_the_file(self, opened: Any, path: str, favour: Any) -> None:
        assert opened(path, favour=favour).favour == favour
        assert opened(path).favour == favour

    def test_default_is_balanced(self, cache: Cache) -> None:
        assert cache.favour == "balanced"

    @pytest.mark.parametrize("favour", ["", "HITS", "size", 1, b"hits", ["hits"]], ids=repr)
    def test_of_no_such_name(self, path: str, favour: Any) -> None:
        with pytest.raises(InvalidFavour, match="favour must be one of 'balanced', 'hits', 'byt"):
            Cache(path, favour=favour)
        assert not Path(path).exists()

    def test_another_programs_wins_with_a_warning(self, opened: Any, path: str) -> None:
        opened(path, favour="hits")
        with pytest.warns(SizeMismatchWarning, match="keeps favour hits, not bytes: another prog"):
            assert opened(path, favour="bytes").favour == "hits"

    def test_survives_pickling(self, opened: Any, path: str) -> None:
        copy = pickle.loads(pickle.dumps(opened(path, favour="bytes")))
        assert copy.favour == "bytes"
        copy.close()


class TestLockTimeout:
    @pytest.mark.parametrize("seconds", [0, 0.5, 1, 3600])
    def test_is_kept(self, opened: Any, seconds: float) -> None:
        cache = opened(lock_timeout=seconds)
        assert cache.lock_timeout == seconds
        cache["k"] = 1

    @pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, 1e300, 10**400], ids=lambda s: "x")
    def test_out_of_range(self, seconds: float) -> None:
        with pytest.raises(InvalidLockTimeout, match="lock_timeout must be a number of seconds"):
            Cache(lock_timeout=seconds)

    @pytest.mark.parametrize("seconds", [None, True, "1"], ids=repr)
    def test_of_a_wrong_type(self, seconds: Any) -> None:
        with pytest.raises(InvalidLockTimeout, match="must be a number of seconds, not"):
            Cache(lock_timeout=seconds)


def run(code: str, *arguments: str) -> str:
    """Run a program with limits of its own."""
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.skipif(
    os.geteuid() != 0 and "CI" not in os.environ,
    reason="takes on another user's identity, as root can",
)
class TestRights:
    CODE = """
import os, sys
from tuckbox import Cache
from tuckbox.errors import AccessDenied
os.setgid(65534), os.setuid(65534)
try:
    Cache(sys.argv[1])
except AccessDenied as error:
    assert isinstance(error, PermissionError)
    print(error.errno, error.filename, error)
"""

    @pytest.fixture
    def tmp_path(self) -> Iterator[Path]:
        with common_folder() as folder:
            yield folder

    def test_a_file_that_this_user_may_not_open(self, tmp_path: Path) -> None:
        path = tmp_path / "cache.tuck"
        with Cache(path) as cache:
            cache["k"] = 1
        content = path.read_bytes()
        answer = run(self.CODE, str(path))
        assert answer.startswith(f"13 {path} cannot open {path}: Permission denied")
        assert "must be able to read and write the file" in answer
        assert path.read_bytes() == content

    def test_a_directory_that_this_user_may_not_write(self, tmp_path: Path) -> None:
        path = tmp_path / "cache.tuck"
        answer = run(self.CODE, str(path))
        assert answer.startswith(f"13 {path} cannot create {path}: Permission denied")
        assert os.listdir(tmp_path) == []


class TestNoSpace:
    """A limit on the length of files stands for a file system that is full."""

    def test_no_room_for_the_file(self, path: str) -> None:
        code = f"""
import resource, sys
from tuckbox import Cache
from tuckbox.errors import CacheFull
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, {resource.RLIM_INFINITY}))
try:
    Cache(sys.argv[1])
except CacheFull as error:
    print(error.errno, error.filename, error)
"""
        answer = run(code, path)
        assert answer.startswith(f"28 {path} no space left for {path}")
        assert "free some space" in answer
        assert os.listdir(Path(path).parent) == []

    def test_no_room_to_grow_loses_nothing_unrelated(self, path: str) -> None:
        code = f"""
import os, resource, sys
from tuckbox import Cache
from tuckbox.errors import CacheFull
cache = Cache(sys.argv[1], size="64 MiB")
cache["first"] = "value"
length = os.stat(sys.argv[1]).st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (length, {resource.RLIM_INFINITY}))
try:
    cache["large"] = b"x" * (10 << 20)
except CacheFull as error:
    print(error.errno, error.filename, error)
assert cache["first"] == "value"
assert "large" not in cache
for number in range(50_000):
    cache[number] = b"y" * 200  # Goes on within the room that there is.
assert cache[number] == b"y" * 200
assert cache.check().is_sound
assert os.stat(sys.argv[1]).st_size == length
"""
        answer = run(code, path)
        sentences = ("no room for", f"no space left for {path}")
        assert answer.startswith(tuple(f"28 {path} {sentence}" for sentence in sentences)), answer


class TestWithoutProc:
    """A chroot or container that has no /proc."""

    prefix = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")

    def run(self, code: str, path: str) -> str:
        demand(self.prefix)
        command = [*self.prefix, sys.executable, "-c", code, path]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def test_says_what_is_missing(self, path: str, tmp_path: Path) -> None:
        with Cache(path) as cache:
            cache["key"] = "value"
        code = """
import sys
from tuckbox import Cache
from tuckbox.errors import CacheOpenError
for name in (sys.argv[1], sys.argv[1] + ".new", None):
    try:
        Cache(name)
    except CacheOpenError as error:
        print(type(error).__name__, error)
"""
        names = (path, f"{path}.new", "(private cache)")
        assert self.run(code, path).splitlines() == [
            f"CacheOpenError cannot take a process slot of {name}: there is no /proc/self/fd; "
            "mount /proc in this chroot or container, or open an existing cache with read_only"
            for name in names
        ]
        assert os.listdir(tmp_path) == [Path(path).name]

    def test_can_read(self, path: str) -> None:
        with Cache(path) as cache:
            cache.set("key", "value", ttl=60)
            code = """
import sys
from tuckbox import Cache
with Cache(sys.argv[1], read_only=True) as cache:
    print(cache["key"])
"""
            assert self.run(code, path) == "value\n"
