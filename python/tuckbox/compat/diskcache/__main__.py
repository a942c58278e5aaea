"""Runs a program in which ``import diskcache`` means the drop-in.

As ``python -m tuckbox.compat.diskcache -- program.py ARGUMENTS``, or ``-- -m MODULE ARGUMENTS``.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

__all__ = ["main"]

_USAGE = "usage: python -m tuckbox.compat.diskcache -- [-m] PROGRAM [ARGUMENT ...]"
_ALIAS = str(Path(__file__).parents[1] / "alias")


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run a program as Python does, with its child processes.

    Args:
        arguments: The program and its arguments; those of the process if None.

    Raises:
        SystemExit: No program was given.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["--"]:
        del given[0]
    is_module = given[:1] == ["-m"]
    if is_module:
        del given[0]
    if not given or given[0] in {"-h", "--help"}:
        raise SystemExit(_USAGE)
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = _ALIAS + (os.pathsep + path if path else "")
    sys.path.insert(1, _ALIAS)
    sys.argv[:] = given
    if is_module:
        runpy.run_module(given[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.realpath(given[0]))
        runpy.run_path(given[0], run_name="__main__")


if __name__ == "__main__":
    main()
