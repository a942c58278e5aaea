"""A process with tiers that applies changes: ``python -m benches.scale.applying PORT``.

For each line on the standard input, it writes its CPU seconds, the messages it has applied, and
how often it missed some.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import tuckbox
from tuckbox.tiers.shared_first import SharedFirst

from lab.runner.servers import LOOPBACK


def main() -> None:
    """Listen until the standard input ends."""
    far = tuckbox.connect(f"redis://{LOOPBACK}:{sys.argv[1]}")
    with (
        tempfile.TemporaryDirectory() as folder,
        SharedFirst(far, Path(folder) / "near.tuck", size="64 MB") as cache,
    ):
        cache.get("key 0")
        while not cache.health().is_listening:
            time.sleep(0.01)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for _ in sys.stdin:
            health = cache.health()
            told = {"cpu_s": time.process_time(), "changes": health.changes, "gaps": health.gaps}
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
