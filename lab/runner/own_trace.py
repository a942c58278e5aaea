"""The user's own traces: makes a suite of a file of requests.

Owns the plan of such a replay. Must not run anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from lab.runner.catalogue import CatalogueError, Contestant, ReplaySuite
from lab.runner.catalogue.suites import ReplayPlan, Trace, suites
from lab.runner.results import capacity_text
from lab.runner.traces import TraceError, read, sha256

CAPACITIES = (0.05, 0.10, 0.25)
BYTES_MIN = 1 << 18
# Long enough for a million requests of a server.
_SECONDS_MIN, _REQUESTS_IN_A_SECOND = 300.0, 5_000


def suite_of(
    path: Path, capacities: Sequence[float] = (), value_bytes: int = 0, format_: str = ""
) -> ReplaySuite:
    """Return the suite that replays the trace in a file.

    `capacities` are shares of the bytes of all distinct values, above 0 and at most 1.
    `value_bytes` is the size of every value, 0 for the trace's own sizes. `format_` is one of
    `trace_formats`; if empty, the file's name or first line decides. Raises CatalogueError for a
    malformed trace, with the numbers of bad lines, and for a capacity that is too small.
    """
    shares = sorted(set(capacities or CAPACITIES))
    for share in shares:
        if not 0 < share <= 1:
            raise CatalogueError(f"--capacity {share:g}: it must be above 0 and at most 1")
    try:
        digest = sha256(path)
        found = read(path, format_, sized=not value_bytes)
    except TraceError as error:
        raise CatalogueError(str(error)) from error
    name = re.sub(r"[^a-z0-9]+", "-", path.name.partition(".")[0].lower()).strip("-") or "trace"
    if name in suites():
        name = f"own-{name}"
    note = f", without {found.left_out:,} requests that have no size" if found.left_out else ""
    trace = Trace(
        file=str(path.resolve()),
        what=f"requests{note}",
        origin="the user",
        licence="licence not stated",
        sha256=digest,
        requests=len(found.keys),
        distinct=found.distinct,
        bytes_distinct=0 if value_bytes else found.bytes_distinct,
        format=format_,
    )
    least = shares[0] * (trace.bytes_distinct or found.distinct * value_bytes)
    if least < BYTES_MIN:
        raise CatalogueError(
            f"{path}: {capacity_text(shares[0])} of all its values are {least:,.0f} bytes, but "
            f"contestants need at least {BYTES_MIN:,}: use a larger --capacity or --value-size"
        )
    seconds_max = max(_SECONDS_MIN, len(found.keys) / _REQUESTS_IN_A_SECOND)
    return ReplaySuite(
        name=name,
        title=f"Hit ratios on {path.name}",
        question="How many requests of this trace does each cache hit with the same bytes?",
        trace=trace,
        replay=ReplayPlan(value_bytes, shares, [], seconds_max),
    )


def refusal(contestant: Contestant) -> str:
    """Return why a contestant cannot replay a trace at equal bytes; empty if it can."""
    if not contestant.stores:
        return "it stores nothing"
    if "bytes" not in contestant.counts:
        return "it cannot limit bytes"
    if contestant.sizing != "limited" or contestant.mount:
        return "its limit cannot be varied"
    if "binary" not in contestant.values:
        return "it does not take byte strings"
    return ""
