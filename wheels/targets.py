"""Which wheels a release has.

Owns the list of targets. Must not know how a wheel is built.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

_CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")


class Target(NamedTuple):
    """A system that wheels are built for."""

    #: The name of the Rust target.
    triple: str
    #: The platform policy (PEP 600, PEP 656), as `auditwheel` and maturin name it.
    policy: str
    #: All platform tags of the wheels.
    tags: tuple[str, ...]
    #: The newest glibc symbols that the policy allows; None with musl.
    glibc_max: tuple[int, int] | None


def _target(processor: str, *, musl: bool) -> Target:
    if musl:
        tags: tuple[str, ...] = (f"musllinux_1_2_{processor}",)
        return Target(f"{processor}-unknown-linux-musl", "musllinux_1_2", tags, None)
    tags = (f"manylinux2014_{processor}", f"manylinux_2_17_{processor}")
    return Target(f"{processor}-unknown-linux-gnu", "manylinux2014", tags, (2, 17))


TARGETS = [
    _target(processor, musl=musl) for musl in (False, True) for processor in ("x86_64", "aarch64")
]


def project() -> dict[str, object]:
    """Return the table `project` of `pyproject.toml`."""
    table: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def pythons() -> list[str]:
    """Return the versions of Python that have a wheel, such as "3.11": those of the classifiers."""
    classifiers = project()["classifiers"]
    assert isinstance(classifiers, list)
    return [found[1] for one in classifiers if (found := _CLASSIFIER.fullmatch(one))]


def version() -> str:
    """Return the version of the package."""
    return str(project()["version"])


def wheel_name(python: str, target: Target) -> str:
    """Return the file name of a wheel."""
    tag = "cp" + python.replace(".", "")
    return f"tuckbox-{version()}-{tag}-{tag}-{'.'.join(target.tags)}.whl"


def universal_name() -> str:
    """Return the file name of the wheel without the extension, for systems that have no other."""
    return f"tuckbox-{version()}-py3-none-any.whl"


def sdist_name() -> str:
    """Return the file name of the source distribution."""
    return f"tuckbox-{version()}.tar.gz"


def names(targets: Iterable[Target], versions: Iterable[str]) -> dict[str, Target | None]:
    """Return the name of every file, with its target; None for those without an extension."""
    wheels = {wheel_name(python, target): target for target in targets for python in versions}
    return {sdist_name(): None, universal_name(): None, **wheels}
