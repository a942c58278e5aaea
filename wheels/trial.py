"""Installs the wheels in fresh virtual environments and runs the package's tests with each Python.

    python3 wheels/trial.py                 each Python 3.9 to 3.14 found here
    python3 wheels/trial.py python3.13      these

Needs only Python, so that it runs in any container. pip chooses the wheel, as it does for users.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "target" / "packages"
VERSIONS = [f"3.{minor}" for minor in range(9, 15)]
TESTS = ["tests/semantics", "tests/processes", "tests/properties", "tests/api/test_interpreters.py"]
DESCRIBE = "import platform; print(platform.python_version(), platform.machine())"


def found() -> list[str]:
    """Return the interpreters of this machine: those on PATH, and pyenv's."""
    here = []
    for version in VERSIONS:
        name = f"python{version}"
        candidates = [Path(folder) / name for folder in os.environ["PATH"].split(":")]
        candidates += sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}"))
        # A shim of pyenv is no interpreter.
        real = {
            path.resolve() for path in candidates if path.is_file() and "shims" not in path.parts
        }
        here += sorted(map(str, real))
        if not real:
            print(f"Python {version}: not found here, so its wheels are untested here", flush=True)
    return here


def tried(python: str) -> bool:
    """Install the wheel for an interpreter, and run the tests with it."""
    described = run([python, "-c", DESCRIBE]).stdout.strip()
    print(f"Python {described}: ", end="", flush=True)
    with tempfile.TemporaryDirectory(prefix="tuckbox-trial-") as folder:
        venv = Path(folder) / "venv"
        commands = [
            [python, "-m", "venv", str(venv)],
            pip(
                venv, "--no-index", "--find-links", str(PACKAGES), "--only-binary=:all:", "tuckbox"
            ),
            pip(venv, "--requirement", str(ROOT / "wheels" / "requirements-trial.txt")),
            [str(venv / "bin" / "pytest"), "-q", "-p", "no:cacheprovider", *TESTS],
        ]
        for command in commands:
            done = run(command)
            if done.returncode:
                print(f"FAILED\n{' '.join(command)}\n{done.stdout}", flush=True)
                return False
        where = run([str(venv / "bin" / "python"), "-c", "import tuckbox; print(tuckbox.__file__)"])
        if not where.stdout.startswith(str(venv)):
            print(f"FAILED\ntuckbox was imported from {where.stdout}", flush=True)
            return False
    print(done.stdout.strip().splitlines()[-1].strip("= "), flush=True)
    return True


def pip(venv: Path, *arguments: str) -> list[str]:
    return [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", *arguments]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    # A user's settings and the build's environment must not help.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        command, cwd=ROOT, check=False, text=True, env=kept,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def main() -> None:
    """Try the interpreters named on the command line, or all that are found."""
    pythons = [shutil.which(name) or name for name in sys.argv[1:]] or found()
    results = [tried(python) for python in pythons]
    if not results or not all(results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
