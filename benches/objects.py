"""What storing objects costs: ``python -m benches.objects`` prints the table of the guide.

Each figure is the fastest round, for one operation. ``pickle`` alone is ``pickle.dumps`` and
``pickle.loads``, without a cache.
"""

from __future__ import annotations

import dataclasses
import pickle
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import tuckbox

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 25
ROUND_S = 0.02


@dataclasses.dataclass
class Order:
    """Five fields."""

    number: int
    customer: str
    total: float
    is_paid: bool
    items: list[str]


SAMPLES: dict[str, Any] = {
    "dataclass, 5 fields": Order(7, "Ada", 9.9, True, ["tea", "milk"]),
    "array of 1,000 float64": np.arange(1000.0),
    "DataFrame, 100 rows, 3 columns": pd.DataFrame(
        {"a": range(100), "b": np.arange(100.0), "c": ["text"] * 100}
    ),
}
MODES: dict[str, dict[str, Any]] = {
    "registered": {},
    '`"signed"`': {"pickle": "signed", "secret": "a secret"},
    '`"private"`': {"pickle": "private"},
}


def us_of(operation: Callable[[], object]) -> float:
    """Return the microseconds that one call takes."""
    operation()
    count = 1
    while (took := _timed(operation, count)) < ROUND_S:
        count *= 2
    took = min(_timed(operation, count) for _ in range(ROUNDS))
    return took / count * 1e6


def _timed(operation: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        operation()
    return time.perf_counter() - start


def row(name: str, value: object, folder: Path) -> str:
    """Return the line of a value: get and set in each mode, and pickle alone."""
    cells = []
    for number, (mode, options) in enumerate(MODES.items()):
        if mode == "registered":
            tuckbox.register(type(value))
        else:
            # Otherwise the registered type would come first.
            tuckbox.registry.by_type.pop(type(value), None)
        with tuckbox.Cache(folder / f"{number}.tuck", size="16 MB", **options) as cache:
            set_us = us_of(lambda: cache.set("key", value))
            get_us = us_of(lambda: cache.get("key"))
        cells.append(f"{get_us:.1f} / {set_us:.1f}")
    pickled = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    loads_us = us_of(lambda: pickle.loads(pickled))  # noqa: S301 - Made above.
    dumps_us = us_of(lambda: pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    cells.append(f"{loads_us:.1f} / {dumps_us:.1f}")
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Write the table to the standard output."""
    lines = [f"| us for get / set | {' | '.join(MODES)} | pickle alone |"]
    lines.append("|:--|" + "--:|" * (len(MODES) + 1))
    with tempfile.TemporaryDirectory() as folder:
        lines += [row(name, value, Path(folder)) for name, value in SAMPLES.items()]
    sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
