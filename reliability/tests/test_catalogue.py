"""The real catalogue loads, and malformed ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from reliability import catalogue

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


def test_an_unknown_family_is_an_error() -> None:
    with pytest.raises(catalogue.CatalogueError, match="T-ZZ"):
        catalogue.choose(catalogue.load(), ["T-ZZ"])
