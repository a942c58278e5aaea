"""Options and choices that several commands share.

Owns the answer to an unknown name. Must not run anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from lab.runner import catalogue
from lab.runner.catalogue import CatalogueError, Contestant, FormName, PhasesSuite, Suite
from lab.runner.catalogue.definition import unknown
from lab.runner.plan import check_names

# The suite that --smoke runs by default. Other forms do not have it.
SMOKE = "smoke"

F = TypeVar("F", bound=Callable[..., Any])


def contestants_folder(command: F) -> F:
    """Add the option --contestants."""
    return click.option(
        "--contestants",
        "folder",
        default=catalogue.LAB / "contestants",
        type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
        help="Folder of the contestants; the folder `servers` next to it has their servers.",
    )(command)


def records_folder(command: F) -> F:
    """Add the option --records."""
    return click.option(
        "--records",
        "kept_in",
        default=catalogue.LAB / "records",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of the records.",
    )(command)


def contestant_names(command: F) -> F:
    """Add the option --contestant."""
    return click.option(
        "--contestant",
        "names",
        multiple=True,
        metavar="NAME",
        help="Run only this contestant, with all its forms. Repeatable.",
    )(command)


def choose_contestants(known: dict[str, Contestant], names: Sequence[str]) -> list[Contestant]:
    """Return the rows that `names` choose, or all without names. Raises click.BadParameter."""
    for name in names:
        if not any(_means(name, row) for row in known):
            raise click.BadParameter(
                str(unknown("contestant", name, known)), param_hint="--contestant"
            )
    return [
        one for row, one in known.items() if not names or any(_means(name, row) for name in names)
    ]


def _means(name: str, row: str) -> bool:
    return name in (row, row.partition(":")[0])


def choose_suites(names: Sequence[str], form: FormName) -> tuple[list[Suite], tuple[str, ...]]:
    """Return the suites that `names` (`suite` or `suite/part`) choose, and the names of parts.

    Without names, the smoke form has the smoke suite and every other form all other suites. Raises
    click.BadParameter for an unknown name, CatalogueError for a malformed suite.
    """
    known = catalogue.suites()
    wanted = names or ([SMOKE] if form == "smoke" else [one for one in known if one != SMOKE])
    chosen: dict[str, Suite] = {}
    for name in wanted:
        suite, _, _ = name.partition("/")
        if suite not in known:
            raise click.BadParameter(str(unknown("suite", suite, known)), param_hint="SUITE")
        chosen[suite] = known[suite]
    return list(chosen.values()), tuple(names)


def check_choice(
    suites: Sequence[Suite],
    parts: Sequence[str],
    variants: Sequence[str] = (),
    form: FormName | None = None,
) -> None:
    """Raise click.BadParameter for a part, variant or form that the chosen suites lack."""
    phases = [one for one in suites if isinstance(one, PhasesSuite)]
    try:
        check_names(phases, parts, variants)
        if form is not None:
            for one in phases:
                one.form(form)
    except CatalogueError as error:
        raise click.BadParameter(str(error)) from error
