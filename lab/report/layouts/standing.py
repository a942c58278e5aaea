"""Where the lab's own contestant stands: in each phase its place, and how far the first is ahead.

Owns these sentences and this table. They are for whoever doubts us: every phase in which we are not
first is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.report.layouts.rows import distinct, ours, shares, title
from lab.report.model import Cell, Column, Row, Table
from lab.report.units import rate, times
from lab.runner.summary import Summary


@dataclass(frozen=True)
class _Place:
    """One row in one phase of one variant, among all rows and among those whose data is shared."""

    row: Summary
    own_rate: float
    first: Summary
    first_rate: float
    place: int
    of: int
    place_shared: int
    of_shared: int

    @property
    def behind(self) -> float:
        """How many times as fast the first is."""
        return self.first_rate / max(self.own_rate, 1e-9)


def standing(summaries: Sequence[Summary]) -> Table | None:
    """Return a row for each part, phase and contestant of ours, or None without any."""
    lines = []
    mine = [row for row in summaries if row.measured and ours(row.contestant)]
    for suite, part in dict.fromkeys((row.suite, row.part) for row in mine):
        here = [row for row in summaries if (row.suite, row.part) == (suite, part)]
        for phase in distinct([phase.name for row in here for phase in row.phases]):
            for name in distinct([title(row) for row in here if row in mine]):
                places = [
                    place
                    for row in here
                    if row.measured and title(row) == name
                    if (place := _place(here, row, phase)) is not None
                ]
                if places:
                    lines.append(_row(suite, part, phase, name, places))
    if not lines:
        return None
    columns = (
        Column("Suite", figures=False),
        Column("Phase", figures=False),
        Column("Contestant", figures=False),
        Column("First in", means="Variants in which it has the highest rate of all rows."),
        Column("Place", group="where it stands worst"),
        Column(
            "Among shared",
            group="where it stands worst",
            means="Of those whose data several processes share.",
        ),
        Column(
            "Behind", group="where it stands worst", means="How many times as fast the first is."
        ),
        Column("the first", group="where it stands worst", figures=False),
        Column("at", group="where it stands worst", figures=False),
    )
    # The phases that it loses by most come first.
    lines.sort(key=lambda line: -(line.cells[_BEHIND].order or 0.0))
    notes = (
        "By operations in a second; null is left out. A dictionary in one process shares its data "
        "with nobody: “Among shared” leaves such rows out. Each of our own contestants is placed "
        "without the others of them.",
    )
    return Table("Where Tuckbox stands worst", columns, tuple(lines), notes=notes)


_BEHIND = 6


def _place(here: Sequence[Summary], row: Summary, phase: str) -> _Place | None:
    own = row.phase(phase)
    if own is None:
        return None
    # Our other contestants are no rivals: who is behind one of them is behind nobody.
    rivals = [
        (one, found.main.rate.median)
        for one in here
        if one.variant == row.variant and one.measured and one.contestant.stores
        if one is row or not (ours(one.contestant) and ours(row.contestant))
        if (found := one.phase(phase)) is not None
    ]
    shared = [figure for one, figure in rivals if shares(one.contestant)]
    first, first_rate = max(rivals, key=lambda one: one[1])
    figure = own.main.rate.median
    return _Place(
        row,
        figure,
        first,
        first_rate,
        place=1 + sum(other > figure for _, other in rivals),
        of=len(rivals),
        place_shared=1 + sum(other > figure for other in shared),
        of_shared=len(shared),
    )


def _row(suite: str, part: str, phase: str, name: str, places: Sequence[_Place]) -> Row:
    first_in = sum(place.place == 1 for place in places)
    worst = max(places, key=lambda place: (place.place / place.of, place.behind))
    leads = worst.place == 1
    return Row(
        (
            Cell(suite if part == "main" else f"{suite}/{part}"),
            Cell(phase),
            Cell(name),
            Cell(
                f"{first_in} of {len(places)}", first_in / len(places), "" if first_in else "weak"
            ),
            Cell(f"{worst.place} of {worst.of}", worst.place / worst.of),
            Cell(f"{worst.place_shared} of {worst.of_shared}", worst.place_shared),
            Cell("" if leads else times(worst.behind), worst.behind),
            Cell("itself" if leads else title(worst.first), mark="aside" if leads else ""),
            Cell(worst.row.variant if len(places) > 1 else ""),
        ),
        records=tuple(cell for place in places for cell in place.row.cells),
    )


def headlines(summaries: Sequence[Summary], part: str, variant: str) -> list[str]:
    """Return a sentence for each phase: who leads what processes share, and where we stand."""
    here = [row for row in summaries if (row.part, row.variant) == (part, variant)]
    said = []
    for phase in distinct([phase.name for row in here for phase in row.phases]):
        places = [
            place
            for row in here
            if row.measured and row.contestant.stores
            if (place := _place(here, row, phase)) is not None
        ]
        shared = [place for place in places if shares(place.row.contestant)]
        if not shared:
            continue
        leader = min(shared, key=lambda place: place.place_shared)
        parts = [
            f"{title(leader.row)} leads the {leader.of_shared} that share their data, "
            f"{_per_second(leader)}"
        ]
        parts += [
            f"{title(place.row)} is {place.place_shared} of {place.of_shared}, {_per_second(place)}"
            for place in places
            if ours(place.row.contestant) and place is not leader
        ]
        first = min(places, key=lambda place: place.place)
        if not shares(first.row.contestant):
            parts.append(f"for one process alone {title(first.row)} does {_per_second(first)}")
        said.append(f"{phase}: {'; '.join(parts)}.")
    return said


def _per_second(place: _Place) -> str:
    return f"{rate(place.own_rate)}/s"
