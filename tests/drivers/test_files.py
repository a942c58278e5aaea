"""The driver in files: the contract, hostile files, full disks, killed and stopped writers."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import pytest

from tuckbox.brief import WouldBlock, briefly
from tuckbox.drivers.files import Files
from tuckbox.errors import InvalidArgument, Refused, Unreachable, ValueTooLarge
from tuckbox.testing.drivers import DriverTests

PATIENT_S = 60.0


class TestFiles(DriverTests):
    @pytest.fixture
    def opened(self, tmp_path):
        return lambda: Files(tmp_path / "cache", timeout_s=PATIENT_S, value_bytes_max=2_000_000)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def driver(folder):
    return Files(folder, timeout_s=PATIENT_S)


def only_file(folder: Path) -> Path:
    (path,) = (path for path in folder.rglob("*") if path.is_file())
    return path


# --- Rights -------------------------------------------------------------------------------------


def test_only_this_user_can_read_it(folder):
    before = os.umask(0)
    try:
        Files(folder).set(b"k", b"v", None)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_dir()}
    assert modes == {0o700}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(folder).stat().st_mode) == 0o600


def test_a_folder_that_others_can_write_to_is_refused(folder, driver):
    folder.mkdir()
    folder.chmod(0o777)
    for call in (lambda: driver.get(b"k"), lambda: driver.set(b"k", b"v", None), driver.ping):
        with pytest.raises(Refused, match="chmod go-w"):
            call()
    folder.chmod(0o755)
    driver.set(b"k", b"v", None)
    assert driver.get(b"k").value == b"v"


def test_a_file_in_place_of_the_folder_is_refused_by_writes(folder, driver):
    folder.write_bytes(b"")
    with pytest.raises((Refused, Unreachable), match="cache"):
        driver.set(b"k", b"v", None)


# --- Hostile and damaged files ------------------------------------------------------------------


def test_no_byte_of_a_file_can_change_unnoticed(folder, driver):
    driver.set(b"key", b"value", 3600)
    path = only_file(folder)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert driver.get(b"key") is None, place
        assert driver.get_many([b"key"]) == {}
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert driver.get(b"key") is None, length
    path.write_bytes(whole + b"more")
    assert driver.get(b"key") is None
    path.write_bytes(whole)
    assert driver.get(b"key").value == b"value"


def test_a_write_replaces_a_damaged_file(folder, driver):
    for write in (
        lambda: driver.set(b"k", b"new", None),
        lambda: driver.add(b"k", b"new", None),
    ):
        driver.set(b"k", b"old", None)
        path = only_file(folder)
        path.write_bytes(b"\x00" * 100)
        assert driver.swap(b"k", b"x", None, b"\x00" * 8) is False
        assert driver.delete(b"k") is False
        assert list(driver.scan(b"")) == []
        write()
        assert driver.get(b"k").value == b"new"


def forged(key=b"k", value=b"v", ends=0, key_bytes=None, value_bytes=None) -> bytes:
    """A file with a right sum, whatever else it says."""
    head = struct.pack(
        "<8sq8sIQ", b"tuckbox\x01", ends, b"version.",
        len(key) if key_bytes is None else key_bytes,
        len(value) if value_bytes is None else value_bytes,
    )  # fmt: skip
    return (
        head + struct.pack("<I", zlib.crc32(value, zlib.crc32(key, zlib.crc32(head)))) + key + value
    )


HOSTILE = {
    "another key": forged(key=b"other"),
    "before 1970": forged(ends=-1),
    "ended": forged(ends=1),
    "key longer than the file": forged(key_bytes=1 << 31),
    "value longer than the file": forged(value_bytes=1 << 63),
    "lengths that add up": forged(key=b"", value=b"kv", key_bytes=0, value_bytes=2),
    "a pickle": b"cos\nsystem\n(S'false'\ntR.",
    "empty": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_a_miss(folder, driver, name):
    driver.set(b"k", b"v", None)
    path = only_file(folder)
    path.write_bytes(forged())
    assert driver.get(b"k").value == b"v", "the forger of this test does not forge"
    path.write_bytes(HOSTILE[name])
    assert driver.get(b"k") is None
    assert list(driver.scan(b"")) == []
    assert driver.touch(b"k", 60) is False
    driver.clear(b"")
    driver.set(b"k", b"v", None)
    assert driver.get(b"k").value == b"v"


def test_what_is_no_file_is_a_miss(folder, driver, tmp_path):
    driver.set(b"k", b"v", None)
    path = only_file(folder)
    secret = tmp_path / "secret"
    secret.write_bytes(path.read_bytes())
    for make in (
        lambda: path.symlink_to(secret),
        lambda: path.symlink_to(path),
        lambda: os.mkfifo(path),
    ):
        path.unlink()
        make()
        assert driver.get(b"k") is None
        assert list(driver.scan(b"")) == []
        driver.set(b"k", b"v", None)
        assert driver.get(b"k").value == b"v"
        assert path.is_file()
        assert not path.is_symlink()
    assert secret.exists()
    path.unlink()
    path.mkdir()
    assert driver.get(b"k") is None
    assert list(driver.scan(b"")) == []
    with pytest.raises(Refused):
        driver.set(b"k", b"v", None)


def test_a_huge_sparse_file_is_a_miss(folder, driver):
    driver.set(b"k", b"v", None)
    with only_file(folder).open("wb") as file:
        file.write(forged(value_bytes=1 << 40)[:-1])
        file.truncate(struct.calcsize("<8sq8sIQI") + 1 + (1 << 40))
    assert driver.get(b"k") is None
    assert list(driver.scan(b"")) == []


def test_other_files_in_the_folder_are_left_alone(folder, driver):
    driver.set(b"k", b"v", None)
    inner = only_file(folder).parent
    others = [folder / "notes", inner / "notes"]
    for other in others:
        other.write_bytes(b"mine")
    driver.clear(b"")
    assert driver.get(b"k") is None
    assert [other.read_bytes() for other in others] == [b"mine"] * 2


# --- Room ---------------------------------------------------------------------------------------

FULL = """
import errno, resource, signal, sys
from tuckbox.drivers.files import Files
from tuckbox.errors import Refused
driver = Files(sys.argv[1])
driver.set(b"k", b"old", None)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for write in (driver.set, driver.add):
    key = b"k" if write == driver.set else b"other"
    try:
        write(key, b"x" * 10_000, None)
    except Refused as error:
        print(error.__cause__.errno == errno.EFBIG)
