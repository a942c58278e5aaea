"""Runs one command under a watchdog, and reads its result.

Owns the processes and the lines they print. Must not know what a family is. A command leads its
own session and carries a mark that its children inherit. At the end, every process with the mark is
killed, and no other.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from reliability.catalogue import Command
from reliability.record import CommandRecord
from rig import marks
from rig.marks import kill_marked
from rig.sources import ROOT

# How long a hung command may take to print its stacks.
_LAST_WORDS_SECONDS = 5.0
_LAST_WORDS_CHARS = 2000
_FAILURES_MAX = 20
_CARGO_RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.M)


class Commands:
    """Runs commands in the folder `root`. `torture` is the path of that program."""

    def __init__(self, torture: Path | None, root: Path = ROOT) -> None:
        self._torture = torture
        self._root = root
        self._running: dict[int, str] = {}
        self._lock = threading.Lock()
        self._ended = False

    def run(self, command: Command, family: str, log: Path) -> CommandRecord:
        """Run a command of a family to its end. Its output is appended to the file `log`."""
        with tempfile.TemporaryDirectory(prefix="reliability-") as folder:
            records, output = Path(folder, "records"), Path(folder, "output")
            words = self._words(command.run, records)
            began = time.monotonic()
            with output.open("wb") as out, log.open("ab") as err:
                err.write(f"$ {command.run}\n".encode())
                err.flush()
                ended, status = self._wait(words, command.seconds_max, out.fileno(), err.fileno())
            seconds = time.monotonic() - began
            text = output.read_text("utf-8", "replace")
            if records.exists():
                text += "\n" + records.read_text("utf-8", "replace")
        with log.open("a", encoding="utf-8") as err:
            err.write(text + f"\n{ended} after {seconds:.1f} seconds\n")
        return judge(command, family, text, ended, status, round(seconds, 1))

    def end(self) -> None:
        """Kill all running commands, and start no more. May be called from another thread."""
        with self._lock:
            self._ended = True
            for leader, mark in self._running.items():
                _kill(leader, mark)

    def _words(self, line: str, records: Path) -> list[str]:
        words = [word.replace("{records}", str(records)) for word in shlex.split(line)]
        if words[0] == "torture":
            if self._torture is None:
                raise FileNotFoundError("the program torture was not built")
            return [str(self._torture), *words[1:]]
        if words[0] == "python":
            return [sys.executable, *words[1:]]
        if words[0] == "pytest":
            # `python -m pytest` would put the root first in sys.path.
            return [str(Path(sys.executable).with_name("pytest")), *words[1:]]
        return words

    def _wait(self, words: list[str], seconds_max: int, out: int, err: int) -> tuple[str, int]:
        mark = secrets.token_hex(8)
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self._root,
                env=marks.environment(mark),
                start_new_session=True,
            )
        except OSError as error:
            return f"could not be started: {error.strerror}", 127
        with self._lock:
            self._running[process.pid] = mark
            if self._ended:
                process.kill()
        hung = not _has_ended(process.pid, seconds_max)
        if hung:
            # On this signal, Rust programs and pytest's faulthandler print their stacks.
            process.send_signal(signal.SIGABRT)
            _has_ended(process.pid, _LAST_WORDS_SECONDS)
        with self._lock:
            # The process is reaped only after this, so its pid cannot be reused before.
            _kill(process.pid, mark)
            del self._running[process.pid]
        status = process.wait()
        if hung:
            return f"hung: it was killed after {seconds_max} seconds", -signal.SIGKILL
        if self._ended:
            return "was interrupted", -signal.SIGKILL
        if status < 0:
            return f"died of {signal.Signals(-status).name}", status
        return f"exit status {status}", status


def _has_ended(pid: int, seconds_max: float) -> bool:
    """Wait for a child to end, without reaping it. Return whether it has ended."""
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], seconds_max)[0])
    finally:
        os.close(descriptor)


def _kill(leader: int, mark: str) -> None:
    """Kill an unreaped child, its process group, and every process with its mark."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    # The mark also finds processes in other groups.
    kill_marked(mark)


def judge(
    command: Command, family: str, text: str, ended: str, status: int, seconds: float
) -> CommandRecord:
    """Return the record of a command, from what it printed and how it ended.

    A command is good only if it ended with status 0, reported itself good, named no failure and
    made as many trials as the catalogue demands.
    """
    results = _results(text, family) if command.reports == "json" else []
    skipped = [str(one["skipped"]) for one in results if "skipped" in one]
    failures = [] if status == 0 else [f"`{command.run}` {_verb(ended)}"]
    trials = 0
    if command.reports == "json":
        trials = sum(_number(one.get("trials")) for one in results)
        if not results:
            failures.append(f"`{command.run}` printed no result")
        for one in results:
            reasons = [str(failure) for failure in one.get("failures") or []]
            failures += reasons
            if one.get("good") is not True and not reasons:
                failures.append(f"{one.get('run', command.run)} was not good and gave no reason")
    elif command.reports == "tests":
        counts = [[int(number) for number in found] for found in _CARGO_RESULT.findall(text)]
        trials = sum(passed for passed, _, _ in counts)
        failed = sum(failed for _, failed, _ in counts)
        failures += [f"{failed} tests failed"] if failed else []
    elif status == 0:
        trials = command.trials
    if not failures and not skipped and trials < command.trials:
        failures.append(
            f"`{command.run}` made {trials:,} trials; at least {command.trials:,} are required"
        )
    return CommandRecord(
        run=command.run,
        ended=ended,
        seconds=seconds,
        trials=trials,
        trials_demanded=command.trials,
        failures=[_without_paths(one) for one in failures[:_FAILURES_MAX]],
        not_run="; ".join(skipped) or None,
        results=results,
    )


def _verb(ended: str) -> str:
    return f"ended with {ended}" if ended.startswith("exit") else ended


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _results(text: str, family: str) -> list[dict[str, Any]]:
    """Return the results of a family among the lines: objects with the key `good`.

    A program that tries several families names the family in each result.
    """
    found = []
    for line in text.splitlines():
        if not line.lstrip().startswith("{"):
            continue
        with suppress(ValueError):
            value = json.loads(line)
            is_result = isinstance(value, dict) and "good" in value
            if is_result and value.get("family", family) == family:
                found.append(value)
    return found


def _without_paths(text: str) -> str:
    """Return a failure without this machine's folders, cut to a maximum length."""
    text = text.replace(str(ROOT), ".").replace(tempfile.gettempdir(), "$TMPDIR")
    return text if len(text) <= _LAST_WORDS_CHARS else text[:_LAST_WORDS_CHARS] + " ..."
