"""`Server`: a server that a test starts, stops, pauses and restarts.

The lab's catalogue says how each server is started. Must not know a driver.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from lab.runner.catalogue import StoreLimits
from lab.runner.catalogue.servers import servers
from lab.runner.failures import NotInstalledError, UnavailableError
from lab.runner.placeholders import fill, limit_words
from lab.runner.servers import LOOPBACK, command_of, jars_of, program_of

if TYPE_CHECKING:
    from typing_extensions import Self

_READY_S_MAX = 20.0


def is_installed(name: str) -> bool:
    """Whether a server of the lab's catalogue is on this machine."""
    try:
        return bool(program_of(servers()[name]))
    except (NotInstalledError, UnavailableError):
        return False


class Server:
    """A server of the lab's catalogue on loopback, or on a socket in a folder.

    Args:
        name: Its name in the catalogue.
        folder: Where it keeps its files.
        options: Added to its command.
        at_socket: Whether it listens at a Unix socket, ``path``, instead of ``port``.
    """

    def __init__(
        self, name: str, folder: Path, options: tuple[str, ...] = (), *, at_socket: bool = False
    ) -> None:
        known = servers()[name]
        self.port = reserved_port()
        self.path = str(folder / "s")
        self._at_socket = at_socket
        self._output = folder / "output.txt"
        words = {"program": program_of(known), "folder": str(folder), "socket": self.path}
        words |= {"server": known.folder, "jars": jars_of(known), "template": str(folder)}
        words |= {"port": str(self.port), **limit_words(StoreLimits(bytes=64 << 20))}
        command = command_of(known, "socket" if at_socket else "tcp", "stock")
        self._command = [*fill(command, words), *options]
        for prepare in known.prepare:
            subprocess.run(fill(prepare, words), stdin=subprocess.DEVNULL, check=True, timeout=50)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        give_up = time.monotonic() + _READY_S_MAX
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > give_up:
                self.kill()
                raise RuntimeError(f"{self._command} did not start: {self._output.read_text()}")
            time.sleep(0.01)

    def _accepts(self) -> bool:
        with socket.socket(socket.AF_UNIX if self._at_socket else socket.AF_INET) as probe:
            return probe.connect_ex(self.path if self._at_socket else (LOOPBACK, self.port)) == 0

    def pause(self) -> None:
        """Stop it, so that it answers nothing until `kill` or `resume`."""
        # Each thread stops by itself, and one that runs may answer once more, or start a process.
        while not all(is_stopped(process.pid) for process in self._processes()):
            self._send(signal.SIGSTOP)
            time.sleep(0.001)

    def resume(self) -> None:
        """Let it continue."""
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it and its own processes, and wait for their ends.

        They hold the memory that they share until then, and PostgreSQL does not start meanwhile.
        """
        processes: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            self.pause()  # It starts no further process.
            processes = self._processes()
        self._send(signal.SIGKILL)
        self._process.wait()
        while not all(has_ended(process) for process in processes):
            time.sleep(0.001)

    def _processes(self) -> list[psutil.Process]:
        """The server and its own processes, which may have other sessions."""
        leader = psutil.Process(self._process.pid)
        return [leader, *leader.children(recursive=True)]

    def _send(self, number: int) -> None:
        with suppress(psutil.NoSuchProcess):
            for process in self._processes():
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(number)


def reserved_port() -> int:
    """A port on loopback that no other program gets for a minute, unless it asks for this one.

    The port has a connection in TIME_WAIT. A server may listen there in spite of it, with
    SO_REUSEADDR, which all of them set.
    """
    with socket.socket() as listener, socket.socket() as client:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, 0))
        listener.listen(1)
        client.connect(listener.getsockname())
        listener.accept()[0].close()  # The side that closes first keeps the connection.
        port: int = listener.getsockname()[1]
        return port


def has_ended(process: psutil.Process) -> bool:
    """Whether it has no memory any more, although its parent may not know yet."""
    with suppress(psutil.NoSuchProcess):
        # Another process may have its number by now.
        ended: bool = not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
        return ended
    return True


def is_stopped(pid: int) -> bool:
    """Whether no thread of a process runs: each is stopped, or has ended."""
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        # It may end meanwhile.
        with suppress(FileNotFoundError, ProcessLookupError):
            if path.read_text().rpartition(") ")[2][0] not in "TZX":
                return False
    return True
