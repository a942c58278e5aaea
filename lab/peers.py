"""The interface for benchmarks and trials: opens contestants in this process, and their servers.

Owns how a peer is opened and named. Must not time or judge anything, nor know a peer: its adapter
has its settings and how it is driven.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType

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
    """A peer is not installed; the message says which, and how to install it."""


@dataclass(frozen=True)
class Peer:
    """An open peer.

    `title` has its name and version. `settings` say how to reach its server, if it has one.
    """

    title: str
    store: Store
    settings: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def opened(row: str, folder: Path, bytes_max: int = 0) -> Iterator[Peer]:
    """Open the contestant `row` in a folder, with a limit in bytes, 0 for none.

    If it has a server, a new one runs meanwhile on the core of `on_one_core`, on a socket in a
    private folder. Raises PeerMissingError, and ServerError if a server does not start.
    """
    contestant = _contestant(row)
    title = title_of(row)
    with ExitStack() as stack:
        settings: dict[str, str] = {}
        if contestant.server:
            server = stack.enter_context(_server(contestant, StoreLimits(bytes=bytes_max)))
            settings = server.settings
            # Some servers print much more than their version.
            found = re.search(r"\d+(\.\d+)+", server.version)
            number = f" {found[0]}" if found else ""
            title = f"{server_of(contestant).title}{number} by {title}"
        store = opener(row, bytes_max=bytes_max, settings=settings)(folder)
        stack.callback(store.close)
        yield Peer(title, store, settings)


def opener(
    row: str,
    *,
    entries_max: int = 0,
    bytes_max: int = 0,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Path], Store]:
    """Import an adapter; return a function that opens the contestant's store in a folder.

    `settings` take precedence over the contestant's own; with a server, they say how to reach it.
    Raises PeerMissingError.
    """
    contestant = _contestant(row)
    adapter = _adapter(contestant)
    limits = Limits(entries=entries_max, bytes=bytes_max)
    words = limit_words(StoreLimits(entries=entries_max, bytes=bytes_max))
    filled = {**fill_values(contestant.settings, words), **settings}
    return lambda folder: adapter.open(str(folder), limits, filled)


def title_of(row: str) -> str:
    """Return a contestant's name with its version. Raises PeerMissingError."""
    contestant = _contestant(row)
    adapter = _adapter(contestant)
    distribution = contestant.install.distribution
    if distribution:
        return f"{distribution} {version(distribution)}"
    # Without a Python distribution, the adapter has the version.
    return f"{contestant.title.partition(',')[0]} {getattr(adapter, 'VERSION', '')}".rstrip()


@contextmanager
def on_one_core() -> Iterator[None]:
    """Pin this process, and servers opened meanwhile, to one core."""
    with kept_to(client_cores("same core", cores())):
        yield


def missing(row: str, why: object) -> PeerMissingError:
    """Return the error that says that a contestant is not installed."""
    name = row.partition(":")[0]
    return PeerMissingError(
        f"{name} is not installed ({why}); run: python -m lab install --contestant {name}"
    )


@cache
def _contestant(row: str) -> Contestant:
    return contestants()[row]


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
