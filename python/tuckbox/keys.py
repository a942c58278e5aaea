"""What can be a key.

How a key becomes bytes is the extension's business.
"""

from __future__ import annotations

from typing import Tuple, Union

__all__ = ["Key"]

# `Tuple` and not `tuple`: on Python 3.9, `Union` does not take the latter with a quoted argument.
Key = Union[str, bytes, int, Tuple["Key", ...]]
"""A str, bytes, an int of any size, or a tuple of keys. Keys that are ``==`` are one key."""
