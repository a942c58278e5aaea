"""Reads requests from standard input, obeys them one by one, answers on standard output.

Owns the host's state: the adapter, the workload, the open store. Must not know the runner's plan.
Started as `python -m lab.hosts.python PARENT`, PARENT being the process that the host must not
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

from lab.hosts.python import loop, probe
from lab.hosts.python.contract import Adapter, Limits, Store
from lab.hosts.python.orphan import die_with_parent
from lab.hosts.python.replay import replay
from lab.hosts.python.timing import encode, timer_cost
from lab.hosts.python.verify import Verifier
from lab.hosts.python.workload import Prepared, Workload
from lab.protocol import (
    AnyReply,
    AnyRequest,
    Done,
    Failed,
    Load,
    Loaded,
    Measure,
    Open,
    Preload,
    Probed,
    ProbeRead,
    ProbeWrite,
    Ran,
    Replay,
    Replayed,
    Run,
)
from lab.stream import SET

T = TypeVar("T")


class Host:
    """One worker. Requests out of order are the runner's error and end the host."""

    def __init__(self) -> None:
        self._adapter: Adapter | None = None
        self._settings: dict[str, str] = {}
        self._workload: Workload | None = None
        self._verifier: Verifier | None = None
        self._store: Store | None = None
        self._prepared: dict[Measure, Prepared] = {}

    def obey(self, request: AnyRequest) -> AnyReply:
        """Do what `request` asks and return the answer to it."""
        if isinstance(request, Load):
            return self._load(request)
        if isinstance(request, Open):
            return self._open(request)
        if isinstance(request, ProbeWrite):
            return self._probe_write()
        if isinstance(request, ProbeRead):
            return self._probe_read(request)
        if isinstance(request, Preload):
            return self._preload()
        if isinstance(request, Run):
            return self._run(request)
        if isinstance(request, Replay):
            return self._replay(request)
        return self._close()

    def _load(self, request: Load) -> AnyReply:
        try:
            self._adapter = _import(Path(request.adapter))
            version = _version(request.distribution)
        except (ImportError, importlib.metadata.PackageNotFoundError) as error:
            return Failed(f"not installed: {error}", missing=True)
        self._settings = request.settings
        self._workload = Workload(request)
        if any(operation.verb == SET for operation in self._workload.own):
            for measure in ("throughput", "latency"):
                self._prepared[measure] = self._workload.prepare(measure)
        self._verifier = Verifier(self._workload)
        # What is prepared lives as long as the process: the collector need not walk it while the
        # clock runs. It stays on for whatever the contestant allocates.
        gc.collect()
        gc.freeze()
        runtime = f"{platform.python_implementation()} {platform.python_version()}"
        return Loaded(runtime, version, encode(timer_cost()))

    def _open(self, request: Open) -> Done:
        limits = Limits(entries=request.entries_max, bytes=request.bytes_max)
        self._store = _there(self._adapter).open(request.folder, limits, self._settings)
        return Done()

    def _probe_write(self) -> Probed:
        workload = _there(self._workload)
        return probe.write(_there(self._store), workload.seed, workload.worker)

    def _probe_read(self, request: ProbeRead) -> Probed:
        return probe.read(_there(self._store), _there(self._workload).seed, request.workers)

    def _preload(self) -> Done:
        workload, store = _there(self._workload), _there(self._store)
        for key, value in workload.preloaded():
            store.set(key, value)
        return Done()

    def _run(self, request: Run) -> Ran:
        prepared = self._prepared.pop(request.measure)
        run = loop.throughput if request.measure == "throughput" else loop.latency
        return run(_there(self._store), prepared, _there(self._verifier), request.warmup)

    def _replay(self, request: Replay) -> Replayed:
        return replay(_there(self._store), _there(self._workload), Path(request.folder))

    def _close(self) -> Done:
        store, self._store = _there(self._store), None
        store.close()
        return Done()


def _there(thing: T | None) -> T:
    if thing is None:
        raise RuntimeError("the runner asked for a step before the one that prepares it")
    return thing


def _import(path: Path) -> Adapter:
    specification = importlib.util.spec_from_file_location(f"adapter_{path.parent.name}", path)
    if specification is None or specification.loader is None:
        raise ImportError(f"{path} is not a Python module")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return cast(Adapter, module)


def _version(distribution: str) -> str:
    return importlib.metadata.version(distribution) if distribution else ""


def main() -> None:
    """Serve requests until the input ends."""
    die_with_parent(int(sys.argv[1]))
    # Replies go to a private copy of the output. What an adapter prints goes to the error output.
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
