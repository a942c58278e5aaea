"""Installs what contestants, servers and hosts need: by apt, pip, Maven, cargo, and from source.

Owns the order. Must not know why something is needed, nor run any of it. Does not touch what is
already installed. A failed step does not stop the others: its outcome says why it failed, and the
rows that need it will be missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.runner.catalogue import source
from lab.runner.install import apt, build, cargo, extensions, maven, pip
from lab.runner.install.steps import Needs, Step

__all__ = ["Needs", "Step", "install"]


def install(needs: Needs) -> Iterator[Step]:
    """Install everything that is missing, and yield each step when it is done."""
    yield from apt.install(sorted(needs.apt))
    yield from extensions.install(sorted(needs.extensions))
    yield from pip.install(sorted(needs.pip))
    for server, coordinates in sorted(needs.maven.items()):
        yield maven.fetch(server, sorted(coordinates))
    if needs.cargo:
        yield cargo.compile_all()
    for name in sorted(needs.build):
        yield build.build(source(name))
