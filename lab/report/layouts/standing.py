"""The rank of the lab's own contestant in each phase, and how far the fastest is ahead.

Owns these sentences and this table. They show readers every phase in which Tuckbox is not first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.report.layouts.rows import distinct, ours, shares, title
from lab.report.model import Cell, Column, Row, Table
from lab.report.units import rate, times
from lab.runner.summary import Summary

STANDING_TITLE = "Worst results of Tuckbox"


@dataclass(frozen=True)
class _Place:
    """The rank of one row in one phase and variant, among all rows and among those that share."""

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
        """How many times faster the first is."""
        return self.first_rate / max(self.own_rate, 1e-9)


def standing(summaries: Sequence[Summary]) -> Table | None:
    """Return a row for each part, phase and contestant of ours; None without any."""
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
        Column("Rank", group=_WORST),
        Column(
            "Among shared",
            group=_WORST,
            means="Rank among rows whose data several processes can share.",
        ),
        Column("Behind", group=_WORST, means="Rate of the fastest divided by its own rate."),
        Column("Fastest", group=_WORST, figures=False),
        Column("Variant", group=_WORST, figures=False),
    )
    # The largest gap comes first.
    lines.sort(key=lambda line: -(line.cells[_BEHIND].order or 0.0))
    notes = (
        "Ranked by operations per second, without null. “Among shared” leaves out rows whose data "
        "only one process can use, such as a dictionary. The contestants that use Tuckbox are not "
        "ranked against each other.",
    )
    return Table(STANDING_TITLE, columns, tuple(lines), notes=notes)


_BEHIND = 6
_WORST = "its worst variant"


def _place(here: Sequence[Summary], row: Summary, phase: str) -> _Place | None:
    own = row.phase(phase)
    if own is None:
        return None
    # Contestants that use Tuckbox do not compete with each other.
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
    """Return a sentence for each phase: the fastest with shared data, and the rank of Tuckbox."""
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
            f"{title(leader.row)} is the fastest of the {leader.of_shared} with shared data at "
            f"{_per_second(leader)}"
        ]
        parts += [
            f"{title(place.row)} ranks {place.place_shared} of {place.of_shared} at "
            f"{_per_second(place)}"
            for place in places
            if ours(place.row.contestant) and place is not leader
        ]
        first = min(places, key=lambda place: place.place)
        if not shares(first.row.contestant):
            parts.append(f"{title(first.row)}, for one process only, reaches {_per_second(first)}")
        said.append(f"{phase}: {'; '.join(parts)}.")
    return said


def _per_second(place: _Place) -> str:
    return f"{rate(place.own_rate)}/s"
