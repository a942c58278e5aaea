"""Runs the examples of documents. Needs only Python, so that it works on a bare system:

    python documents.py tutorial.md

The examples of a document run in their order, in one directory and one process:

- ``pycon`` is a session, whose output is compared.
- ``python`` is a program. If a line is only an expression, its comment begins with the result. If
  the first line is a comment such as ``# reader.py``, the program is stored in that file.
- ``console`` has commands after ``$``, whose output is compared. Each is a process of its own.
- ``no-run`` after the language, and other languages such as ``sh``, are not run.
"""

from __future__ import annotations

import ast
import doctest
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

LANGUAGES = ("python", "pycon", "console")


class Block(NamedTuple):
    line: int
    language: str
    options: str
    source: str


def blocks_of(text: str) -> list[Block]:
    fences = re.finditer(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(text.count("\n", 0, found.start()) + 2, *found.groups()) for found in fences]


def run_page(page: str, blocks: list[Block], names: dict[str, object]) -> int:
    """Run the examples of a document in the current directory, and return their number."""
    count = 0
    for line, language, options, source in blocks:
        if language not in LANGUAGES or options == "no-run":
            continue
        file = re.match(r"# (\w+\.py)\n", source)
        if language == "pycon":
            run_session(source, names, page, line)
        elif language == "console":
            run_commands(source, f"{page}:{line}")
        elif file:
            Path(file[1]).write_text(source)
        else:
            run_program(source, names, f"{page}:{line}")
        count += 1
    return count


def run_session(source: str, names: dict[str, object], place: str, line: int) -> None:
    session = doctest.DocTestParser().get_doctest(source, names, place, place, line)
    for number, example in enumerate(session.examples):
        example.source = awaited(example.source, f"_step_{number}", session.globs)
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    result = runner.run(session, out=output.append, clear_globs=False)
    names.update(session.globs)
    assert result.attempted > 0
    assert not result.failed, "".join(output)


def awaited(source: str, name: str, names: dict[str, object]) -> str:
    """The source of a step, which may await as in `python -m asyncio`, as that of a plain step."""
    if not re.search(r"\bawait ", source):
        return source
    (step,) = ast.parse(source).body
    if isinstance(step, ast.AsyncFunctionDef):
        return source
    value = ast.unparse(step.value)
    exec(f"async def {name}():\n    return ({value})", names)
    targets = [ast.unparse(target) for target in getattr(step, "targets", [])]
    return " = ".join([*targets, f"__import__('asyncio').run({name}())"]) + "\n"


def run_program(source: str, names: dict[str, object], place: str) -> None:
    lines = source.splitlines()
    for statement in ast.parse(source).body:
        decorators = getattr(statement, "decorator_list", [])
        first = min(one.lineno for one in [statement, *decorators])
        code = "\n".join(lines[first - 1 : statement.end_lineno])
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


def main() -> None:
    for page in map(Path, sys.argv[1:]):
        blocks = blocks_of(page.read_text())
        with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
            os.chdir(folder)
            count = run_page(page.name, blocks, {"__name__": "__main__"})
            os.chdir("/")
        assert count, f"{page} has no examples"
        print(f"{page.name}: {count} examples do what they show")


if __name__ == "__main__":
    main()
