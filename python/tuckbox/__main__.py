"""The commands of the package: ``python -m tuckbox --help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Optional

from tuckbox.compat.diskcache import command as diskcache
from tuckbox.errors import TuckboxError

__all__ = ["main"]


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run a command.

    Args:
        arguments: What follows ``python -m tuckbox``; those of the process if None.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(prog="python -m tuckbox")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    diskcache.add_to(commands)
    chosen = parser.parse_args(arguments)
    try:
        status: int = chosen.run(chosen)
    except (TuckboxError, OSError) as error:
        print(f"tuckbox: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
