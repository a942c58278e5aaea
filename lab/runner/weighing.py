"""Weighs a store before its rounds: how many bytes it occupies, and under which limit.

Owns who is weighed in a store of its own, and whose limit is tried until the bytes are equal. Must
not time anything: the cells do, under the limit found here.
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

# A limit is tried so often at most: each try fills a store.
TRIES_MAX = 4
# Where keys and values are less than this share of a limit, it is taken not to bind.
BINDING_SHARE = 0.5


def binds(bytes_max: int, inputs: Inputs) -> bool:
    """Return whether keys and values alone come near to a limit, or exceed it."""
    return inputs.payload >= BINDING_SHARE * bytes_max


def takes_limit(contestant: Contestant) -> bool:
    """Return whether a contestant is told a limit in bytes."""
    return "bytes" in contestant.counts and contestant.sizing == "limited"


async def weigh(
    session: Session,
    contestant: Contestant,
    part: Part,
    variant: Variant,
    form: Form,
    inputs: Inputs,
) -> Held | None:
    """Return what the contestant's store occupies, None where there is no limit in bytes.

    Keys are stored once, and those that are not found once more. Whose limit binds is told other
    limits, until the bytes come near to the suite's. Bytes that a cell sees for itself are left to
    it: files, and servers whose limit does not bind. Raises GuardError.
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
    # Who cannot be kept within the bytes is measured under the suite's own limit.
    kept = cell.best if cell.best.bytes_measured <= limits.bytes else cell.tries[0]
    held.bytes = kept.bytes_measured
    if tries_max > 1:
        held.told = kept.limit
    if calibration.exceeds(held.bytes, limits.bytes):
        held.reason = calibration.excess(cell)
    return held
