"""A host must not outlive its runner, even if the adapter hangs and the runner was killed.

Owns that one request to the kernel. Must not know what the host does.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Make the kernel kill this process when its parent, process `parent`, ends.

    Linux only; elsewhere the host ends when it next reads or writes.
    """
    if sys.platform != "linux":
        return
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"could not request a death signal: {os.strerror(error)}")
    if os.getppid() != parent:
        # The parent ended before the request.
        os.kill(os.getpid(), signal.SIGKILL)
