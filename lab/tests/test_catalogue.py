"""Contestants are folders: every one is whole, pinned and described."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from lab.runner import catalogue
from lab.runner.catalogue import LAB, CatalogueError, ConcurrentSuite, Contestant, ReplaySuite

CONTESTANTS = catalogue.contestants()
SUITES = {path.stem for path in (LAB / "suites").glob("*.toml")}


def test_the_demo_has_its_contestants() -> None:
    assert set(CONTESTANTS) >= {
        "diskcache",
        "django_filebased",
        "django_locmem",
        "null",
        "tuckbox",
    }


@pytest.mark.parametrize("contestant", CONTESTANTS.values(), ids=CONTESTANTS)
def test_a_contestant_is_whole(contestant: Contestant) -> None:
    folder = Path(contestant.folder)
    assert set(contestant.suites) <= SUITES
    assert (folder / "README.md").read_text("utf-8").startswith(f"# {contestant.name}\n")
    assert catalogue.host(contestant.host).command
    assert contestant.adapter.is_file()


@pytest.mark.parametrize("contestant", CONTESTANTS.values(), ids=CONTESTANTS)
def test_what_is_installed_is_pinned_as_in_the_lock(contestant: Contestant) -> None:
    lock = (LAB / "requirements.lock").read_text("utf-8").splitlines()
    for requirement in contestant.install.pip:
        # This repository's own package has the version of the commit.
        assert requirement in lock or requirement == "tuckbox"


def imports_of(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def test_the_lab_knows_our_contestant_by_its_folder_alone() -> None:
    for path in LAB.rglob("*.py"):
        if path.parent != LAB / "contestants" / "tuckbox":
            packages = {name.partition(".")[0] for name in imports_of(path)}
            assert "tuckbox" not in packages, path


def test_the_runner_never_imports_what_it_judges() -> None:
    for folder in ("runner", "report"):
        for path in (LAB / folder).glob("*.py"):
            assert not {name for name in imports_of(path) if "contestants" in name}, path


def test_the_references_of_a_replay_exist() -> None:
    suite = catalogue.suite("web07", ReplaySuite)
    assert set(suite.replay.references) <= set(CONTESTANTS)


def test_an_unknown_field_is_refused_with_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    text = (LAB / "contestants" / "null" / "contestant.toml").read_text("utf-8")
    (folder / "contestant.toml").write_text("colour = 'red'\n" + text, "utf-8")
    with pytest.raises(CatalogueError, match=r"odd/contestant\.toml.*colour"):
        catalogue.contestants(tmp_path)


def test_a_contestant_of_an_unknown_suite_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    text = (LAB / "contestants" / "null" / "contestant.toml").read_text("utf-8")
    (folder / "contestant.toml").write_text(text.replace('["django"]', '["djngo"]'), "utf-8")
    with pytest.raises(CatalogueError, match=r"odd/contestant\.toml: there is no suite 'djngo'"):
        catalogue.contestants(tmp_path)


def test_a_missing_suite_is_told() -> None:
    with pytest.raises(CatalogueError, match=r"tokyo\.toml does not exist"):
        catalogue.suite("tokyo", ConcurrentSuite)
