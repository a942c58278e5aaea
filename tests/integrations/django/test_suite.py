"""Django's own tests of its caches, from its source distribution, on our backend."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import django
import pytest

from integrations.django import project

HERE = Path(__file__).parent
UNPACKED = Path(sys.prefix) / "django-sdist"
VERSION = "{}.{}".format(*django.VERSION)
# How many tests each class has in Django 4.2 and in later versions.
OLDEST = VERSION == "4.2"


@pytest.fixture(scope="session")
def django_tests() -> Path:
    """The folder of Django's tests. It is fetched once for each virtual environment."""
    requirement = HERE / "suite" / f"django-{VERSION}.txt"
    name = f"django-{django.__version__}"
    assert f"\n{name.replace('-', '==')} " in requirement.read_text(), f"update {requirement}"
    tests = UNPACKED / name / "tests"
    if not tests.is_dir():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        what = [
            "--no-binary=:all:",
            "--no-deps",
            "--require-hashes",
            f"--requirement={requirement}",
        ]
        fetch = [*pip, *what, f"--dest={UNPACKED}"]
        if subprocess.run(fetch, check=False).returncode != 0:
            # The index may answer the next time.
            time.sleep(30)
            subprocess.run(fetch, check=True)
        with tarfile.open(UNPACKED / f"{name}.tar.gz") as archive:
            archive.extractall(UNPACKED, filter="data")
    return tests


def run(django_tests: Path, location: Path, *cases: str, backend: str = project.BACKEND) -> Any:
    command = [sys.executable, str(HERE / "suite" / "run.py"), str(django_tests), backend]
    done = subprocess.run(
        [*command, str(location), *cases],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, "the run itself failed; its output is above"
    return json.loads(done.stdout.splitlines()[-1])


def passed(count: int) -> dict[str, Any]:
    return {"run": count, "failed": [], "skipped": [], "expected_failures": []}


@pytest.mark.timeout(600)
def test_all_54_of_djangos_base_tests_pass(django_tests: Path, tmp_path: Path) -> None:
    assert run(django_tests, tmp_path / "a", "Base") == passed(54)


@pytest.mark.timeout(600)
def test_all_54_pass_by_the_asynchronous_names(django_tests: Path, tmp_path: Path) -> None:
    assert run(django_tests, tmp_path / "a", "BaseOnLoop") == passed(54)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("case", "count"),
    [
        ("AnyAsync", 10),
        ("Sessions", 41 if OLDEST else 70),
        ("DatabaseSessions", 40 if OLDEST else 70),
        ("Middleware", 10 if OLDEST else 16),
        ("Utilities", 6 if OLDEST else 8),
        ("PrefixedUtilities", 6 if OLDEST else 8),
        ("Head", 2),
        ("Languages", 6),
        ("Templates", 3),
    ],
)
def test_what_django_builds_on_its_caches(
    django_tests: Path, tmp_path: Path, case: str, count: int
) -> None:
    assert run(django_tests, tmp_path / "a", case) == passed(count)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("broken", "tests"),
    [
        ("NoneIsAMiss", ["default_used_when_none_is_set"]),
        ("AddOverwrites", ["add", "cache_versioning_add"]),
        ("OneVersion", ["cache_versioning_get_set", "cache_versioning_delete"]),
        ("ZeroIsForever", ["zero_timeout"]),
        ("KeepsAll", ["cull", "zero_cull"]),
        ("SwallowsErrors", ["set_fail_on_pickleerror"]),
        ("NoWarnings", ["invalid_key_characters", "invalid_key_length"]),
    ],
)
def test_a_backend_that_is_wrong_is_caught(
    django_tests: Path, tmp_path: Path, broken: str, tests: list[str]
) -> None:
    wrong = sorted(f"Base.test_{name}" for name in tests)
    right = "Base.test_simple"
    result = run(django_tests, tmp_path / "a", right, *wrong, backend=f"broken.{broken}")
    # A test of several parts fails once for each.
    assert {name.split(" ")[0] for name in result["failed"]} == set(wrong)
    assert result["run"] == len(wrong) + 1
