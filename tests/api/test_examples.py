"""The examples in docstrings and documents do what they show.

In a document, examples run in their order, in one directory and one process:

- ``pycon`` is a session, whose output is compared.
- ``python`` is a program. If a line is only an expression, its comment begins with the result. If
  the first line is a comment such as ``# reader.py``, the program is stored in that file.
- ``console`` has commands after ``$``, whose output is compared. Each is a process of its own.
- ``no-run`` after the language, and other languages such as ``sh``, are not run.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import tuckbox
from tuckbox import Cache, _engine
from tuckbox.advice import unexpected
from tuckbox.integrations.envelopes import Envelopes
from tuckbox.places import place_of
from tuckbox.sizes import parse_size

ROOT = Path(__file__).parents[2]
PUBLIC = [getattr(tuckbox, name) for name in tuckbox.__all__]
DOCUMENTED: dict[str, object] = {
    **{value.__name__: value for value in PUBLIC if inspect.isclass(value)},
    **{f"Cache.{name}": getattr(Cache, name) for name in dir(Cache) if not name.startswith("_")},
    "Cache.__init__": Cache.__init__,
    "ManualClock": _engine.ManualClock,
    "parse_size": parse_size,
    "place_of": place_of,
    "unexpected": unexpected,
    "Envelopes": Envelopes,
}
EXAMPLES = {name: value.__doc__ for name, value in DOCUMENTED.items() if ">>>" in value.__doc__}


class Block(NamedTuple):
    line: int
    language: str
    options: str
    source: str


def blocks_of(text: str) -> list[Block]:
    fences = re.finditer(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(text.count("\n", 0, found.start()) + 2, *found.groups()) for found in fences]


PAGES = {
    str(path.relative_to(ROOT)): blocks_of(path.read_text())
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
RUN = ("python", "pycon", "console")
DOCUMENTS = {
    page: blocks for page, blocks in PAGES.items() if any(block.language in RUN for block in blocks)
}


def test_operations_have_examples() -> None:
    operations = {name for name, value in DOCUMENTED.items() if "." in name and callable(value)}
    assert operations <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_does_what_it_shows(
    name: str, cache: Cache, tmp_path: Path, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {
        "Cache": Cache,
        "ManualClock": _engine.ManualClock,
        "Envelopes": Envelopes,
        "parse_size": parse_size,
        "place_of": place_of,
        "unexpected": unexpected,
        "cache": cache,
    }
    run_session(EXAMPLES[name], names, name, 0)


@pytest.mark.parametrize("page", DOCUMENTS)
def test_a_document_does_what_it_shows(
    page: str, tmp_path: Path, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("example")  # Pickle looks for classes in their module.
    monkeypatch.setitem(sys.modules, "example", module)
    for line, language, options, source in DOCUMENTS[page]:
        file = re.match(r"# (\w+\.py)\n", source)
        if options == "no-run":
            continue
        if language == "pycon":
            run_session(source, vars(module), page, line)
        elif language == "console":
            run_commands(source, f"{page}:{line}")
        elif language == "python" and file:
            Path(file[1]).write_text(source)
        elif language == "python":
            run_program(source, vars(module), f"{page}:{line}")


def run_session(source: str, names: dict[str, object], place: str, line: int) -> None:
    session = doctest.DocTestParser().get_doctest(source, names, place, place, line)
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    result = runner.run(session, out=output.append, clear_globs=False)
    names.update(session.globs)
    assert result.attempted > 0
    assert not result.failed, "".join(output)


def run_program(source: str, names: dict[str, object], place: str) -> None:
    lines = source.splitlines()
    for statement in ast.parse(source).body:
        code = "\n".join(lines[statement.lineno - 1 : statement.end_lineno])
        if not isinstance(statement, ast.Expr):
            exec(code, names)
            continue
        shown = repr(eval(code.strip(), names))
        comment = lines[statement.end_lineno - 1][statement.end_col_offset :].strip(" #")
        if shown != "None":
            assert comment.startswith(shown), f"{place}: {code} returns {shown}"


def run_commands(source: str, place: str) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for step in re.split(r"^\$ ", source, flags=re.MULTILINE)[1:]:
        command, _, wanted = step.partition("\n")
        done = subprocess.run(
            ["bash", "-c", command],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PATH": path},
        )
        is_shown = doctest.OutputChecker().check_output(wanted, done.stdout, doctest.ELLIPSIS)
        assert is_shown, f"{place}: {command} printed {done.stdout}"
