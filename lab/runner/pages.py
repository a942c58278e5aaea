"""The page size of processes.

Owns that one request to the kernel. Must not know who is started.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_PR_SET_THP_DISABLE = 41
_PR_GET_THP_DISABLE = 42


@contextmanager
def small_pages() -> Iterator[None]:
    """Disable huge pages for processes started meanwhile: with them, memory grows in 2 MB steps.

    Linux only. An error is ignored: a kernel without huge pages needs no request.
    """
    if sys.platform != "linux":
        yield
        return
    prctl = ctypes.CDLL(None).prctl
    before = prctl(_PR_GET_THP_DISABLE, 0, 0, 0, 0)
    prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_THP_DISABLE, max(before, 0), 0, 0, 0)
