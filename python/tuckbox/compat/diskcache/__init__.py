"""A drop-in for DiskCache 5.6.3, on a Tuckbox file.

Replace ``import diskcache`` by ``from tuckbox.compat import diskcache``. The entries are in other
files than DiskCache's: the directory starts empty.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tuckbox.compat.diskcache.core import Cache
from tuckbox.compat.diskcache.deque import Deque
from tuckbox.compat.diskcache.disk import Disk, JSONDisk
from tuckbox.compat.diskcache.fanout import FanoutCache
from tuckbox.compat.diskcache.index import Index
from tuckbox.compat.diskcache.recipes import (
    Averager,
    BoundedSemaphore,
    Lock,
    RLock,
    barrier,
    memoize_stampede,
    throttle,
)
from tuckbox.compat.diskcache.settings import (
    DEFAULT_SETTINGS,
    ENOVAL,
    EVICTION_POLICY,
    UNKNOWN,
    EmptyDirWarning,
    Timeout,
    UnknownFileWarning,
)

__all__ = [
    "DEFAULT_SETTINGS",
    "ENOVAL",
    "EVICTION_POLICY",
    "UNKNOWN",
    "Averager",
    "BoundedSemaphore",
    "Cache",
    "Deque",
    "Disk",
    "EmptyDirWarning",
    "FanoutCache",
    "Index",
    "JSONDisk",
    "Lock",
    "RLock",
    "Timeout",
    "UnknownFileWarning",
    "barrier",
    "memoize_stampede",
    "throttle",
]

# `from ... import *` imports each of these names, and so Django, as with DiskCache.
if "django" in sys.modules or find_spec("django") is not None:
    __all__ += ["DjangoCache"]

__version__ = "5.6.3"
"""The version of DiskCache that this package has the names of."""


def __getattr__(name: str) -> Any:
    """Import `DjangoCache` when it is asked for, because that imports Django."""
    if name == "DjangoCache":
        return import_module("tuckbox.compat.diskcache.djangocache").DjangoCache
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
