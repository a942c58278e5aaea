"""Where a cache is: a name in memory, a file, or no path at all."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reliability.boots import demand
from tuckbox import Cache, places
from tuckbox.errors import (
    AccessDenied,
    DirectoryMissing,
    FileMissing,
    InvalidGroup,
    InvalidPath,
    NotAFile,
    UnsafeFile,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES_REFUSED = ["with space", "кэш", ".hidden", "-x", "..", ".", "a\nb", "x" * 101, "a:b", "nul\0"]


class Named:
    """A path of a class of its own."""

    def __repr__(self) -> str:
        return "Named()"

    def __fspath__(self) -> str:
        return "app.tuck"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a test."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


class TestName:
    @pytest.fixture
    def name(self) -> Iterator[str]:
        """A name that nobody else uses, in the real folder. Ask for it before `opened`, so that the
        cache is closed when its file is removed."""
        name = f"test-{uuid.uuid4().hex}"
        yield name
        for file in Path("/dev/shm").glob(f"tuckbox-*/{name}"):
            file.unlink()

    def test_is_a_file_in_memory_that_only_this_user_can_reach(
        self, name: str, opened: Any, here: Path
    ) -> None:
        cache = opened(name)
        file = Path(f"/dev/shm/tuckbox-{os.geteuid()}/{name}")
        assert cache.path == str(file)
        assert repr(cache) == f"<Cache '{file}'>"
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert os.listdir(here) == []

    def test_is_the_same_cache_in_every_process_and_directory(
        self, name: str, opened: Any, here: Path
    ) -> None:
        cache = opened(name)
        cache["here"] = 1
        code = "import sys, tuckbox; c = tuckbox.Cache(sys.argv[1]); c['there'] = c['here'] + 1"
        subprocess.run([sys.executable, "-c", code, name], cwd="/", check=True)
        assert cache["there"] == 2

    @pytest.mark.skipif(os.geteuid() != 0, reason="takes on another user's identity, as root can")
    def test_belongs_to_the_user(self, name: str, opened: Any) -> None:
        cache = opened(name)
        cache["mine"] = 1
        code = """
import os, sys
from tuckbox import Cache
os.setgid(65534), os.setuid(65534)
with Cache(sys.argv[1]) as cache:
    print(cache.path, len(cache))
"""
        done = subprocess.run(
            [sys.executable, "-c", code, name], capture_output=True, text=True, check=True
        )
        assert done.stdout == f"/dev/shm/tuckbox-65534/{name} 0\n"

    @pytest.mark.parametrize("name", ["pages", "app.cache", "a", "0", "A-b_c.d", "x" * 100])
    def test_may_have_a_suffix(self, opened: Any, memory: Path, name: str) -> None:
        assert opened(name).path == str(memory / f"tuckbox-{os.geteuid()}" / name)

    def test_with_the_suffix_of_files_is_refused(self, memory: Path, here: Path) -> None:
        with pytest.raises(InvalidPath, match="would be the name of a cache in memory") as caught:
            Cache("app.tuck")
        assert "give './app.tuck'" in str(caught.value)
        assert os.listdir(memory) == os.listdir(here) == []

    @pytest.mark.parametrize("name", NAMES_REFUSED, ids=ascii)
    def test_of_other_characters_is_refused_before_a_folder_is_made(
        self, memory: Path, here: Path, name: str
    ) -> None:
        with pytest.raises(InvalidPath, match="not a valid name: use up to 100 letters") as caught:
            Cache(name)
        assert repr(f"./{name}") in str(caught.value)
        assert os.listdir(memory) == os.listdir(here) == []

    @pytest.mark.parametrize("name", ["with space", "кэш", ".hidden", "-x", "a:b"])
    def test_of_other_characters_can_be_a_file_as_the_error_says(
        self, opened: Any, here: Path, name: str
    ) -> None:
        opened(f"./{name}")
        assert os.listdir(here) == [name]

    def test_can_be_pickled(self, opened: Any, memory: Path, here: Path) -> None:
        cache = opened("pages")
        cache["k"] = 1
        os.chdir("/")
        with pickle.loads(pickle.dumps(cache)) as copy:
            assert copy["k"] == 1
            assert copy.path == cache.path

    def test_that_does_not_exist_cannot_be_read(self, memory: Path) -> None:
        with pytest.raises(FileMissing, match="open it without read_only first"):
            Cache("pages", read_only=True)
        assert os.listdir(memory) == []
        Cache("other").close()
        with pytest.raises(FileMissing, match="open it without read_only first"):
            Cache("pages", read_only=True)
        Cache("pages").close()
        Cache("pages", read_only=True).close()

    def test_cannot_be_shared_with_a_group(self, memory: Path) -> None:
        with pytest.raises(InvalidGroup, match="group needs the path of a file"):
            Cache("pages", group=os.getegid())
        assert os.listdir(memory) == []

    def test_is_not_looked_for_in_a_folder_that_others_can_enter(self, memory: Path) -> None:
        (memory / f"tuckbox-{os.geteuid()}").mkdir(mode=0o755)
        with pytest.raises(AccessDenied, match=r"mode 0700.*an absolute path instead of a name"):
            Cache("pages")

    def test_is_not_read_in_a_folder_that_others_can_enter(self, memory: Path, opened: Any) -> None:
        cache = opened("pages")
        cache["key"] = "value"
        copied = pickle.dumps(cache)
        assert pickle.loads(copied)["key"] == "value"
        cache.close()
        # As if another user had created it before this one did.
        (memory / f"tuckbox-{os.geteuid()}").chmod(0o755)
        for look in (lambda: Cache("pages", read_only=True), lambda: pickle.loads(copied)):
            with pytest.raises(UnsafeFile, match="not a directory that only you can enter"):
                look()

    def test_needs_a_file_system_in_memory(
        self, memory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(places, "MEMORY", memory / "missing")
        with pytest.raises(DirectoryMissing, match="an absolute path instead of a name"):
            Cache("pages")


class TestPath:
    @pytest.mark.parametrize(
        "path", ["./app.tuck", Path("app.tuck"), b"app.tuck", b"./app.tuck", Named()], ids=repr
    )
    def test_with_a_slash_or_of_another_type_is_a_file(
        self, opened: Any, here: Path, path: Any
    ) -> None:
        cache = opened(path)
        assert cache.path == str(here / "app.tuck")
        assert repr(cache) == f"<Cache '{here}/app.tuck'>"
        assert os.listdir(here) == ["app.tuck"]

    @pytest.mark.parametrize("path", ["~/app.tuck", Path("~/app.tuck"), b"~/app.tuck"], ids=repr)
    def test_may_begin_with_the_home_directory(
        self, opened: Any, tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch, path: Any
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        cache = opened(path)
        assert cache.path == str(tmp_path / "app.tuck")
        assert os.listdir(here) == []

    @pytest.mark.skipif(
        not os.path.isdir("/sys/kernel/mm/transparent_hugepage"),
        reason="this kernel has no huge pages",
    )
    def test_on_a_file_system_with_huge_pages_has_them(self, tmp_path: Path) -> None:
        mount = 'mount -t tmpfs -o huge=always none "$1" && shift && exec "$@"'
        prefix = ("unshare", "--mount", "sh", "-c", mount, "sh", str(tmp_path))
        demand(prefix)
        code = """
