"""What the tests of drivers take for granted of the servers that they start."""

from __future__ import annotations

import os
import signal
import subprocess

from drivers.servers import is_stopped


def test_a_process_is_stopped_if_no_thread_of_it_runs():
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            assert not is_stopped(process.pid)
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            assert is_stopped(process.pid)
        finally:
            process.kill()
        # A stopped server does not collect its children.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_stopped(process.pid)
    assert is_stopped(process.pid)
