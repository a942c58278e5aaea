"""S16: a shared file in front of Redis, compared with a plain `get` and with redis-py's own.

The far tier's server and this process share one core, where a round trip is cheapest. A far hit is
a `get` of a key of which the near tier has no copy, and room for one; it includes keeping the copy.
The time of a near hit while others change 1,000 keys a second is compared with that of a quiet
server in the same rounds: the process that writes is stopped for the quiet passes. The gets of an
event loop have no near tier: they compare `aget`, which works in threads, with redis-py.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import redis.asyncio as redis_asyncio
from tuckbox import Cache, connect

from benches.data import ENTRIES, get_all, keys, require, values
from benches.row import Conditions, Figure, Goal, Row
from benches.turns import Turn, take_turns
from lab.hosts.python.contract import Store
from lab.peers import on_one_core, opened

_Given = TypeVar("_Given")

_FAR = 2_000
_BATCH = 100
_TASKS = 100
_CONNECTIONS = 32
_BYTES_MAX = 256 << 20
_PREFIX = "bench"
_READY_S_MAX = 20.0
# Ten changes, each hundredth of a second.
_WRITER = """
import sys, time, redis
client = redis.Redis(unix_socket_path=sys.argv[1])
print("ready", flush=True)
while True:
    time.sleep(0.01)
    with client.pipeline(transaction=False) as pipeline:
        for number in range(10):
            pipeline.set(f"{sys.argv[2]}\\0echanging{number}", "x")
        pipeline.execute()
"""


def measure(conditions: Conditions) -> list[Figure]:
    """Measure near hits, far hits and batches. Raises PeerMissingError."""
    folder = conditions.tmpfs / "redis"
    folder.mkdir(0o700)
    with ExitStack() as stack:
        stack.enter_context(on_one_core())
        redis = stack.enter_context(opened("redis:socket", folder, _BYTES_MAX))
        path = redis.settings["socket"]
        names, wanted = keys(ENTRIES), values(ENTRIES)
        plain = stack.enter_context(Cache(conditions.tmpfs / "plain.tuck", size="64 MB"))
        plain.set_many(dict(zip(names, wanted, strict=True)))

        def tiers(file: str) -> Cache:
            near = f"shared://{conditions.tmpfs}/{file}?size=64MB"
            return stack.enter_context(connect(near, f"unix://{path}", prefix=_PREFIX))

        near = tiers("near.tuck")
        near.set_many(dict(zip(names, wanted, strict=True)))
        _let_listen(near, names)

        conditions.progress("near hits")
        plain_ns, near_ns = take_turns(
            conditions,
            [
                Turn(ENTRIES, get_all(plain.get), lambda: names),
                Turn(ENTRIES, get_all(near.get), lambda: names, _same(near.get, wanted)),
            ],
        )
        conditions.progress("near hits, while others write")
        with _writing(path) as (stop, go_on):
            quiet_ns, busy_ns = take_turns(
                conditions,
                [
                    Turn(ENTRIES, get_all(near.get), lambda: _after(stop, names)),
                    Turn(ENTRIES, get_all(near.get), lambda: _after(go_on, names)),
                ],
            )
        conditions.progress("far hits")
        few, few_wanted = names[:_FAR], wanted[:_FAR]
        for name, value in zip(few, few_wanted, strict=True):
            redis.store.set(name, value)
        far = tiers("far.tuck")
        _let_listen(far, few)
        copies = stack.enter_context(Cache(conditions.tmpfs / "far.tuck"))

        def forget() -> object:
            return copies.delete_many(few)

        theirs_ns, far_ns = _far_hits(conditions, redis.store, far, forget, few, few_wanted)
        conditions.progress("batches")
        batches = [few[start : start + _BATCH] for start in range(0, _FAR, _BATCH)]
        their_many = redis.store.get_many
        assert their_many is not None
        their_many_ns, many_ns = take_turns(
            conditions,
            [
                Turn(_FAR, _each(their_many), lambda: batches),
                Turn(_FAR, _each(far.get_many), lambda: _after(forget, batches)),
            ],
        )
        conditions.progress("event loops")
        theirs_aget_ns, aget_ns = _in_event_loop(conditions, path, few, few_wanted)
        conditions.progress("far hits at memcached")
        memcached, memcached_ns, far_memcached_ns = _at_memcached(conditions, few, few_wanted)
    return [
        _ratio("near hit", near_ns, "plain get", plain_ns, Goal("at most", 1.2)),
        Figure(
            "near hit, 1,000 changes a second",
            "ns",
            busy_ns,
            "without changes",
            quiet_ns,
            "theirs / ours",
            Goal("at least", 0.9),
        ),
        _ratio("far hit", far_ns, redis.title, theirs_ns, Goal("at most", 1.1)),
        _ratio("far hit at memcached", far_memcached_ns, memcached, memcached_ns, None),
        _ratio("far hit, get_many of 100", many_ns, redis.title, their_many_ns, None),
        _ratio(
            f"aget by {_TASKS} tasks, no near tier",
            aget_ns,
            "redis-py's client for asyncio",
            theirs_aget_ns,
            None,
        ),
    ]


def _far_hits(
    conditions: Conditions,
    theirs: Store,
    far: Cache,
    forget: Callable[[], object],
    names: Sequence[str],
    wanted: Sequence[bytes],
) -> list[tuple[float, ...]]:
    """Measure gets by a client library, and by tiers that have no copy when a pass begins."""
    ours = Turn(len(names), get_all(far.get), lambda: _after(forget, names), _same(far.get, wanted))
    return take_turns(
        conditions,
        [Turn(len(names), get_all(theirs.get), lambda: names, _same(theirs.get, wanted)), ours],
    )


def _at_memcached(
    conditions: Conditions, names: Sequence[str], wanted: Sequence[bytes]
) -> tuple[str, tuple[float, ...], tuple[float, ...]]:
    """Measure far hits at memcached. Return the peer's title and time, and that of the tiers."""
    folder, file = conditions.tmpfs / "memcached", conditions.tmpfs / "memcached.tuck"
    folder.mkdir(0o700)
    with opened("pymemcache", folder, _BYTES_MAX) as peer:
        place = "memcached://{host}:{port}".format_map(peer.settings)
        # Copies must not end while they are measured.
        near = f"shared://{file}?size=64MB"
        with connect(near, place, prefix=_PREFIX, max_stale=3600) as far, Cache(file) as copies:
            for name, value in zip(names, wanted, strict=True):
                peer.store.set(name, value)
            far.set_many(dict(zip(names, wanted, strict=True)))
            theirs_ns, far_ns = _far_hits(
                conditions, peer.store, far, lambda: copies.delete_many(names), names, wanted
            )
    return peer.title, theirs_ns, far_ns


