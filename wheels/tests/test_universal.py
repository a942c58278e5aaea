"""The wheel without the extension: pip takes it only where there is no other, as on macOS and
Windows, and a cache works inside one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from wheels import audit
from wheels.targets import ROOT, version

METADATA = f"tuckbox-{version()}.dist-info"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]

# Follows the tutorial in one process: what the other terminal runs is run here, with the same
# Python. The only changes are the path, which becomes a name, and the commands that end processes.
FOLLOW = """
import contextlib, io, re, runpy, sys, warnings
import documents
from tuckbox import Cache
from tuckbox.errors import NoSharedFiles, OneProcessWarning

with warnings.catch_warnings(record=True) as given:
    warnings.simplefilter("always")
    Cache("app").clear()
assert [one.category for one in given] == [OneProcessWarning], given
try:
    Cache("./app.tuck")
except NoSharedFiles as error:
    print(error)
else:
    raise AssertionError("a path was taken")
assert "tuckbox._engine" not in sys.modules

names, count = {"__name__": "__main__"}, 0
for line, language, _, source in documents.blocks_of(open(sys.argv[1]).read()):
    source = source.replace("./app.tuck", "app")
    saved = re.match(r"# (\\w+[.]py)\\n", source)
    if language == "pycon":
        documents.run_session(source, names, "tutorial", line)
    elif saved:
        open(saved[1], "w").write(source)
    elif language == "console" and "python" in source:
        command, _, wanted = source.partition("\\n")
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            for program in re.findall(r"python (\\w+[.]py)", command):
                runpy.run_path(program)
        assert shown.getvalue() == wanted, (line, shown.getvalue())
    else:
        continue
    count += 1
print(count)
"""


@pytest.fixture(scope="module")
def python(universal: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new virtual environment into which pip installed the wheel."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    install = [*PIP, "--python", str(python), "install", "--no-index", str(universal)]
    subprocess.run(install, check=True)
    return python


def chosen(folder: Path, *options: str) -> str:
    """Return the file that pip would install from a folder."""
    command = [*PIP, "install", "--dry-run", "--ignore-installed", "--no-index", "--report", "-"]
    command += ["--find-links", str(folder), "tuckbox", *options]
    report = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    (one,) = report["install"]
    return Path(one["download_info"]["url"]).name


def test_pip_takes_it_only_where_there_is_no_other(
    wheel: Path, universal: Path, sdist: Path, tmp_path: Path
) -> None:
    for path in (wheel, universal, sdist):
        (tmp_path / path.name).symlink_to(path)
    assert chosen(tmp_path) == wheel.name
    elsewhere = ["--only-binary=:all:", "--target", str(tmp_path / "installed")]
    for system in ("macosx_11_0_arm64", "win_amd64"):
        assert chosen(tmp_path, *elsewhere, "--platform", system) == universal.name
    assert chosen(tmp_path, *elsewhere, "--python-version", "3.99") == universal.name


def test_it_has_all_that_belongs_into_it_and_nothing_else(universal: Path) -> None:
    assert audit.universal(universal) == []


def test_the_tutorial_can_be_followed_in_one_process(python: Path, tmp_path: Path) -> None:
    environment = {name: text for name, text in os.environ.items() if "PYTHON" not in name}
    shown = subprocess.run(
        [python, "-W", "error", "-c", FOLLOW, ROOT / "docs" / "tutorial.md"],
        cwd=tmp_path, env={**environment, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not shown.returncode, shown.stderr
    error, count = shown.stdout.splitlines()
    assert "'./app.tuck' is a path, but this installation of Tuckbox has no extension" in error
    assert int(count) >= 10


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("tuckbox/memory/core.py", None, "tuckbox/memory/core.py is missing"),
        ("tuckbox/py.typed", b"other", "RECORD has another tuckbox/py.typed"),
        ("tuckbox/_engine.so", b"", "tuckbox/_engine.so does not belong into it"),
        (f"{METADATA}/WHEEL", b"Tag: py3-none-linux\n", "its tag is not py3-none-any"),
    ],
)
def test_what_is_wrong_with_it_is_found(
    universal: Path, tmp_path: Path, name: str, content: bytes | None, problem: str
) -> None:
    with zipfile.ZipFile(universal) as archive:
        contents = {one: archive.read(one) for one in archive.namelist()}
    contents.pop(name, None)
    if content is not None:
        contents[name] = content
    with zipfile.ZipFile(tmp_path / universal.name, "w") as archive:
        for one, kept in contents.items():
            archive.writestr(one, kept)
    assert problem in audit.universal(tmp_path / universal.name)
