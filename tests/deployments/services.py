"""Servers as their users start them: a command in a folder, stopped by SIGTERM."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
FILES = ROOT / "docs" / "guide" / "deploy"
PROGRAMS = Path(sys.executable).parent
START_TIMEOUT_S = 30
BROKER = """
import os
from tasks import app

folder = os.environ["BROKER_FOLDER"]
app.conf.broker_transport_options = {
    name: folder for name in ("data_folder_in", "data_folder_out", "control_folder")
}
"""
"""Gives the guide's tasks a broker that needs no server: files in a folder."""
CELERY = ("celery", "--app", "with_broker")
WORKER = (*CELERY, "worker", "--concurrency", "2")
WORKER += ("--without-gossip", "--without-mingle", "--without-heartbeat")
SENDER = (*CELERY, "call", "tasks.forget", "--args", '["/page"]')
# A request without a proxy, whatever the environment says.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(
    command: list[str], folder: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """Run a service in a folder; afterwards it has to end by SIGTERM, and well."""
    process = subprocess.Popen(
        [str(PROGRAMS / command[0]), *command[1:]],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
        process.terminate()
        output, _ = process.communicate(timeout=START_TIMEOUT_S)
        assert process.returncode == 0, output
        assert "Traceback" not in output, output
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        sys.stdout.write(process.communicate()[0])
        raise
    finally:
        # A worker that outlives its master would keep its process slot.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def page(port: int, path: str) -> str:
    with _opener.open(f"http://127.0.0.1:{port}{path}", timeout=START_TIMEOUT_S) as answer:
        text: str = answer.read().decode()
        return text


def wait_for(port: int, process: subprocess.Popen[str] | None = None) -> None:
    """Wait until a server answers."""

    def answers() -> bool:
        assert process is None or process.poll() is None, "the server ended"
        with contextlib.suppress(OSError):
            return bool(page(port, "/"))
        return False

    wait_until(answers, "the server does not answer")


def wait_until(condition: Callable[[], bool], failure: str) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while not condition():
        assert time.monotonic() < until, failure
        time.sleep(0.05)
