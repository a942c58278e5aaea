"""The peers: the lab's contestants, opened in this process, and their servers.

Owns how a peer is opened and what it is called. Must not time anything, nor know a peer: how each
is driven, and with which settings, is in the lab's own adapters.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.hosts.python.contract import Adapter, Limits, Store
from lab.runner.catalogue import Contestant, StoreLimits, contestants, server_of
from lab.runner.failures import NotInstalledError, UnavailableError
from lab.runner.guard import Guard
from lab.runner.placeholders import fill_values, limit_words
from lab.runner.placement import client_cores
from lab.runner.servers import RunningServer, Servers
from lab.runner.workspace import workspace
from rig.cores import cores, kept_to


class PeerMissingError(Exception):
    """A peer is not installed; the message says which, and how to get it."""


@dataclass(frozen=True)
class Peer:
    """An open peer. `title` has its name and version."""

    title: str
    store: Store


@contextmanager
def opened(row: str, folder: Path, bytes_max: int = 0) -> Iterator[Peer]:
    """Open the lab's contestant `row` in a folder, with a limit in bytes, 0 for none.

    If it has a server, a new one runs meanwhile on the core that `on_one_core` keeps this process
    to, asked over a socket in a private folder. Raises PeerMissingError, and ServerError where a
    server does not start.
    """
    contestant = contestants()[row]
    limits = StoreLimits(bytes=bytes_max)
    settings = fill_values(contestant.settings, limit_words(limits))
    if not contestant.server:
        with _client(contestant, folder, bytes_max, settings) as client:
            yield client
        return
    with (
        _server(contestant, limits) as server,
        _client(contestant, folder, bytes_max, {**server.settings, **settings}) as client,
    ):
        # Some servers say much more than their version.
        found = re.search(r"\d+(\.\d+)+", server.version)
        number = f" {found[0]}" if found else ""
        yield Peer(f"{server_of(contestant).title}{number} by {client.title}", client.store)


def opener(row: str, folder: Path) -> Callable[[], Store]:
    """Return what opens the store of a contestant without a server, as it is in a folder.

    Raises PeerMissingError.
    """
    contestant = contestants()[row]
    adapter = _adapter(contestant)
    limits = Limits(entries=0, bytes=0)
    settings = fill_values(contestant.settings, limit_words(StoreLimits()))
    return lambda: adapter.open(str(folder), limits, settings)


@contextmanager
def on_one_core() -> Iterator[None]:
    """Keep this process, and servers that are opened meanwhile, to one core."""
    with kept_to(client_cores("same core", cores())):
        yield


def missing(row: str, why: object) -> PeerMissingError:
    """Return the error that says that a contestant is not installed."""
    name = row.partition(":")[0]
    return PeerMissingError(
        f"{name} is not installed ({why}): python -m lab install --contestant {name}"
    )


@contextmanager
def _client(
    contestant: Contestant, folder: Path, bytes_max: int, settings: dict[str, str]
) -> Iterator[Peer]:
    adapter = _adapter(contestant)
    store = adapter.open(str(folder), Limits(entries=0, bytes=bytes_max), settings)
    try:
        yield Peer(_title(contestant, adapter), store)
    finally:
        store.close()


def _adapter(contestant: Contestant) -> Adapter:
    name = Path(contestant.folder).name
    try:
        adapter: Adapter = importlib.import_module(f"lab.contestants.{name}.adapter")
    except ImportError as error:
        raise missing(contestant.name, error) from error
    return adapter


@contextmanager
def _server(contestant: Contestant, limits: StoreLimits) -> Iterator[RunningServer]:
    parent = Path(tempfile.gettempdir())
    with (
        Guard() as guard,
        workspace(guard) as data,
        workspace(guard, parent) as desk,
        asyncio.Runner() as loop,
    ):
        stack = AsyncExitStack()
        running = Servers(guard, data, desk).running(
            server_of(contestant),
            contestant,
            limits,
            mark=f"{guard.token}.0.",
            cores=client_cores("same core", cores()),
        )
        try:
            server = loop.run(stack.enter_async_context(running))
        except (NotInstalledError, UnavailableError) as error:
            raise missing(contestant.name, error) from error
        try:
            yield server
        finally:
            loop.run(stack.aclose())


def _title(contestant: Contestant, adapter: Adapter) -> str:
    distribution = contestant.install.distribution
    if distribution:
        return f"{distribution} {importlib.metadata.version(distribution)}"
    # What is no distribution of Python's says its version itself.
    return f"{contestant.title.partition(',')[0]} {getattr(adapter, 'VERSION', '')}".rstrip()
