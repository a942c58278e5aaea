"""`copy_entries`: fills a cache with the entries of another one, such as a new server.

Works on any two caches. Must not know where their entries are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

from tuckbox.errors import EntryCorrupt, ValueTooLarge, ValueTypeError
from tuckbox.results import Entry
from tuckbox.tiers.tiering import Tiering

if TYPE_CHECKING:
    from tuckbox.cache import Cache
else:
    # Where the extension is missing, that class is, too.
    Cache = Any

__all__ = ["Copied", "copy_entries"]

_AT_ONCE = 256


class Copied(NamedTuple):
    """How many entries `copy_entries` has visited."""

    copied: int
    """The target has them now."""
    present: int
    """The target had a value of its own, which was kept."""
    skipped: int
    """They expired or were deleted meanwhile, cannot be read, or cannot be stored there."""


def copy_entries(
    source: Cache, target: Cache, *, progress: Optional[Callable[[Copied], object]] = None
) -> Copied:
    """Store the entries of a cache in another one, unless that has a value for the key.

    Values, tags and the rest of each ttl are copied; the ``stale`` time is not. Pinned entries stay
    pinned if the target is a file or in memory; servers pin nothing. Both caches can be used
    meanwhile. The target's own values are never replaced. An entry that is deleted or changed
    in the source while it is copied may arrive as it was. So let programs write to both caches
    first, or give entries a ttl.

    To stop, raise an error in ``progress``. Called again, it copies what is missing.

    Args:
        source: The cache to read. Of a namespace, pass that namespace of both caches: entries of
            namespaces are not copied with the whole cache.
        target: The cache to fill.
        progress: Called now and then with what is done so far. What it raises ends the copying.

    Returns:
        What was done.

    Raises:
        Unsupported: The source cannot list its keys (memcached).
        DriverError: A server does not answer, or refuses.
        CacheLost: The source's file was replaced or resized; call this again.
        CacheFull: The target evicts nothing, or has no room for a pinned entry.

    Example:
        >>> old, new = Cache("old"), connect("redis://10.0.0.1")
        >>> old.set_many({"a": 1, "b": 2}, ttl=300)
        >>> copy_entries(old, new)
        Copied(copied=2, present=0, skipped=0)
        >>> new.get("a")
        1
    """
    done = Copied(0, 0, 0)
    last = _last(source)
    pins = _last(target)._pins
    keys = iter(last)
    while batch := list(islice(keys, _AT_ONCE)):
        for key, entry in _entries(last, batch):
            done = _add(target, key, entry, done, pins=pins)
        if progress is not None:
            progress(done)
    return done


def _last(source: Any) -> Any:
    """The tier that has all entries, and how long they live."""
    while isinstance(source, Tiering):
        source = source._settled()
    return source


def _entries(source: Any, keys: list[Any]) -> Iterator[tuple[Any, Optional[Entry]]]:
    """The entries of keys, in one trip if that is possible; None is one that is missing."""
    found: dict[Any, Entry] = {}
    is_whole = False
    if hasattr(source, "_entries"):
        # If one is corrupt: which one it is, the loop finds.
        with suppress(EntryCorrupt):
            found, is_whole = source._entries(keys), True
    for key in keys:
        entry = found.get(key)
        if not is_whole:
            with suppress(EntryCorrupt):
                entry = source.get_entry(key)
        yield key, entry


def _add(target: Any, key: Any, entry: Optional[Entry], done: Copied, *, pins: bool) -> Copied:
    ttl = None if entry is None or entry.expiry is None else entry.expiry - time.time()
    if entry is None or (ttl is not None and ttl <= 0):
        return done._replace(skipped=done.skipped + 1)
    try:
        terms: dict[str, Any] = {"pinned": True} if pins and entry.pinned else {}
        is_new = target.add(key, entry.value, ttl, tags=entry.tags, **terms)
    except (ValueTooLarge, ValueTypeError):
        return done._replace(skipped=done.skipped + 1)
    if is_new:
        return done._replace(copied=done.copied + 1)
    return done._replace(present=done.present + 1)
