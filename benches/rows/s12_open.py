"""S12: opening an existing cache of 1 GB.

Each sample is a new process. A reboot leaves a file on a disk with none of it in memory, and
another boot id; both are simulated. The file has 250,000 pages, so a scan would show in the number
of touched pages.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tuckbox import Cache

from benches.data import keys
from benches.opening import NotPermittedError, Opening, demand_boots, forget, opening
from benches.row import Conditions, Figure, Goal, Row
from rig.stamps import WrongAnswerError

_VALUE_BYTES = 1_000
_ENTRIES = 1_000_000
ENTRIES_QUICK = 100_000
# An entry with its share of free space takes less than this, so that all fit.
_ENTRY_BYTES_MAX = 1_300
_PAGES_MAX = 256


def measure(conditions: Conditions) -> list[Figure]:
    """Measure opening, in memory and on a disk after a reboot."""
    count = ENTRIES_QUICK if conditions.is_quick else _ENTRIES
    in_memory, on_disk = conditions.tmpfs / "cache.tuck", conditions.disk / "cache.tuck"
    conditions.progress(f"filling {count * _VALUE_BYTES / 1e9:.1f} GB, twice")
    for path in (in_memory, on_disk):
        _fill(path, count)
    (key,) = keys(1, first=count // 2)

    def after_reboot(number: int) -> Opening:
        forget(on_disk)
        return opening(on_disk, key, _boot(conditions.disk, number))

    conditions.progress("opening")
    opened = _openings(conditions.rounds, lambda _number: opening(in_memory, key))
    figures = [
        _figure("open, tmpfs", "ms", [one.open_ms for one in opened], 2),
        _figure("file descriptors", "", [one.descriptors for one in opened], 3),
        _figure("pages touched", "", [one.pages for one in opened], _PAGES_MAX),
        _figure("first get", "ms", [one.first_get_ms for one in opened], None),
    ]
    try:
        demand_boots(_boot(conditions.disk, 0))
    except NotPermittedError as error:
        conditions.not_measured(f"opening after a reboot: {error}")
        return figures
    conditions.progress("opening after a reboot")
    opened = _openings(conditions.rounds, after_reboot)
    return [
        *figures,
        _figure("open after a reboot, disk", "ms", [one.open_ms for one in opened], 2),
        _figure("pages touched after a reboot", "", [one.pages for one in opened], _PAGES_MAX),
        _figure("first get after a reboot", "ms", [one.first_get_ms for one in opened], None),
    ]


def _fill(path: Path, count: int) -> None:
    dice = random.Random(count)
    pool = dice.randbytes(1 << 20)
    starts = len(pool) - _VALUE_BYTES
    with Cache(path, size=count * _ENTRY_BYTES_MAX) as cache:
        for key in keys(count):
            start = int(dice.random() * starts)
            cache.set(key, pool[start : start + _VALUE_BYTES])
        if len(cache) != count:
            raise WrongAnswerError(f"Tuckbox has {len(cache):,} entries of {count:,}")


def _openings(rounds: int, one: Callable[[int], Opening]) -> list[Opening]:
    """Return one opening a round, after a warm-up."""
    found = [one(number) for number in range(rounds + 1)][1:]
    if not all(opened.is_hit for opened in found):
        raise WrongAnswerError("Tuckbox did not find an entry of the file that it opened")
    return found


def _boot(folder: Path, number: int) -> Path:
    boot = folder / f"boot-{number}"
    boot.write_text(f"00000000-0000-4000-8000-{number + 1:012}\n", "ascii")
    return boot


def _figure(
    what: str, unit: str, samples: list[float] | list[int], at_most: float | None
) -> Figure:
    goal = None if at_most is None else Goal("at most", at_most)
    return Figure(what, unit, tuple(map(float, samples)), goal=goal)


ROW = Row(
    id="S12",
    title="Open a cache of 1 GB",
    text="each opening is in a new process; for a reboot, the file's pages are dropped and the "
    "boot id is changed; a scan would touch 250,000 pages",
    measure=measure,
)
