"""Which package may import which, and that no package imports another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.sources import ROOT

# What each part of the repository may import of the others. Longer names come first.
ARROWS: dict[str, set[str]] = {
    "rig": set(),
    "python.tuckbox": {"tuckbox"},
    "lab.contestants": {"lab.disk", "lab.hosts.python.contract", "tuckbox"},
    # A host's imports are part of its measurement.
    "lab.hosts": {"lab.protocol", "lab.stream"},
    "lab": {"rig"},
    # Only the interface of the lab, and the type of the stores that it opens.
    "reliability": {"lab.hosts.python.contract", "lab.peers", "rig"},
    "benches": {"lab", "rig", "tuckbox"},
    "wheels": set(),
}
OURS = {"rig", "tuckbox", "lab", "benches", "reliability", "wheels"}


def arrows(source: str) -> Iterator[str]:
    """Yield the modules of this repository that a module imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in found if name.split(".")[0] in OURS)


def is_in(name: str, package: str) -> bool:
    return f"{name}.".startswith(f"{package}.")


def undrawn(module: str, source: str) -> list[str]:
    """Return the imports of a module that are not allowed."""
    of = next(one for one in ARROWS if is_in(module, one))
    allowed = {of, *ARROWS[of]}
    return [name for name in arrows(source) if not any(is_in(name, one) for one in allowed)]


def modules(package: str) -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in sorted((ROOT / package).rglob("*.py"))
        if "tests" not in path.relative_to(ROOT).parts
    }


@pytest.mark.parametrize(
    "package", ["rig", "python/tuckbox", "lab", "benches", "reliability", "wheels"]
)
def test_every_arrow_is_drawn(package: str) -> None:
    found = {
        module: surprises
        for module, path in modules(package).items()
        if (surprises := undrawn(module, path.read_text("utf-8")))
    }
    assert not found


@pytest.mark.parametrize(
    ("module", "source", "surprise"),
    [
        ("rig.crew", "from lab import stream", "lab.stream"),
        ("lab.runner.cell", "import benches.row", "benches.row"),
        ("lab.hosts.python.loop", "from rig.machine import machine", "rig.machine.machine"),
        ("benches.row", "def work():\n    import reliability.record", "reliability.record"),
        ("reliability.runner", "from benches.row import Row", "benches.row.Row"),
    ],
)
def test_an_arrow_that_nobody_drew_is_found(module: str, source: str, surprise: str) -> None:
    assert undrawn(module, source) == [surprise]
