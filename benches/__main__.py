"""Starts the command line.

The processes that measure rows import this module too. So the commands, and the libraries that only
they need, are imported below, in the first process only.
"""

from __future__ import annotations

if __name__ == "__main__":
    from benches.command import main

    main(prog_name="python -m benches")
