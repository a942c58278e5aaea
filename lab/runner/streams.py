"""Draws the operations of a phase and makes their keys.

Owns every random choice of the lab; a replay has none. Must not know any contestant: all get the
same streams.
"""

from __future__ import annotations

import hashlib
import random
import struct
import uuid
from array import array
from collections.abc import Iterator
from typing import Literal

from lab import stream
from lab.protocol import Measure
from lab.runner.catalogue import Form, Part, Phase, Variant
from lab.runner.catalogue.suites import DigitSizes, FixedSizes, Sizes
from lab.runner.results import Source
from lab.runner.skew import Zipf, scatter

_SEED_AND_KEY = struct.Struct("<QQ")


def operations(phase: Phase, part: Part, variant: Variant, form: Form) -> int:
    """Return how many operations each worker does in a pass of a phase, including the warm-up.

    A form never shortens a preload, because the other phases need its entries, and never shortens
    a sweep that stores below one operation per key. Batches are whole.
    """
    keys = part.keys_of(variant)
    whole = phase.operations or phase.operations_per_key * keys
    if phase.preload:
        return whole
    shortened = min(whole, max(round(whole * form.operations), form.operations_min))
    if phase.batch > 1:
        return max(shortened // phase.batch, 1) * phase.batch
    if phase.order == "sweep" and phase.shares.set:
        return max(shortened, min(keys, whole))
    return shortened


def warmup(phase: Phase, count: int) -> int:
    """Return how many of `count` operations are the warm-up: at most a tenth, whole batches."""
    return min(phase.warmup, count // 10) // phase.batch * phase.batch


def keys_drawn(part: Part, variant: Variant, form: Form) -> int:
    """Return the number of keys to draw from; key numbers are below it.

    These are all keys of the variant. If the first phase that stores does so in order and the form
    shortens it, they are only the keys that it stores, so that a short form requests stored keys.
    """
    keys = part.keys_of(variant)
    for phase in part.phases:
        if phase.shares.set:
            if phase.order == "once":
                return min(keys, operations(phase, part, variant, form))
            break
    return keys


def keys_absent(part: Part, variant: Variant) -> int:
    """Return how many additional keys are requested but never stored."""
    return part.keys_of(variant) if any(phase.absent for phase in part.phases) else 0


def source(seed: int, suite: str) -> Source:
    """Return where the operations of a suite come from."""
    return Source(
        recorded=False, text=f"synthetic, drawn from seed {seed} by the distributions of {suite}"
    )


def dice(
    seed: int,
    suite: str,
    part: str,
    variant: str,
    phase: str,
    measure: Measure,
    worker: int,
) -> random.Random:
    """Return the random generator of one stream. The same arguments give the same numbers."""
    return random.Random(f"{seed}/{suite}/{part}/{variant}/{phase}/{measure}/{worker}")


def draw(
    phase: Phase,
    part: Part,
    variant: Variant,
    form: Form,
    thrown: random.Random,
    new_from: int = 0,
) -> Iterator[stream.Operation]:
    """Yield the operations of one worker in one pass of a phase.

    `new_from` is the first key number that no other stream uses; inserts start there.
    """
    throw = thrown.random
    keys, absent = keys_drawn(part, variant, form), keys_absent(part, variant)
    absent_from = part.keys_of(variant)
    shares = phase.shares
    get_below = shares.get
    set_below = get_below + shares.set
    delete_below = set_below + shares.delete
    insert_below = delete_below + shares.insert
    others = shares.delete + shares.insert + shares.modify
    new = _New(new_from)
    numbers = _numbers(phase, keys, thrown, new)
    left = operations(phase, part, variant, form)
    while left > 0:
        left -= 1
        choice = throw()
        key = next(numbers)
        if choice < get_below:
            if phase.absent and throw() < phase.absent:
                key = absent_from + int(throw() * absent)
            yield stream.Operation(stream.GET, key, 0)
        elif choice < set_below or not others:
            yield stream.Operation(stream.SET, key, draw_size(variant.sizes, thrown))
        elif choice < delete_below:
            yield stream.Operation(stream.DELETE, key, 0)
        elif choice < insert_below:
            yield stream.Operation(stream.SET, new.take(), draw_size(variant.sizes, thrown))
        else:
            yield stream.Operation(stream.GET, key, 0)
            if left > 0:
                left -= 1
                yield stream.Operation(stream.SET, key, draw_size(variant.sizes, thrown))


class _New:
    """The keys that a worker inserts, starting at `first`."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.count = 0

    def take(self) -> int:
        """Return the next one."""
        self.count += 1
        return self.first + self.count - 1


def _numbers(phase: Phase, keys: int, thrown: random.Random, new: _New) -> Iterator[int]:
    if phase.batch > 1:
        # The keys of one request are all different.
        while True:
            yield from thrown.sample(range(keys), phase.batch)
    if phase.order == "once":
        while True:
            yield from range(keys)
    if phase.order == "zipf":
        skewed = Zipf(keys, phase.exponent, thrown)
        while True:
            yield scatter(skewed.draw(), keys)
    if phase.order == "latest":
        skewed = Zipf(keys, phase.exponent, thrown)
        while True:
            age = skewed.draw()
            yield new.first + new.count - 1 - age if age < new.count else keys - 1 - age + new.count
    if phase.order == "sweep":
        yield from _shuffled(keys, thrown)
    while True:
        yield int(thrown.random() * keys)


def _shuffled(keys: int, thrown: random.Random) -> Iterator[int]:
    """Yield all keys like `thrown.sample(range(keys), keys)`, in a twentieth of its memory."""
    pool = array("I", range(keys))
    for left in range(keys, 0, -1):
        place = thrown.randrange(left)
        yield pool[place]
        pool[place] = pool[left - 1]


def draw_size(sizes: Sizes, thrown: random.Random) -> int:
    """Return one size in bytes, or in fields of a complex value."""
    if isinstance(sizes, FixedSizes):
        return sizes.size
    if isinstance(sizes, DigitSizes):
        digits = len(str(thrown.randrange(sizes.numbers)))
        return digits * thrown.randint(sizes.repeats_min, sizes.repeats_max)
    return thrown.randint(1, sizes.largest)


def key_text(shape: Literal["decimal", "uuid"], seed: int, key: int) -> str:
    """Return the key number `key` as digits, or as a UUID made of the seed and the number."""
    if shape == "decimal":
        return str(key)
    digest = hashlib.sha512(_SEED_AND_KEY.pack(seed, key)).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))
