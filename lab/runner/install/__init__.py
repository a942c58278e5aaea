"""Gets what contestants, servers and hosts need: by apt, pip, Maven, cargo, and from source.

Owns the order. Must not know why something is needed, nor run any of it. What is there already is
not touched, and what one installer refuses stops nobody else: the rows that needed it say later
that it is missing, and why is in the outcome here.
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.runner.catalogue import source
from lab.runner.install import apt, build, cargo, extensions, maven, pip
from lab.runner.install.steps import Needs, Step

__all__ = ["Needs", "Step", "install"]


def install(needs: Needs) -> Iterator[Step]:
    """Install what is not there yet, and yield what was done as it is done."""
    yield from apt.install(sorted(needs.apt))
    yield from extensions.install(sorted(needs.extensions))
    yield from pip.install(sorted(needs.pip))
    for server, coordinates in sorted(needs.maven.items()):
        yield maven.fetch(server, sorted(coordinates))
    if needs.cargo:
        yield cargo.compile_all()
    for name in sorted(needs.build):
        yield build.build(source(name))
