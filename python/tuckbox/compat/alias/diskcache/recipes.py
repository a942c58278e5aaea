"""What programs import from ``diskcache.recipes``."""

from tuckbox.compat.diskcache.recipes import (
    Averager,
    BoundedSemaphore,
    Lock,
    RLock,
    barrier,
    memoize_stampede,
    throttle,
)

__all__ = [
    "Averager",
    "BoundedSemaphore",
    "Lock",
    "RLock",
    "barrier",
    "memoize_stampede",
    "throttle",
]
