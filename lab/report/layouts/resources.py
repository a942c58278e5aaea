"""The table of checks, memory and CPU time of each contestant."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from lab.protocol import Verdict
from lab.report.layouts.cells import FAULTS, NOTHING, checks, latency, refused_of
from lab.report.layouts.rows import cell, name, ours, shared_by
from lab.report.model import Cell, Column, Row, Table
from lab.report.units import megabytes
from lab.runner.summary import Summary


def resources(rows: Sequence[Summary]) -> Table:
    """Return a row for each contestant: the sum of its checks, the most memory of all variants."""
    columns = (
        Column("Contestant", figures=False),
        *FAULTS,
        Column(
            "Client",
            group="MB",
            means="Proportional set size of all workers, after the last phase.",
        ),
        Column("Server", group="MB", means="Resident set of the server, after the last phase."),
        Column("Store", group="MB", means="Blocks of all files of the store."),
        Column("Client", group="CPU/op", means="CPU time of the clients per operation."),
        Column("Server", group="CPU/op", means="CPU time of the server per operation."),
        Column("Shared by", figures=False, means="Who can use the same data."),
        Column("Rounds"),
        Column("Version", figures=False),
        Column("Server version", figures=False),
    )
    measured = [row for row in rows if row.measured]
    measured.sort(key=lambda row: (not row.contestant.stores, name(row)))
    return Table(
        "Checks, memory and CPU time",
        columns,
        tuple(_resources(list(same)) for _, same in groupby(measured, key=name)),
        notes=(
            "Over all variants: the sum of the checks, the largest memory, the mean CPU time per "
            "operation.",
        ),
    )


def _resources(same: Sequence[Summary]) -> Row:
    first = same[0]
    verdict = Verdict()
    for row in same:
        verdict.add(row.verdict)
    passes = [phase.main for row in same for phase in row.phases]
    refused = sum(row.refused for row in same) + sum(refused_of(one) for one in passes)

    def most(take: str) -> int:
        return max(int(getattr(row.resources, take)) for row in same)

    server_bytes = most("server_bytes_full")
    return Row(
        (
            cell(first),
            *checks(verdict, refused, first),
            _bytes(most("client_bytes_full")),
            _bytes(server_bytes) if first.contestant.server else NOTHING,
            _bytes(most("store_bytes")) if first.contestant.stores else NOTHING,
            latency(sum(one.cpu_ns for one in passes) / max(len(passes), 1)),
            _server_cpu(same) if first.contestant.server else NOTHING,
            Cell(shared_by(first.contestant)),
            Cell(str(min(row.rounds for row in same)), min(row.rounds for row in same)),
            Cell(" ".join(filter(None, (first.version, f"({first.runtime})")))),
            Cell(first.server_version),
        ),
        records=tuple(record for row in same for record in row.cells),
        ours=ours(first.contestant),
    )


def _bytes(count: int) -> Cell:
    return Cell(megabytes(count), count)


def _server_cpu(same: Sequence[Summary]) -> Cell:
    spent, done = 0, 0
    for row in same:
        spent += row.resources.server_cpu_ns
        passes = [one for phase in row.phases for one in (phase.throughput, phase.latency) if one]
        done += sum(one.done for one in passes)
    return latency(spent / done) if done else NOTHING
