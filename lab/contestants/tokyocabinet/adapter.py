"""Tokyo Cabinet's abstract database through ctypes: a hash file, or a hash in memory."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_void_p, string_at
from pathlib import Path

from lab.hosts.python.contract import Limits, Store

try:
    _library = ctypes.CDLL("libtokyocabinet.so.9")
except OSError as error:
    raise ImportError(str(error)) from error

VERSION = str((c_char_p.in_dll(_library, "tcversion").value or b"").decode())

_BYTES_PER_BUCKET = 512

for _name, _result, _arguments in (
    ("tcadbnew", c_void_p, []),
    ("tcadbopen", c_bool, [c_void_p, c_char_p]),
    ("tcadbput", c_bool, [c_void_p, c_char_p, c_int, c_char_p, c_int]),
    ("tcadbget", c_void_p, [c_void_p, c_char_p, c_int, POINTER(c_int)]),
    ("tcadbout", c_bool, [c_void_p, c_char_p, c_int]),
    ("tcadbvanish", c_bool, [c_void_p]),
    ("tcadbclose", c_bool, [c_void_p]),
    ("tcadbdel", None, [c_void_p]),
    ("tcfree", None, [c_void_p]),
):
    _function = getattr(_library, _name)
    _function.restype, _function.argtypes = _result, _arguments


def open(folder: str, limits: Limits, settings: dict[str, str]) -> Store:
    """Open the file in `folder`, or a new table in memory."""
    database = _library.tcadbnew()
    name = _name_of(folder, limits, settings["kind"])
    if not _library.tcadbopen(database, os.fsencode(name)):
        raise OSError(f"Tokyo Cabinet could not open {name}")
    put, find, out, free = (
        _library.tcadbput,
        _library.tcadbget,
        _library.tcadbout,
        _library.tcfree,
    )
    size = c_int()
    size_there = byref(size)

    def get(key: str) -> bytes | None:
        encoded = key.encode()
        found = find(database, encoded, len(encoded), size_there)
        if found is None:
            return None
        value = string_at(found, size.value)
        free(found)
        return value

    def set_(key: str, value: bytes) -> object:
        encoded = key.encode()
        return put(database, encoded, len(encoded), value, len(value))

    def delete(key: str) -> object:
        encoded = key.encode()
        return out(database, encoded, len(encoded))

    def clear() -> None:
        if not _library.tcadbvanish(database):
            raise OSError("Tokyo Cabinet could not empty the database")

    def close() -> None:
        _library.tcadbclose(database)
        _library.tcadbdel(database)

    return Store(get=get, set=set_, delete=delete, close=close, clear=clear)


def _name_of(folder: str, limits: Limits, kind: str) -> str:
    if kind == "file":
        return str(Path(folder, "cache.tch"))
    capacity = f"#capnum={limits.entries}" if limits.entries else ""
    if limits.bytes:
        capacity += f"#capsiz={limits.bytes}#bnum={limits.bytes // _BYTES_PER_BUCKET}"
    return f"*{capacity}"
