"""Data for the page's scripts: charts as JSON, records as compressed JSON.

Owns both texts. Neither can close the HTML element that contains it.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable

import msgspec
from markupsafe import Markup

from lab.runner.results import AnyCell

# Histograms are most of a record and not readable, so the page leaves them out.
_HISTOGRAM_SHOWN = "in the file"


def as_json(value: object) -> Markup:
    """Return JSON for a script element of type application/json."""
    text = msgspec.json.encode(value).decode("utf-8")
    # "<" occurs only inside JSON strings, where the escape is equivalent.
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704


def as_packed(cells: Iterable[tuple[int, AnyCell]]) -> Markup:
    """Return the records by their lines: JSON, deflated, in base64."""
    readable = [(line, _without_histograms(msgspec.to_builtins(cell))) for line, cell in cells]
    packed = zlib.compress(msgspec.json.encode(readable), 9)
    return Markup(base64.b64encode(packed).decode("ascii"))  # noqa: S704


def _without_histograms(value: object) -> object:
    if isinstance(value, dict):
        return {
            name: _HISTOGRAM_SHOWN
            if name in ("histogram", "timer") and inner
            else _without_histograms(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_without_histograms(inner) for inner in value]
    return value
