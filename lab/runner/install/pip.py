"""Installs Python packages, only into a virtual environment."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterable, Iterator, Sequence

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lab.runner.catalogue import LAB
from lab.runner.install.steps import Step, attempt

CONSTRAINTS = LAB / "requirements-contestants.lock"


def install(requirements: Sequence[str]) -> Iterator[Step]:
    """Install the packages that are missing or have another version."""
    absent = [one for one in requirements if not satisfied(one)]
    if not requirements:
        return
    what = f"{len(requirements)} Python packages"
    if not absent:
        yield Step(what, new=False)
        return
    if sys.prefix == sys.base_prefix:
        yield Step(what, "the lab installs only into a virtual environment: start it from one")
        return
    if not attempt(_pip_install(absent)):
        yield Step(what)
        return
    for requirement in absent:
        yield Step(f"Python package {requirement}", attempt(_pip_install([requirement])))


def satisfied(requirement: str) -> bool:
    """Return whether this Python has a requirement such as `name==1.2`."""
    wanted = Requirement(requirement)
    try:
        version = importlib.metadata.version(canonicalize_name(wanted.name))
    except importlib.metadata.PackageNotFoundError:
        return False
    return wanted.specifier.contains(version, prereleases=True)


def _pip_install(requirements: Iterable[str]) -> list[str]:
    constraints = ["--constraint", str(CONSTRAINTS)] if CONSTRAINTS.exists() else []
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return [*pip, *constraints, *requirements]
