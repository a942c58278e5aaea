"""The page shows the records' figures, and its other parts do not change."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from reliability import document
from reliability.__main__ import main
from reliability.catalogue import FAMILIES
from reliability.document import generate
from reliability.tests.conftest import family, run
from rig.kept import PageError

_PAGE = f"# Before\n\n{document.BEGIN}\nstale figures\n{document.END}\n\nAfter.\n"


def test_a_zero_says_of_how_many(clone: Path) -> None:
    families = [family("good.py"), family("fails.py", name="T-X2"), family(name="T-X3")]
    run(clone, *families, lane="nightly", fail_fast=False)
    page = generate(_PAGE, families, clone.parent / "out")
    assert page.startswith("# Before\n\n")
    assert page.endswith("\n\nAfter.\n")
    assert "stale figures" not in page
    rows = {line.split(" | ")[0].strip("| "): line for line in page.splitlines() if "|" in line}
    assert "| 30 tries | 0 | 1.0e-01 |" in rows["T-X1"]
    assert "lane" not in rows["T-X1"]
    assert "| 30 tries | 1 |  |" in rows["T-X2"]
    assert "no record" in rows["T-X3"]
    assert generate(page, families, clone.parent / "out") == page


def test_changed_sources_are_told(clone: Path) -> None:
    (clone / "new.txt").write_text("x")
    run(clone, family("good.py"))
    page = generate(_PAGE, [family("good.py")], clone.parent / "out")
    assert "with changes" in page
    assert ", short lane |" in page


def test_a_page_without_the_marks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="must have the lines"):
        generate("# Page\n", [], tmp_path)


def test_the_check_tells_a_page_that_is_not_what_the_records_say(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(_PAGE)
    words = ["document", "--page", str(page), "--records", str(tmp_path)]
    words += ["--catalogue", str(FAMILIES)]
    assert CliRunner().invoke(main, [*words, "--check"]).exit_code == 1
    assert page.read_text() == _PAGE
    assert CliRunner().invoke(main, words).exit_code == 0
    assert CliRunner().invoke(main, [*words, "--check"]).exit_code == 0
