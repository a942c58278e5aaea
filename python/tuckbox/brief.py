"""Brief operations: calls on a cache that fail rather than wait, so that event loops can make them.

Owns the two exceptions, and the switch for stores that are not built on the engine. Must not know
event loops: `tuckbox.loops` does.

The rule for every store: inside of `briefly`, an operation that would wait or work for long raises
`WouldBlock` and has changed nothing. The caller repeats it later, or in a thread.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, TypeVar

try:
    from tuckbox._engine import briefly, is_brief
except ImportError:
    # Without the extension, no store here waits for another process.
    _R = TypeVar("_R")
    _thread = threading.local()

    def briefly(  # type: ignore[misc]
        _spin_s: float, function: Callable[..., _R], /, *args: Any, **kwargs: Any
    ) -> _R:
        """As that of the extension."""
        before = is_brief()
        _thread.is_brief = True
        try:
            return function(*args, **kwargs)
        finally:
            _thread.is_brief = before

    def is_brief() -> bool:
        """As that of the extension."""
        return getattr(_thread, "is_brief", False)


__all__ = ["Locked", "WouldBlock", "briefly", "is_brief", "refuse_if_brief"]


class WouldBlock(Exception):  # noqa: N818 - Named for what happened.
    """An operation inside of `briefly` has long work to do. Run it in a thread."""

    done = (0, 0)
    """Of ``delete_many``: how many keys are done, and how many of them had a value."""


class Locked(WouldBlock):
    """An operation inside of `briefly` needs a lock that a live process or thread holds."""


def refuse_if_brief() -> None:
    """Raise `WouldBlock` inside of `briefly`: what follows may wait, or run for long.

    Example:
        >>> refuse_if_brief()
        >>> briefly(0.0, refuse_if_brief)
        Traceback (most recent call last):
        tuckbox.brief.WouldBlock: the operation would block; run it in a thread
    """
    if is_brief():
        raise WouldBlock("the operation would block; run it in a thread")
