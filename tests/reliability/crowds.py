"""Many processes, or threads, that ask at the same moment; and the journal of what makers did."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

HANG_S = 30
_fork = multiprocessing.get_context("fork")

Ask = Callable[[], Any]
Prepare = Callable[[int], Ask]
"""Gets the number of a member, and returns what it asks."""


class Hangs(AssertionError):
    """A member of a crowd got no answer."""


class Note(NamedTuple):
    """A line of the journal."""

    what: str
    pid: int
    at_s: float


class Journal:
    """What happened, in its order: a file to which each process appends whole lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, what: str, pid: int | None = None) -> None:
        """Append a line; `pid` is this process unless given."""
        line = f"{what} {os.getpid() if pid is None else pid} {time.monotonic()}\n"
        os.write(self._fd, line.encode())

    def notes(self) -> list[Note]:
        """Return all lines."""
        parts = map(str.split, self._path.read_text("ascii").splitlines())
        return [Note(what, int(pid), float(at_s)) for what, pid, at_s in parts]

    def wait_for(self, what: str, count: int) -> Note:
        """Wait until there are so many lines of a kind; the last of these."""
        ends_s = time.monotonic() + HANG_S
        while time.monotonic() < ends_s:
            found = [note for note in self.notes() if note.what == what]
            if len(found) >= count:
                return found[count - 1]
            time.sleep(0.001)
        raise Hangs(f"the journal has {len(found)} times {what!r}, not {count}")

    def close(self) -> None:
        os.close(self._fd)


class Answer(NamedTuple):
    """What a member got."""

    value: Any
    error: str
    """The name of the exception's class; empty if there was none."""
    waited_s: float


def _answer(ask: Ask) -> Answer:
    began_s = time.monotonic()
    try:
        value, error = ask(), ""
    except Exception as caught:
        value, error = None, type(caught).__name__
    return Answer(value, error, time.monotonic() - began_s)


class Gate:
    """Opens when every process that holds it has opened it, or has died."""

    def __init__(self) -> None:
        self._reads, self._holds = os.pipe()

    def open(self) -> None:
        """Hold it no longer."""
        os.close(self._holds)

    def pass_through(self) -> None:
        """Wait until it is open."""
        os.read(self._reads, 1)

    def forget(self) -> None:
        os.close(self._reads)


class Crowd:
    """Processes that ask at the same moment. They live until the end of the `with` block."""

    def __init__(self, count: int, prepare: Prepare) -> None:
        self._start, self._end = Gate(), Gate()
        self._members = [self._member(number, prepare) for number in range(count)]
        self._start.open()
        self.pids = [process.pid for process, _ in self._members]

    def _member(self, number: int, prepare: Prepare) -> tuple[Any, Any]:
        ours, theirs = _fork.Pipe(duplex=False)
        process = _fork.Process(target=self._run, args=(number, prepare, theirs), daemon=True)
        process.start()
        theirs.close()
        return process, ours

    def _run(self, number: int, prepare: Prepare, pipe: Any) -> None:
        self._end.open()
        ask = prepare(number)
        self._start.open()
        self._start.pass_through()
        pipe.send(_answer(ask))
        # Its maker may still run in a thread.
        self._end.pass_through()

    def answers(self, dead: int = 0) -> list[Answer]:
        """Return the answers, except those of members that were killed."""
        ends_s = time.monotonic() + HANG_S
        found: list[Answer | None] = []
        for process, pipe in self._members:
            # A child that it forked may hold the other end of the pipe.
            while not pipe.poll(0.01) and process.is_alive():
                if time.monotonic() > ends_s:
                    raise Hangs(f"process {process.pid} got no answer")
            try:
                found.append(pipe.recv() if pipe.poll() else None)
            except EOFError:
                found.append(None)
        assert found.count(None) == dead, f"{found.count(None)} processes died, not {dead}"
        return [answer for answer in found if answer is not None]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end.open()
        for process, pipe in self._members:
            process.join(0 if error else HANG_S)
            process.kill()
            process.join()
            pipe.close()
        self._start.forget()
        self._end.forget()


class Threads:
    """The same with threads of this process."""

    def __init__(self, count: int, prepare: Prepare) -> None:
        barrier = threading.Barrier(count)
        self._answers: list[Answer] = []

        def run(number: int) -> None:
            ask = prepare(number)
            barrier.wait()
            self._answers.append(_answer(ask))

        self._threads = [
            threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def answers(self) -> list[Answer]:
        """Return the answers."""
        ends_s = time.monotonic() + HANG_S
        for thread in self._threads:
            thread.join(max(0, ends_s - time.monotonic()))
            if thread.is_alive():
                raise Hangs("a thread got no answer")
        return self._answers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
