"""The types of keys, and of what keys begin with.

The extension encodes keys: see ``crates/python/src/keys.rs``.
"""

from __future__ import annotations

from typing import Tuple, Union

__all__ = ["Key", "Prefix"]

# `Tuple`, not `tuple`: on Python 3.9, `Union` rejects `tuple` with a quoted argument.
Key = Union[str, bytes, int, Tuple["Key", ...]]
"""A str, bytes, an int of any size, or a tuple of keys. Keys that are ``==`` are one key."""

Prefix = Union[str, bytes, Tuple[Key, ...]]
"""What keys begin with: a str for str keys, bytes for bytes keys, a tuple for tuples."""
