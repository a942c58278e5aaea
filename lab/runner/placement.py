"""Where a cell's client and server run. Owns the choice of cores; must not start anything."""

from __future__ import annotations

from lab.runner.catalogue import Contestant, Part, Placement
from rig.cores import Cores


def placements(contestant: Contestant, part: Part, usable: Cores) -> list[Placement]:
    """Return the placements of a contestant's cells of a part: one, or with a server two."""
    if part.processes > 1 or usable.client is None:
        return ["free"]
    if not contestant.server:
        return ["one core"]
    return ["same core", "split cores"] if usable.server is not None else ["same core"]


def client_cores(placement: Placement, usable: Cores) -> set[int] | None:
    """Return the cores that a client is pinned to; None if the scheduler decides."""
    if placement == "free" or usable.client is None:
        return None
    return {usable.client}


def server_cores(placement: Placement, usable: Cores) -> set[int] | None:
    """Return the cores that a server is pinned to; None if the scheduler decides."""
    if placement == "split cores" and usable.server is not None:
        return {usable.server}
    return client_cores(placement, usable)
