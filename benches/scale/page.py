"""Writes the tables of docs/explanation/scale.md from the record and the assumptions.

Owns the generated parts, each between two marks. Must not measure, nor change the rest of the page.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from benches.scale import costs, fleet
from benches.scale.costs import Assumptions, Prices
from benches.scale.record import Fleet, Record
from benches.words import interval, number
from rig.kept import PageError, with_part, wrapped
from rig.sources import ROOT

PAGE = ROOT / "docs" / "explanation" / "scale.md"

#: Writes a second of each machine, for which the page has the limits.
WRITES = (0.1, 1.0, 10.0, 100.0)

#: The number of machines whose delay the page has.
DELAYED = 100

_MEANINGS = {
    "reads": "reads of each machine a second",
    "writes": "writes, deletes, expiries and evictions of each machine a second",
    "workers": "processes of each machine",
    "pool": "connections of each process, besides the one that listens",
    "max_stale_s": "`max_stale` in seconds",
    "trace": "the trace whose hit ratios count",
    "percent": "entries of a near tier, in per cent of the trace's objects",
    "header_bytes": "bytes of Ethernet, IP and TCP for each message",
    "connections_most": "`maxclients` of the server",
}


def begin(part: str) -> str:
    """Return the mark before a generated part."""
    return f"<!-- {part}: written by `python -m benches.scale document` from scale.json -->"


def end(part: str) -> str:
    """Return the mark after a generated part."""
    return f"<!-- end of {part} -->"


def make(page: str, record: Record, assumed: Assumptions) -> str:
    """Return the page with the figures of the record. Raises PageError."""
    for part, text in parts(record, assumed).items():
        page = with_part(page, begin(part), end(part), text)
    return page


def parts(record: Record, assumed: Assumptions) -> dict[str, str]:
    """Return the generated parts, in the order of the page. Raises PageError."""
    if record.measured is None or record.run is None or not record.fleets:
        raise PageError("the record is not complete: run measure and replay")
    return {
        "answer": _answer(record, assumed),
        "limits": _limits(record, assumed),
        "hits": _hits(record),
        "stale": _stale(record),
        "gap": _gap(record),
        "measured": _measured(record),
        "assumed": _assumed(assumed),
    }


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """Return a table whose first columns are words, and the others figures."""
    marks = [":--" if column < words else "--:" for column in range(len(heading))]
    lines = [" | ".join(heading), "|".join(marks), *(" | ".join(row) for row in rows)]
    return "\n".join(f"|{line}|" if line[0] in ":-" else f"| {line} |" for line in lines)


def _percent(share: float) -> str:
    return f"{number(100 * share)} %"


def _answer(record: Record, assumed: Assumptions) -> str:
    assert record.measured is not None
    prices = costs.prices_of(record.measured)
    lost = costs.lost_of(record.fleets, assumed.trace, assumed.reads * assumed.max_stale_s)
    of = {"trace": assumed.trace, "percent": assumed.percent}
    found = [
        costs.cost(
            machines,
            costs.share_of(costs.find(record.fleets, machines=machines, **of)),
            lost,
            assumed,
            prices,
        )
        for machines in fleet.MACHINES
    ]
    few, many = fleet.MACHINES[0], fleet.MACHINES[-1]
    sticky = costs.find(record.fleets, machines=many, route="sticky", **of)
    saving = _saving(record, assumed.writes, assumed, prices)
    most = int(costs.limits(assumed.writes, assumed, prices).messages)
    first = (
        f"If each machine runs {assumed.workers} processes and makes {assumed.writes:g} changes a "
        f"second, tracking saves Redis CPU time with up to {saving} machines. With {most:,} "
        "machines, sending the messages keeps one core of the server busy."
    )
    second = (
        "Without tracking (memcached, SQL, MongoDB), there are no messages, but copies end after "
        f"`max_stale`, which costs {number(100 * lost)} % of the near hits at "
        f"{assumed.max_stale_s:g} s."
    )
    third = (
        "If reads go to any machine at random, "
        f"{_percent(found[0].far_reads / found[0].reads)} of them get past the near tier with "
        f"{few} machine and {_percent(found[-1].far_reads / found[-1].reads)} with {many:,}. If "
        f"all reads of a key go to the same machine, {_percent(costs.share_of(sticky))} do."
    )
    rows = [
        (
            f"{one.machines:,}",
            number(one.reads),
            number(one.far_reads),
            number(one.far_reads_stale),
            number(one.messages),
            number(one.message_bytes / 1e6),
            f"{one.connections:,}",
            number(one.core_without),
            number(one.core),
            number(one.core_stale),
            number(one.machine_cores),
        )
        for one in found
    ]
    heading = (
        "machines",
        "reads/s",
        "far reads/s, tracked",
        "far reads/s, `max_stale`",
        "messages/s",
        "MB/s",
        "connections",
        "server cores, no near tier",
        "server cores, tracked",
        "server cores, `max_stale`",
        "cores of each machine, tracked",
    )
    return f"{wrapped(f'{first} {second} {third}')}\n\n{table(heading, rows, 0)}"


def _limits(record: Record, assumed: Assumptions) -> str:
    assert record.measured is not None
    prices = costs.prices_of(record.measured)
    names = {
        "messages": "the server's core",
        "listening": "a core of each machine",
        "connections": "connections",
    }
    rows = []
    for writes in WRITES:
        found = costs.limits(writes, assumed, prices)
        figures = (f"{int(getattr(found, name)):,}" for name in names)
        rows.append(
            (
                f"{writes:g}",
                _saving(record, writes, assumed, prices),
                *figures,
                names[found.first()],
            )
        )
    heading = (
        "changes/s of each machine",
        "tracking saves CPU time",
        "server's core is full of messages",
        "one core of each machine is full",
        f"{assumed.connections_most:,} connections",
        "first",
    )
    busy = costs.cost(DELAYED, 1.0, 0.0, assumed, prices)
    text = (
        "Below this limit, too, the server delays reads: while it sends the messages of a change, "
        f"it executes nothing else. With {busy.processes:,} processes, each change delays all "
        f"reads by about {number(busy.delay_us / 1e3)} ms."
    )
    return f"{table(heading, rows, 0)}\n\n{wrapped(text)}"


def _saving(record: Record, writes: float, assumed: Assumptions, prices: Prices) -> str:
    most = costs.saving_most(record.fleets, writes, assumed, prices)
    return f"{fleet.MACHINES[-1]:,} or more" if most is None else f"{most:,}"


def _hits(record: Record) -> str:
    rows = []
    for trace in fleet.TRACES:
        for percent in fleet.PERCENTS:
            of = {"trace": trace, "percent": percent}
            shares = [
                number(100 * costs.share_of(found))
                for found in (
                    costs.find(record.fleets, **of, machines=machines, route=route)
                    for route in fleet.ROUTES
                    for machines in fleet.MACHINES
                    if machines > 1 or route == "random"
                )
            ]
            rows.append((f"`{trace}`", f"{percent:g}", *shares))
    heading = (
        "trace",
        "near, %",
        *(f"{machines:,}" for machines in fleet.MACHINES),
        *(f"{machines:,} sticky" for machines in fleet.MACHINES if machines > 1),
    )
    return table(heading, rows)


def _stale(record: Record) -> str:
    of = {"percent": fleet.STALE_PERCENT, "machines": fleet.STALE_MACHINES}
    rows = [
        (
            f"`{trace}`",
            *(
                number(
                    100 * costs.share_of(costs.find(record.fleets, trace=trace, stale=stale, **of))
                )
                for stale in (*fleet.STALES, 0)
            ),
        )
        for trace in fleet.TRACES
    ]
    return table(("trace", *(f"{stale:,}" for stale in fleet.STALES), "no end"), rows)


def _gap(record: Record) -> str:
    rows = []
    for trace in fleet.TRACES:
        for percent in fleet.PERCENTS:
            of = {"trace": trace, "percent": percent, "machines": fleet.STALE_MACHINES}
            plain: Fleet = costs.find(record.fleets, **of)
            found = costs.gap(costs.find(record.fleets, **of, is_cleared=True), plain)
            warm = "not within the trace" if found.lookups is None else number(found.lookups)
            rows.append(
                (f"`{trace}`", f"{percent:g}", f"{plain.entries:,}", number(found.more_reads), warm)
            )
    heading = ("trace", "near, %", "entries", "more far reads", "reads until warm")
    return table(heading, rows)


def _measured(record: Record) -> str:
    found, run = record.measured, record.run
    assert found is not None
    assert run is not None

    def row(name: str, figures: Sequence[float], unit: str) -> tuple[str, str, str]:
        low, middle, high = min(figures), statistics.median(figures), max(figures)
        return name, f"{number(middle)} {unit}", interval((low, high))

    rows = [
        row("server: `MGET` of one key", found.read_us, "us"),
        row("server: `SET`", found.write_us, "us"),
        row("server: `PING`, a confirmation", found.ping_us, "us"),
    ]
    for one in found.fan_out:
        name = f"server: a message to each of {one.connections:,}"
        if one.changes > 1:
            name += f", about {one.changes} changes"
        rows.append(row(name, one.cpu_us, "us"))
    # What a whole machine told, with the listeners on it.
    most = [one for one in found.fan_out if one.changes == 1][-1]
    rows += [
        row(
            f"messages told to {most.connections:,}, listeners on the same cores",
            most.per_second,
            "/s",
        ),
        row("listening process: 1,000 messages", found.applied_us, "ms"),
        row("listening process: a second without messages", [o / 1e3 for o in found.idle_us], "ms"),
        row("server's memory: a connection that listens", found.connection_bytes, "B"),
        row("server's memory, default mode: a key, for each process", found.tracked_key_bytes, "B"),
        (
            f"message about a key of {found.key_bytes} bytes; each further key in it",
            f"{found.message_bytes} B; {found.more_key_bytes} B",
            "",
        ),
    ]
    told = ", ".join(f"{name}: {count}" for name, count in found.told.items())
    text = (
        f"Changes that an operation makes on the server: {told}. Medians and ranges of "
        f"{found.rounds} interleaved rounds; {found.server}, {run.machine.cpu}, "
        f"{run.machine.cores} cores, of which other programs used "
        f"{100 * run.disturbance.others:.0f} %; commit {run.sources.commit}."
    )
    return f"{table(('CPU time, or memory', 'median', 'range'), rows)}\n\n{wrapped(text)}"


def _assumed(assumed: Assumptions) -> str:
    rows = [
        (f"`--{field.name.replace('_', '-')}`", _MEANINGS[field.name], _value(assumed, field.name))
        for field in dataclasses.fields(assumed)
    ]
    return table(("option", "assumed", "value"), rows, 2)


def _value(assumed: Assumptions, name: str) -> str:
    value = getattr(assumed, name)
    return f"`{value}`" if isinstance(value, str) else f"{value:,g}"