def _in_event_loop(
    conditions: Conditions, path: str, names: Sequence[str], wanted: Sequence[bytes]
) -> list[tuple[float, ...]]:
    """Measure gets by many tasks at once: of redis-py's client, and of ours."""
    loop = asyncio.new_event_loop()
    pool = redis_asyncio.BlockingConnectionPool.from_url(
        f"unix://{path}", max_connections=_CONNECTIONS
    )
    client = redis_asyncio.Redis(connection_pool=pool)

    def gets(get: Callable[[str], Awaitable[object]]) -> Turn:
        async def drive() -> list[object]:
            found: list[object] = [None] * len(names)
            waiting = iter(enumerate(names))

            async def task() -> None:
                for place, name in waiting:
                    found[place] = await get(name)

            await asyncio.gather(*(task() for _ in range(_TASKS)))
            return found

        def check(_given: object) -> None:
            require(str(get), loop.run_until_complete(drive()), wanted)

        return Turn(len(names), lambda _given: loop.run_until_complete(drive()), check=check)

    with connect(f"unix://{path}", prefix=_PREFIX) as cache:
        cache.set_many(dict(zip(names, wanted, strict=True)))
        try:
            return take_turns(conditions, [gets(client.get), gets(cache.aget)])
        finally:
            loop.run_until_complete(client.aclose())
            loop.close()


def _ratio(
    what: str,
    ours: tuple[float, ...],
    peer: str,
    theirs: tuple[float, ...],
    goal: Goal | None,
) -> Figure:
    return Figure(what, "ns", ours, peer, theirs, "ours / theirs", goal)


def _let_listen(cache: Cache, names: Sequence[str]) -> None:
    ends_s = time.monotonic() + _READY_S_MAX
    while not cache.health().is_listening or not cache.health().serves_near:  # type: ignore[attr-defined]
        cache.get("")
        time.sleep(0.01)
        if time.monotonic() > ends_s:
            raise TimeoutError(f"{cache!r} does not listen: {cache.health()}")  # type: ignore[attr-defined]
    for name in names:
        cache.get(name)


@contextmanager
def _writing(path: str) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """Run the writer; yields what stops it and what lets it go on."""
    words = [sys.executable, "-c", _WRITER, path, _PREFIX]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            if writer.stdout.readline() != "ready\n":
                raise RuntimeError("the process that writes did not start")
            yield (
                lambda: os.kill(writer.pid, signal.SIGSTOP),
                lambda: os.kill(writer.pid, signal.SIGCONT),
            )
        finally:
            writer.kill()


def _after(done: Callable[[], object], given: _Given) -> _Given:
    done()
    return given


def _same(get: Callable[[str], object], wanted: Sequence[bytes]) -> Callable[[Sequence[str]], None]:
    return lambda names: require(str(get), map(get, names), wanted)


def _each(get_many: Callable[[list[str]], object]) -> Callable[[list[list[str]]], None]:
    def work(batches: list[list[str]]) -> None:
        for batch in batches:
            get_many(batch)

    return work


ROW = Row(
    id="S16",
    title="Tiers: a shared file in front of Redis",
    text="server and client on one core; Redis by a Unix socket, memcached by TCP",
    measure=measure,
)
