"""The records of families: a family that failed, was skipped or counted nothing is not good."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

HERE = os.path.dirname(__file__)
SAMPLE = """
import pytest

@pytest.mark.family("good")
def test_good(trials, size, seed):
    trials.add(size(3, 9), "cases")
    trials.figure("drawn_from", seed)

@pytest.mark.family("two")
@pytest.mark.parametrize("what", ["cases", "examples"])
def test_two(trials, what):
    trials.add(4, what)

@pytest.mark.family("failing")
def test_failing(trials):
    trials.add(1, "cases")
    assert False, "as it happens"

@pytest.mark.family("broken")
def test_broken(trials, no_such_fixture):
    pass

@pytest.mark.family("skipped")
def test_skipped(trials):
    trials.add(1, "cases")
    pytest.skip("no mood")

@pytest.mark.family("idle")
def test_idle(trials):
    pass
"""


def records(folder: Path, *options: str) -> dict[str, dict[str, Any]]:
    sample = folder / "test_sample.py"
    sample.write_text(SAMPLE)
    file = folder / "records"
    plugins = ("-p", "conftest", "-p", "reliability.conftest", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, *plugins]
    subprocess.run(
        [*command, "--rootdir", str(folder), "--records", str(file), *options, str(sample)],
        env={**os.environ, "PYTHONPATH": os.path.dirname(HERE)},
        cwd=folder,  # Python looks for modules in the working directory first.
        stdout=subprocess.DEVNULL,
        check=False,
    )
    lines = map(json.loads, file.read_text().splitlines())
    return {line["family"]: line for line in lines}


def test_each_family_has_a_record(tmp_path: Path) -> None:
    found = records(tmp_path, "--seed", "7")
    assert {name: record["good"] for name, record in found.items()} == {
        "good": True,
        "two": True,
        "failing": False,
        "broken": False,
        "skipped": False,
        "idle": False,
    }
    good = found["good"]
    assert (good["trials"], good["trial"]) == (3, "cases")
    assert (good["seed"], good["drawn_from"], good["failures"]) == (7, 7, [])
    assert good["run"] == "pytest test_sample.py"
    two = found["two"]
    assert (two["trials"], two["trial"]) == (8, "cases + examples")
    assert (two["cases"], two["examples"]) == (4, 4)
    assert "as it happens" in found["failing"]["failures"][0]
    assert found["skipped"]["failures"] == ["did not run: test_skipped"]
    assert found["idle"]["failures"] == ["no trial was counted"]


@pytest.mark.parametrize(("options", "trials"), [((), 3), (("--nightly",), 9)])
def test_a_family_has_two_sizes(tmp_path: Path, options: tuple[str, ...], trials: int) -> None:
    assert records(tmp_path, *options)["good"]["trials"] == trials
