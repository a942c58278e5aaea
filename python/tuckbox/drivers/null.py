"""`Null`: a driver that stores nothing, to switch a cache off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Optional
from urllib.parse import urlsplit

from tuckbox.drivers.contract import Capabilities, Found, Version
from tuckbox.errors import CacheClosed, InvalidArgument

__all__ = ["Null"]


class Null:
    """Stores nothing: each get is a miss, and nothing is there to swap, delete or touch.

    That is within the contract, because a place may evict any value at once. Only `add` is
    different: it always returns True, because the key never has a value. So of several callers,
    each gets True, and whoever uses `add` as a lock is not alone.

    Example:
        >>> driver = Null()
        >>> driver.set(b"k", b"value", None)
        >>> driver.get(b"k") is None
        True
        >>> driver.add(b"k", b"1", None), driver.add(b"k", b"2", None)
        (True, True)
    """

    capabilities = Capabilities(
        between_processes=False,
        between_machines=False,
        persists=False,
        scans=True,
        may_evict=True,
    )
    title = "nowhere"

    def __init__(self) -> None:
        self._is_open = True

    @classmethod
    def from_url(cls, url: str) -> Null:
        """Return a driver for ``null://``.

        Raises:
            InvalidArgument: the URL has more parts than its scheme.
        """
        if tuple(urlsplit(url)) != ("null", "", "", "", ""):
            raise InvalidArgument(f"{url!r} is not the URL of a null driver; write null://")
        return cls()

    def get(self, key: bytes) -> Optional[Found]:  # noqa: ARG002
        """See `Driver.get`."""
        self.ping()
        return None

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Found]:  # noqa: ARG002
        """See `Driver.get_many`."""
        self.ping()
        return {}

    def set(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> None:  # noqa: ARG002
        """See `Driver.set`."""
        self.ping()

    def set_many(self, items: Iterable[tuple[bytes, bytes, Optional[float]]]) -> None:
        """See `Driver.set_many`."""
        self.ping()
        for _ in items:
            pass

    def add(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> bool:  # noqa: ARG002
        """Return True."""
        self.ping()
        return True

    def swap(
        self,
        key: bytes,  # noqa: ARG002
        value: bytes,  # noqa: ARG002
        ttl_s: Optional[float],  # noqa: ARG002
        version: Version,  # noqa: ARG002
    ) -> bool:
        """See `Driver.swap`."""
        self.ping()
        return False

    def delete(self, key: bytes, version: Optional[Version] = None) -> bool:  # noqa: ARG002
        """See `Driver.delete`."""
        self.ping()
        return False

    def delete_many(self, keys: Iterable[bytes]) -> int:
        """See `Driver.delete_many`."""
        return sum(self.delete(key) for key in keys)

    def touch(self, key: bytes, ttl_s: Optional[float]) -> bool:  # noqa: ARG002
        """See `Driver.touch`."""
        self.ping()
        return False

    def scan(self, prefix: bytes) -> Iterator[bytes]:  # noqa: ARG002
        """See `Driver.scan`."""
        self.ping()
        return iter(())

    def clear(self, prefix: bytes) -> None:  # noqa: ARG002
        """See `Driver.clear`."""
        self.ping()

    def ping(self) -> None:
        """See `Driver.ping`."""
        if not self._is_open:
            raise CacheClosed("this driver is closed; open it again to use it")

    def close(self) -> None:
        """See `Driver.close`."""
        self._is_open = False
