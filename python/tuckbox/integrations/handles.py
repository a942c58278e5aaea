"""One open handle per file and process.

Frameworks create a backend object for each thread or request, and opening the file for each of them
would be slow. This module knows no framework.
"""

from __future__ import annotations

import os
import threading
from typing import NamedTuple, Optional, Union

from tuckbox.cache import Cache
from tuckbox.choices import AfterPowerCut, Favour

__all__ = ["OpenOptions", "shared"]


class ExactCache(Cache):
    """A cache that refuses every value that would come back as another type.

    A framework can then pickle it.
    """

    _exact = True


class OpenOptions(NamedTuple):
    """The arguments of `Cache`."""

    path: str
    size: Union[float, str, None] = None
    max_entries: Optional[int] = None
    lock_timeout: float = 1.0
    read_only: bool = False
    group: Union[str, int, None] = None
    favour: Optional[Favour] = None
    after_power_cut: Optional[AfterPowerCut] = None


_handles: dict[OpenOptions, Cache] = {}
_opening = threading.Lock()


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
                handle = _handles[options] = ExactCache(**options._asdict())
    return handle


def _reset_lock() -> None:
    # A thread of the parent that held the lock does not exist in the child.
    global _opening  # noqa: PLW0603 - A lock cannot be reset in place.
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_reset_lock)
