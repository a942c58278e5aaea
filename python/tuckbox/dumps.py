"""`dump` and `load`: the entries of a cache in a file, and back into any cache.

Owns the layout of the file, which ``docs/explanation/dumps.md`` specifies. Decodes keys, but no
value. Must not know where a cache keeps its entries: a store yields and takes them with the bytes
of their keys and values, by ``_iter_encoded`` and ``_store_encoded``.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import struct
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, Optional, Union

from tuckbox.brief import refuse_if_brief
from tuckbox.coordination.space import NAME, is_of_one_cache
from tuckbox.errors import (
    CacheLost,
    DumpInvalid,
    EntryCorrupt,
    EntryRefused,
    InvalidArgument,
    KeyTooLong,
    KeyTypeError,
    ValueTooLarge,
)
from tuckbox.memory import codec, keys, spaces
from tuckbox.memory.numbers import INT_MAX, INT_MIN
from tuckbox.objects import PICKLED, SIGNED, Objects
from tuckbox.remote.envelope import Envelope, pack, unpack
from tuckbox.results import Loaded, Refusal

__all__ = ["dump", "load"]

_MAGIC = b"TBDUMP\n"
_VERSION = 1
_HEAD = struct.Struct("<7sB16sQB")
"""Magic, version of the layout, id of the cache, time, number of namespaces around the entries."""
_LENGTH = struct.Struct("<Q")
_END = struct.Struct("<QI")
"""After a length of 0: the number of entries, and the checksum of all that is before that."""
_CODES = 64
"""The first byte of a value is below this, unless it is a small int."""
_SMALL_INT = 192
_COMPRESSED = 25
_KEY_BYTES_MAX = 1 << 16
_TAGS_MAX = 32
_TAG_BYTES_MAX = 255
_RAW_BYTES_MAX = 64 << 20
"""A signed pickle that would decompress to more is refused, unless the cache could hold it."""
_SCANS_MAX = 10
_BUFFER_BYTES = 1 << 20
_MODE = 0o600

_COORDINATION = NAME.encode()
_OF_ONE_CACHE = (
    "it is a lease of a lock or semaphore, or a counter of fences: these mean nothing in another "
    "cache"
)
_TOO_LONG: dict[type, str] = {
    KeyTooLong: "its key is too long here, with the names of its namespaces",
    ValueTooLarge: "its value is larger than this cache can hold; give it a larger size",
}

_Path = Union[str, "os.PathLike[str]"]


class _Entry(NamedTuple):
    """An entry of a dump."""

    names: tuple[str, ...]
    """The namespaces that it is in, outermost first, without those around the dump."""
    own: bytes
    """Its key in that namespace."""
    envelope: Envelope


def dump(cache: Any, path: _Path) -> int:
    """Write the fresh entries of a cache or namespace to a file. See `tuckbox.Cache.dump`."""
    refuse_if_brief()
    # Not resolved: of a link, which another user may have created, the link is replaced.
    target = Path(os.fsdecode(path)).absolute()
    if cache.path is not None and target.exists() and target.samefile(cache.path):
        raise InvalidArgument(f"{target} is the cache's own file; give another path")
    for _ in range(_SCANS_MAX - 1):
        # A resize ends an iteration.
        with suppress(CacheLost):
            return _replace(target, cache)
    return _replace(target, cache)


def _replace(target: Path, cache: Any) -> int:
    """Write another file and rename it."""
    temporary = target.with_name(f".tuckbox-dump-{secrets.token_hex(8)}")
    try:
        with _created(temporary, target) as file:
            count = _write(file, cache)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return count


def _created(temporary: Path, target: Path) -> IO[bytes]:
    """Create the file that gets the name ``target`` later."""
    try:
        return open(temporary, "xb", _BUFFER_BYTES, opener=_create)
    except OSError as error:
        # The user knows the path of the dump, not that of the temporary file.
        what = _WHAT_TO_DO.get(error.errno or 0, error.strerror)
        raise OSError(error.errno, what, os.fspath(target)) from None


_WHAT_TO_DO = {
    errno.ENOENT: "The folder of the dump does not exist; create it, or give another path",
    errno.ENOTDIR: "The folder of the dump is a file; give another path",
    errno.EACCES: "This user may not create files in the folder of the dump; give another path",
    errno.EROFS: "The folder of the dump is read-only; give another path",
}


def _create(path: str, flags: int) -> int:
    return os.open(path, flags, _MODE)


def _write(file: IO[bytes], cache: Any) -> int:
    levels = len(cache._names)
    head = _HEAD.pack(_MAGIC, _VERSION, cache.id, time.time_ns() // 1000, levels)
    checksum, count = zlib.crc32(head), 0
    file.write(head)
    for key, value, expiry_us, stale_us, made_us, tags, pinned in cache._iter_encoded():
        if _is_of_one_cache(key):
            continue
        stored = codec.to_bytes(value) if isinstance(value, int) else value
        envelope = Envelope(key, 1, stored, expiry_us, stale_us, made_us, tags, pinned=pinned)
        packed = pack(envelope)
        length = _LENGTH.pack(len(packed))
        checksum = zlib.crc32(packed, zlib.crc32(length, checksum))
        file.write(length)
        file.write(packed)
        count += 1
    length = _LENGTH.pack(0)
    file.write(length + _END.pack(count, zlib.crc32(length, checksum)))
    return count


def load(cache: Any, path: _Path, *, replace: bool) -> Loaded:
    """Store the entries of a dump in a cache or namespace. See `tuckbox.Cache.load`."""
    refuse_if_brief()
    with open(path, "rb", _BUFFER_BYTES, opener=_open) as file:
        dumped = _Dump(file, os.fsdecode(path))
        for _ in dumped.entries():
            pass
        # Only now: nothing is stored of a file that is not whole.
        return _store(cache, dumped, replace=replace)


def _open(path: str, flags: int) -> int:
    # Otherwise a named pipe would wait for a writer.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _store(cache: Any, dumped: _Dump, *, replace: bool) -> Loaded:
    counts = dict.fromkeys(("stored", "present", "expired", "unpinned"), 0)
    refusals: Counter[str] = Counter()
    parts: dict[tuple[str, ...], Any] = {(): cache}
    cache_id = cache.id
    for names, own, envelope in dumped.entries():
        if names not in parts:
            part = cache
            for name in names:
                part = part.namespace(name)
            parts[names] = part
        part = parts[names]
        if _is_of_one_cache(envelope.key):
            refusals[_OF_ONE_CACHE] += 1
            continue
        try:
            # Each time, because the namespace may be cleared.
            key = keys.joined(part._prefix(), own, own)
            value = dumped.value_for(cache, envelope, key)
            _, _, _, *life, tags, _, _, pinned = envelope
            is_pinned = pinned and part._pins
            is_stored = part._store_encoded(key, value, *life, tags, is_pinned, replace)
        except (EntryCorrupt, KeyTooLong, ValueTooLarge) as error:
            # Not with the lengths of each entry.
            refusals[_TOO_LONG.get(type(error), str(error))] += 1
        else:
            outcome = {True: "stored", False: "present", None: "expired"}[is_stored]
            counts[outcome] += 1
            counts["unpinned"] += is_stored is True and pinned and not is_pinned
    if cache.id != cache_id:
        raise CacheLost(None, f"{cache!r} was replaced while entries were loaded; load them again")
    reasons = tuple(Refusal(entries, reason) for reason, entries in refusals.most_common())
    return Loaded(refused=sum(refusals.values()), refusals=reasons, **counts)


class _Dump:
    """A file that may be a dump."""

    def __init__(self, file: IO[bytes], path: str) -> None:
        self._file = file
        self._path = path
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            self._refuse("is not a regular file")
        self._end = status.st_size
        self.is_mine = (
            hasattr(os, "geteuid")
            and status.st_uid == os.geteuid()
            and not stat.S_IMODE(status.st_mode) & 0o022
        )
        """Whether only this user can write to it."""

    def _refuse(self, what: str) -> NoReturn:
        raise DumpInvalid(f"{self._path} {what}; nothing was changed")

    def _read(self, len_bytes: int) -> bytes:
        # Before memory is allocated: a damaged length may be any number.
        left = self._end - self._file.tell()
        content = self._file.read(len_bytes) if len_bytes <= left else b""
        if len(content) != len_bytes:
            self._refuse("is damaged or cut off; make another dump")
        return content

    def entries(self) -> Iterator[_Entry]:
        """Yield the entries from the first one on. Raises DumpInvalid, if only at the end."""
        self._file.seek(0)
        head = self._file.read(_HEAD.size)
        if not head or not head.startswith(_MAGIC[: len(head)]):
            self._refuse("is not a dump of Tuckbox; give a file that `dump` has written")
        if len(head) > len(_MAGIC) and head[len(_MAGIC)] != _VERSION:
            self._refuse(f"has layout {head[len(_MAGIC)]} of dumps, and this version reads 1")
        if len(head) < _HEAD.size:
            self._refuse("is damaged or cut off; make another dump")
        _, _, self._id, _, levels = _HEAD.unpack(head)
        checksum, count = zlib.crc32(head), 0
        while True:
            length = self._read(_LENGTH.size)
            checksum = zlib.crc32(length, checksum)
            (len_bytes,) = _LENGTH.unpack(length)
            if not len_bytes:
                break
            packed = self._read(len_bytes)
            checksum = zlib.crc32(packed, checksum)
            entry = _entry(packed, levels)
            if entry is None:
                self._refuse("is damaged; make another dump")
            yield entry
            count += 1
        if self._read(_END.size) != _END.pack(count, checksum) or self._file.tell() != self._end:
            self._refuse("is damaged; make another dump")

    def value_for(self, cache: Any, envelope: Envelope, key: bytes) -> Union[int, bytes]:
        """Return a value as an entry of a cache may have it.

        Raises:
            EntryRefused: It is a pickle that the cache may not have, because reading it runs code.
        """
        stored = envelope.value
        assert stored is not None  # noqa: S101 - `_entry` has looked.
        kept = codec.from_bytes(stored)
        if isinstance(kept, int) and INT_MIN <= kept <= INT_MAX:
            return kept
        # The code of what was compressed is the third byte.
        is_compressed = stored[0] == _COMPRESSED
        (code,) = (stored[2:3] or stored[:1]) if is_compressed else stored[:1]
        objects: Objects = cache._objects or Objects()
        if code == PICKLED and not (self.is_mine and objects.pickle == "private"):
            raise EntryRefused(
                'it is a pickle without a signature; load it into a cache with pickle="private", '
                "from a file that only you can write"
            )
        if code != SIGNED or (self._id, envelope.key) == (cache.id, key):
            return stored
        signed = _decompressed(stored, cache) if is_compressed else stored[1:]
        signed = objects.signed_again(signed, (self._id, envelope.key), (cache.id, key))
        compressed = None
        if objects.compress_min_bytes is not None and len(signed) >= objects.compress_min_bytes:
            compressed = objects.compress(signed)
        if compressed is None:
            return bytes((SIGNED,)) + signed
        number, content = compressed
        return bytes((_COMPRESSED, number, SIGNED)) + keys.varint(len(signed)) + content


def _decompressed(stored: bytes, cache: Any) -> bytes:
    try:
        len_bytes, start = keys.take_length(stored, 3)
    except IndexError:
        raise EntryCorrupt("its compressed form is invalid") from None
    if len_bytes > max(cache.size, _RAW_BYTES_MAX):
        raise EntryRefused("it would decompress to more bytes than this cache can hold")
    return Objects.decompress(stored[1], stored[start:], len_bytes)


def _entry(packed: bytes, levels: int) -> Optional[_Entry]:
    """The entry of an envelope; None if no cache could have it."""
    envelope = unpack(packed, None)
    if envelope is None or not envelope.value or envelope.lease is not None:
        return None
    if _CODES <= envelope.value[0] < _SMALL_INT:
        return None
    tags = envelope.tags
    if len(tags) > _TAGS_MAX or list(tags) != sorted(set(tags)):
        return None
    if not all(0 < len(tag.encode()) <= _TAG_BYTES_MAX for tag in tags):
        return None
    parted = _parted(envelope.key)
    if parted is None or len(parted[0]) < levels:
        return None
    return _Entry(parted[0][levels:], parted[1], envelope)


def _is_of_one_cache(key: bytes) -> bool:
    """Whether an entry is left out: see `is_of_one_cache`."""
    parted = _parted(key) if _COORDINATION in key else None
    return parted is not None and is_of_one_cache(*parted)


def _parted(key: bytes) -> Optional[tuple[tuple[str, ...], bytes]]:
    """The namespaces of a key and the rest of it; None if it is no key."""
    if len(key) > _KEY_BYTES_MAX:
        return None
    try:
        names, own = spaces.parted(key)
        is_sound = spaces.joined_len(names) + len(own) == len(key) and all(names)
        is_sound = is_sound and keys.encode(keys.decode(own)) == own
    except (IndexError, UnicodeError, RecursionError, EntryCorrupt, KeyTypeError, KeyTooLong):
        return None
    return (names, own) if is_sound else None
