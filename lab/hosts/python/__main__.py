"""Reads requests from standard input, executes them one by one, answers on standard output.

Owns the host's state: the adapter, the workload, the open store. Must not know the runner's plan.
Started as `python -m lab.hosts.python PARENT`, where PARENT is the process that the host must not
outlive.
"""

from __future__ import annotations

import gc
import importlib.metadata
import importlib.util
import os
import platform
import sys
import traceback
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from lab.hosts.python import STARTED_NS
from lab.hosts.python.contract import Adapter, Limits, Store
from lab.hosts.python.loop import Pass
from lab.hosts.python.orphan import die_with_parent
from lab.hosts.python.probe import Prober
from lab.hosts.python.replay import Replayer
from lab.hosts.python.timing import clock_ns, timer_cost
from lab.hosts.python.verify import Verifier
from lab.hosts.python.workload import Workload
from lab.protocol import (
    AnyReply,
    AnyRequest,
    Clear,
    Cleared,
    Closed,
    Failed,
    Load,
    Loaded,
    Open,
    Opened,
    Prepare,
    Prepared,
    Probed,
    ProbeRead,
    ProbeWrite,
    Ran,
    Replay,
    Replayed,
    Run,
)

T = TypeVar("T")


class Host:
    """One worker. Requests out of order are the runner's error."""

    def __init__(self) -> None:
        self._adapter: Adapter | None = None
        self._settings: dict[str, str] = {}
        self._workload: Workload | None = None
        self._prober: Prober | None = None
        self._store: Store | None = None
        self._verifier: Verifier | None = None
        self._pass: Pass | None = None
        self._replayer: Replayer | None = None
        self._phase_last = -1

    def obey(self, request: AnyRequest) -> AnyReply:
        """Execute `request` and return the reply."""
        if isinstance(request, Load):
            return self._load(request)
        if isinstance(request, Open):
            return self._open(request)
        if isinstance(request, ProbeWrite):
            return self._probe_write()
        if isinstance(request, ProbeRead):
            return self._probe_read(request)
        if isinstance(request, Prepare):
            return self._prepare(request)
        if isinstance(request, Run):
            return self._run(request)
        if isinstance(request, Replay):
            return self._replay(request)
        if isinstance(request, Clear):
            return self._clear()
        return self._close()

    def _load(self, request: Load) -> AnyReply:
        started_ns = clock_ns()
        try:
            self._adapter = _import(Path(request.adapter))
            create_ns = clock_ns() - started_ns
            version = _version(request.distribution, self._adapter)
        except (ImportError, importlib.metadata.PackageNotFoundError) as error:
            return Failed(f"not installed: {error}", missing=True)
        self._settings = request.settings
        self._workload = Workload(request)
        self._prober = Prober(request)
        # The workload lives as long as the process, so exclude it from garbage collection under the
        # clock. The collector stays on for the contestant's own objects.
        gc.collect()
        gc.freeze()
        runtime = f"{platform.python_implementation()} {platform.python_version()}"
        return Loaded(runtime, version, STARTED_NS, create_ns, timer_cost())

    def _open(self, request: Open) -> AnyReply:
        limits = Limits(entries=request.entries_max, bytes=request.bytes_max)
        adapter, self._verifier = _there(self._adapter), Verifier(_there(self._workload))
        self._replayer, self._phase_last = None, -1
        started_ns = clock_ns()
        try:
            self._store = adapter.open(request.folder, limits, self._settings)
        except ImportError as error:
            # Some libraries import their dependencies only on first use.
            return Failed(f"not installed: {error}", missing=True)
        return Opened(clock_ns() - started_ns)

    def _probe_write(self) -> Probed:
        return _there(self._prober).write(_there(self._store))

    def _probe_read(self, request: ProbeRead) -> Probed:
        return _there(self._prober).read(_there(self._store), request.workers)

    def _prepare(self, request: Prepare) -> Prepared:
        if request.phase <= self._phase_last:
            # The checks rely on the order of the phases.
            raise RuntimeError(
                f"phase {request.phase} was requested after phase {self._phase_last}"
            )
        store, verifier = _there(self._store), _there(self._verifier)
        self._pass = Pass(store, _there(self._workload), verifier, request)
        self._phase_last = request.phase
        return Prepared()

    def _run(self, request: Run) -> Ran:
        prepared, self._pass = _there(self._pass), None
        return prepared.run(request)

    def _replay(self, request: Replay) -> Replayed:
        if self._replayer is None:
            self._replayer = Replayer(_there(self._workload), request.phase)
        return self._replayer.run(_there(self._store), request)

    def _clear(self) -> Cleared:
        clear = _there(self._store).clear
        if clear is None:
            return Cleared(cleared=False, elapsed_ns=0)
        started_ns = clock_ns()
        clear()
        return Cleared(cleared=True, elapsed_ns=clock_ns() - started_ns)

    def _close(self) -> Closed:
        store, self._store = _there(self._store), None
        started_ns = clock_ns()
        store.close()
        return Closed(clock_ns() - started_ns)


def _there(thing: T | None) -> T:
    if thing is None:
        raise RuntimeError("the runner requested a step before the step that prepares it")
    return thing


def _import(path: Path) -> Adapter:
    specification = importlib.util.spec_from_file_location(f"adapter_{path.parent.name}", path)
    if specification is None or specification.loader is None:
        raise ImportError(f"{path} is not a Python module")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return cast(Adapter, module)


def _version(distribution: str, adapter: Adapter) -> str:
    if distribution:
        return importlib.metadata.version(distribution)
    return str(getattr(adapter, "VERSION", ""))


def main() -> None:
    """Serve requests until the input ends."""
    die_with_parent(int(sys.argv[1]))
    # Replies go to a private copy of the output. The output of adapters goes to the error output.
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    decoder = msgspec.json.Decoder(AnyRequest)
    host = Host()
    for line in sys.stdin.buffer:
        try:
            reply = host.obey(decoder.decode(line))
        except Exception as error:
            traceback.print_exc()
            reply = Failed(f"{type(error).__name__}: {error}")
        replies.write(msgspec.json.encode(reply) + b"\n")


if __name__ == "__main__":
    main()
