"""The generated parts of the page before the appendix: the overview, growth, and charts.

Owns their tables. Must not judge, nor touch a file.
"""

from __future__ import annotations

from collections.abc import Sequence

from benches import words
from benches.record import Record, Run
from benches.results import Result, results_of
from benches.row import Figure
from benches.rows import ROWS, overview, s08_growth, s15_full


def overview_table(record: Record) -> str:
    """Return the table of the overview, over all rounds of all its runs."""
    runs = record.rows.get(overview.ROW.id, [])
    if not runs:
        return f"Not measured yet: `python -m benches run --only {overview.ROW.id}`."
    lines = [*operations_table(runs), "", _counted(runs), "", f"Versions: {_versions(runs)}."]
    return "\n".join(lines)


def operations_table(runs: Sequence[Run]) -> list[str]:
    """Return the lines of a table of the ten operations, over all rounds of some runs."""
    heads = ["operation", *overview.COLUMNS, f"{overview.OURS}, all rounds"]
    lines = [words.cells(heads), "|:--|" + "--:|" * (len(heads) - 1)]
    for operation in overview.OPERATIONS:
        found: dict[str, list[Figure]] = {}
        for figure in (figure for run in runs for figure in run.figures):
            if figure.what == operation.what:
                found.setdefault(overview.column_of(figure), []).append(figure)
        of = {column: Result(tuple(figures)).pooled for column, figures in found.items()}
        if not of:
            lines.append(words.cells([operation.what, *["not measured"] * (len(heads) - 1)]))
            continue
        # Some runs may lack a peer, but all have Tuckbox.
        ours = max((figure.ours for figure in of.values()), key=len)
        times = {column: words.duration(figure.theirs) for column, figure in of.items()}
        times[overview.OURS] = f"**{words.duration(ours)}**"
        said = [
            times.get(column) or operation.absent.get(column, "not measured")
            for column in overview.COLUMNS
        ]
        lines.append(words.cells([operation.what, *said, words.durations(ours)]))
    return lines


def _counted(runs: Sequence[Run]) -> str:
    counts = sorted({len(figure.ours) for run in runs for figure in run.figures})
    rounds = " or ".join(f"{count}" for count in counts)
    many = f"{len(runs)} runs" if len(runs) > 1 else "one run"
    quick = " **The quick form: do not quote it.**" if any(run.is_quick for run in runs) else ""
    return f"Medians over {many} of {rounds} rounds.{quick}"


def _versions(runs: Sequence[Run]) -> str:
    peers = (figure.peer for run in runs for figure in run.figures)
    return ", ".join(peer for peer in dict.fromkeys(peers) if peer != "dict")


def sets_table(record: Record) -> str:
    """Return a table of overwriting, filling, and storing into a full cache, by the file's size."""
    results = results_of(run.figures for run in record.rows.get(s15_full.ROW.id, []))
    kinds = (s15_full.AGAIN, s15_full.EMPTY, s15_full.NEW)
    found: dict[int, dict[str, list[Result]]] = {}
    for result in results:
        if result.latest.what in kinds and result.latest.at is not None:
            of_size = found.setdefault(result.latest.at, {})
            of_size.setdefault(result.latest.what, []).append(result)
    complete = [size for size in sorted(found) if len(found[size]) == len(kinds)]
    if not complete:
        return f"Not measured yet: `python -m benches run --only {s15_full.ROW.id}`."
    peers = [result.latest.peer for result in found[complete[0]][s15_full.NEW]]
    heads = ["file", "overwrite", "empty cache", "full cache"]
    heads += [f"full cache, {peer}" for peer in [*peers, "stripped program"]]
    lines = [words.cells(heads), "|--:" * len(heads) + "|"]
    for size in complete:
        first = [found[size][kind][0].pooled for kind in kinds]
        full = [result.pooled for result in found[size][s15_full.NEW]]
        times = [figure.ours for figure in first] + [figure.theirs for figure in full]
        times.append(full[0].limit)
        lines.append(words.cells([f"{size >> 20:,} MiB", *map(words.duration, times)]))
    return "\n".join(lines)


def growth_table(record: Record) -> str:
    """Return a table of a get by the number of entries."""
    results = results_of(run.figures for run in record.rows.get(s08_growth.ROW.id, []))
    kinds = (s08_growth.SAME, s08_growth.FRESH)
    found: dict[int, dict[str, Result]] = {}
    for result in results:
        if result.latest.what in kinds and result.latest.at is not None:
            found.setdefault(result.latest.at, {})[result.latest.what] = result
    if not found:
        return f"Not measured yet: `python -m benches run --only {s08_growth.ROW.id}`."
    heads = ["entries", "Tuckbox, same keys", "dict, same keys", "Tuckbox, fresh keys"]
    heads.append("dict, fresh keys")
    fewest, most = (found[pick(found)][s08_growth.SAME].pooled for pick in (min, max))
    lines = [
        f"A get of a random key takes {words.duration(fewest.ours)} among {min(found):,} entries "
        f"and {words.duration(most.ours)} among {max(found):,}:",
        "",
        words.cells(heads),
        "|" + "--:|" * len(heads),
    ]
    for entries, by_kind in found.items():
        times = []
        for kind in kinds:
            figure = by_kind[kind].pooled
            times += [words.duration(figure.ours), words.duration(figure.theirs)]
        lines.append(words.cells([f"{entries:,}", *times]))
    return "\n".join(lines)


def charts(pictures: Sequence[tuple[str, str]]) -> str:
    """Return the charts, given the id of each row and the name of its file."""
    titles = {row.id: row.title for row in ROWS}
    return "\n\n".join(f"![{titles[row_id]}]({name})" for row_id, name in pictures)
