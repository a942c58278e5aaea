"""A program ends while its threads are in the middle of operations."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading, time
from tuckbox import Cache

cache = Cache({path!r}, size="16 MB", pickle="signed", secret="s")

def work():
    while True:
        {operation}

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
sys.exit(3)
"""

OPERATIONS = [
    "cache['object'] = {'of': ...}; cache['object']",
    "cache['list'] = [0] * 20_000; cache['list']",
    "cache['large'] = bytes(1_000_000); cache['large']",
    "cache.get_or_set('key', lambda: ..., ttl=0)",
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_daemon_threads_do_not_abort_the_end(path: str, operation: str) -> None:
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(path=path, operation=operation)],
            check=False,
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert done.returncode == 3, done.stderr
