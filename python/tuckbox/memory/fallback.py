"""`Cache` where the extension is not installed: a cache in one process, which says so once."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from importlib import metadata
from typing import Any, Union

from tuckbox import memory
from tuckbox.errors import OneProcessWarning

__all__ = ["Cache", "__version__"]

try:
    __version__ = metadata.version("tuckbox")
except metadata.PackageNotFoundError:
    # The package was copied without its metadata.
    __version__ = "unknown"

_warned: set[int] = set()
"""The process that gave the warning. A child that was forked does not repeat it."""

_REMEDY = (
    "to build it, install Rust and run: pip install --force-reinstall --no-binary tuckbox tuckbox"
    if sys.platform == "linux"
    else "processes share caches on Linux"
)


class Cache(memory.Cache):
    """A cache in this process, because Tuckbox's extension is not installed.

    Has the interface of the shared cache: see `tuckbox.memory.Cache` and its arguments.

    Example:
        >>> cache = Cache("pages")
        >>> cache.set("user:42", "Ada")
        >>> cache.get("user:42")
        'Ada'
    """

    @functools.wraps(memory.Cache.__init__)  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not _warned:
            _warned.add(os.getpid())
            warnings.warn(
                f"this installation of Tuckbox has no extension for {sys.platform}, so {self!r} is "
                f"in this process alone: other processes do not see its entries; {_REMEDY}",
                OneProcessWarning,
                stacklevel=2,
            )

    def _no_files(self, path: Union[str, os.PathLike[str]]) -> str:
        return (
            f"{os.fsdecode(path)!r} is a path, but this installation of Tuckbox has no extension "
            f"for {sys.platform}, so a cache is in one process: give a name such as 'pages', or "
            f"omit it; {_REMEDY}"
        )
