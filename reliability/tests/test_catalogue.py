"""The real catalogue loads, and malformed ones are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reliability import catalogue
from rig.sources import ROOT

_MODELS = "crates/engine/tests/models.sh"
_MUTANTS = "crates/engine/tests/mutants.sh"

_FAMILY = """
[[families]]
id = "T-X1"
name = "n"
promise = "p"
demanded = "d"
not-covered = "n"
"""


def test_the_real_catalogue_reads() -> None:
    families = catalogue.load()
    assert len(families) >= 30
    assert {"T-R1", "T-F1", "T-F2", "T-D1"} <= {one.id for one in families if not one.missing}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (_FAMILY * 2, "more than once"),
        (_FAMILY + "colour = 1", "colour"),
        (_FAMILY + "short.commands = []", "has no commands"),
        (_FAMILY + 'short.commands = [{run="x", trials=0, seconds-max=1}]', "needs a command"),
        (_FAMILY + 'controls = [{breaks="b", file="Makefile", name="mutant-x"}]', "not in"),
        (_FAMILY + 'controls = [{breaks="b", file="no/file", name="mutant-x"}]', "not in"),
        ("[[families]", "families.toml"),
    ],
)
def test_a_malformed_catalogue_says_what_is_wrong(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "families.toml"
    path.write_text(text)
    with pytest.raises(catalogue.CatalogueError, match=why):
        catalogue.load(path)


def test_what_a_family_lacks_is_told(tmp_path: Path) -> None:
    path = tmp_path / "families.toml"
    path.write_text(_FAMILY)
    (sentence,) = catalogue.incomplete(catalogue.load(path))
    assert sentence.startswith("T-X1 has no commands of the short lane and no")


def _controls(script: str) -> list[list[str]]:
    """Return the rows of a script's list of broken rules."""
    (rows,) = re.findall(r'^mutants="$(.*?)^"$', (ROOT / script).read_text(), re.DOTALL | re.M)
    return [row.split() for row in rows.strip().splitlines()]


def test_the_numbers_of_broken_rules_are_those_of_the_scripts() -> None:
    models, mutants = map(_controls, (_MODELS, _MUTANTS))
    assert len(models) > 10
    assert len(mutants) > 10
    families = {one.id: one for one in catalogue.load()}
    lanes = [lane for one in families.values() for lane in (one.short, one.nightly) if lane]
    trials = {command.run: command.trials for lane in lanes for command in lane.commands}
    assert trials[f"{_MODELS} controls"] == len(models)
    assert trials[_MUTANTS] == len(mutants)

    pairs = f"{len(models)} pairs of a model and "
    assert f"{pairs}a broken rule" in {one.breaks for one in families["T-M1"].controls}
    assert families["T-G1"].demanded.startswith(f"Each of {len(mutants)} rules is broken")
    (control,) = families["T-G1"].controls
    assert control.breaks.endswith(f"and {len(mutants) - 1} other broken rules")

    page = (ROOT / "docs" / "explanation" / "testing.md").read_text()
    rules = len({rule for rule, _ in models})
    assert f"`models.sh controls`: {pairs}one of {rules} broken rules" in page
    assert f"`mutants.sh`: {len(mutants)} broken rules" in page


def test_an_unknown_family_is_an_error() -> None:
    with pytest.raises(catalogue.CatalogueError, match="T-ZZ"):
        catalogue.choose(catalogue.load(), ["T-ZZ"])
