"""Fetches the jars of servers written in Java, by Maven."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from lab.runner.catalogue import LAB
from lab.runner.install.steps import Step, attempt

JARS = LAB / "jars"

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


def jars(server: str) -> str:
    """Return the class path of a server's jars; empty if they were not fetched."""
    return os.pathsep.join(str(path) for path in sorted((JARS / server).glob("*.jar")))


def fetch(server: str, coordinates: Sequence[str]) -> Step:
    """Fetch jars with their dependencies, unless the folder lists the same coordinates."""
    what = f"jars of {server}"
    folder = JARS / server
    listed = "\n".join(coordinates)
    marker = folder / "coordinates.txt"
    if marker.exists() and marker.read_text("utf-8") == listed:
        return Step(what, new=False)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="lab-maven-") as folder_of_project:
        Path(folder_of_project, "pom.xml").write_text(project(coordinates), "utf-8")
        command = ["mvn", "--quiet", "--batch-mode", _COPY, f"-DoutputDirectory={folder}"]
        reason = attempt(command, Path(folder_of_project))
    if not reason:
        marker.write_text(listed, "utf-8")
    return Step(what, reason)


def project(coordinates: Iterable[str]) -> str:
    """Return a Maven project that depends on the jars in `coordinates`."""
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
