"""How long cells took in earlier runs, so that a run can say at once how much time is left.

Owns that guess. Must not know what was measured.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import msgspec

from lab.runner.catalogue import FormName
from lab.runner.records import files


class _Settings(msgspec.Struct):
    form: FormName


class _Header(msgspec.Struct):
    settings: _Settings


class _Cell(msgspec.Struct):
    """As much of a cell as is needed: a record has kilobytes of histograms."""

    suite: str = ""
    part: str = ""
    contestant: str = ""
    seconds: float = 0.0


def expected_seconds(folder: Path, form: FormName) -> dict[tuple[str, str, str], float]:
    """Return how long a cell of suite, part and contestant took in the newest run of this form.

    Nothing for what it did not run, and when there is no such run, or none that can be read.
    """
    for path in files(folder):
        try:
            header, *lines = path.read_bytes().split(b"\n")[:-1]
            if msgspec.json.decode(header, type=_Header).settings.form != form or not lines:
                continue
            cells = [msgspec.json.decode(line, type=_Cell) for line in lines]
        except (OSError, ValueError, msgspec.DecodeError):
            continue
        seconds: dict[tuple[str, str, str], list[float]] = {}
        for cell in cells:
            if cell.seconds:
                seconds.setdefault((cell.suite, cell.part, cell.contestant), []).append(
                    cell.seconds
                )
        return {name: mean(values) for name, values in seconds.items()}
    return {}
