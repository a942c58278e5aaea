"""Starts the command line.

The processes in which rows are measured import this module too, so that the commands, and the
libraries that only they need, are imported in the first process alone.
"""

from __future__ import annotations

if __name__ == "__main__":
    from benches.command import main

    main(prog_name="python -m benches")
