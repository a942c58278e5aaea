"""The packages that pip would build here, built once."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from wheels import build
from wheels.targets import ROOT


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build.sdist(tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def wheel(sdist: Path) -> Path:
    """What pip builds from the source distribution."""
    source = build.unpacked(sdist, ROOT / "target" / "sdist")
    folder = sdist.with_name("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        # Kept for the next time. Cargo would mistake these sources for the repository's own in the
        # same folder.
        "CARGO_TARGET_DIR": str(ROOT / "target" / "pip"),
    }
    command = [*pip, "--wheel-dir", str(folder), "."]
    subprocess.run(command, cwd=source, check=True, env=environment)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="session")
def universal(sdist: Path) -> Path:
    source = build.unpacked(sdist, sdist.with_name("universal-source"))
    folder = sdist.with_name("universal")
    folder.mkdir()
    return build.universal(source, folder)


@pytest.fixture(scope="session")
def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
