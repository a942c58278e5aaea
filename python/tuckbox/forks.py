"""`renew_in_children`: replaces locks in forked children, where their owner may not exist.

A thread of the parent may hold a lock at the moment of a fork. In the child, nobody releases it.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["Renewed", "renew_in_children"]


class Renewed(Protocol):
    """What has locks, or other state of its process."""

    def _renew(self) -> None:
        """Forget what threads of the parent held."""


def renew_in_children(owner: Renewed) -> None:
    """Call ``owner._renew()`` in each child that is forked while the owner lives.

    Example:
        >>> import threading
        >>> class Counter:
        ...     def __init__(self):
        ...         self._renew()
        ...         renew_in_children(self)
        ...
        ...     def _renew(self):
        ...         self.lock = threading.Lock()
        >>> counter = Counter()
    """
    _owners.add(owner)


_owners: weakref.WeakSet[Renewed] = weakref.WeakSet()


def _renew_all() -> None:
    for owner in list(_owners):
        owner._renew()  # noqa: SLF001 - Theirs is for this module.


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
