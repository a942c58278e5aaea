"""Marks find processes in any session, and no other process is killed."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys

import pytest

from rig import marks

SECONDS_MAX = 30.0

# Starts a process with another mark, in another session, and prints its pid.
STARTER = """
import subprocess, sys, time
from rig import marks
child = subprocess.Popen(
    ["sleep", "3600"], env=marks.environment(sys.argv[1]), start_new_session=True
)
print(child.pid, flush=True)
time.sleep(3600)
"""


@pytest.fixture
def token() -> str:
    return secrets.token_hex(8)


def test_the_processes_of_a_mark_are_found_and_killed(token: str) -> None:
    environment = marks.environment(f"{token}.7.")
    with subprocess.Popen(["setsid", "sleep", "3600"], env=environment) as process:
        assert marks.marked(f"{token}.7.") == [process.pid]
        assert marks.marked(f"{token}.8.") == []
        marks.kill_marked(f"{token}.8.")
        assert process.poll() is None
        marks.kill_marked(f"{token}.")
        assert process.wait(SECONDS_MAX) == -signal.SIGKILL


def test_a_process_that_is_starting_is_found(token: str) -> None:
    for number in range(300):
        environment = marks.environment(f"{token}.{number}.")
        with subprocess.Popen(["sleep", "3600"], env=environment) as process:
            try:
                assert marks.has_mark(process.pid, f"{token}.{number}.")
            finally:
                process.kill()


def test_one_with_two_marks_is_found_by_both(token: str) -> None:
    words = [sys.executable, "-c", STARTER, f"{token}.inner"]
    environment = marks.environment(f"{token}.outer")
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert marks.marked(f"{token}.inner") == [child]
        assert sorted(marks.marked(f"{token}.outer")) == sorted([process.pid, child])
        marks.kill_marked(f"{token}.outer")
        assert process.wait(SECONDS_MAX) == -signal.SIGKILL
    assert marks.marked(token) == []
