"""Weighs a store before its rounds: how many bytes it uses, and under which limit.

Owns which contestants are weighed in a separate store, and which try several limits. Must not time
anything: the cells do so, under the limit found here.
"""

from __future__ import annotations

from itertools import chain

from lab import stream
from lab.runner import calibration
from lab.runner.catalogue import Contestant, Form, Part, Variant
from lab.runner.inputs import Inputs
from lab.runner.pages import small_pages
from lab.runner.replay_cell import Given, fill_in
from lab.runner.results import Held, ReplayCell
from lab.runner.session import Session

# Each try fills a store.
TRIES_MAX = 4
# A limit binds if keys and values need at least this share of it.
BINDING_SHARE = 0.5


def binds(bytes_max: int, inputs: Inputs) -> bool:
    """Return whether keys and values alone come close to a limit, or exceed it."""
    return inputs.payload >= BINDING_SHARE * bytes_max


def takes_limit(contestant: Contestant) -> bool:
    """Return whether a contestant is given a limit in bytes."""
    return "bytes" in contestant.counts and contestant.sizing == "limited"


async def weigh(
    session: Session,
    contestant: Contestant,
    part: Part,
    variant: Variant,
    form: Form,
    inputs: Inputs,
) -> Held | None:
    """Return the size of the contestant's store; None if there is no limit in bytes.

    Stores each key once, and once more each key that is not found. If the limit binds, tries other
    limits until the bytes come close to the suite's. Leaves to the cells what they measure
    themselves: files, and servers whose limit does not bind. Raises GuardError.
    """
    limits = part.limits_of(variant)
    if not limits.bytes or not contestant.stores:
        return None
    held = Held(contestant.weighed_by, limits.bytes, limits.bytes, binds(limits.bytes, inputs))
    tries_max = TRIES_MAX if held.binds and takes_limit(contestant) else 1
    if tries_max == 1 and held.weighed != "client":
        return held
    cell = ReplayCell("", contestant.name, 0.0, "measured", held.weighed, limits.bytes)
    desk = session.desk.fresh("weighing")
    try:
        path = desk / "requests.ops"
        keys, sizes = inputs.stored.keys, inputs.stored.sizes
        twice = chain(zip(keys, sizes, strict=True), zip(keys, sizes, strict=True))
        stream.write(path, (stream.Operation(stream.GET, key, size) for key, size in twice))
        given = Given(
            inputs.keys,
            path,
            requests=2 * len(keys),
            hits_max=len(keys),
            seconds_max=form.cell_seconds_max,
            value=variant.value,
            entries_max=limits.entries,
            ttl_seconds=part.ttl_seconds,
        )
        with small_pages():
            await fill_in(cell, session, contestant, given, tries_max)
    finally:
        session.desk.discard(desk)
    if cell.outcome != "measured":
        held.reason = cell.reason
        return held
    held.tries = cell.tries
    # A contestant that no limit keeps within the bytes runs under the suite's own limit.
    kept = cell.best if cell.best.bytes_measured <= limits.bytes else cell.tries[0]
    held.bytes = kept.bytes_measured
    if tries_max > 1:
        held.told = kept.limit
    if calibration.exceeds(held.bytes, limits.bytes):
        held.reason = calibration.excess(cell)
    return held
