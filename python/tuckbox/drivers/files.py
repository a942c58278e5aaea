"""`Files`: a driver that keeps each value in a file of its own.

A file is named by the digest of its key, in two levels of folders. It has a header, the key and the
value. Reads take no lock: a write creates another file and renames it, so a reader sees one of the
two, whole. Writes lock the folder of the key with `flock`, which the system releases if their
process is killed.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import struct
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Callable, NamedTuple, Optional, Union

from tuckbox.brief import refuse_if_brief
from tuckbox.drivers.contract import KEY_BYTES_MAX, Capabilities, Found, Version
from tuckbox.drivers.urls import parse
from tuckbox.errors import CacheClosed, InvalidArgument, Refused, Unreachable, ValueTooLarge

__all__ = ["Files"]

# Magic with the format's version; end in microseconds since 1970, 0 for none; version of the value;
# bytes of key and value; CRC-32 of all of these, key and value.
_HEAD = struct.Struct("<8sq8sIQ")
_SUM = struct.Struct("<I")
_MAGIC = b"tuckbox\x01"
_VERSION_BYTES = 8
_FILE_MODE, _FOLDER_MODE = 0o600, 0o700
_WRITABLE_BY_OTHERS = 0o022
_TEMPORARY = "new"
_URL = "file:///absolute/path"
_LEVEL_CHARACTERS = 2
_SECONDS_BETWEEN_TRIES = 0.001
# A folder that another program removes is created again, but not endlessly.
_TRIES_MAX = 10
_REFUSALS = {
    errno.EACCES, errno.EPERM, errno.EROFS,
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG,
    errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG,
}  # fmt: skip
_NO_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO}


class _Kept(NamedTuple):
    value: bytes
    version: bytes
    ends_us: int
    """0 if it never ends."""

    def is_over(self) -> bool:
        return 0 < self.ends_us <= _now_us()


# What a write makes of the value that it finds: another one, none (True), or no change (None).
_Change = Callable[[Optional[_Kept]], Union[_Kept, bool, None]]


class Files:
    """Values in files, which processes of this machine share and which survive a restart.

    Nothing is evicted: files of values whose ttl has ended are removed when a read or `scan` meets
    them. Nothing is synced to the disk: after a power cut, the last values may be missing, and a
    damaged file is a miss. The clock is that of the machine, so a ttl changes with it.

    Args:
        folder: Created if it does not exist, with mode 0700. Must belong to this user, and others
            must not be able to write to it.
        timeout_s: How long a write waits for another one that has locked the same folder.
        value_bytes_max: The longest value.

    Example:
        >>> import tempfile
        >>> driver = Files(tempfile.mkdtemp())
        >>> driver.set(b"k", b"value", 60)
        >>> driver.get(b"k").value
        b'value'
    """

    def __init__(
        self,
        folder: Union[str, os.PathLike[str]],
        *,
        timeout_s: float = 1.0,
        value_bytes_max: int = 1 << 30,
    ) -> None:
        self._root = Path(folder).absolute()
        self._timeout_s = timeout_s
        self._value_bytes_max = value_bytes_max
        self._is_open = True
        self._is_checked = False
        self.title = f"files in {self._root}"
        self.capabilities = Capabilities(
            between_processes=True,
            between_machines=False,
            persists=True,
            scans=True,
            tells_ttl=True,
            value_bytes_max=value_bytes_max,
        )

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Files:  # noqa: ANN401 - Those of the class.
        """Return a driver for ``file:///absolute/path``.

        Options are those of the class, in the query or as arguments; those in the query win.

        Raises:
            InvalidArgument: the URL has another form, or an unknown option.
        """
        parts = parse(url, {"file": _URL}, {"timeout_s": float, "value_bytes_max": int})
        if parts.hosts or not parts.path.startswith("/"):
            raise InvalidArgument(f"{url!r} is not the URL of a folder; write {_URL}")
        return cls(parts.path, **{**options, **parts.options})

    # --- Operations ----------------------------------------------------------------------------

    def get(self, key: bytes) -> Optional[Found]:
        """See `Driver.get`."""
        with self._ready():
            kept = self._read(key)
            if kept is None:
                return None
            if kept.is_over():
                # The holder of the lock may have stored another value, or will remove this one.
                with suppress(OSError):
                    self._write(key, lambda _: None, wait_s=0.0)
                return None
            ttl_s = (kept.ends_us - _now_us()) / 1e6 if kept.ends_us else None
            return Found(kept.value, kept.version, ttl_s)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Found]:
        """See `Driver.get_many`."""
        return {key: found for key in keys if (found := self.get(key)) is not None}

    def set(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> None:
        """See `Driver.set`."""
        new = self._new(value, ttl_s)
        self._update(key, lambda _: new, create=True)

    def set_many(self, items: Iterable[tuple[bytes, bytes, Optional[float]]]) -> None:
        """See `Driver.set_many`."""
        for key, value, ttl_s in items:
            self.set(key, value, ttl_s)

    def add(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> bool:
        """See `Driver.add`."""
        new = self._new(value, ttl_s)
        return self._update(key, lambda kept: new if kept is None else None, create=True)

    def swap(self, key: bytes, value: bytes, ttl_s: Optional[float], version: Version) -> bool:
        """See `Driver.swap`."""
        new = self._new(value, ttl_s)
        return self._update(key, lambda kept: new if kept and kept.version == version else None)

    def delete(self, key: bytes, version: Optional[Version] = None) -> bool:
        """See `Driver.delete`."""
        return self._update(key, lambda kept: bool(kept and version in (None, kept.version)))

    def delete_many(self, keys: Iterable[bytes]) -> int:
        """See `Driver.delete_many`."""
        return sum(self.delete(key) for key in keys)

    def touch(self, key: bytes, ttl_s: Optional[float]) -> bool:
        """See `Driver.touch`. Writes the file again."""
        ends_us = _ends_us(ttl_s)
        return self._update(key, lambda kept: kept and kept._replace(ends_us=ends_us))

    def scan(self, prefix: bytes) -> Iterator[bytes]:
        """See `Driver.scan`. Opens every file."""
        with self._ready():
            return self._scan(prefix)

    def clear(self, prefix: bytes) -> None:
        """See `Driver.clear`. Opens every file."""
        self.delete_many(self.scan(prefix))

    def ping(self) -> None:
        """See `Driver.ping`. Creates the folder if it does not exist."""
        with self._ready():
            self._check_root()

    def close(self) -> None:
        """See `Driver.close`."""
        self._is_open = False

    # --- Files ---------------------------------------------------------------------------------

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """Around each operation: refuses it, or converts its errors."""
        if not self._is_open:
            raise CacheClosed("this driver is closed; open it again to use it")
        refuse_if_brief()
        try:
            if not self._is_checked:
                self._check_root()
            yield
        except (Unreachable, Refused):  # The first is an OSError, too.
            raise
        except OSError as error:
            kind = Refused if error.errno in _REFUSALS else Unreachable
            raise kind(f"{self.title}: {error.strerror or error}") from error

    def _check_root(self) -> None:
        self._root.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
        found = self._root.stat()
        if found.st_uid != os.geteuid():
            raise Refused(f"{self.title}: the folder belongs to another user; use another one")
        if found.st_mode & _WRITABLE_BY_OTHERS:
            raise Refused(
                f"{self.title}: other users can write to the folder; "
                f"run: chmod go-w {str(self._root)!r}"
            )
        self._is_checked = True

    def _new(self, value: bytes, ttl_s: Optional[float]) -> _Kept:
        if len(value) > self._value_bytes_max:
            raise ValueTooLarge(
                f"the value has {len(value):,} bytes; "
                f"{self.title} hold up to {self._value_bytes_max:,}"
            )
        return _Kept(value, os.urandom(_VERSION_BYTES), _ends_us(ttl_s))

    def _read(self, key: bytes, folder: Optional[int] = None) -> Optional[_Kept]:
        """What the file of a key has; None if it has no such file, or not in this form."""
        outer, inner, name = _names(key)
        path = name if folder is not None else self._root / outer / inner / name
        with _opened(path, folder) as file:
            read = file and _parsed(file, self._value_bytes_max)
        return read[1] if read and read[0] == key else None

    def _update(self, key: bytes, change: _Change, *, create: bool = False) -> bool:
        with self._ready():
            for _ in range(_TRIES_MAX):
                try:
                    if create:
                        self._create_folder(key)
                    return self._write(key, change, self._timeout_s)
                except FileNotFoundError:  # noqa: PERF203
                    if not create:
                        return False
            raise Unreachable(f"{self.title}: the folder is removed again and again")

    def _create_folder(self, key: bytes) -> None:
        outer, inner, _ = _names(key)
        if not (self._root / outer / inner).is_dir():
            self._check_root()
            for folder in (self._root / outer, self._root / outer / inner):
                folder.mkdir(_FOLDER_MODE, exist_ok=True)

    def _write(self, key: bytes, change: _Change, wait_s: float) -> bool:
        """Change the value of a key under the lock of its folder. Return whether it changed."""
        name = _names(key)[2]
        with self._locked(key, wait_s) as folder:
            before = self._read(key, folder)
            is_over = before is not None and before.is_over()
            after = change(None if is_over else before)
            if isinstance(after, _Kept):
                self._replace(folder, name, key, after)
            elif after or is_over:
                os.unlink(name, dir_fd=folder)
            return bool(after)

    @contextmanager
    def _locked(self, key: bytes, wait_s: float) -> Iterator[int]:
        """The open and locked folder of a key. Raises FileNotFoundError if it has none."""
        outer, inner, _ = _names(key)
        until = time.monotonic() + wait_s
        folder = os.open(self._root / outer / inner, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            while True:
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= until:
                        raise Unreachable(
                            f"{self.title}: another write has locked {outer}/{inner} for {wait_s} s"
                        ) from None
                    time.sleep(_SECONDS_BETWEEN_TRIES)
            yield folder
        finally:
            # A child process, forked meanwhile, has the folder open, too: closing is not enough.
            fcntl.flock(folder, fcntl.LOCK_UN)
            os.close(folder)

    @staticmethod
    def _replace(folder: int, name: str, key: bytes, kept: _Kept) -> None:
        """Write another file and rename it. The lock protects the name in between."""
        with suppress(FileNotFoundError):
            os.unlink(_TEMPORARY, dir_fd=folder)  # Of a process that was killed.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            with os.fdopen(os.open(_TEMPORARY, flags, _FILE_MODE, dir_fd=folder), "wb") as file:
                head = _HEAD.pack(_MAGIC, kept.ends_us, kept.version, len(key), len(kept.value))
                file.write(head + _SUM.pack(_sum(head, key, kept.value)) + key)
                file.write(kept.value)
            os.rename(_TEMPORARY, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(_TEMPORARY, dir_fd=folder)
            raise

    def _scan(self, prefix: bytes) -> Iterator[bytes]:
        with self._ready():
            for outer in _listed(self._root):
                for inner in _listed(self._root / outer):
                    for name in _listed(self._root / outer / inner):
                        key = self._key_in(outer, inner, name)
                        if key is not None and key.startswith(prefix):
                            yield key

    def _key_in(self, outer: str, inner: str, name: str) -> Optional[bytes]:
        """The key of a file; None if it has no value. Removes a file whose ttl has ended."""
        with _opened(self._root / outer / inner / name) as file:
            parsed = file and _parsed_head(file, self._value_bytes_max)
        if not parsed or _names(parsed[1]) != (outer, inner, name):
            return None
        _, key, kept = parsed
        return None if kept.is_over() and self.get(key) is None else key


def _now_us() -> int:
    return time.time_ns() // 1000


def _ends_us(ttl_s: Optional[float]) -> int:
    # A ttl of thousands of years would not fit the header.
    return 0 if ttl_s is None else min(_now_us() + int(ttl_s * 1e6), (1 << 63) - 1)


def _names(key: bytes) -> tuple[str, str, str]:
    """The two folders and the file of a key."""
    digest = hashlib.blake2b(key, digest_size=24).hexdigest()
    split = 2 * _LEVEL_CHARACTERS
    return digest[:_LEVEL_CHARACTERS], digest[_LEVEL_CHARACTERS:split], digest[split:]


def _listed(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _sum(head: bytes, key: bytes, value: bytes) -> int:
    return zlib.crc32(value, zlib.crc32(key, zlib.crc32(head)))


@contextmanager
def _opened(path: Union[str, Path], folder: Optional[int] = None) -> Iterator[Optional[BinaryIO]]:
    """Open a file without following a link or waiting for a pipe; None if it is no plain file."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        yield None
        return
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        yield None
        return
    with os.fdopen(number, "rb") as file:
        yield file


