"""`Cache`: a cache on one driver, such as Redis, with the operations of the shared one.

Joins `RemoteStore` with the operations that `tuckbox.memory.Cache` has. Must not know servers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, MutableMapping
from typing import Any, ClassVar, NoReturn, Optional, SupportsIndex, Union

from tuckbox.brief import refuse_if_brief
from tuckbox.compression import Algorithm
from tuckbox.contract import Token
from tuckbox.coordination.operations import Coordinating
from tuckbox.coordination.space import Space
from tuckbox.drivers.contract import Driver
from tuckbox.errors import EntryCorrupt, InvalidArgument, Unsupported
from tuckbox.flights import AsyncLoading
from tuckbox.limits import checked_choice
from tuckbox.loading import Loading
from tuckbox.memoize import Memoizing
from tuckbox.memory.codec import Encoded
from tuckbox.memory.core import Core
from tuckbox.namespaces import Namespace
from tuckbox.objects import Codec, Objects, Pickle
from tuckbox.organising import Organising
from tuckbox.remote.store import RemoteStore
from tuckbox.signing import SecretArgument
from tuckbox.surface import Surface

__all__ = ["Cache"]

_DAMAGED = (IndexError, KeyError, ValueError, TypeError, OverflowError, RecursionError)
"""What decoding bytes that nobody encoded can raise."""


class Cache(Organising, Coordinating, Surface, Loading, AsyncLoading, Memoizing, Core):
    """A cache whose entries are where a driver keeps them.

    Has the operations of `tuckbox.Cache`. Each takes at least one round trip to the place. These
    differ:

    - `clear`, `len`, iteration and `expire` visit all keys of the place, and raise Unsupported
      where it cannot list them (memcached). Clear a namespace instead, which takes one round trip.
    - A lease ends after ``lease_s`` seconds, so a maker that takes longer may have a successor.
    - Entries with tags take a second round trip, those of a namespace one for each of its names.

    Args:
        driver: Where the entries are. Closed with the cache.
        prefix: What keys of this program begin with at the place.
        lease_s: For how many seconds a maker has its lease.
        read_only: Whether only read operations are allowed.
        evict: False is refused: the place evicts by rules of its own. So is ``pinned=True``.
        ordered: True is refused: the place keeps no order.
        pickle: ``"never"``, or ``"signed"`` with ``secret``. ``"private"`` is refused: others can
            write to the place.
        secret: As for `tuckbox.Cache`.
        codec: As for `tuckbox.Cache`.
        compress: As for `tuckbox.Cache`.
        compressor: As for `tuckbox.Cache`.

    Example:
        >>> from tuckbox.drivers.memory import Memory
        >>> cache = Cache(Memory(), "app")
        >>> cache.set("user:42", {"name": "Ada"}, ttl=300)
        >>> cache.get("user:42")
        {'name': 'Ada'}
    """

    _pins: ClassVar[bool] = False

    def __init__(
        self,
        driver: Driver,
        prefix: str = "tuckbox",
        *,
        lease_s: float = 30.0,
        read_only: bool = False,
        evict: Optional[bool] = None,
        ordered: Optional[bool] = None,
        pickle: Pickle = "never",
        secret: Optional[SecretArgument] = None,
        codec: Union[Codec, Iterable[Codec], None] = None,
        compress: Union[float, str, SupportsIndex, None] = None,
        compressor: Algorithm = "zstd",
    ) -> None:
        given: object = prefix
        if not isinstance(given, str) or not given:
            raise InvalidArgument(f"prefix must be a str that is not empty, not {given!r}")
        if not 0 < lease_s < math.inf:
            raise InvalidArgument(f"lease_s must be a positive number of seconds, not {lease_s!r}")
        if pickle == "private":
            raise InvalidArgument(
                f'pickle="private" is for files that only you can write, and {driver.title} may '
                'have other users; use pickle="signed" with a secret'
            )
        if checked_choice("ordered", ordered):
            raise Unsupported(
                f"{driver.title} keeps no order of insertion, so ordered=True cannot be had; "
                "omit it, or use a cache in shared memory"
            )
        if checked_choice("evict", evict) is False:
            raise Unsupported(
                f"{driver.title} evicts by rules of its own, so evict=False cannot be kept; "
                "omit it, or use a cache in shared memory"
            )
        objects = Objects(
            pickle=pickle, secret=secret, codec=codec, compress=compress, compressor=compressor
        )
        store = RemoteStore(driver, prefix.encode() + b"\0", lease_s=lease_s)
        # `RemoteStore` has the operations of the other one that are used here.
        super().__init__(store, objects=objects, read_only=read_only)  # type: ignore[arg-type]
        self._driver = driver
        self._name = prefix

    def _place(self) -> str:
        return f"{self._name!r} in {self._driver.title}"

    def _title(self) -> str:
        return f"the cache {self._place()}"

    def close(self) -> None:
        """Close the cache and the connections of its driver. Closing twice does nothing."""
        if not self.closed:
            self._remote().abandon_all(self._handle)
            self._handle._is_open = False
            self._driver.close()

    def _built(self, encoded: bytes, kept: Encoded) -> Any:
        try:
            return super()._built(encoded, kept)
        except _DAMAGED as error:
            raise EntryCorrupt(
                f"the value in {self._driver.title} cannot be decoded ({error!r}); delete it: "
                "another program may have stored it"
            ) from error

    def _remote(self) -> RemoteStore:
        return self._readable()  # type: ignore[return-value]

    def _watchable(self) -> Optional[RemoteStore]:
        """Return the store, if its place tells what changes."""
        return self._remote() if self._driver.capabilities.tells_changes else None

    def _finish(self, token: Token, *arguments: Any) -> bool:
        # First: a lease lasts if the operation would block.
        refuse_if_brief()
        return super()._finish(token, *arguments)

    # --- What such a cache does not have -------------------------------------------------------

    def _resize(self, *_limits: object) -> NoReturn:
        raise Unsupported(
            f"{self._driver.title} has limits of its own; set them there, such as maxmemory"
        )

    @property
    def size(self) -> int:
        """The limit is that of the place: 0."""
        self._described()
        return 0

    @property
    def max_entries(self) -> Optional[int]:
        """None: the limit is that of the place."""
        self._described()
        return None

    @property
    def evicts(self) -> bool:
        """True: the place may evict entries by rules of its own."""
        self._described()
        return True

    @property
    def ordered(self) -> bool:
        """False: the place keeps no order."""
        self._described()
        return False

    def _stats(self) -> dict[str, int]:
        self._readable()
        raise Unsupported(f"use the statistics of {self._driver.title}, or `counts`")

    def counts(self) -> dict[str, int]:
        """Return how many hits, misses, sets and deletes this handle has had.

        Example:
            >>> cache.set("a", 1)
            >>> cache.get("a"), cache.counts()["hits"]
            (1, 1)
        """
        return dict(self._remote().counts)

    def _check(self) -> dict[str, Any]:
        self._readable()
        raise Unsupported(f"check {self._driver.title} with its own tools")

    def _coordination(self) -> Space:
        if self._driver.capabilities.may_evict:
            raise Unsupported(
                f"{self._driver.title} may evict entries at any moment, so it cannot hold locks, "
                "semaphores, rate limits or queues; use a cache on a file, Redis or a database"
            )
        return super()._coordination()

    def _transactions(self) -> Space:
        raise Unsupported(
            f"{self._driver.title} has no pinned entries, and its leases end while their process "
            "lives, so transactions would not be all or nothing; use a cache on a file or in "
            "memory, or the transactions of the place itself"
        )

    def _within(self, name: str) -> Namespace:
        return _Namespace(self, name)  # type: ignore[arg-type] # As in `tuckbox.memory`.

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: a connection belongs to its process."""
        raise TypeError(f"{self!r} cannot be pickled or copied; connect in each process")


class _Namespace(Namespace, Cache):  # type: ignore[misc] # For types, one of `tuckbox.Cache`.
    """A namespace of such a cache."""


MutableMapping.register(Cache)
