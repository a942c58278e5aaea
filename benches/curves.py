"""Draws the curves of a row as a picture.

Owns how they look. Must not judge, measure, or touch a file. The same figures give the same bytes,
so that a picture can be compared with what it should be.
"""

from __future__ import annotations

import io
import statistics
from collections import defaultdict

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from benches.record import RowRecord
from benches.row import Figure

_INCHES = (11.0, 4.6)


def has_curves(row: RowRecord) -> bool:
    """Return whether a row has figures to draw."""
    return any(figure.at is not None for figure in row.figures)


def draw(row: RowRecord) -> str:
    """Return an SVG picture: what an operation takes, and its ratio to the peer's."""
    curves: dict[str, list[Figure]] = defaultdict(list)
    for figure in row.figures:
        if figure.at is not None:
            curves[figure.what].append(figure)
    with mpl.rc_context(
        {
            # Without it each picture has identifiers of its own.
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
        left, right = picture.subplots(1, 2)
        for number, (what, figures) in enumerate(curves.items()):
            figures.sort(key=lambda figure: figure.at or 0)
            _costs(left, what, figures, f"C{number}")
            if figures[0].relation != "ours":
                _ratios(right, what, figures, f"C{number}")
        units = sorted({figure.unit for figures in curves.values() for figure in figures})
        along = ", ".join(sorted({of[0].along for of in curves.values()}))
        _label(left, along, f"an operation, {' or '.join(units)}")
        left.set_yscale("log")
        _label(right, along, "as a multiple of the peer's; bands: all rounds")
        right.set_ylim(bottom=0)
        text = io.StringIO()
        picture.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _costs(axes: Axes, what: str, figures: list[Figure], colour: str) -> None:
    places = [figure.at or 0 for figure in figures]
    ours = [statistics.median(figure.ours) for figure in figures]
    axes.plot(places, ours, "o-", color=colour, label=f"Tuckbox, {what}")
    if all(figure.theirs for figure in figures):
        theirs = [statistics.median(figure.theirs) for figure in figures]
        peer = figures[0].peer
        axes.plot(places, theirs, "x--", color=colour, alpha=0.7, label=f"{peer}, {what}")


def _ratios(axes: Axes, what: str, figures: list[Figure], colour: str) -> None:
    places = [figure.at or 0 for figure in figures]
    axes.plot(places, [figure.value for figure in figures], "o-", color=colour, label=what)
    least, most = ([figure.least for figure in figures], [figure.most for figure in figures])
    axes.fill_between(places, least, most, color=colour, alpha=0.15, linewidth=0)
    for figure in figures[-1:]:
        if figure.goal is not None:
            axes.axhline(figure.goal.bound, color=colour, linestyle=":", linewidth=1)


def _label(axes: Axes, along: str, text: str) -> None:
    axes.set_xscale("log")
    axes.set_xlabel(along)
    axes.set_ylabel(text)
    axes.legend(frameon=False, fontsize=8)
