"""Processes of two machines at one Redis: four that share a near file, and a fifth with its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reliability.networks import Oracle, Plan, Read, as_it_is, collected, keys_of, started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack
    from pathlib import Path

PROCESSES = 4
READERS = 2
CONNECTIONS_MAX = (PROCESSES + 1) * (READERS + 1 + 1 + 1)
"""At each server: readers, a writer and the main thread use the pool, and the watch has its own."""


class Crowd:
    """Four processes that share a near file, and a fifth with its own; and what judges them."""

    def __init__(self, stack: ExitStack, folder: Path, driver: dict[str, Any], **plan: Any) -> None:
        count = plan.pop("keys")
        seed = plan.pop("seed")
        own = [keys_of(number, count) for number in range(PROCESSES + 1)]
        self.actors = [
            started(
                stack,
                as_it_is,
                Plan(
                    driver,
                    str(folder / ("near" if number < PROCESSES else "other")),
                    own=own[number],
                    read=sum(own, ()),
                    readers=READERS,
                    seed=seed + number,
                    **plan,
                ),
            )
            for number in range(PROCESSES + 1)
        ]
        self.all = Oracle(plan["max_stale_s"])
        self.same_file = Oracle(0.0)

    def lost(self, first_s: float, last_s: float) -> None:
        """Do not demand what was acknowledged then: the server may have lost it."""
        for oracle in (self.all, self.same_file):
            oracle.losses.append((first_s, last_s))

    def may_be_old(self, first_s: float, last_s: float) -> None:
        """Accept reads that began then up to the bound, also where a near file is shared: a server
        may answer with what it does not know to be old."""
        self.same_file.excused.append((first_s, last_s))

    def judged(self) -> Iterator[Read]:
        """Judge the reads since the last call, and return them."""
        drained = collected(self.actors[:PROCESSES], self.all, self.same_file)
        drained += collected(self.actors[PROCESSES:], self.all)
        for number, reads in enumerate(drained):
            for read in reads:
                self.all.judge(read)
                if number < PROCESSES:
                    self.same_file.judge(read)
                yield read