import sys
from tuckbox import Cache
cache = Cache(sys.argv[1], size="64 MB")
for number in range(32_000):
    cache[number] = b"x" * 1000
with open("/proc/self/smaps") as lines:
    print(sum(int(line.split()[1]) for line in lines if line.startswith("ShmemPmdMapped:")))
"""
        command = [*prefix, sys.executable, "-c", code, str(tmp_path / "app.tuck")]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        # KiB. More are usual, but the kernel need not find free memory in one piece.
        assert int(ran.stdout) > 0

    def test_in_a_folder_that_is_called_like_the_home_directory(
        self, opened: Any, here: Path
    ) -> None:
        (here / "~").mkdir()
        assert opened("./~/app.tuck").path == str(here / "~" / "app.tuck")

    @pytest.mark.parametrize("path", ["~nobody-here/app.tuck", "~nobody-here"])
    def test_in_an_unknown_home_directory_is_refused(self, here: Path, path: str) -> None:
        with pytest.raises(InvalidPath, match=r"the home directory in '~nobody-here.*is unknown"):
            Cache(path)

    def test_of_the_home_directory_itself_is_no_file(self) -> None:
        with pytest.raises(NotAFile, match="is a directory"):
            Cache("~")

    @pytest.mark.parametrize("empty", ["", b""])
    def test_that_is_empty_is_refused(self, here: Path, memory: Path, empty: Any) -> None:
        with pytest.raises(InvalidPath, match=r"path is empty; omit it .* such as 'pages'"):
            Cache(empty)
        assert os.listdir(memory) == os.listdir(here) == []

    def test_of_sqlite_is_refused(self, here: Path, memory: Path) -> None:
        with pytest.raises(InvalidPath, match=r"':memory:' .* Cache\(\) .* Cache\('pages'\)"):
            Cache(":memory:")
        assert os.listdir(memory) == os.listdir(here) == []

    @pytest.mark.parametrize("url", ["redis://localhost:6379/0", "file:///tmp/app.tuck", "mem://"])
    def test_that_is_an_address_is_refused(self, url: str) -> None:
        with pytest.raises(InvalidPath, match="is an address, but Tuckbox has no server; give a"):
            Cache(url)

    def test_of_a_directory_is_refused(self, here: Path) -> None:
        with pytest.raises(InvalidPath, match="ends with '/'; give the path of a file"):
            Cache("./folder/")
        (here / "folder").mkdir()
        for path in ("./folder", "./folder/"):
            with pytest.raises(NotAFile, match="is a directory"):
                Cache(path)

    def test_from_a_removed_working_directory_is_refused(self, here: Path) -> None:
        here.rmdir()
        with pytest.raises(DirectoryMissing, match="the working directory was removed, so give an"):
            Cache("./app.tuck")

    def test_is_kept_when_the_program_changes_its_directory(
        self, opened: Any, here: Path, tmp_path: Path
    ) -> None:
        cache = opened("./app.tuck")
        os.chdir(tmp_path)
        assert repr(cache) == f"<Cache '{here}/app.tuck'>"
        with pickle.loads(pickle.dumps(cache)) as copy:
            assert copy.id == cache.id


def test_no_path_is_a_cache_of_this_process_and_its_children(opened: Any) -> None:
    cache, other = opened(), opened()
    child = os.fork()
    if not child:
        cache["k"] = 1
        os._exit(0)
    os.waitpid(child, 0)
    assert cache["k"] == 1
    assert "k" not in other
    assert cache.path is None
