"""Records are read as they were written, or refused; pages change only between their marks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rig import kept
from rig.kept import PageError, RecordError


class Counts(msgspec.Struct):
    counted: list[float]
    words: list[str] = []


def test_a_record_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "counts.json"
    assert kept.read(path, Counts) is None
    kept.write(path, Counts([1.5, -2e-9, 3.0], ["a", "1, 2"]))
    assert kept.read(path, Counts) == Counts([1.5, -2e-9, 3.0], ["a", "1, 2"])
    assert '"counted": [1.5, -2e-9, 3.0],\n' in path.read_text("utf-8")
    assert [one.name for one in path.parent.iterdir()] == ["counts.json"]


@pytest.mark.parametrize("text", ["{}", "no record", ""])
def test_what_is_no_record_says_what_to_do(tmp_path: Path, text: str) -> None:
    path = tmp_path / "counts.json"
    path.write_text(text, "utf-8")
    with pytest.raises(RecordError, match=r"counts\.json is not a record.*remove the file"):
        kept.read(path, Counts)


def test_a_page_changes_between_its_marks() -> None:
    page = kept.with_part("before\n<a>\nold\n</a>\nafter\n", "<a>", "</a>", "new")
    assert page == "before\n<a>\n\nnew\n\n</a>\nafter\n"
    assert kept.with_part(page, "<a>", "</a>", "new") == page


@pytest.mark.parametrize("page", ["<a>\n", "</a>\n", "</a>\n<a>\n"])
def test_a_page_without_its_marks_is_refused(page: str) -> None:
    with pytest.raises(PageError, match="must have the lines <a> and </a>"):
        kept.with_part(page, "<a>", "</a>", "new")
