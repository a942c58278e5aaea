"""The page of features is up to date, and each claim has a test that exists, or a reason."""

from __future__ import annotations

import ast
import re

import pytest

from api.features import MARKS, PAGE, ROOT, SYSTEMS, Feature, features, page

ROWS = features()
WANTED = [*range(1, 91), *range(106, 121)]


def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(ROWS), "run: python tests/api/features.py"


def test_each_feature_has_a_row() -> None:
    assert [row.number for row in ROWS] == WANTED


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.number))
def test_a_feature_names_its_tests_or_the_reason(row: Feature) -> None:
    assert row.tuckbox in MARKS
    assert row.tests if row.tuckbox == "yes" else row.note
    assert row.tuckbox != "no" or not row.tests
    for test in row.tests:
        path, *names = test.split("::")
        assert names, f"{test} names no test"
        assert "::".join(names) in names_of_tests(path), f"{path} has no test {'::'.join(names)}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.number))
def test_a_feature_names_what_others_have(row: Feature) -> None:
    if row.others:
        assert not any(row.systems)
    else:
        assert len(row.systems) == len(SYSTEMS)
        assert {*row.systems} <= {*MARKS}


def test_a_test_is_a_test() -> None:
    here = names_of_tests("tests/api/test_features.py")
    assert "test_a_test_is_a_test" in here
    assert "names_of_tests" not in here
    assert "TestAdd" in names_of_tests("tests/semantics/test_single_key.py")
    engine = names_of_tests("crates/engine/tests/smoke.rs")
    assert "favoured_entries_are_kept" in engine
    assert "body" not in engine


def names_of_tests(path: str) -> set[str]:
    """The names of tests in a file, and of its classes of tests."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".rs"):
        return set(re.findall(r"#\[test\]\n(?:#\[.*\]\n)*fn (\w+)\(", text))
    body = ast.parse(text).body
    names = _functions(body)
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            names.add(node.name)
            names |= {f"{node.name}::{name}" for name in _functions(node.body)}
    return names


def _functions(body: list[ast.stmt]) -> set[str]:
    names = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    return {name for name in names if name.startswith("test_")}
