"""The command line: `python -m lab run`, `demo`, `list` and the others below.

Owns the list of commands, but no command.
"""

from __future__ import annotations

import click

from lab.commands.compare import compare_
from lab.commands.install import install
from lab.commands.listing import list_
from lab.commands.publish import publish
from lab.commands.report import report
from lab.commands.run import demo, run


@click.group()
def main() -> None:
    """Compare caches on this machine and check every answer."""


for command in (demo, run, list_, install, report, compare_, publish):
    main.add_command(command)


if __name__ == "__main__":
    main(prog_name="python -m lab")
