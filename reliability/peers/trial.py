"""Runs one family on one peer: `python -m reliability.peers.trial PEER FAMILY`.

Owns the sizes of the comparison. Prints the result as one line of JSON. Peers that lie, in the
tests, show that the oracle works.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from lab.peers import opener
from reliability.peers import cuts, damage, disk_full, kills, stops
from reliability.peers.found import Found
from reliability.peers.systems import PEERS, Peer

Run = Callable[[Peer, Path, Path, int, int], Found]

# The families, with the sizes of their runs: kills, stops, rounds or cases.
FAMILIES: dict[str, tuple[Run, int]] = {
    "T-R1": (kills.run, 400),
    "T-R6": (stops.run, 20),
    "T-T1": (cuts.run, 3),
    "T-D1": (disk_full.run, 2),
    "T-C1": (damage.run, 150),
}


@click.command()
@click.argument("peer", type=click.Choice(list(PEERS)))
@click.argument("family", type=click.Choice(list(FAMILIES)))
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), required=True)
@click.option("--seed", type=int, required=True)
@click.option("--size", type=int, help="Kills, stops, rounds or cases.")
def main(peer: str, family: str, folder: Path, seed: int, size: int | None) -> None:
    """Run one family on one peer in a new folder."""
    run, its_size = FAMILIES[family]
    files = folder / "files"
    files.mkdir(parents=True)
    # Import the adapter here, so that forked processes need not.
    opener(PEERS[peer].row)
    found = run(PEERS[peer], files, folder / "errors", seed, size or its_size)
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")


if __name__ == "__main__":
    main()
