"""Namespaces: keys that begin with a name and its era, as in ``crates/python/src/spaces.rs``.

Must not know how the rest of a key is encoded.
"""

from __future__ import annotations

from typing import Optional, Union

from tuckbox.memory.keys import take_length, varint
from tuckbox.memory.store import Store

__all__ = ["Eras", "Space", "is_of_former_era", "joined_len", "names_of", "own_part", "parted"]

_MARK = b"\xffn"
"""First bytes of a key in a namespace."""
_ERA_BYTES = 8


class Space:
    """A namespace, or one in another; without a name, what is in no namespace."""

    __slots__ = ("_levels",)

    def __init__(self, levels: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        """For each level, outermost first: how its keys begin, and its name for `Store.era`."""
        self._levels = levels

    def within(self, name: str) -> Space:
        """Return a namespace in this one."""
        encoded = name.encode()
        head = _MARK + varint(len(encoded)) + encoded
        return Space((*self._levels, (head, self.name + head)))

    @property
    def name(self) -> bytes:
        """What the store tells the era of this namespace by."""
        return self._levels[-1][1] if self._levels else b""

    def prefix(self, store: Store) -> bytes:
        """Return what all keys begin with now; nothing without a namespace."""
        if not self._levels:
            return b""
        return b"".join(head + _era(store, name) for head, name in self._levels)


def _era(store: Union[Store, Eras], name: bytes) -> bytes:
    return store.era(name).to_bytes(_ERA_BYTES, "little")


def own_part(key: bytes, prefix: bytes) -> Optional[bytes]:
    """Return a key without its prefix; None if it belongs to another namespace."""
    rest = key[len(prefix) :]
    return rest if key.startswith(prefix) and not rest.startswith(_MARK) else None


class Eras:
    """The eras of namespaces, each asked for once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[bytes, int] = {}

    def era(self, name: bytes) -> int:
        """Return the era of a namespace."""
        if name not in self._known:
            self._known[name] = self._store.era(name)
        return self._known[name]


def is_of_former_era(store: Union[Store, Eras], key: bytes) -> bool:
    """Return whether a key has an era that is not its namespace's."""
    name = b""
    while key.startswith(_MARK):
        length, start = take_length(key, len(_MARK))
        end = start + length
        name += key[:end]
        if key[end : end + _ERA_BYTES] != _era(store, name):
            return True
        key = key[end + _ERA_BYTES :]
    return False


def names_of(name: bytes) -> tuple[str, ...]:
    """Return the names of a namespace and those it is in, outermost first.

    Args:
        name: What the store tells its era by, as `Space.name`.
    """
    names = []
    while name.startswith(_MARK):
        length, start = take_length(name, len(_MARK))
        names.append(name[start : start + length].decode())
        name = name[start + length :]
    return tuple(names)


def joined_len(names: tuple[str, ...]) -> int:
    """Return the number of bytes that the keys in these namespaces begin with."""
    encoded = [name.encode() for name in names]
    return sum(len(_MARK + varint(len(name)) + name) + _ERA_BYTES for name in encoded)


def parted(key: bytes) -> tuple[tuple[str, ...], bytes]:
    """Return the names of the namespaces that a key is in, outermost first, and the rest of it."""
    names = []
    while key.startswith(_MARK):
        length, start = take_length(key, len(_MARK))
        names.append(key[start : start + length].decode())
        key = key[start + length + _ERA_BYTES :]
    return tuple(names), key
