"""Options and choices that several commands have in common.

Owns how a name that nobody knows is answered. Must not run anything.
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

# The suite that --smoke runs when none is named, and that no other form has.
SMOKE = "smoke"

F = TypeVar("F", bound=Callable[..., Any])


def contestants_folder(command: F) -> F:
    """Add the option --contestants."""
    return click.option(
        "--contestants",
        "folder",
        default=catalogue.LAB / "contestants",
        type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
        help="Look for contestants in this folder, and for their servers in the one beside it.",
    )(command)


def records_folder(command: F) -> F:
    """Add the option --records."""
    return click.option(
        "--records",
        "kept_in",
        default=catalogue.LAB / "records",
        type=click.Path(file_okay=False, path_type=Path),
        help="Add the records of this run to this folder.",
    )(command)


def contestant_names(command: F) -> F:
    """Add the option --contestant."""
    return click.option(
        "--contestant",
        "names",
        multiple=True,
        metavar="NAME",
        help="Only this one; all its forms when it has several. Repeatable.",
    )(command)


def choose_contestants(known: dict[str, Contestant], names: Sequence[str]) -> list[Contestant]:
    """Return the rows that `names` choose, all for none. Raises click.BadParameter."""
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
    """Return the suites that `names` choose, `suite` or `suite/part`, and the names of parts.

    Without a name: the smoke suite for the smoke form, all others for the other forms. Raises
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
    """Raise click.BadParameter for a part, variant or form that the chosen suites do not have."""
    phases = [one for one in suites if isinstance(one, PhasesSuite)]
    try:
        check_names(phases, parts, variants)
        if form is not None:
            for one in phases:
                one.form(form)
    except CatalogueError as error:
        raise click.BadParameter(str(error)) from error
