"""What pip would install: contents, licences, metadata, and that it is what is measured."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from benches import instructions
from wheels import audit
from wheels.targets import ROOT, TARGETS, names, pythons, version

#: This machine's kind of target, without a limit for glibc: only wheels of a release have one.
HERE = TARGETS[0]._replace(glibc_max=(9, 9))
METADATA = f"tuckbox-{version()}.dist-info"


def extension(contents: dict[str, bytes]) -> bytes:
    return next(content for name, content in contents.items() if name.endswith(".so"))


def packed(folder: Path, contents: dict[str, bytes]) -> Path:
    path = folder / "tuckbox.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


def test_pip_builds_what_the_benchmarks_measure(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = [sys.executable, "-m", "benches.hot_path", "get", "set"]
    measured = instructions.between_marks(program, ["get", "set"])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    built = instructions.between_marks(program, ["get", "set"])
    # The random hash key of each file changes which entries collide: up to 2 %. Built with the
    # profile `release`, a set takes 8 % more.
    assert built == pytest.approx(measured, rel=0.04)


def test_pip_builds_no_functions_for_tests(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    program = "from tuckbox import _engine; print(_engine.__file__, *dir(_engine))"
    shown = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert shown[0].startswith(str(tmp_path))
    assert "Core" in shown
    assert [name for name in shown if re.match("_[^_]", name)] == []


# What only the wheels of a release demand: `wheels/build.py` sees to it.
LOCAL = ("it needs libgcc_s.so.1,", "it needs GCC_", "it names a folder of the machine")


def problems(path: Path) -> list[str]:
    return [one for one in audit.wheel(path, HERE) if not one.startswith(LOCAL)]


def test_a_wheel_has_all_that_belongs_into_it_and_nothing_else(wheel: Path) -> None:
    assert problems(wheel) == []


def test_a_source_distribution_has_all_that_a_build_needs(sdist: Path) -> None:
    assert audit.source(sdist) == []


def test_a_release_has_a_wheel_for_every_python_and_system_that_the_metadata_names() -> None:
    wanted = names(TARGETS, pythons())
    assert len(wanted) == 2 + len(pythons()) * len(TARGETS)
    assert "tuckbox-0.1.0-py3-none-any.whl" in wanted
    assert "tuckbox-0.1.0-cp39-cp39-musllinux_1_2_aarch64.whl" in wanted
    assert "tuckbox-0.1.0-cp314-cp314-manylinux2014_x86_64.manylinux_2_17_x86_64.whl" in wanted


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("tuckbox/tests/test_cache.py", "does not belong"),
        ("tuckbox/__pycache__/cache.cpython-311.pyc", "does not belong"),
        ("tests/conftest.py", "does not belong"),
        (f"{METADATA}/licenses/NOTES", "does not belong"),
        ("tuckbox/_other.so", "one extension module"),
    ],
)
def test_a_file_too_many_is_found(
    name: str, problem: str, contents: dict[str, bytes], tmp_path: Path
) -> None:
    more = {**contents, name: extension(contents)}
    assert any(problem in one for one in problems(packed(tmp_path, more)))


@pytest.mark.parametrize(
    "name",
    [
        "tuckbox/py.typed",
        "tuckbox/_engine.pyi",
        "tuckbox/integrations/django.py",
        f"{METADATA}/licenses/LICENSE",
        f"{METADATA}/licenses/THIRD-PARTY-LICENSES.txt",
        f"{METADATA}/sboms/tuckbox-python.cyclonedx.json",
    ],
)
def test_a_missing_file_is_found(name: str, contents: dict[str, bytes], tmp_path: Path) -> None:
    fewer = {one: content for one, content in contents.items() if one != name}
    assert f"{name} is missing" in problems(packed(tmp_path, fewer))


def test_a_licence_or_a_crate_that_is_not_listed_is_found(contents: dict[str, bytes]) -> None:
    licences = contents[f"{METADATA}/licenses/THIRD-PARTY-LICENSES.txt"]
    sbom = contents[f"{METADATA}/sboms/tuckbox-python.cyclonedx.json"]
    name, number = sorted(audit.linked_crates())[0]
    assert audit.licences(licences.replace(f"- {name} {number}\n".encode(), b""))
    assert audit.sbom(sbom.replace(f'"{name}"'.encode(), b'"other"'))


def test_metadata_that_pypi_refuses_or_shows_badly_is_found(contents: dict[str, bytes]) -> None:
    metadata = contents[f"{METADATA}/METADATA"]
    for good, bad in [
        (b"Classifier: Typing :: Typed", b"Classifier: Typing :: Typist"),
        (b"License-Expression: Apache-2.0", b"License-Expression: Apache 2"),
        (b"Requires-Python:", b"X-Requires-Python:"),
        (b": https://github.com/", b": docs/"),
        (b"Author:", b"X-Author:"),
    ]:
        assert good in metadata
        assert audit.core_metadata(metadata.replace(good, bad)), bad


def test_a_build_for_this_machine_only_is_found(contents: dict[str, bytes]) -> None:
    found = audit.extension(extension(contents), TARGETS[0])
    assert any("it needs GLIBC_2." in one for one in found)
    musl = next(target for target in TARGETS if target.glibc_max is None)
    found = audit.extension(extension(contents), musl)
    assert any("which musl does not have" in one for one in found)
    other = next(target for target in TARGETS if target.triple.startswith("aarch64"))
    assert "it is for EM_X86_64" in audit.extension(extension(contents), other)


def test_a_folder_of_the_builder_is_found(contents: dict[str, bytes]) -> None:
    leaky = extension(contents) + b"\0/home/somebody/tuckbox/crates/engine/src/cache.rs\0"
    assert any("/home/somebody" in one for one in audit.extension(leaky, HERE))


def test_a_source_distribution_with_too_little_or_too_much_is_found(
    sdist: Path, tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    root = tmp_path / sdist.name.removesuffix(".tar.gz")
    (root / "Cargo.lock").unlink()
    (root / "notes.txt").write_text("not tracked")
    (root / "Makefile").write_text("of no use")
    changed = tmp_path / sdist.name
    with tarfile.open(changed, "w:gz") as archive:
        archive.add(root, root.name)
    assert audit.source(changed) == [
        "Cargo.lock is missing",
        "Makefile does not belong into a source distribution",
        "notes.txt is not in the repository",
    ]


def test_every_action_is_pinned_to_a_commit() -> None:
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        used = re.findall(r"uses: (\S+)(.*)", workflow.read_text())
        for action, comment in used:
            is_ours = action.startswith("./")
            assert is_ours or re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action), action
            assert is_ours or re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action
