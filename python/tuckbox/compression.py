"""Compression of values: which libraries there are, and how to use them.

Imports a library on first use. Must not know entries, caches or codecs.
"""

from __future__ import annotations

import functools
import importlib
from contextlib import suppress
from typing import Any, Callable, Literal, NamedTuple

from tuckbox.errors import EntryCorrupt, EntryRefused, InvalidArgument

__all__ = ["Algorithm", "compressor", "decompress"]

Algorithm = Literal["zstd", "lz4"]
"""The name of an algorithm."""

_NUMBERS: dict[str, int] = {"zstd": 1, "lz4": 2}
"""How the file names an algorithm."""
_WINDOW_LOG_MIN = 10
_WINDOW_LOG_MAX = 27


class _Library(NamedTuple):
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes, int], bytes]
    """Returns at most one byte more than the given number, so that a longer result is noticed."""


def compressor(name: str) -> tuple[int, Callable[[bytes], bytes]]:
    """Return the number of an algorithm and its function.

    Args:
        name: ``"zstd"`` or ``"lz4"``.

    Raises:
        InvalidArgument: The name is another one, or the library is not installed.
    """
    if name not in _NUMBERS:
        raise InvalidArgument(f"compressor must be one of {', '.join(_NUMBERS)}, not {name!r}")
    try:
        return _NUMBERS[name], _library(_NUMBERS[name]).compress
    except ImportError as error:
        raise InvalidArgument(f"compress: {_advice(name)}") from error


def decompress(number: int, content: bytes, len_bytes: int) -> bytes:
    """Return the bytes that were compressed.

    Args:
        number: The number of the algorithm.
        content: The compressed bytes. May be anything.
        len_bytes: How many bytes were compressed. No more memory than this is filled.

    Raises:
        EntryCorrupt: The content is invalid, or has another length.
        EntryRefused: The library is not installed.
    """
    name = next((name for name, own in _NUMBERS.items() if own == number), None)
    if name is None:
        raise EntryCorrupt(f"its compression has the unknown number {number}; delete it")
    try:
        library = _library(number)
    except ImportError as error:
        raise EntryRefused(f"it is compressed: {_advice(name)}") from error
    try:
        raw = library.decompress(content, len_bytes)
    except Exception as error:
        raise EntryCorrupt(f"its compressed form is invalid ({error}); delete it") from error
    if len(raw) != len_bytes:
        raise EntryCorrupt(
            f"its compressed form does not have the {len_bytes} bytes that it should; delete it"
        )
    return raw


def _advice(name: str) -> str:
    return f"{name} is not installed; run: pip install 'tuckbox[{name}]'"


@functools.cache
def _library(number: int) -> _Library:
    if number == _NUMBERS["lz4"]:
        return _lz4(importlib.import_module("lz4.block"))
    for name in ("compression.zstd", "backports.zstd"):
        with suppress(ImportError):
            return _zstd(importlib.import_module(name))
    return _zstandard(importlib.import_module("zstandard"))


def _lz4(module: Any) -> _Library:
    def compressed(raw: bytes) -> bytes:
        result: bytes = module.compress(raw, store_size=False)
        return result

    def decompressed(content: bytes, len_bytes: int) -> bytes:
        result: bytes = module.decompress(content, uncompressed_size=len_bytes)
        return result

    return _Library(compressed, decompressed)


def _zstd(module: Any) -> _Library:
    def decompressed(content: bytes, len_bytes: int) -> bytes:
        limit = {module.DecompressionParameter.window_log_max: _window_log(len_bytes)}
        reader = module.ZstdDecompressor(options=limit)
        result: bytes = reader.decompress(content, max_length=len_bytes + 1)
        return result

    return _Library(module.compress, decompressed)


def _zstandard(module: Any) -> _Library:
    def decompressed(content: bytes, len_bytes: int) -> bytes:
        decompressor = module.ZstdDecompressor(max_window_size=1 << _window_log(len_bytes))
        # `decompress` would obey a length that the content claims.
        with decompressor.stream_reader(content) as reader:
            result: bytes = reader.read(len_bytes + 1)
        return result

    return _Library(lambda raw: module.ZstdCompressor().compress(raw), decompressed)


def _window_log(len_bytes: int) -> int:
    """The window that a result of this length needs: a hostile one could ask for much memory."""
    return min(max(len_bytes.bit_length(), _WINDOW_LOG_MIN), _WINDOW_LOG_MAX)
