"""Only a finished run that may be quoted is published."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from lab.__main__ import main
from lab.runner.catalogue import FormName
from lab.runner.records import read
from lab.tests import synthetic
from lab.tests.test_report_browser import programs

CHOICE = [one for one in synthetic.phases_suites() if one.name == "choice"]
PNG = b"\x89PNG\r\n\x1a\n"


def published(folder: Path, form: FormName, *, ended: bool = True) -> Result:
    path = synthetic.write(folder / "run.jsonl", CHOICE, rounds=6, ended=ended, replays=False)
    run = read(path)
    run.header.settings.form = form
    records: list[msgspec.Struct] = [run.header, *run.cells]
    records += [run.ending] if run.ending else []
    path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in records))
    return CliRunner().invoke(main, ["publish", str(path), "--output", str(folder / "out")])


def test_a_finished_run_becomes_page_csv_and_picture(tmp_path: Path) -> None:
    programs()
    done = published(tmp_path, "middle")
    assert done.exit_code == 0, done.output
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == [
        "answer.png",
        "figures.csv",
        "index.html",
    ]
    assert (out / "answer.png").read_bytes().startswith(PNG)
    assert "Which cache should I use?" in (out / "index.html").read_text("utf-8")
    assert (out / "figures.csv").read_text("utf-8").startswith("suite,part,variant")


@pytest.mark.parametrize(
    ("form", "ended", "says"), [("quick", True, "quick"), ("middle", False, "unfinished")]
)
def test_what_nobody_should_quote_is_refused(
    tmp_path: Path, form: FormName, says: str, *, ended: bool
) -> None:
    done = published(tmp_path, form, ended=ended)
    assert done.exit_code == 1
    assert f"must not be quoted ({says})" in done.output
    assert not (tmp_path / "out").exists()
