"""One open handle per file and process.

Frameworks create a backend object for each thread or request, and opening the file for each of them
would be slow. This module knows no framework.
"""

from __future__ import annotations

import functools
import os
import threading
from contextlib import suppress
from typing import Any, Callable, ClassVar, NamedTuple, Optional, Union

from tuckbox.brief import refuse_if_brief
from tuckbox.cache import Cache
from tuckbox.choices import AfterPowerCut, Favour
from tuckbox.errors import CacheFileError
from tuckbox.integrations.siblings import open_file
from tuckbox.objects import Objects, Pickle
from tuckbox.sizes import parse_size

__all__ = ["OpenOptions", "reopened", "shared", "validate"]

_SMALL_BYTES = 1 << 20
_LARGEST_BYTES = 8 << 40


class BriefObjects(Objects):
    """Pickles and unpickles nothing in an event loop, because that may run for long."""

    def encode(self, value: object, key: bytes, cache_id: bytes) -> Optional[tuple[int, bytes]]:
        """As `Objects.encode`.

        Raises:
            WouldBlock: The operation must be brief.
        """
        refuse_if_brief()
        return super().encode(value, key, cache_id)

    def decode(self, code: int, content: bytes, key: bytes, cache_id: bytes) -> Any:
        """As `Objects.decode`.

        Raises:
            WouldBlock: The operation must be brief.
        """
        refuse_if_brief()
        return super().decode(code, content, key, cache_id)


class ExactCache(Cache):
    """A cache that never stores a value as another type. Pickles outside of event loops only."""

    _exact = True
    _objects_class: ClassVar[type[Objects]] = BriefObjects


class OpenOptions(NamedTuple):
    """The arguments of `Cache`, and for which process."""

    path: str
    size: Union[float, str, None] = None
    max_entries: Optional[int] = None
    lock_timeout: float = 1.0
    read_only: bool = False
    group: Union[str, int, None] = None
    favour: Optional[Favour] = None
    after_power_cut: Optional[AfterPowerCut] = None
    evict: Optional[bool] = None
    pickle: Pickle = "never"
    secret: Optional[Callable[[], Any]] = None
    test_process: Optional[str] = None
    """If set, a private cache takes the place of the file, one for each name and path."""

    def arguments(self, **others: object) -> dict[str, Any]:
        """Return the arguments of `Cache`, some of them replaced by ``others``."""
        given = {**self._asdict(), **others}
        del given["test_process"]
        return given


_handles: dict[OpenOptions, Cache] = {}
# By the name of the test process and the path.
_private: dict[tuple[str, str], ExactCache] = {}
_opening = threading.Lock()


@functools.lru_cache(maxsize=64)
def validate(options: OpenOptions) -> None:
    """Check the arguments of `Cache` without opening the file.

    Raises:
        InvalidArgument: An argument is invalid, whatever the file is.
    """
    # A private cache has the same limits, and a small one costs little.
    size_bytes = parse_size(_SMALL_BYTES if options.size is None else options.size)
    if size_bytes <= _LARGEST_BYTES:
        size_bytes = min(size_bytes, _SMALL_BYTES)
    Cache(**options.arguments(path=None, size=size_bytes, group=None)).close()
    if options.group is not None:
        # Looks the group up first. Whether the file can be opened does not matter here.
        with suppress(CacheFileError):
            Cache(options.path, read_only=True, group=options.group).close()


def shared(options: OpenOptions) -> Cache:
    """Return this process's handle, and open it on first use.

    A handle stays open until the process ends. A forked child uses the handle of its parent.

    Args:
        options: The file, and how to open it.

    Returns:
        The same handle for every thread and every call with these options.

    Raises:
        TuckboxError: As raised by `Cache`.

    Example:
        >>> shared(OpenOptions("/tmp/app.tuck")) is shared(OpenOptions("/tmp/app.tuck"))
        True
    """
    handle = _handles.get(options)
    if handle is None or handle.closed:
        with _opening:
            handle = _handles.get(options)
            if handle is None or handle.closed:
                handle = _handles[options] = _open(options)
    return handle


def _open(options: OpenOptions) -> Cache:
    if options.test_process is None:
        return open_file(ExactCache, **options.arguments())
    place = (options.test_process, options.path)
    first = _private.get(place)
    if first is None or first.closed:
        first = _private[place] = ExactCache(**options.arguments(path=None, group=None))
        return first
    # Another handle of the same cache, which may have other objects.
    reopen, arguments, _ = first.__reduce__()
    another: ExactCache = reopen(
        *arguments[:-1], BriefObjects(pickle=options.pickle, secret=options.secret)
    )
    return another


def reopened(options: OpenOptions, lost: Cache) -> Cache:
    """Return a new handle in place of a lost or closed one.

    Args:
        options: The file, and how to open it.
        lost: A handle that raised CacheLost or CacheClosed, and cannot be used again.

    Returns:
        Another handle, the same for every thread.

    Raises:
        TuckboxError: As raised by `Cache`.
    """
    with _opening:
        if _handles.get(options) is lost:
            # Not closed: other threads may still be using it.
            del _handles[options]
    return shared(options)


def _reset_lock() -> None:
    # A thread of the parent that held the lock does not exist in the child.
    global _opening  # noqa: PLW0603 - A lock cannot be reset in place.
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_reset_lock)