def _parsed_head(file: BinaryIO, value_bytes_max: int) -> Optional[tuple[bytes, bytes, _Kept]]:
    """The header's bytes, the key, and an entry that has no value yet; None in another form."""
    head = file.read(_HEAD.size)
    if len(head) != _HEAD.size:
        return None
    magic, ends_us, version, key_bytes, value_bytes = _HEAD.unpack(head)
    whole = _HEAD.size + _SUM.size + key_bytes + value_bytes
    size = os.fstat(file.fileno()).st_size
    if magic != _MAGIC or ends_us < 0 or size != whole:
        return None
    if key_bytes > KEY_BYTES_MAX or value_bytes > value_bytes_max:
        return None
    head += file.read(_SUM.size)
    return head, file.read(key_bytes), _Kept(b"", version, ends_us)


def _parsed(file: BinaryIO, value_bytes_max: int) -> Optional[tuple[bytes, _Kept]]:
    """The key and the entry of a file; None if it is damaged or has another form."""
    parsed = _parsed_head(file, value_bytes_max)
    if parsed is None:
        return None
    head, key, kept = parsed
    value = file.read()
    fields, (wanted,) = head[: _HEAD.size], _SUM.unpack(head[_HEAD.size :])
    if _sum(fields, key, value) != wanted:
        return None
    return key, kept._replace(value=value)
