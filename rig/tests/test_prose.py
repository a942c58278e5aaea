"""The prose linter: each rule reports its example, and code, tables and good prose pass."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rig.sources import ROOT

AST_GREP = Path(sys.executable).with_name("ast-grep")
RULES = ROOT / "scripts" / "prose" / "rules"

WORDS = " ".join(["at"] * 35)
EXAMPLES = {
    "admission-test": "A new entry has to win a duel.",
    "after-this-many": "It ends after so many deaths.",
    "again": "The file is made anew.",
    "at-least": "Values from 256 bytes on are hashed.",
    "at-least-most": "A row has two buckets at the least.",
    "at-most": "It takes no more than a twelfth.",
    "available": "No lock is to be had.",
    "compared-with": "It is slow beside a dictionary.",
    "count": "The policy reckons in bytes.",
    "described": "The method is told in another file.",
    "evict": "Large entries give\nway to small ones.",
    "liveness-lock": "A process holds its life token.",
    "long-line": f"A [link](https://example.org/{'x' * 100}).",
    "long-sentence": f"{WORDS} end.",
    "missing": "The entry is gone.",
    "module": "Read the house rules.",
    "must": "No write shall wait.",
    "never-expires": "It waits for ever.",
    "output-buffer": "A landing for values.",
    "plain-word": "It looks in vain.",
    "policy-selection": "A *tournament* of settings.",
    "process-slot": "Each process has a seat (one of 64).",
    "quota": "A shard is poor.",
    "release": "The writer lets go of the lock.",
    "repair": "A check mends the shard.",
    "replaced": "Another file came in its place.",
    "reserved-bits": "Four kept bits are zero.",
    "sequence-lock": "The busy word is odd.",
    "they": "An attacker can do what he likes.",
    "verify": "The record proves itself.",
    "what-clause": "First. What is small stays longer.",
    "which": "A process who waits sleeps.",
    "who-clause": "Who waits for a lock sleeps.",
}


def findings(path: Path, text: str) -> list[str]:
    path.write_text(text)
    done = subprocess.run(
        [AST_GREP, "scan", "--config", ROOT / "sgconfig.yml", "--json=stream", path],
        capture_output=True,
        text=True,
        check=False,
    )
    found = [json.loads(line)["ruleId"] for line in done.stdout.splitlines()]
    assert done.returncode == (1 if found else 0), done.stderr
    return found


def test_every_rule_has_an_example() -> None:
    text = "".join(path.read_text() for path in sorted(RULES.glob("*.yml")))
    assert sorted(re.findall("^id: (.+)$", text, re.MULTILINE)) == sorted(EXAMPLES)


@pytest.mark.parametrize("rule", EXAMPLES)
def test_a_rule_reports_its_example(tmp_path: Path, rule: str) -> None:
    assert findings(tmp_path / "page.md", EXAMPLES[rule] + "\n") == [rule]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("table.md", f"| a |\n|:--|\n| {WORDS} seat end |\n", ["process-slot"]),
        ("item.md", f"- {'x' * 119}\n", ["long-line"]),
        ("lib.rs", "//! A seat.\nfn f() {} // A seat.\n/* A seat. */\n", ["process-slot"] * 3),
        ("a.py", '"""A seat.\n\nArgs:\n    x: A seat.\n"""\n', ["process-slot"] * 2),
        ("b.py", "x = 1  # a seat\n#: A seat.\n", ["process-slot"] * 2),
    ],
)
def test_tables_comments_and_docstrings_are_read(
    tmp_path: Path, name: str, text: str, found: list[str]
) -> None:
    assert findings(tmp_path / name, text) == found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("code.md", f"The `seat.rs` file, and `duel`.\n\n```sh\nseat {'x' * 120}\n```\n"),
        ("table.md", f"| a | b |\n|:--|:--|\n| {WORDS} | end |\n"),
        ("url.md", f"A [link].\n\n[link]: https://example.org/{'x' * 120}\n"),
        ("question.md", "## What it costs\n\nWho reads it? What is it? A shard.\n"),
        ("sentences.md", f"{WORDS}.\n{WORDS}!\n({WORDS}.)\n{WORDS}\n"),
        ("lib.rs", 'fn seat() { g("// A seat."); }\n/// What is small, and `seat`.\n'),
        ("a.py", 'x = f("A seat.")\ny = """A seat."""\n'),
    ],
)
def test_code_tables_and_good_prose_pass(tmp_path: Path, name: str, text: str) -> None:
    assert findings(tmp_path / name, text) == []
