"""From the records of a run to the rows of its tables.

Owns which suites a run has rows of. Must not know how anything is shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab.runner.catalogue import PhasesSuite, ReplaySuite
from lab.runner.records import Run
from lab.runner.results import AnyCell, PhasesCell, ReplayCell
from lab.runner.summary import Summary, summarise


@dataclass(frozen=True)
class SuiteRows:
    """One suite of a run and its rows."""

    suite: PhasesSuite
    summaries: list[Summary]


def source_of(cells: Iterable[AnyCell]) -> str:
    """Return where the operations of the cells of one suite came from, in words."""
    return "; ".join(dict.fromkeys(cell.source.text for cell in cells if cell.source.text))


def suites_of(run: Run) -> list[SuiteRows]:
    """Return the suites in phases that have cells, with the definitions that the run recorded."""
    cells = [cell for cell in run.cells if isinstance(cell, PhasesCell)]
    return [
        SuiteRows(suite, summarise(suite, run.header.contestants, cells))
        for suite in run.header.suites
        if isinstance(suite, PhasesSuite) and any(cell.suite == suite.name for cell in cells)
    ]


def replays_of(run: Run) -> list[tuple[ReplaySuite, list[ReplayCell]]]:
    """Return the replays that have cells, with these cells."""
    cells = [cell for cell in run.cells if isinstance(cell, ReplayCell)]
    found = []
    for suite in run.header.suites:
        own = [cell for cell in cells if cell.suite == suite.name]
        if isinstance(suite, ReplaySuite) and own:
            found.append((suite, own))
    return found
