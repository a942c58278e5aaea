"""The duration of cells in earlier runs, so that a run can estimate its time from the start.

Owns that estimate. Must not know what was measured.
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
    """The needed fields of a cell. The rest of a record is kilobytes of histograms."""

    suite: str = ""
    part: str = ""
    contestant: str = ""
    seconds: float = 0.0


def expected_seconds(folder: Path, form: FormName) -> dict[tuple[str, str, str], float]:
    """Return the mean duration of a cell by suite, part and contestant, in the newest such run.

    Empty if there is no readable run of this form.
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
