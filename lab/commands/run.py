"""`lab run` and `lab demo`: measure, record, show.

Owns the options and the exit status. `whole` owns the order of a run.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from lab.commands import options
from lab.commands.whole import Whole
from lab.runner import catalogue, own_trace
from lab.runner.catalogue import FORM_NAMES, CatalogueError, Contestant, FormName, Placement, Suite
from lab.runner.plan import Choice
from lab.runner.room import Room, room
from lab.runner.room import refusal as refused_for_room
from lab.runner.summary import PLACEMENTS
from lab.runner.trace_formats import FORMATS, TraceError
from lab.runner.workloads import Workload, load, refusal, suite_of, taking_part
from rig.terminal import open_console

EXIT_INTERRUPTED = 130
DEMO = ("django/main", "web07")


def _form(command: options.F) -> options.F:
    for name, text in reversed(
        (
            ("smoke", "300 checked operations per contestant. Figures mean nothing."),
            ("quick", "Ten minutes, one round. Figures show orders of magnitude."),
            ("middle", "An hour, six rounds. Figures may be quoted."),
            ("full", "Hours, seven rounds, all operations. Figures may be quoted. The default."),
        )
    ):
        command = click.option(f"--{name}", "form", flag_value=name, help=text)(command)
    return command


def _common(command: options.F) -> options.F:
    for option in (
        click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 2**63 - 1)),
        click.option(
            "--data",
            type=click.Path(
                exists=True, file_okay=False, writable=True, resolve_path=True, path_type=Path
            ),
            help="Folder for the stores during the run. Default: memory, if there is room.",
        ),
        options.contestants_folder,
        options.records_folder,
        options.contestant_names,
    ):
        command = option(command)
    return _form(command)


@click.command()
@click.argument("suites", nargs=-1, metavar="[SUITE[/PART]]...")
@_common
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="NAME",
    help="Run only this variant. Repeatable.",
)
@click.option(
    "--placement",
    "placements",
    multiple=True,
    type=click.Choice(PLACEMENTS),
    help="Run only cells with this placement. Repeatable.",
)
@click.option("--rounds", default=0, metavar="N", help="Number of rounds, instead of the form's.")
@click.option(
    "--resume", is_flag=True, help="Continue the newest unfinished run with the same settings."
)
@click.option(
    "--workload",
    "workloads",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run the workload in this TOML file (see lab/workloads). Repeatable.",
)
@click.option(
    "--trace",
    "own_traces",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Replay the requests in this file (see lab/traces). Repeatable.",
)
@click.option(
    "--trace-format",
    "trace_format",
    type=click.Choice(list(FORMATS)),
    help="With --trace: the format of the files. Default: by their names and first lines.",
)
@click.option(
    "--capacity",
    "capacities",
    multiple=True,
    type=float,
    metavar="SHARE",
    help="With --trace: capacity, as a share of the bytes of all distinct values. Repeatable.",
)
@click.option(
    "--value-size",
    "value_bytes",
    default=0,
    type=click.IntRange(0, 3 << 20),
    metavar="BYTES",
    help="With --trace: size of every value, instead of the trace's sizes.",
)
def run(
    suites: tuple[str, ...],
    form: FormName | None,
    names: tuple[str, ...],
    variants: tuple[str, ...],
    placements: tuple[Placement, ...],
    rounds: int,
    seed: int,
    data: Path | None,
    folder: Path,
    kept_in: Path,
    *,
    resume: bool,
    workloads: tuple[Path, ...],
    own_traces: tuple[Path, ...],
    trace_format: str | None,
    capacities: tuple[float, ...],
    value_bytes: int,
) -> None:
    """Run the named suites, workloads and traces; by default, all suites.

    The exit status is 1 if a value was wrong or stale, an entry was lost, or a contestant failed
    or is missing. Faults of caches other than Tuckbox count only with --smoke or if you named the
    cache; if nothing was measured, it is 1. It is 2 for a wrong command or file, and 130 after an
    interrupt.
    """
    _run(
        suites,
        form or "full",
        names,
        seed,
        data,
        folder,
        kept_in,
        variants=variants,
        placements=placements,
        rounds=rounds,
        resume=resume,
        workloads=workloads,
        own_traces=own_traces,
        trace_format=trace_format or "",
        capacities=capacities,
        value_bytes=value_bytes,
    )


@click.command()
@_common
def demo(
    form: FormName | None,
    names: tuple[str, ...],
    seed: int,
    data: Path | None,
    folder: Path,
    kept_in: Path,
) -> None:
    """Run DiskCache's Django benchmark, then compare hit ratios on a trace.

    A contestant that is not installed gets a row that says so. The exit status is that of
    `lab run`.
    """
    _run(DEMO, form or "quick", names, seed, data, folder, kept_in, missing_is_fault=bool(names))


def _own(
    data: Path | None,
    workloads: Sequence[Path],
    own_traces: Sequence[Path],
    capacities: Sequence[float],
    value_bytes: int,
    trace_format: str,
) -> Iterator[tuple[Suite, Callable[[Contestant], str]]]:
    """Return the suites made from the user's own files, each with a function that refuses rows.

    Raises CatalogueError and UsageError.
    """
    if (capacities or value_bytes or trace_format) and not own_traces:
        raise click.UsageError("--capacity, --value-size and --trace-format need --trace")
    for path in workloads:
        one = load(path)
        yield suite_of(one), partial(_refusal, one, room(data))
    for path in own_traces:
        suite = own_trace.suite_of(path, capacities, value_bytes, trace_format)
        yield suite, own_trace.refusal


def _refusal(one: Workload, free: Room, contestant: Contestant) -> str:
    return refusal(one, contestant) or refused_for_room(one, contestant, free)


def _say_refused(console: Console, name: str, refused: Mapping[str, Sequence[str]]) -> None:
    for reason, rows in refused.items():
        console.print(f"Not in {name} ({reason}): {', '.join(rows)}.", highlight=False)


def _run(
    suites: Sequence[str],
    form: FormName,
    names: Sequence[str],
    seed: int,
    data: Path | None,
    folder: Path,
    kept_in: Path,
    *,
    variants: tuple[str, ...] = (),
    placements: tuple[Placement, ...] = (),
    rounds: int = 0,
    resume: bool = False,
    workloads: Sequence[Path] = (),
    own_traces: Sequence[Path] = (),
    trace_format: str = "",
    capacities: Sequence[float] = (),
    value_bytes: int = 0,
    missing_is_fault: bool = True,
) -> None:
    assert form in FORM_NAMES
    console = open_console()
    whole: Whole | None = None
    try:
        contestants = options.choose_contestants(catalogue.contestants(folder), names)
        chosen: list[Suite] = []
        parts: tuple[str, ...] = ()
        if suites or not (workloads or own_traces):
            chosen, parts = options.choose_suites(suites, form)
        options.check_choice(chosen, parts, variants, form)
        for suite, refuse in _own(
            data, workloads, own_traces, capacities, value_bytes, trace_format
        ):
            contestants, refused = taking_part(suite.name, refuse, contestants, options.SMOKE)
            _say_refused(console, suite.name, refused)
            chosen = [*chosen, suite]
            parts = (*parts, suite.name) if parts else ()
        choice = Choice(form, contestants, parts, variants, placements, rounds)
        whole = Whole(
            console,
            chosen,
            choice,
            seed=seed,
            data=data,
            folder=folder,
            kept_in=kept_in,
            resume=resume,
            missing_is_fault=missing_is_fault,
            peers_count=form == "smoke" or bool(names),
        )
        if not whole.planned:
            raise click.UsageError(
                "nothing to run: no chosen contestant takes part in the chosen suites"
            )
        sys.exit(asyncio.run(whole.run()))
    except (CatalogueError, TraceError) as error:
        raise _Unreadable(str(error)) from error
    except OSError as error:
        _say_left_off(console, whole)
        raise click.ClickException(f"the run ended early, its data removed: {error}") from error
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("Interrupted. All processes were stopped and all data was removed.")
        _say_left_off(console, whole)
        sys.exit(EXIT_INTERRUPTED)


class _Unreadable(click.ClickException):
    """A file of the user or of the lab is malformed, so nothing was run."""

    exit_code = click.UsageError.exit_code


def _say_left_off(console: Console, whole: Whole | None) -> None:
    """Say what is kept of an unfinished run, and how to continue it."""
    if whole is None or whole.records is None:
        return
    arguments = [one for one in sys.argv[1:] if one != "--resume"]
    console.print(
        f"Kept as an unfinished run: {whole.recorded_count:,} of {len(whole.planned):,} cells in "
        f"{whole.records}\n"
        f"  to continue it: {shlex.join(['python', '-m', 'lab', *arguments, '--resume'])}\n"
        f"  to report it:   {shlex.join(['python', '-m', 'lab', 'report', str(whole.records)])}",
        highlight=False,
        soft_wrap=True,
    )
