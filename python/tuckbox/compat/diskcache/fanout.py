"""`FanoutCache`: several caches in one directory, each with a part of the keys and its own lock."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Callable, Optional, TypeVar, Union

from tuckbox.compat.diskcache.core import Cache
from tuckbox.compat.diskcache.deque import Deque
from tuckbox.compat.diskcache.disk import Disk
from tuckbox.compat.diskcache.entries import FIRST_SIZE
from tuckbox.compat.diskcache.index import Index
from tuckbox.compat.diskcache.memoizing import memoizer
from tuckbox.compat.diskcache.settings import DEFAULT_SETTINGS, ENOVAL, Timeout
from tuckbox.compat.diskcache.signatures import Secret, SecretArgument

__all__ = ["FanoutCache"]

_F = TypeVar("_F", bound=Callable[..., Any])
_R = TypeVar("_R")


class _Shard(Cache):
    # Each has a file: together they may take as much as a few caches.
    _first_size = FIRST_SIZE // 4


class FanoutCache:
    """A cache of several shards, so that several processes can change it at once.

    Example:
        >>> cache = FanoutCache("./fanout", shards=4)
        >>> cache.set("user:42", "Ada")
        True
        >>> cache["user:42"]
        'Ada'
        >>> cache.close()

    The methods are those of `Cache`. Where those would raise `Timeout`, these return what they
    return for a missing key; with ``retry=True`` they wait. The settings are attributes.
    """

    def __init__(
        self,
        directory: Union[str, os.PathLike[str], None] = None,
        shards: int = 8,
        timeout: float = 0.010,
        disk: type[Disk] = Disk,
        *,
        secret: Union[SecretArgument, Secret, None] = None,
        **settings: Any,
    ) -> None:
        """Open the shards of a directory, and create what is missing.

        Args:
            directory: The directory; None for a new temporary one.
            shards: How many shards there are. Must be the same each time.
            timeout: Seconds to wait for the lock of a shard.
            disk: How keys and values are converted.
            secret: Signs the pickles: see `Cache`. Those of `cache`, `deque` and `index`, too.
            settings: As for `Cache`. Each shard has its part of ``size_limit``.

        Raises:
            ValueError, OSError, UnsafeFile: As `Cache`.
        """
        if directory is None:
            directory = tempfile.mkdtemp(prefix="diskcache-")
        self._directory = os.path.expandvars(os.path.expanduser(str(directory)))
        self._count = shards
        self._disk = disk
        self._secret = None if secret is None else Secret(secret)
        settings["size_limit"] = settings.get("size_limit", DEFAULT_SETTINGS["size_limit"]) / shards
        secret = self._secret
        self._shards = tuple(
            _Shard(
                os.path.join(self._directory, f"{number:03d}"),
                timeout,
                disk,
                secret=secret,
                **settings,
            )
            for number in range(shards)
        )
        self._hash = self._shards[0].disk.hash
        self._parts: dict[tuple[str, str], Any] = {}

    @property
    def directory(self) -> str:
        """The directory."""
        return self._directory

    def __getattr__(self, name: str) -> Any:
        """Return a setting of the first shard.

        Raises:
            AttributeError: It is none of the settings.
        """
        if name in DEFAULT_SETTINGS or name in {"timeout", "disk"}:
            return getattr(self._shards[0], name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _shard(self, key: Any) -> Cache:
        return self._shards[self._hash(key) % self._count]

    @contextlib.contextmanager
    def transact(self, retry: bool = True) -> Iterator[None]:
        """Make several operations one: see `Cache.transact`. Takes the lock of every shard.

        Args:
            retry: Must be True: it waits for as long as it takes.

        Raises:
            ValueError: ``retry`` is false.
        """
        if not retry:
            raise ValueError("retry must be True: a FanoutCache waits for all of its shards")
        with contextlib.ExitStack() as stack:
            for shard in self._shards:
                stack.enter_context(shard.transact(retry=True))
            yield

    def set(
        self,
        key: Any,
        value: Any,
        expire: Optional[float] = None,
        read: bool = False,
        tag: Any = None,
        retry: bool = False,
    ) -> bool:
        """Store a value, and return whether it was stored. See `Cache.set`."""
        with contextlib.suppress(Timeout):
            return self._shard(key).set(key, value, expire, read, tag, retry)
        return False

    def __setitem__(self, key: Any, value: Any) -> None:
        """Store a value. Waits for the lock for as long as it takes."""
        self._shard(key)[key] = value

    def touch(self, key: Any, expire: Optional[float] = None, retry: bool = False) -> bool:
        """Give an entry another expiry. See `Cache.touch`."""
        with contextlib.suppress(Timeout):
            return self._shard(key).touch(key, expire, retry)
        return False

    def add(
        self,
        key: Any,
        value: Any,
        expire: Optional[float] = None,
        read: bool = False,
        tag: Any = None,
        retry: bool = False,
    ) -> bool:
        """Store a value if the key has none. See `Cache.add`."""
        with contextlib.suppress(Timeout):
            return self._shard(key).add(key, value, expire, read, tag, retry)
        return False

    def incr(self, key: Any, delta: Any = 1, default: Any = 0, retry: bool = False) -> Any:
        """Add to a number, and return the sum; None after a timeout. See `Cache.incr`."""
        with contextlib.suppress(Timeout):
            return self._shard(key).incr(key, delta, default, retry)
        return None

    def decr(self, key: Any, delta: Any = 1, default: Any = 0, retry: bool = False) -> Any:
        """Subtract from a number. See `incr`."""
        with contextlib.suppress(Timeout):
            return self._shard(key).decr(key, delta, default, retry)
        return None

    def get(
        self,
        key: Any,
        default: Any = None,
        read: bool = False,
        expire_time: bool = False,
        tag: bool = False,
        retry: bool = False,
    ) -> Any:
        """Return the value of a key. See `Cache.get`."""
        with contextlib.suppress(Timeout):
            return self._shard(key).get(key, default, read, expire_time, tag, retry)
        return default

    def __getitem__(self, key: Any) -> Any:
        """Return the value of a key.

        Raises:
            KeyError: It has none.
        """
        return self._shard(key)[key]

    def read(self, key: Any) -> Any:
        """Return the value of a key as an open file, if it is in one. See `Cache.read`."""
        return self._shard(key).read(key, retry=True)

    def __contains__(self, key: Any) -> bool:
        """Return whether a key has a value."""
        return key in self._shard(key)

    def pop(
        self,
        key: Any,
        default: Any = None,
        expire_time: bool = False,
        tag: bool = False,
        retry: bool = False,
    ) -> Any:
        """Remove an entry and return its value. See `Cache.pop`."""
        with contextlib.suppress(Timeout):
            return self._shard(key).pop(key, default, expire_time, tag, retry)
        return default

    def delete(self, key: Any, retry: bool = False) -> bool:
        """Remove an entry. See `Cache.delete`."""
        with contextlib.suppress(Timeout):
            return self._shard(key).delete(key, retry)
        return False

    def __delitem__(self, key: Any) -> None:
        """Remove an entry.

        Raises:
            KeyError: The key has no value.
        """
        del self._shard(key)[key]

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the keys of one shard after the other, each in the order of insertion."""
        return itertools.chain.from_iterable(map(iter, self._shards))

    def __reversed__(self) -> Iterator[Any]:
        """Iterate over the keys in the opposite order."""
        return itertools.chain.from_iterable(map(reversed, reversed(self._shards)))

    def __len__(self) -> int:
        """Return how many entries there are, expired ones included."""
        return sum(map(len, self._shards))

    def expire(self, retry: bool = False) -> int:
        """Remove the expired entries, and return how many there were."""
        return self._remove("expire", time.time(), retry=retry)

    def evict(self, tag: Any, retry: bool = False) -> int:
        """Remove the entries of a tag, and return how many there were."""
        return self._remove("evict", tag, retry=retry)

    def cull(self, retry: bool = False) -> int:
        """Remove entries until each shard is within its limit, and return how many. See `Cache`."""
        return self._remove("cull", retry=retry)

    def clear(self, retry: bool = False) -> int:
        """Remove all entries, and return how many there were."""
        return self._remove("clear", retry=retry)

    def _remove(self, name: str, *args: Any, retry: bool) -> int:
        count = 0
        for shard in self._shards:
            while True:
                try:
                    count += getattr(shard, name)(*args, retry=retry)
                except Timeout as timeout:
                    count += timeout.args[0]
                else:
                    break
        return count

    def memoize(
        self,
        name: Optional[str] = None,
        typed: bool = False,
        expire: Optional[float] = None,
        tag: Any = None,
        ignore: Iterable[Any] = (),
    ) -> Callable[[_F], _F]:
        """Make a function remember what it returned. See `Cache.memoize`."""
        return memoizer(self, name, typed, expire, tag, ignore)

    def check(self, fix: bool = False, retry: bool = False) -> list[warnings.WarningMessage]:
        """Compare entries, files and counters. See `Cache.check`."""
        return [warning for shard in self._shards for warning in shard.check(fix, retry)]

    def create_tag_index(self) -> None:
        """Set ``tag_index``. Has no other effect."""
        for shard in self._shards:
            shard.create_tag_index()

    def drop_tag_index(self) -> None:
        """Reset ``tag_index``. Has no other effect."""
        for shard in self._shards:
            shard.drop_tag_index()

    def stats(self, enable: bool = True, reset: bool = False) -> tuple[int, int]:
        """Return how many reads found a value and how many did not. See `Cache.stats`."""
        counts = [shard.stats(enable, reset) for shard in self._shards]
        return sum(hits for hits, _ in counts), sum(misses for _, misses in counts)

    def volume(self) -> int:
        """Return about how many bytes the entries take, with their files."""
        return sum(shard.volume() for shard in self._shards)

    def reset(self, key: str, value: Any = ENOVAL) -> Any:
        """Read a setting again, or change it, in every shard. See `Cache.reset`.

        Returns:
            The value in the last shard.
        """
        for shard in self._shards:
            while True:
                try:
                    result = shard.reset(key, value)
                except Timeout:
                    continue
                break
        return result

    def _part(self, folder: str, name: str, opened: Callable[[str], _R]) -> _R:
        if (folder, name) not in self._parts:
            directory = os.path.join(self._directory, folder, *name.split("/"))
            self._parts[folder, name] = opened(directory)
        part: _R = self._parts[folder, name]
        return part

    def cache(
        self, name: str, timeout: float = 60, disk: Optional[type[Disk]] = None, **settings: Any
    ) -> Cache:
        """Return a `Cache` in the folder ``cache`` of the directory.

        Args:
            name: The folder in there; slashes make subfolders. Each name is opened once, with the
                arguments of the first call.
            timeout: Seconds to wait for the lock.
            disk: How keys and values are converted; as in this cache if None.
            settings: As for `Cache`.

        Returns:
            The cache.

        Example:
            >>> fanout = FanoutCache("./fanout")
            >>> fanout.cache("users").set("42", "Ada")
            True
        """
        return self._part(
            "cache",
            name,
            lambda directory: Cache(
                directory, timeout, disk or self._disk, **{"secret": self._secret, **settings}
            ),
        )

    def deque(self, name: str, maxlen: Optional[float] = None) -> Deque:
        """Return a `Deque` in the folder ``deque`` of the directory.

        Args:
            name: The folder in there; slashes make subfolders. Each name is opened once, with the
                arguments of the first call.
            maxlen: The most items it keeps; None for no limit.

        Returns:
            The deque.
        """
        return self._part(
            "deque", name, lambda directory: Deque.fromcache(self._unlimited(directory), (), maxlen)
        )

    def index(self, name: str) -> Index:
        """Return an `Index` in the folder ``index`` of the directory.

        Args:
            name: The folder in there; slashes make subfolders. Each name is opened once.

        Returns:
            The index.
        """
        return self._part(
            "index", name, lambda directory: Index.fromcache(self._unlimited(directory))
        )

    def _unlimited(self, directory: str) -> Cache:
        return Cache(directory, disk=self._disk, secret=self._secret, eviction_policy="none")

    def close(self) -> None:
        """Close the files. Using the cache opens them again."""
        for shard in self._shards:
            shard.close()
        self._parts.clear()

    def __enter__(self) -> FanoutCache:
        """Return the cache."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the files."""
        self.close()

    def __getstate__(self) -> tuple[Any, ...]:
        """Return how to open the cache in another process."""
        state = self._directory, self._count, self.timeout, self._disk
        return state if self._secret is None else (*state, self._secret)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Open the cache."""
        secret = state[4] if state[4:] else None
        self.__init__(*state[:4], secret=secret)  # type: ignore[misc]
