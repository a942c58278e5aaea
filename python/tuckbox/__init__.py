"""Tuckbox: the cache that every process on a machine shares.

This module has what programs use every day, and the errors that they catch though nothing is wrong:
there is no room, or no time. The other errors are in `tuckbox.errors`, `Favour` and `AfterPowerCut`
in `tuckbox.choices`, and `Loaded` and `Loss` in `tuckbox.results`.
"""

from tuckbox.connecting import connect
from tuckbox.errors import AcquireTimeout, CacheFull, LoadTimeout, QueueFull, TuckboxError
from tuckbox.keys import Key
from tuckbox.loads import Result
from tuckbox.registry import register
from tuckbox.results import CheckReport, Entry, Stats

try:
    from tuckbox._engine import __version__
    from tuckbox.cache import Cache
except ModuleNotFoundError as error:
    # An extension that is there and does not work is an error.
    if error.name != "tuckbox._engine":
        raise
    from tuckbox.memory.fallback import Cache, __version__

__all__ = [
    "AcquireTimeout",
    "Cache",
    "CacheFull",
    "CheckReport",
    "Entry",
    "Key",
    "LoadTimeout",
    "QueueFull",
    "Result",
    "Stats",
    "TuckboxError",
    "__version__",
    "connect",
    "register",
]
