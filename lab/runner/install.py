"""Gets what contestants, servers and hosts need: by apt, pip, Maven and cargo.

Owns the calls of the package managers. Must not know why something is needed, nor run any of it.
What is there already is not touched, and what one package manager refuses stops nobody else: the
rows that needed it say later that it is missing, and why is in the outcome here.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lab.runner.catalogue import LAB

BUILT = LAB / "target"
JARS = LAB / "jars"
CONSTRAINTS = LAB / "requirements-contestants.lock"

_POLICY = Path("/usr/sbin/policy-rc.d")
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_LAST_LINES = 5


@dataclass(frozen=True)
class Needs:
    """What is wanted. `maven` has the jars of each server, each `group:artifact:version`."""

    apt: frozenset[str] = frozenset()
    pip: frozenset[str] = frozenset()
    maven: dict[str, frozenset[str]] = field(default_factory=dict)
    cargo: bool = False


@dataclass(frozen=True)
class Step:
    """One thing that was done, was there, or failed: then `reason` has the last words."""

    what: str
    reason: str = ""
    new: bool = True

    @property
    def failed(self) -> bool:
        """Whether it is not there now."""
        return bool(self.reason)


def install(needs: Needs) -> Iterator[Step]:
    """Install what is not there yet, and yield what was done as it is done."""
    yield from _apt(sorted(needs.apt))
    yield from _pip(sorted(needs.pip))
    for server, coordinates in sorted(needs.maven.items()):
        yield from _maven(server, sorted(coordinates))
    if needs.cargo:
        yield from _cargo()


def jars(server: str) -> str:
    """Return the class path of a server's jars; empty when they were not fetched."""
    return os.pathsep.join(str(path) for path in sorted((JARS / server).glob("*.jar")))


def _apt(packages: Sequence[str]) -> Iterator[Step]:
    if not packages:
        return
    what = f"{len(packages)} Debian packages"
    absent = _not_installed(packages)
    if not absent:
        yield Step(what, new=False)
        return
    root = administrator()
    if root is None:
        line = f"run as root: apt-get install {' '.join(absent)}"
        yield Step(what, f"only root may install, and sudo would ask for a password; {line}")
        return
    with _no_services(root):
        attempt([*root, "apt-get", "update", "-q"])
        if not attempt(_apt_install(root, absent)):
            yield Step(what)
            return
        # One that does not exist refuses all. Each by itself, so that the others come.
        for package in absent:
            yield Step(f"Debian package {package}", attempt(_apt_install(root, [package])))


def _not_installed(packages: Sequence[str]) -> list[str]:
    if shutil.which("dpkg-query") is None:
        return list(packages)
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *packages]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    there = {line.split()[0] for line in answer.stdout.splitlines() if line.endswith(" installed")}
    return [package for package in packages if package not in there]


def administrator() -> list[str] | None:
    """Return the command that makes its arguments root's, empty for root; None without a way."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and not attempt(["sudo", "--non-interactive", "true"]):
        return ["sudo", "--non-interactive"]
    return None


def _apt_install(root: Sequence[str], packages: Sequence[str]) -> list[str]:
    return [
        *root,
        *("env", "DEBIAN_FRONTEND=noninteractive"),
        *("apt-get", "install", "-q", "-y", "--no-install-recommends"),
        *("-o", "DPkg::Lock::Timeout=600"),
        *packages,
    ]


@contextmanager
def _no_services(root: Sequence[str]) -> Iterator[None]:
    """Keep Debian from starting a service for each server it installs: the lab starts its own.

    Debian asks `policy-rc.d` first (invoke-rc.d(8)). One that is there already is left alone.
    """
    if _POLICY.exists():
        yield
        return
    with tempfile.NamedTemporaryFile("w", prefix="policy-", suffix=".sh") as script:
        script.write("#!/bin/sh\nexit 101\n")
        script.flush()
        attempt([*root, "install", "-m", "755", script.name, str(_POLICY)])
    try:
        yield
    finally:
        attempt([*root, "rm", "-f", str(_POLICY)])


def _pip(requirements: Sequence[str]) -> Iterator[Step]:
    absent = [one for one in requirements if not satisfied(one)]
    if not requirements:
        return
    what = f"{len(requirements)} Python packages"
    if not absent:
        yield Step(what, new=False)
        return
    if sys.prefix == sys.base_prefix:
        yield Step(what, "this Python is not a virtual environment, and the lab changes no other")
        return
    if not attempt(_pip_install(absent)):
        yield Step(what)
        return
    for requirement in absent:
        yield Step(f"Python package {requirement}", attempt(_pip_install([requirement])))


def satisfied(requirement: str) -> bool:
    """Return whether a requirement such as `name==1.2` is met by what this Python has."""
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


def _maven(server: str, coordinates: Sequence[str]) -> Iterator[Step]:
    """Fetch jars with all they depend on into a folder that names them, so that none goes stale."""
    what = f"jars of {server}"
    folder = JARS / server
    listed = "\n".join(coordinates)
    marker = folder / "coordinates.txt"
    if marker.exists() and marker.read_text("utf-8") == listed:
        yield Step(what, new=False)
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="lab-maven-") as folder_of_project:
        Path(folder_of_project, "pom.xml").write_text(project(coordinates), "utf-8")
        command = ["mvn", "--quiet", "--batch-mode", _COPY, f"-DoutputDirectory={folder}"]
        reason = attempt(command, Path(folder_of_project))
    if not reason:
        marker.write_text(listed, "utf-8")
    yield Step(what, reason)


def project(coordinates: Iterable[str]) -> str:
    """Return a Maven project that depends on the jars `coordinates` name."""
    dependencies = ""
    for coordinate in coordinates:
        group, artifact, version = map(escape, coordinate.split(":"))
        dependencies += (
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version></dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>lab</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def _cargo() -> Iterator[Step]:
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--bins"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(BUILT)}
    yield Step("native contestants", attempt(command, LAB, environment))


def attempt(
    command: Sequence[str], folder: Path | None = None, environment: dict[str, str] | None = None
) -> str:
    """Run a command to its end. Return nothing when it succeeded, else its last words."""
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        return f"{command[0]} cannot be run: {error.strerror}"
    if ended.returncode == 0:
        return ""
    lines = [line for line in ended.stdout.splitlines() if line.strip()]
    return "; ".join(lines[-_LAST_LINES:]) or f"{command[0]} ended with {ended.returncode}"