print(driver.get(b"k").value, driver.get(b"other"), sorted(driver.scan(b"")))
"""


def run(code: str, *arguments: object, **options) -> str:
    path = [str(Path(__file__).parents[2] / "python"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True, text=True, timeout=50, env=environment, check=True, **options,
    )  # fmt: skip
    return done.stdout


def test_a_file_that_may_not_grow_is_refused_and_leaves_the_old_value(folder):
    assert run(FULL, folder).split("\n")[:3] == ["True", "True", "b'old' None [b'k']"]
    assert [path.name for path in folder.rglob("new")] == []


def test_a_full_disk_is_refused_and_leaves_the_old_value(folder, driver, monkeypatch):
    driver.set(b"k", b"old", None)

    def rename(*_arguments, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(Refused, match="No space left"):
        driver.set(b"k", b"new", None)
    monkeypatch.undo()
    assert driver.get(b"k").value == b"old"
    assert [path.name for path in folder.rglob("new")] == []


def test_what_has_ended_is_removed_when_it_is_met(folder, driver):
    for meet in (lambda: driver.get(b"k"), lambda: list(driver.scan(b""))):
        driver.set(b"k", b"v", 0.01)
        time.sleep(0.05)
        assert only_file(folder)
        assert not meet()
        assert [path for path in folder.rglob("*") if path.is_file()] == []


# --- Writers ------------------------------------------------------------------------------------

WRITER = """
import sys
from tuckbox.drivers.files import Files
driver = Files(sys.argv[1])
print("ready", flush=True)
number = 0
while True:
    driver.set(b"k", b"%d" % (number % 10) * 100_000, None)
    number += 1
