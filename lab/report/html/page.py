"""The content of the page, chapter by chapter.

Owns the order and the words around tables and charts. Must not know HTML, nor compute a figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from lab.report.html import answers
from lab.report.html.packed import as_json, as_packed
from lab.report.html.views import View, Views
from lab.report.layouts import replay, sheets
from lab.report.layouts.corrected import percentiles
from lab.report.layouts.remarks import counted
from lab.report.layouts.rows import shared_by
from lab.report.layouts.standing import STANDING_TITLE, headlines, standing
from lab.report.model import Cell, Column, Dots, Row, Sheet, Table
from lab.report.reading import SuiteRows, replays_of, source_of, suites_of
from lab.report.units import brief
from lab.runner.catalogue import Contestant, Form, PhasesSuite, ReplaySuite
from lab.runner.histograms import decode
from lab.runner.intervals import SAMPLES_MIN
from lab.runner.records import Run
from lab.runner.results import ReplayCell
from lab.runner.summary import Summary

_METHOD = (
    "Every contestant runs the same operations. Each cell has a new process and a new store, and "
    "rounds are interleaved: A B C, A B C. Keys and values exist before the clock starts. Rates "
    "come from a throughput pass, which reads the clock once per block of operations. Latencies "
    "come from a second pass, which reads it around each operation.",
    "Several workers start at the same moment and run without a pause. Their rate is the number of "
    "operations divided by the time from the first start to the last end. The lab rejects a rate "
    "that the measured CPU time cannot explain.",
    "The lab checks every answer after the clock has stopped. A wrong or stale value or a lost "
    "entry makes the run a failure. A miss is allowed where a store may evict.",
    "Figures are medians of the rounds. An interval needs six rounds and shows its coverage. "
    "A row is called noisy when its rounds differ by more than 10 %. The cost of a host's own loop "
    "is a row of its own (null) and never subtracted.",
    "A contestant behind a server has two rows: client and server on one core, and on two cores. "
    "Which one is faster depends on the machine; the difference can be threefold.",
    "The loop is closed: a worker sends a request only after the previous answer, so percentiles "
    "hide part of a stall (coordinated omission). Most suites request all keys equally often, and "
    "most key sets fit into the processor's caches. A row of Redis or memcached includes the cost "
    "of its client library.",
    "METHODOLOGY.md describes the method in full, BIAS.md where this lab may favour Tuckbox, and "
    "PROTOCOL.md how to add a runtime.",
)


def page_of(run: Run) -> View:
    """Return everything that the template shows about a run."""
    lines = {id(cell): line for cell, line in zip(run.cells, run.lines, strict=True)}
    views = Views(lines)
    suites = suites_of(run)
    everyone = [row for one in suites for row in one.summaries]
    own = standing(everyone)
    chapters = [_suite(views, run, one) for one in suites]
    chapters += [_replay(views, suite, cells) for suite, cells in replays_of(run)]
    contents = [{"id": one["id"], "name": one["name"]} for one in chapters]
    if own is not None:
        contents.insert(0, {"id": "standing", "name": STANDING_TITLE})
    return {
        "started": _moment(run.header.started),
        "answer": _answer(suites, lines),
        "lede": _lede(
            suites, everyone, [cell for cell in run.cells if isinstance(cell, ReplayCell)]
        ),
        "machine_line": _machine_line(run),
        "badges": _badges(run),
        "notices": _notices(run),
        "chapters": contents,
        "standing": views.table(own) if own is not None else None,
        "suites": chapters,
        "method": [*_METHOD, *_clocks(everyone)],
        "machine": _machine(run),
        "contestants": views.table(_contestants(everyone)) if everyone else None,
        "run": _run(run),
        "faults": run.ending.faults if run.ending else [],
        "noise": run.ending.noise if run.ending else [],
        "quiet": _quiet(run),
        "file": run.path.name,
        "charts_json": as_json(views.charts),
        "records_packed": as_packed((lines[id(cell)], cell) for cell in run.cells),
    }


def _answer(suites: Sequence[SuiteRows], lines: Mapping[int, int]) -> View | None:
    asked = next((one for one in suites if one.suite.answer is not None), None)
    return None if asked is None else answers.view(asked.suite, asked.summaries, lines)


def _suite(views: Views, run: Run, one: SuiteRows) -> View:
    form = one.suite.form(run.header.settings.form)
    return {
        "id": f"suite-{one.suite.name}",
        "name": one.suite.name,
        "title": one.suite.title,
        "question": one.suite.question,
        "origin": f"after {one.suite.origin}" if one.suite.original else one.suite.origin,
        "source": source_of(cell for row in one.summaries for cell in row.cells),
        "form": _form(run, form),
        **_headlines(one),
        "audit_title": "What this measures" if one.suite.answer else "What the original measured",
        "audit": [" ".join(text.split()) for text in one.suite.audit.split("\n\n") if text],
        "parts": [
            _part(views, one.suite, sheet, one.summaries)
            for sheet in sheets(one.suite, one.summaries)
        ],
    }


def _headlines(one: SuiteRows) -> View:
    part = one.suite.parts[0]
    variants = [variant.name for variant in part.variants]
    variant = variants[(len(variants) - 1) // 2]
    return {
        "headlines_of": f"{part.title}, {variant}:",
        "headlines": headlines(one.summaries, part.name, variant),
    }


def _part(views: Views, suite: PhasesSuite, sheet: Sheet, summaries: Sequence[Summary]) -> View:
    rows = [row for row in summaries if row.part == sheet.name]
    latencies: list[Dots] = [percentiles(rows)] if any(row.measured for row in rows) else []
    shown = {chart.title for chart in sheet.charts}
    return {
        "id": f"part-{suite.name}-{sheet.name}",
        "title": sheet.title,
        "charts": [views.chart(chart) for chart in sheet.charts],
        "tables": views.gallery(sheet.tables, sheet.pickers),
        "pickers": sheet.pickers,
        "more_charts": [
            views.chart(chart) for chart in latencies if chart.rows and chart.title not in shown
        ],
        "more": [
            views.table(table)
            for table in (sheet.corrected, sheet.beyond, sheet.resources)
            if table is not None and table.rows
        ],
        "absent": views.table(sheet.absent) if sheet.absent is not None else None,
        "remarks": sheet.notes,
    }


def _replay(views: Views, suite: ReplaySuite, cells: Sequence[ReplayCell]) -> View:
    return {
        "id": f"suite-{suite.name}",
        "name": suite.name,
        "title": suite.title,
        "question": suite.question,
        "origin": "; ".join(filter(None, (suite.trace.what, suite.trace.origin))),
        "source": source_of(cells),
        "form": (
            f"values of {suite.replay.value_bytes:,} bytes"
            if suite.replay.value_bytes
            else "values of the trace's own sizes"
        ),
        "headlines": [],
        "audit": [],
        "parts": [
            {
                "id": f"part-{suite.name}",
                "title": suite.title,
                "charts": [views.chart(chart) for chart in replay.charts(suite, cells)],
                "tables": [],
                "pickers": (),
                "more_charts": [],
                "more": [
                    views.table(replay.table(suite, cells)),
                    views.table(replay.tries(cells)),
                ],
                "absent": None,
                "remarks": (),
            }
        ],
    }


def _form(run: Run, form: Form) -> str:
    rounds = run.header.settings.rounds or form.rounds
    counted = "one round" if rounds == 1 else f"{rounds} interleaved rounds"
    share = "" if form.operations == 1 else f", {100 * form.operations:.3g} % of the operations"
    return counted + share


def _lede(
    suites: Sequence[SuiteRows], everyone: Sequence[Summary], replays: Sequence[ReplayCell]
) -> str:
    count = sum(bool(one.suite.original) for one in suites)
    who = f"{counted(everyone, replays)}. Every answer was checked."
    if not count:
        return f"Measured on one machine: {who}"
    comparisons = "One published comparison" if count == 1 else f"{count} published comparisons"
    return (
        f"{comparisons} of caches, repeated on one machine and shown next to the published "
        f"figures: {who}"
    )


def _machine_line(run: Run) -> str:
    machine = run.header.machine
    return (
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_bytes / 1e9:.0f} GB, "
        f"{machine.system} · {_moment(run.header.started)}"
    )


def _badges(run: Run) -> list[View]:
    form = {"text": f"{run.header.settings.form} form", "mark": ""}
    if run.ending is None:
        return [form, {"text": "unfinished", "mark": "weak"}]
    faults = len(run.ending.faults)
    noisy = bool(run.ending.noise)
    return [
        form,
        {"text": "noisy run" if noisy else "quiet run", "mark": "weak" if noisy else ""},
        {
            "text": "no faults" if not faults else f"{faults} fault{'s' if faults > 1 else ''}",
            "mark": "fault" if faults else "",
        },
    ]


def _notices(run: Run) -> list[str]:
    notices = []
    if run.ending is None:
        notices.append(
            "This run was interrupted or is still running. The page shows the cells measured so "
            "far. Faults and noise are judged at the end of a run."
        )
    if run.header.settings.form == "smoke":
        notices.append("The smoke form only shows that everything runs. Ignore its figures.")
    settings = run.header.settings
    few = [
        suite.name
        for suite in run.header.suites
        if isinstance(suite, PhasesSuite)
        and (settings.rounds or suite.form(settings.form).rounds) < SAMPLES_MIN
    ]
    if few and settings.form != "smoke":
        listed = ", ".join(few)
        notices.append(f"Fewer than {SAMPLES_MIN} rounds: do not quote the figures of {listed}.")
    return notices


def _clocks(everyone: Sequence[Summary]) -> list[str]:
    clocks: dict[str, str] = {}
    for row in everyone:
        if row.timer and row.contestant.host not in clocks:
            timer = decode(row.timer)
            p50, p99 = (timer.get_value_at_percentile(percent) for percent in (50, 99))
            clocks[row.contestant.host] = f"{row.contestant.host} {brief(p50)} (P99 {brief(p99)})"
    if not clocks:
        return []
    return [f"Each latency includes the cost of reading the clock: {', '.join(clocks.values())}."]


def _machine(run: Run) -> list[tuple[str, str]]:
    machine = run.header.machine
    libraries = ", ".join(f"{name} {version}" for name, version in machine.libraries.items())
    return [
        ("Processor", f"{machine.cpu}, {machine.cores} cores"),
        ("Memory", f"{machine.memory_bytes / 1e9:.1f} GB"),
        ("System", f"{machine.system}, {machine.kernel}"),
        ("Lab", f"{machine.python}; {libraries}"),
        ("Pinned to", f"client core {machine.client_core}, server core {machine.server_core}"),
        ("Load before", f"{machine.load_before:.2f}"),
    ]


def _contestants(everyone: Sequence[Summary]) -> Table:
    first: dict[str, Summary] = {}
    for row in everyone:
        before = first.get(row.contestant.name)
        if before is None or (row.version and not before.version):
            first[row.contestant.name] = row
    columns = tuple(
        Column(one, figures=False)
        for one in (
            "Contestant",
            "Name",
            "What it is",
            "Version",
            "Runtime",
            "Server",
            "Shared by",
            "Survives a restart",
            "When full",
            "Counts",
            "Settings",
            "Cannot",
        )
    )
    lines = tuple(Row(_contestant(row), records=row.cells[:1]) for row in first.values())
    return Table("Contestants: versions and settings", columns, lines)


def _contestant(row: Summary) -> tuple[Cell, ...]:
    one: Contestant = row.contestant
    settings = ", ".join(
        (*one.arguments, *(f"{name}={value}" for name, value in one.settings.items()))
    )
    return tuple(
        Cell(text)
        for text in (
            one.title,
            one.name,
            one.what,
            row.version,
            row.runtime,
            row.server_version,
            shared_by(one),
            "yes" if one.survives_restart else "no",
            "evicts" if one.evicts else "refuses or grows",
            " and ".join(one.counts) or "nothing",
            ", ".join(filter(None, (one.sizing if one.sizing == "stock" else "", settings))),
            "; ".join(one.cannot),
        )
    )


def _run(run: Run) -> list[tuple[str, str]]:
    settings = run.header.settings
    said: list[tuple[str, Any]] = [
        ("Command", " ".join(["python", "-m", "lab", *settings.command])),
        ("Form", settings.form),
        ("Seed", settings.seed),
        ("Stores in", settings.data),
        ("Records", f"{run.path.name}, {len(run.cells):,} cells"),
        ("Started", _moment(run.header.started)),
    ]
    said += [("Resumed", _moment(one.resumed)) for one in run.resumptions]
    if run.ending is not None:
        said.append(("Ended", _moment(run.ending.ended)))
    return [(name, str(value)) for name, value in said]


def _quiet(run: Run) -> str:
    if run.ending is None:
        return "Judged at the end of a run; this run has not ended."
    others = run.ending.disturbance.others
    return f"Quiet run: other programs used {others:.1%} of the machine."


def _moment(one: datetime) -> str:
    return f"{one:%Y-%m-%d %H:%M} UTC"
