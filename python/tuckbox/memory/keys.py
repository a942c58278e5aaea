"""Keys as bytes, as in ``crates/python/src/keys.rs``, which has the table. Must not know stores.

Two keys have the same bytes exactly if they are equal.
"""

from __future__ import annotations

from typing import Any

from tuckbox.errors import EntryCorrupt, KeyTooLong, KeyTypeError
from tuckbox.memory.messages import key_advice, object_name, subclass_advice, type_name
from tuckbox.memory.numbers import plain

__all__ = ["decode", "encode", "encode_lookup", "int_bytes", "joined", "take_length", "varint"]

_ABSENT = b"\xff\xff"
"""What a lookup of an object that no key equals looks for: no key is encoded like this."""
_DEPTH_MAX = 64
_KEY_BYTES_MAX = 1 << 16


class _Absent(Exception):  # noqa: N818 - Not an error.
    """A lookup met an object that no key equals."""


def encode(key: Any) -> bytes:
    """Return the bytes of a key to store.

    Raises:
        KeyTypeError, KeyTooLong: The key is invalid.
    """
    encoded = _text(key) if type(key) is str else _Encoder(key, is_lookup=False).encoded(key, 0)
    return encoded if len(encoded) <= _KEY_BYTES_MAX else _refuse_length(key, len(encoded))


def encode_lookup(key: Any) -> bytes:
    """Return the bytes of a key to look up. Of other types, only unhashable ones are refused.

    Raises:
        KeyTypeError, KeyTooLong: The key is invalid.
    """
    if type(key) is str:
        encoded = key.encode("utf-8", "surrogatepass")
    else:
        try:
            encoded = _Encoder(key, is_lookup=True).encoded(key, 0)
        except _Absent:
            return _ABSENT
    return encoded if len(encoded) <= _KEY_BYTES_MAX else _refuse_length(key, len(encoded))


def joined(prefix: bytes, encoded: bytes, key: Any) -> bytes:
    """Return the bytes of a key in a namespace. Raises KeyTooLong."""
    len_bytes = len(prefix) + len(encoded)
    return prefix + encoded if len_bytes <= _KEY_BYTES_MAX else _refuse_length(key, len_bytes)


def _text(text: str) -> bytes:
    # The method of `str`, because a subclass may override `encode`.
    return str.encode(text, "utf-8", "surrogatepass")


def int_bytes(number: int) -> bytes:
    """Return the two's complement of an int, little-endian, in as few bytes as have a sign bit."""
    return int.to_bytes(number, int.bit_length(number) // 8 + 1, "little", signed=True)


def varint(number: int) -> bytes:
    """Return a number from 0 up as LEB128."""
    if number < 0x80:
        return bytes((number,))
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def take_length(encoded: bytes, start: int) -> tuple[int, int]:
    """Return a LEB128 number of ``encoded``, and where it ends. Raises IndexError."""
    number = shift = 0
    while True:
        byte = encoded[start]
        start += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, start
        shift += 7


def _refuse_length(key: Any, len_bytes: int) -> bytes:
    raise KeyTooLong(
        f"key {object_name(key)}: key is {len_bytes} bytes long, and the limit is {_KEY_BYTES_MAX} "
        "bytes; shorten it, or use a digest of it"
    )


class _Encoder:
    """Encodes one key, which messages about its parts name."""

    def __init__(self, whole: Any, *, is_lookup: bool) -> None:
        self.whole = whole
        self.is_lookup = is_lookup

    def encoded(self, key: Any, depth: int) -> bytes:
        for base in (str, bytes, int, tuple):
            if isinstance(key, base):
                if not _inherits_equality(type(key), base):
                    return self.unequal(key, base, depth)
                return self.of_base(key, base, depth)
        if (number := plain(key)) is not None:
            return self.encoded(number, depth)
        if self.is_lookup:
            return self.equal(key)
        raise self.refusal(key)

    def of_base(self, key: Any, base: type, depth: int) -> bytes:
        if base is str:
            return _text(key)
        if base is bytes:
            return b"\xffb" + bytes.__getitem__(key, slice(None))
        if base is int:
            if (len_bytes := int.bit_length(key) // 8 + 3) > _KEY_BYTES_MAX:
                _refuse_length(self.whole, len_bytes)
            return b"\xffi" + int_bytes(key)
        if depth == _DEPTH_MAX:
            raise KeyTypeError(
                f"key {object_name(self.whole)} has tuples nested more than {_DEPTH_MAX} deep; "
                "flatten it"
            )
        parts = bytearray(b"\xfft")
        is_absent = False
        for item in tuple.__iter__(key):
            try:
                encoded = self.encoded(item, depth + 1)
            except _Absent:
                # A later item may be one that raises an error.
                is_absent = True
                continue
            parts += varint(len(encoded))
            parts += encoded
            # A small tuple can contain another one many times, and so have a long encoding.
            if len(parts) > _KEY_BYTES_MAX:
                _refuse_length(self.whole, len(parts))
        if is_absent:
            raise _Absent
        return bytes(parts)

    def unequal(self, key: Any, base: type, depth: int) -> bytes:
        """Encode an instance of a subclass with its own ``__eq__`` or ``__hash__``."""
        if (known := plain(key)) is not None:
            return self.encoded(known, depth)
        raise KeyTypeError(
            f"key {object_name(self.whole)}: {type_name(type(key))} cannot be a key, because it is "
            f"a subclass of {type_name(base)} with its own __eq__ or __hash__; use "
            f"{subclass_advice(key, base)}"
        )

    def equal(self, key: Any) -> bytes:
        """Encode the int that an object of another type equals, as a dict would find it."""
        try:
            number = hash(key)
        except TypeError:
            raise self.refusal(key) from None
        # An int below 2^61 - 1 is its own hash, except -1, whose hash is -2.
        for candidate in (number, number + (number == -2)):
            if key == candidate:
                return b"\xffi" + int_bytes(candidate)
        raise _Absent

    def refusal(self, key: Any) -> KeyTypeError:
        return KeyTypeError(
            f"key {object_name(self.whole)}: {type_name(type(key))} cannot be a key; keys are str, "
            f"bytes, int and tuples of these; {key_advice(key)}"
        )


def _inherits_equality(kind: Any, base: Any) -> bool:
    return kind is base or (kind.__eq__ is base.__eq__ and kind.__hash__ is base.__hash__)


def decode(encoded: bytes) -> Any:
    """Return the key with these bytes. Raises EntryCorrupt."""
    try:
        return _decoded(encoded)
    except (IndexError, UnicodeDecodeError):
        raise EntryCorrupt(f"the bytes {object_name(encoded)} are not a key; delete it") from None


def _decoded(encoded: bytes) -> Any:
    if not encoded.startswith(b"\xff"):
        return encoded.decode("utf-8", "surrogatepass")
    kind, content = encoded[1], encoded[2:]
    if kind == ord("b"):
        return content
    if kind == ord("i"):
        return int.from_bytes(content, "little", signed=True)
    items = []
    place = 2
    while place < len(encoded):
        length, place = take_length(encoded, place)
        items.append(_decoded(encoded[place : place + length]))
        place += length
    return tuple(items)
