"""A program that can write to a cache's file and knows no secret: it takes and plants entries."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from tuckbox import Cache
from tuckbox.objects import Objects


class Raw(NamedTuple):
    """The code and the bytes of an entry that is no plain value."""

    code: int
    content: bytes


class _Bytes(Objects):
    """Returns the bytes of entries, and stores any."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.takes = 2

    def encode(self, value: object, key: bytes, cache_id: bytes) -> Optional[tuple[int, bytes]]:
        return tuple(value) if isinstance(value, Raw) else None

    def decode(self, code: int, content: bytes, key: bytes, cache_id: bytes) -> Raw:
        return Raw(code, bytes(content))


class Attacker(Cache):
    """A cache whose values are `Raw`, if they are neither plain nor of registered types."""

    _objects_class = _Bytes
