"""The annotations say what the code does, for users who check theirs strictly."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import tuckbox
from api import stub_docstrings
from tuckbox.cache import Cache
from tuckbox.choices import Favour
from tuckbox.results import CheckReport

EXAMPLES = Path(__file__).with_name("typing_examples.py")
PACKAGE = Path(tuckbox.__file__).parent
MODULES = [
    importlib.import_module(module.name)
    for module in pkgutil.walk_packages(tuckbox.__path__, "tuckbox.")
]
PUBLIC = {
    f"{module.__name__}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
}
METHODS = {
    f"{name}.{method}": function
    for name, value in PUBLIC.items()
    if inspect.isclass(value)
    for method, function in vars(value).items()
    if inspect.isroutine(function) and (method.endswith("__") or not method.startswith("_"))
}


def checked(*command: str, folder: Path) -> None:
    environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    result = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.timeout(300)
def test_examples_pass_mypy_strict(tmp_path: Path) -> None:
    checked("mypy", "--strict", "--warn-unreachable", str(EXAMPLES), folder=tmp_path)


@pytest.mark.timeout(300)
def test_stub_matches_the_extension(tmp_path: Path) -> None:
    checked("mypy.stubtest", "tuckbox._engine", folder=tmp_path)


def test_editors_show_the_docstrings_of_the_extension() -> None:
    stub = stub_docstrings.STUB.read_text()
    assert ">>> cache.get(" in stub
    command = "run: .venv/bin/python tests/api/stub_docstrings.py"
    assert stub == stub_docstrings.with_docstrings(stub), command


def test_package_is_marked_as_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


@pytest.mark.parametrize("name", [*PUBLIC, *METHODS])
def test_annotations_can_be_read_at_run_time(name: str) -> None:
    value = {**PUBLIC, **METHODS}[name]
    if inspect.isclass(value) or inspect.isfunction(value):
        typing.get_type_hints(value)
        # Python 3.9 cannot evaluate it.
        assert "|" not in str(getattr(value, "__annotations__", ""))


def test_type_hints_are_types() -> None:
    hints = typing.get_type_hints(Cache.__init__)
    assert hints["path"] == typing.Union[str, os.PathLike[str], None]
    assert hints["favour"] == typing.Optional[Favour]
    assert typing.get_type_hints(Cache.check)["return"] is CheckReport
    assert "tuckbox.integrations.django.TuckboxCache.get" in METHODS
