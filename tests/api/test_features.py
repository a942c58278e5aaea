"""The table of features: current, and each claim has a test that exists."""

from __future__ import annotations

import ast

import pytest
from features import MARKS, PAGE, ROOT, Feature, features, is_test, page

ROWS = features()


def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text() == page(ROWS), "run `python tests/api/features.py`"


def test_each_feature_occurs_once_and_in_order() -> None:
    numbers = [row.number for row in ROWS]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.number))
def test_a_feature_names_its_test_or_a_reason(row: Feature) -> None:
    assert row.tuckbox in MARKS
    assert row.shown_by, row.name
    if is_test(row.shown_by):
        path, _, name = row.shown_by.partition("::")
        assert (ROOT / path).is_file(), row.shown_by
        assert not name or name in _names(path), row.shown_by


def _names(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    }
