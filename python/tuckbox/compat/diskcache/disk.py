"""`Disk`: how keys and values become what is stored. Large values become files of their own.

Programs subclass `Disk`, so the names and arguments of its methods are DiskCache's. Must not know
the file that holds the entries.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import pickletools
import secrets
import struct
import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final, Optional, Union

from tuckbox.compat.diskcache.settings import UNKNOWN
from tuckbox.compat.diskcache.signatures import Signatures, path_inside
from tuckbox.errors import EntryRefused

__all__ = [
    "MODE_BINARY",
    "MODE_PICKLE",
    "MODE_RAW",
    "MODE_TEXT",
    "Disk",
    "JSONDisk",
    "Stored",
    "make_directory",
]

MODE_RAW: Final = 1
MODE_BINARY: Final = 2
MODE_TEXT: Final = 3
MODE_PICKLE: Final = 4

_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**63 - 1
_CHUNK_BYTES: Final = 4 * 2**20
_OPEN_TRIES: Final = 10
_HASH_MASK: Final = 0xFFFFFFFF

Stored = tuple[int, int, Optional[str], Any]
"""What `Disk.store` returns: bytes in the file, mode, name of the file or None, value or None."""


class Disk:
    """Converts keys and values. Subclass it to store them in another way.

    Example:
        >>> disk = Disk("/var/cache/app", min_file_size=2**15, pickle_protocol=5)
        >>> disk.put("user:42"), disk.store(7, False)
        (('user:42', True), (0, 1, None, 7))
    """

    # Also for subclasses that do not call `__init__`.
    _min_file_size: int = 0
    _signatures: Optional[Signatures] = None
    notice: Optional[Callable[[], None]] = None
    """Called after `min_file_size` was changed. Set by `Cache`."""

    @property
    def min_file_size(self) -> int:
        """Length from which on a value becomes a file."""
        return self._min_file_size

    @min_file_size.setter
    def min_file_size(self, size: int) -> None:
        self._min_file_size = size
        if self.notice is not None:
            self.notice()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has: it is not the one of the cache."""
        return {name: value for name, value in vars(self).items() if name != "notice"}

    def use_signatures(self, signatures: Signatures) -> None:
        """Sign each pickle from here on, and unpickle no other one. Called by `Cache`."""
        self._signatures = signatures

    def _signed(self, kind: str, pickled: bytes) -> bytes:
        return pickled if self._signatures is None else self._signatures.sign(kind, pickled)

    def _unpickled(self, kind: str, pickled: Any) -> Any:
        if self._signatures is not None:
            pickled = self._signatures.verify(kind, pickled)
        # Only this user can write to the file, or a holder of the secret has signed it.
        return pickle.loads(pickled)  # noqa: S301

    def _path(self, filename: str) -> str:
        if self._signatures is not None:
            return path_inside(self._directory, filename)
        return os.path.join(self._directory, filename)

    def __init__(self, directory: str, min_file_size: int = 0, pickle_protocol: int = 0) -> None:
        """Set the options.

        Args:
            directory: Where the files are.
            min_file_size: Length from which on a value becomes a file.
            pickle_protocol: The protocol of pickles.
        """
        self._directory = directory
        self.min_file_size = min_file_size
        self.pickle_protocol = pickle_protocol

    def hash(self, key: Any) -> int:
        """Return a number that is the same for the key in every process, for `FanoutCache`."""
        stored, _ = self.put(key)
        if isinstance(stored, str):
            stored = stored.encode("utf-8", "surrogatepass")
        elif isinstance(stored, int):
            return stored % _HASH_MASK
        elif isinstance(stored, float):
            if stored.is_integer() and _INT_MIN <= stored <= _INT_MAX:
                # One key with the equal int, and so in one shard.
                return int(stored) % _HASH_MASK
            stored = struct.pack("!d", stored)
        return zlib.adler32(stored) & _HASH_MASK

    def put(self, key: Any) -> tuple[Any, bool]:
        """Convert a key.

        Returns:
            The key, and True if it is stored as it is; False if it is a pickle.
        """
        kind = type(key)
        if kind is str or kind is bytes or kind is float:
            return key, True
        if kind is int and _INT_MIN <= key <= _INT_MAX:
            return key, True
        pickled = pickletools.optimize(pickle.dumps(key, protocol=self.pickle_protocol))
        return self._signed("key", pickled), False

    def get(self, key: Any, raw: bool) -> Any:
        """Return the key of what `put` returned."""
        if raw:
            return bytes(key) if isinstance(key, memoryview) else key
        return self._unpickled("key", key)

    def store(self, value: Any, read: bool, key: Any = UNKNOWN) -> Stored:
        """Convert a value, and write its file if it is large.

        Args:
            value: The value; with ``read``, a file that is open in binary mode.
            read: Whether to store what the file contains.
            key: The key, if it is known.

        Returns:
            Bytes in the file, mode, name of the file or None, value or None.
        """
        kind = type(value)
        small = kind is float or (kind is int and _INT_MIN <= value <= _INT_MAX)
        if small or (kind in {str, bytes} and len(value) < self.min_file_size):
            return 0, MODE_RAW, None, value
        if kind is str:
            return self._store_file(key, value, MODE_TEXT, [value.encode("utf-8")])
        if kind is bytes:
            return self._store_file(key, value, MODE_BINARY, [value])
        if read:
            chunks = iter(lambda: value.read(_CHUNK_BYTES), b"")
            return self._store_file(key, value, MODE_BINARY, chunks)
        pickled = self._signed("value", pickle.dumps(value, protocol=self.pickle_protocol))
        if len(pickled) < self.min_file_size:
            return 0, MODE_PICKLE, None, pickled
        return self._store_file(key, value, MODE_PICKLE, [pickled])

    def _store_file(self, key: Any, value: Any, mode: int, chunks: Iterable[bytes]) -> Stored:
        filename, path = self.filename(key, value)
        with _create(path) as writer:
            try:
                size = sum(map(writer.write, chunks))
            except BaseException:
                self.remove(filename)
                raise
        return size, mode, filename, None

    def fetch(self, mode: int, filename: Optional[str], value: Any, read: bool) -> Any:
        """Return the value of what `store` returned.

        Args:
            mode, filename, value: The last three of `store`'s items.
            read: Whether to return the file, open in binary mode, if the value has one.

        Raises:
            OSError: The file cannot be read.
        """
        if filename is not None:
            path = self._path(filename)
            if read and mode == MODE_BINARY:
                return open(path, "rb")
            with open(path, "rb") as reader:
                value = reader.read()
        if mode == MODE_PICKLE:
            return self._unpickled("value", value)
        if mode == MODE_TEXT:
            return value.decode("utf-8")
        return bytes(value) if isinstance(value, memoryview) else value

    def filename(self, key: Any = UNKNOWN, value: Any = UNKNOWN) -> tuple[str, str]:
        """Choose the name of a new file.

        Args:
            key, value: What will be stored, for subclasses.

        Returns:
            The name in the directory of the cache, and the whole path.
        """
        name = secrets.token_hex(16)
        filename = os.path.join(name[:2], name[2:4], f"{name[4:]}.val")
        return filename, os.path.join(self._directory, filename)

    def remove(self, file_path: str) -> None:
        """Remove a file and the directories that are then empty. A missing one is no error."""
        try:
            path = self._path(file_path)
        except EntryRefused:
            return
        with contextlib.suppress(OSError):
            os.remove(path)
        parent = os.path.dirname(path)
        with contextlib.suppress(OSError):
            # Not the directory of the cache: it holds the entries.
            while parent != self._directory:
                os.rmdir(parent)
                parent = os.path.dirname(parent)


