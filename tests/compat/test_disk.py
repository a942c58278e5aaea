"""Custom `Disk` classes, `JSONDisk`, and files."""

from __future__ import annotations

import hashlib
import importlib
import os
import pickle
import stat
import zlib

import pytest

from tuckbox.compat import diskcache as ours
from tuckbox.compat.diskcache.disk import MODE_PICKLE


@pytest.fixture
def upper_disk(dc):
    class UpperDisk(dc.Disk):
        def __init__(self, directory, suffix="!", **kwargs):
            self.suffix = suffix
            super().__init__(directory, **kwargs)

        def put(self, key):
            return super().put(key.lower())

        def store(self, value, read, key=dc.UNKNOWN):
            size, mode, filename, stored = super().store(value, read, key=key)
            return size, mode, filename, stored + self.suffix if type(stored) is str else stored

        def fetch(self, mode, filename, value, read):
            return super().fetch(mode, filename, value, read)

        def filename(self, key=dc.UNKNOWN, value=dc.UNKNOWN):
            name = hashlib.sha256(key.encode()).hexdigest()
            return name, os.path.join(self._directory, name)

    return UpperDisk


def test_a_subclass_converts_keys_and_values(dc, upper_disk, tmp_path):
    with dc.Cache(str(tmp_path), disk=upper_disk, disk_suffix="?") as cache:
        cache["KEY"] = "value"
        assert cache["kEy"] == "value?"
        assert list(cache) == ["key"]
        assert cache.pop("KEY") == "value?"
        cache["Large"] = "x" * 40_000
        assert cache["large"] == "x" * 40_000
        path = tmp_path / hashlib.sha256(b"Large").hexdigest()
        assert path.read_text() == "x" * 40_000
        assert cache.check() == []
        del cache["LARGE"]
        assert not path.exists()
        assert cache.disk_suffix == "?"
        assert cache.reset("disk_suffix", "!") == cache.disk.suffix == "!"


def test_a_value_that_the_disk_cannot_read_is_popped_as_none(dc, tmp_path):
    class UnreadableDisk(dc.Disk):
        def fetch(self, mode, filename, value, read):
            raise OSError

    with dc.Cache(str(tmp_path), disk=UnreadableDisk) as cache:
        for removes_without_a_lock in (False, True):
            cache["key"] = "value"
            assert cache.pop("key", "default") == "default", removes_without_a_lock
            assert "key" not in cache


def test_json(dc, tmp_path):
    values = [None, True, 1, 1.5, "a", [1, "x" * 100_000], {"a": [1]}]
    with dc.Cache(str(tmp_path), disk=dc.JSONDisk, disk_compress_level=9) as cache:
        for value in values:
            cache[value] = value
            assert cache[value] == value
        assert list(cache) == values
        assert cache.disk.compress_level == 9
        cache[("a", 1)] = "a tuple is a list"
        assert list(cache)[-1] == ["a", 1]
        with pytest.raises(TypeError):
            cache["set"] = {1}
        assert cache.check() == []


def test_json_never_runs_a_pickle(tmp_path):
    ran = tmp_path / "ran"
    planted = pickle.dumps(Touch(str(ran)))
    disk = ours.JSONDisk(str(tmp_path))
    with pytest.raises(zlib.error):
        disk.fetch(MODE_PICKLE, None, planted, read=False)
    with pytest.raises(zlib.error):
        disk.get(planted, raw=False)
    assert not ran.exists()
    # The default class reads it, which shows that the pickle works.
    ours.Disk(str(tmp_path)).fetch(MODE_PICKLE, None, planted, read=False).close()
    assert ran.exists()


class Touch:
    """An object whose pickle makes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_the_class_must_be_a_disk(dc, tmp_path):
    for wrong in (dc.Disk(str(tmp_path)), object, None):
        with pytest.raises(ValueError, match="subclass"):
            dc.Cache(str(tmp_path), disk=wrong)


def test_a_hash_is_the_same_in_every_process(dc, tmp_path):
    disk = dc.Disk(str(tmp_path))
    assert [disk.hash(key) for key in ("a", b"a", 7, -1, 0.5)] == [
        6422626, 6422626, 7, 2**32 - 2, 136315168,
    ]  # fmt: skip


def test_the_protocol_and_the_smallest_file_can_be_chosen(dc, tmp_path):
    with dc.Cache(str(tmp_path), disk_min_file_size=0, disk_pickle_protocol=0) as cache:
        for value in ("", b"", "text", [1]):
            cache["a"] = value
            assert cache["a"] == value
        assert (
            sum(name.endswith(".val") for _, _, names in os.walk(tmp_path) for name in names) == 1
        )
        cache[7] = 7
        assert cache[7] == 7


# --- Only the drop-in ---------------------------------------------------------------------------


def test_only_this_user_can_read_files(tmp_path):
    old = os.umask(0)
    try:
        ours = importlib.import_module("tuckbox.compat.diskcache")
        with ours.Cache(str(tmp_path / "a" / "b")) as cache:
            cache["a"] = "x" * 40_000
            for path, _, names in os.walk(tmp_path / "a" / "b"):
                assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
                for name in names:
                    assert stat.S_IMODE(os.stat(os.path.join(path, name)).st_mode) == 0o600
    finally:
        os.umask(old)


def test_a_directory_in_which_others_may_write_is_refused(tmp_path):
    errors = importlib.import_module("tuckbox.errors")
    ours = importlib.import_module("tuckbox.compat.diskcache")
    tmp_path.chmod(0o777)
    with pytest.raises(errors.UnsafeFile, match=str(tmp_path)):
        ours.Cache(str(tmp_path))
    assert not (tmp_path / "cache.tuck").exists()
