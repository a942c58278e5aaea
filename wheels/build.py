"""Builds the source distribution, and the wheels from it.

Owns how maturin is called. Must not judge what it builds.

The wheels come from the unpacked source distribution, so a file that it lacks stops the build. Zig
links them: it brings the C libraries of all targets, so one machine builds all wheels. Maturin
cannot build the wheel without the extension, so this module writes it.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path

from wheels.targets import ROOT, Target, sdist_name, universal_name, version

_MATURIN = Path(sys.executable).with_name("maturin")


class BuildError(Exception):
    """A package could not be built; the message has the output."""


def build(folder: Path, targets: Iterable[Target], versions: Iterable[str]) -> None:
    """Build the source distribution and the wheels of some Pythons into a folder.

    Raises BuildError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sdist(folder)
    source = unpacked(folder / sdist_name(), ROOT / "target" / "wheels-source")
    universal(source, folder)
    for target in targets:
        _wheels(source, target, list(versions), folder)


def sdist(folder: Path) -> Path:
    """Build the source distribution into a folder, and return its path. Raises BuildError."""
    _run([str(_MATURIN), "sdist", "--out", str(folder)], ROOT, {})
    return folder / sdist_name()


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack a source distribution into an empty folder, and return its root folder."""
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    # The archive's times are old, so cargo would not notice that a file changed.
    for path in folder.rglob("*"):
        path.touch()
    return folder / archive.name.removesuffix(".tar.gz")


def universal(source: Path, folder: Path) -> Path:
    """Write the wheel without the extension into a folder, and return its path.

    Args:
        source: The root folder of the unpacked source distribution.
        folder: Where to write it.
    """
    metadata = f"tuckbox-{version()}.dist-info"
    package = source / "python"
    contents = {
        path.relative_to(package).as_posix(): path.read_bytes()
        for path in sorted(package.rglob("*"))
        if path.is_file()
    }
    for name in ("LICENSE", "THIRD-PARTY-LICENSES.txt"):
        contents[f"{metadata}/licenses/{name}"] = (source / name).read_bytes()
    contents[f"{metadata}/METADATA"] = (source / "PKG-INFO").read_bytes()
    contents[f"{metadata}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: wheels/build.py\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-any\n"
    )
    record = io.StringIO()
    lines = csv.writer(record, lineterminator="\n")
    for name, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
        lines.writerow([name, f"sha256={digest.decode()}", len(content)])
    lines.writerow([f"{metadata}/RECORD", "", ""])
    contents[f"{metadata}/RECORD"] = record.getvalue().encode()
    # Two builds of one commit are the same bytes.
    made = time.gmtime(int(_run(["git", "log", "-1", "--format=%ct"], ROOT, {})))[:6]
    path = folder / universal_name()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, made)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content)
    return path


def _wheels(source: Path, target: Target, versions: list[str], folder: Path) -> None:
    _run(["rustup", "target", "add", target.triple], ROOT, {})
    command = [str(_MATURIN), "build", "--zig", "--target", target.triple]
    command += ["--compatibility", target.policy, "--out", str(folder), "--interpreter"]
    cargo_home = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    settings = {
        "CARGO_TARGET_DIR": str(ROOT / "target" / "wheels-build"),
        # Messages of panics name source files, but not this machine's folders.
        "RUSTFLAGS": " ".join(
            f"--remap-path-prefix={path}={name}"
            for path, name in ((cargo_home, "cargo"), (str(source), "tuckbox"))
        ),
        # Two builds of one commit are the same bytes.
        "SOURCE_DATE_EPOCH": _run(["git", "log", "-1", "--format=%ct"], ROOT, {}).strip(),
    }
    _run([*command, *(f"python{one}" for one in versions)], source, settings)


def _run(command: list[str], folder: Path, settings: dict[str, str]) -> str:
    # Maturin looks for zig in the environment that it is told of.
    environment = {**os.environ, "VIRTUAL_ENV": sys.prefix, **settings}
    environment["PATH"] = f"{_MATURIN.parent}:{environment['PATH']}"
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise BuildError(
            f"{command[0]} not found: run `make wheels`; install Rust with rustup"
        ) from None
    if done.returncode:
        raise BuildError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return done.stdout