class JSONDisk(Disk):
    """Stores keys and values as JSON, compressed by zlib. Never pickles.

    Example:
        >>> JSONDisk("/var/cache/app").get(*JSONDisk("/var/cache/app").put(["a", 1]))
        ['a', 1]
    """

    def __init__(self, directory: str, compress_level: int = 1, **kwargs: Any) -> None:
        """Set the options.

        Args:
            directory: Where the files are.
            compress_level: From 0, no compression, to 9, the best.
            kwargs: As for `Disk`.
        """
        self.compress_level = compress_level
        super().__init__(directory, **kwargs)

    def put(self, key: Any) -> tuple[Any, bool]:
        """Convert a key. See `Disk.put`."""
        return super().put(self._pack(key))

    def get(self, key: Any, raw: bool) -> Any:
        """Return the key of what `put` returned.

        Raises:
            zlib.error: It is not one that `put` returns.
        """
        return _unpack(super().get(key, raw=True))

    def store(self, value: Any, read: bool, key: Any = UNKNOWN) -> Stored:
        """Convert a value. See `Disk.store`."""
        return super().store(value if read else self._pack(value), read, key=key)

    def fetch(self, mode: int, filename: Optional[str], value: Any, read: bool) -> Any:
        """Return the value of what `store` returned. See `Disk.fetch`."""
        # A pickle that somebody has put there is no JSON, and must not run.
        fetched = super().fetch(MODE_BINARY if mode == MODE_PICKLE else mode, filename, value, read)
        return fetched if read else _unpack(fetched)

    def _pack(self, plain: Any) -> bytes:
        return zlib.compress(json.dumps(plain).encode("utf-8"), self.compress_level)


def _unpack(packed: Union[bytes, memoryview]) -> Any:
    return json.loads(zlib.decompress(packed).decode("utf-8"))


def _create(path: str) -> io.BufferedWriter:
    """Create a file and its directories, which another process may remove while they are empty."""
    for left in reversed(range(_OPEN_TRIES)):
        try:
            make_directory(os.path.dirname(path))
            return open(path, "xb", opener=_private)
        except OSError:
            if not left:
                raise
    raise AssertionError


def make_directory(path: str) -> None:
    """Create a directory and its parents, all of them for this user alone.

    Raises:
        OSError: One of them cannot be created.
    """
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent and parent != path:
        make_directory(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