"""


def test_a_killed_writer_leaves_a_whole_value_and_no_lock(folder, driver):
    path = [str(Path(__file__).parents[2] / "python"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    for attempt in range(8):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, env=environment
        )
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(0.003 * attempt)
        writer.kill()
        writer.wait(30)
        writer.stdout.close()
        found = driver.get(b"k")
        assert found is None or found.value == b"mine" or len(set(found.value)) == 1
        driver.set(b"k", b"mine", None)
        assert driver.get(b"k").value == b"mine"
    assert [path.name for path in folder.rglob("new")] == []


def test_a_lock_that_is_held_is_an_error_after_the_time_limit(folder):
    driver = Files(folder, timeout_s=0.2)
    driver.set(b"k", b"v", None)
    holder = os.open(only_file(folder).parent, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    try:
        version = driver.get(b"k").version
        for call in (
            lambda: driver.set(b"k", b"new", None),
            lambda: driver.swap(b"k", b"new", None, version),
            lambda: driver.delete(b"k"),
        ):
            with pytest.raises(Unreachable, match="locked"):
                call()
        assert driver.get(b"k").value == b"v"
    finally:
        os.close(holder)
    assert driver.swap(b"k", b"new", None, version) is True


def test_a_child_does_not_keep_the_lock_of_a_thread(folder, driver, monkeypatch):
    """A child that was forked during a write has the folder open, too."""
    driver.set(b"k", b"v", None)
    inside, go_on = threading.Event(), threading.Event()
    rename = os.rename

    def slow(*arguments, **options):
        inside.set()
        assert go_on.wait(30)
        rename(*arguments, **options)

    monkeypatch.setattr(os, "rename", slow)
    writer = threading.Thread(target=driver.set, args=(b"k", b"new", None))
    writer.start()
    assert inside.wait(30)
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(1)
    try:
        go_on.set()
        writer.join(30)
        monkeypatch.undo()
        impatient = Files(folder, timeout_s=0.2)
        impatient.set(b"k", b"newer", None)
        assert impatient.get(b"k").value == b"newer"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_processes_lose_no_swap(folder, driver):
    driver.set(b"count", b"0", None)
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                done = 0
                while done < 50:
                    found = driver.get(b"count")
                    more = b"%d" % (int(found.value) + 1)
                    done += driver.swap(b"count", more, None, found.version)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0] * 4
    assert driver.get(b"count").value == b"200"


def test_a_folder_that_is_removed_is_created_again(folder, driver):
    driver.set(b"k", b"v", None)
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
    assert driver.get(b"k") is None
    assert [driver.delete(b"k"), list(driver.scan(b""))] == [False, []]
    driver.set(b"k", b"v", None)
    assert driver.get(b"k").value == b"v"


def test_brief_calls_are_refused(driver):
    for call in (driver.ping, lambda: driver.get(b"k"), lambda: driver.delete(b"k")):
        with pytest.raises(WouldBlock):
            briefly(0.0, call)


# --- URLs ---------------------------------------------------------------------------------------


def test_a_url_has_the_path_and_the_options(tmp_path):
    driver = Files.from_url(f"file://{tmp_path}/a%20b?value_bytes_max=3&timeout_s=0.5")
    driver.set(b"k", b"abc", None)
    assert (tmp_path / "a b").is_dir()
    assert driver.capabilities.value_bytes_max == 3
    with pytest.raises(ValueTooLarge, match="hold up to 3"):
        driver.set(b"k", b"abcd", None)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("file://host/path", "file:///absolute/path"),
        ("file:relative", "file:///absolute/path"),
        ("redis:///path", "file:///absolute/path"),
        ("file:///path?colour=red", "timeout_s, value_bytes_max"),
        ("file:///path?timeout_s=soon", "'timeout_s' has a wrong value 'soon'"),
    ],
)
def test_a_wrong_url_is_refused(url, says):
    with pytest.raises(InvalidArgument, match=says):
        Files.from_url(url)
