"""Runs programs that depend on DiskCache, with DiskCache and with the drop-in.

    .venv/bin/python tests/compat/dependents/run.py [--folder FOLDER] [PROJECT ...]

FOLDER keeps an environment for each project, with the versions that PyPI had when it was made. This
needs the network, so it is not part of `make test`.

A `try_*.py` runs twice in an empty directory, as two processes: the second finds what the first has
kept. It must print the same with DiskCache and with the drop-in. The tests that a project has for
its cache must pass with both, except for those that are known to need SQL.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
SECONDS = 300
KINDS = ("DiskCache", "Tuckbox")


@dataclass(frozen=True)
class Project:
    """What pip installs, the project's own tests of its cache, and how many of these need SQL."""

    requirements: tuple[str, ...]
    tests: tuple[str, ...] = ()
    need_sql: int = 0


PROJECTS = {
    "py-key-value-aio": Project(("py-key-value-aio[disk]",)),
    "cashews": Project(("cashews[diskcache]",)),
    "dash": Project(("dash[diskcache]",)),
    "instructor": Project(
        ("instructor", "diskcache", "pytest", "pytest-asyncio", "python-dotenv"),
        ("tests/coverage/test_cache_coverage.py", "-k", "disk"),
    ),
    "autogen-ext": Project(("autogen-ext[diskcache]",)),
    "dspy": Project(("dspy", "numpy")),
    "flytekit": Project(("flytekit",)),
    "dvc-data": Project(
        ("dvc-data", "pytest<10", "pytest-mock", "pytest-benchmark", "pytest-cov"),
        ("tests/hashfile", "tests/index"),
        need_sql=10,
    ),
}


def main() -> None:
    """Run the projects that are named, or all, and print a table."""
    parser = argparse.ArgumentParser(description="Runs dependents of DiskCache with both.")
    parser.add_argument("--folder", type=Path, default=Path("target/dependents"))
    parser.add_argument("projects", nargs="*", default=list(PROJECTS), metavar="PROJECT")
    given = parser.parse_args()
    if unknown := set(given.projects) - set(PROJECTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(PROJECTS)}")
    differ = []
    print("| project | version | ran | DiskCache | Tuckbox |\n|:--|:--|:--|:--|:--|")
    for name in given.projects:
        folder = given.folder.absolute() / name
        python = _install(PROJECTS[name], folder)
        version = _version(python, name)
        for what, results, is_same in _compare(name, version, python, folder):
            print(f"| {name} | {version} | {what} | {' | '.join(results)} |", flush=True)
            if not is_same:
                differ.append(f"{name}: {what}")
    if differ:
        raise SystemExit(f"other results: {', '.join(differ)}; the output is in {given.folder}")


def _compare(
    name: str, version: str, python: Path, folder: Path
) -> Iterator[tuple[str, list[str], bool]]:
    script = HERE / f"try_{name.replace('-', '_')}.py"
    if script.exists():
        runs = [_script(python, script, folder, kind) for kind in KINDS]
        is_same = all(succeeded for succeeded, _ in runs) and runs[0] == runs[1]
        results = [
            f"{text.count(chr(10))} lines" if succeeded else "failed" for succeeded, text in runs
        ]
        yield script.name, results, is_same
    tests = PROJECTS[name].tests
    if tests:
        source = _source(python, name, version, folder)
        counts = [_tests(python, source, tests, folder, kind) for kind in KINDS]
        needs = PROJECTS[name].need_sql
        passed = counts[0].get("passed", 0)
        is_same = passed > 0 and "failed" not in counts[0] and "error" not in counts[1]
        is_same &= counts[1].get("passed", 0) == passed - needs
        is_same &= counts[1].get("failed", 0) == needs
        results = [
            ", ".join(f"{count} {what}" for what, count in each.items()) or "none"
            for each in counts
        ]
        yield f"its tests: {' '.join(tests)}", results, is_same


def _install(project: Project, folder: Path) -> Path:
    """The Python of an environment with the project, which is made unless it is complete."""
    python = folder / "env/bin/python"
    complete = folder / "complete"
    if not complete.exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
        _pip(python, "install", *project.requirements)
        complete.touch()
    return python


def _source(python: Path, name: str, version: str, folder: Path) -> Path:
    """The unpacked source archive of the version that is installed."""
    if not list(folder.glob("source/*/pyproject.toml")):
        where = folder / "source"
        _pip(
            python, "download", "--no-deps", "--no-binary", name, "-d", where, f"{name}=={version}"
        )
        (archive,) = where.glob("*.tar.gz")
        shutil.unpack_archive(archive, where, filter="data")
    (found,) = folder.glob("source/*/pyproject.toml")
    return found.parent


def _pip(python: Path, *arguments: object) -> None:
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run([str(part) for part in command], check=True)


def _version(python: Path, name: str) -> str:
    code = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    command = [python, "-c", code, name]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _script(python: Path, script: Path, folder: Path, kind: str) -> tuple[bool, str]:
    """Whether both processes of a script succeeded with files of this kind, and what they print."""
    where = folder / kind
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir()
    text = ""
    for turn in ("first", "second"):
        status, output = _run(python, [script, turn], where, kind, folder / f"{kind}-{turn}.txt")
        text += output
        if status:
            return False, text
    files = {path.name for path in where.rglob("cache.*")}
    has_diskcache, has_tuckbox = "cache.db" in files, "cache.tuck" in files
    return (has_diskcache, has_tuckbox) == (kind == "DiskCache", kind == "Tuckbox"), text


def _tests(
    python: Path, source: Path, tests: tuple[str, ...], folder: Path, kind: str
) -> dict[str, int]:
    """How many of the tests of a project passed, failed and so on."""
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    _, output = _run(python, arguments, source, kind, folder / f"{kind}-tests.txt")
    last = (output.strip().splitlines() or [""])[-1]
    return {what: int(n) for n, what in re.findall(r"(\d+) (passed|failed|error|skipped)", last)}


def _run(
    python: Path, arguments: list[object], where: Path, kind: str, log: Path
) -> tuple[int, str]:
    """The exit status and the output of a program; the log has its errors, too."""
    environment = {**os.environ, "HOME": str(where)}
    environment.pop("PYTHONPATH", None)
    if kind == "Tuckbox":
        spec = find_spec("tuckbox")
        if spec is None or spec.origin is None:
            raise SystemExit("Tuckbox cannot be imported: run `make build`")
        environment["PYTHONPATH"] = str(Path(spec.origin).parents[1])
        arguments = ["-m", "tuckbox.compat.diskcache", "--", *arguments]
    command = [str(part) for part in (python, *arguments)]
    done = subprocess.run(
        command,
        check=False,
        cwd=where,
        env=environment,
        timeout=SECONDS,
        capture_output=True,
        text=True,
    )
    log.write_text(f"{done.stdout}\n{done.stderr}")
    return done.returncode, done.stdout


if __name__ == "__main__":
    main()
