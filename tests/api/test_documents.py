"""The documents lead where they say, and the reference has every public name.

`make docs` checks the links between the pages of the site; here are those of every Markdown file.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import tuckbox
from tuckbox import Cache, errors

ROOT = Path(__file__).parents[2]
FILES = subprocess.run(
    ["git", "ls-files", "-z", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True
).stdout.split("\0")[:-1]


# PyPI shows the README without the repository, so its links name the repository.
OURS = re.compile(
    "https://(github.com/tuckbox/tuckbox/(blob|tree)|raw.githubusercontent.com/tuckbox/tuckbox)/main/"
)
PAGES = ("cache", "results", "errors")


def prose(path: Path) -> str:
    """The text without its code."""
    text = re.sub(r"^ *```.*?^ *```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`([^`\n]*)`", lambda code: code[1].replace("](", " "), text)


def links(text: str) -> list[str]:
    inline = re.findall(r"\]\(([^)\s]+)\)", text)
    return [*inline, *re.findall(r"^\[[^\]]+\]: (\S+)", text, re.MULTILINE)]


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", FILES)
def test_a_link_leads_to_a_file_and_a_heading(name: str) -> None:
    page = ROOT / name
    for link in links(prose(page)):
        folder = ROOT if OURS.match(link) else page.parent
        place, _, heading = OURS.sub("", link).partition("#")
        if re.match("https?:", place):
            continue
        target = folder / place if place else page
        assert target.exists(), link
        assert not heading or heading in anchors(target), link


def test_the_reference_has_every_public_name() -> None:
    pages = [(ROOT / "docs" / "reference" / f"{name}.md").read_text() for name in PAGES]
    listed = set(re.findall(r"^\.\. auto\w+:: ([\w.]+)", "\n".join(pages), re.MULTILINE))
    assert "tuckbox.errors" in listed
    public = {name for name in tuckbox.__all__ if not hasattr(errors, name)} - {"__version__"}
    operations = {f"Cache.{name}" for name in dir(Cache) if not name.startswith("_")}
    assert public | operations <= listed
