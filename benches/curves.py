"""Draws the curves of a row as a chart.

Owns their appearance. Must not judge, measure, or touch a file. The same figures give the same
bytes, so that `document --check` can compare charts.
"""

from __future__ import annotations

import io
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from benches import words
from benches.results import Result
from benches.row import Figure

_INCHES = (11.0, 4.6)
_TICKS_MAX = 12
# These are counted in powers of ten, everything else in powers of two.
_DECIMAL = frozenset({"entries"})
_ALONG = {
    "entries": "entries in the cache",
    "bytes of a value": "size of a value",
    "bytes of the file": "size of the file",
}
_MEASURES = {"MB/s": "throughput"}


def has_curves(results: Iterable[Result]) -> bool:
    """Return whether a row has figures to draw."""
    return any(result.latest.at is not None for result in results)


def draw(title: str, results: Iterable[Result]) -> str:
    """Return an SVG chart of the time of an operation, and of its ratio to the peer's.

    Points are medians over the rounds of all runs, bands the range of all rounds.
    """
    curves: dict[tuple[str, str], list[Figure]] = defaultdict(list)
    for result in results:
        if result.latest.at is not None:
            curves[result.latest.what, result.latest.peer].append(result.pooled)
    with mpl.rc_context(
        {
            # Without this, the identifiers in the SVG are random.
            "svg.hashsalt": "tuckbox",
            "svg.fonttype": "none",
            "font.size": 9,
            "axes.grid": True,
            "grid.alpha": 0.3,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    ):
        picture = Picture(figsize=_INCHES, layout="constrained")
        picture.suptitle(title, fontsize=12, fontweight="bold")
        left, right = picture.subplots(1, 2)
        drawn_of_ours: set[str] = set()
        for number, ((what, _), figures) in enumerate(curves.items()):
            figures.sort(key=lambda figure: figure.at or 0)
            # Several peers share one curve of Tuckbox.
            if what not in drawn_of_ours:
                _costs_of_ours(left, what, figures, f"C{number}")
            drawn_of_ours.add(what)
            if figures[0].relation != "ours":
                _costs_of_peer(left, what, figures, f"C{number}")
                _ratios(right, what, figures, f"C{number}")
        drawn = [figure for figures in curves.values() for figure in figures]
        unit = " or ".join(sorted({figure.unit for figure in drawn}))
        measure = _MEASURES.get(unit, "time of one operation")
        _label(left, drawn, f"{measure} ({unit})", f"{measure.capitalize()}, log scale")
        left.set_yscale("log")
        left.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        left.yaxis.set_minor_formatter(NullFormatter())
        _label(right, drawn, "Tuckbox / peer (x)", "Ratio to the peer; bands: range of all rounds")
        right.set_ylim(bottom=0)
        text = io.StringIO()
        picture.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _costs_of_ours(axes: Axes, what: str, figures: list[Figure], colour: str) -> None:
    places = [figure.at or 0 for figure in figures]
    ours = [statistics.median(figure.ours) for figure in figures]
    axes.plot(places, ours, "o-", color=colour, label=f"Tuckbox: {what}")


def _costs_of_peer(axes: Axes, what: str, figures: list[Figure], colour: str) -> None:
    places = [figure.at or 0 for figure in figures]
    theirs = [statistics.median(figure.theirs) for figure in figures]
    label = f"{figures[0].peer}: {what}"
    axes.plot(places, theirs, "x--", color=colour, alpha=0.7, label=label)


def _ratios(axes: Axes, what: str, figures: list[Figure], colour: str) -> None:
    places = [figure.at or 0 for figure in figures]
    peer = figures[0].peer
    label = f"{what}, compared with {peer}"
    axes.plot(places, [figure.value for figure in figures], "o-", color=colour, label=label)
    least, most = ([pick(figure.values) for figure in figures] for pick in (min, max))
    axes.fill_between(places, least, most, color=colour, alpha=0.15, linewidth=0)
    goal = figures[-1].goal
    if goal is not None:
        label = f"goal: {words.SIGNS[goal.sense]} {goal.bound:g}x"
        axes.axhline(goal.bound, color=colour, linestyle=":", linewidth=1, label=label)


def _label(axes: Axes, drawn: Sequence[Figure], text: str, title: str) -> None:
    along = drawn[0].along
    base = 10 if along in _DECIMAL else 2
    axes.set_title(title, fontsize=10)
    axes.set_xscale("log", base=base)
    axes.xaxis.set_major_locator(LogLocator(base=base, numticks=_TICKS_MAX))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda place, _: _place(place, along)))
    axes.set_xlabel(_ALONG.get(along, along))
    axes.set_ylabel(text)
    axes.legend(frameon=False, fontsize=8)


def _place(place: float, along: str) -> str:
    return words.at(round(place), along) if words.is_bytes(along) else f"{place:,.0f}"
