"""The docstrings of the extension in its stub, from which editors take them.

They are written in Rust. `python tests/api/stub_docstrings.py` copies them to `_engine.pyi`, and
`test_typing.py` checks that it was done.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from typing import Union

from tuckbox import _engine

STUB = Path(__file__).parents[2] / "python" / "tuckbox" / "_engine.pyi"

Node = Union[ast.Module, ast.ClassDef, ast.FunctionDef]


def with_docstrings(text: str) -> str:
    """Return the text of the stub with the docstrings of the extension."""
    lines = text.splitlines(keepends=True)
    # From the end, so that the numbers of the lines above do not change.
    for node, docstring in reversed(list(documented(ast.parse(text), _engine))):
        replace_docstring(lines, node, docstring)
    return "".join(lines)


def documented(parent: Node, owner: object) -> list[tuple[Node, str]]:
    """Return each public class and method with its docstring; of overloads the first."""
    found: list[tuple[Node, str]] = []
    names = set()
    for node in parent.body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)) or node.name.startswith("_"):
            continue
        value = getattr(owner, node.name)
        if node.name not in names:
            found.append((node, inspect.getdoc(value) or ""))
        names.add(node.name)
        if isinstance(node, ast.ClassDef):
            found += documented(node, value)
    return found


def replace_docstring(lines: list[str], node: Node, docstring: str) -> None:
    """Replace the body of a function, or the docstring of a class."""
    first = node.body[0]
    indent = " " * (node.col_offset + 4)
    new = textwrap.indent(f'"""{docstring}', indent, lambda line: bool(line.strip()))
    new += f'\n{indent}"""\n' if "\n" in docstring else '"""\n'
    had_one = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    if isinstance(node, ast.ClassDef) and not had_one:
        lines.insert(first_line(first) - 1, f"{new}\n")
        return
    if first.lineno == node.lineno or first.value.value is ...:
        # The body is on the last line of the signature.
        line = lines[first.lineno - 1]
        comment = line[first.end_col_offset :].rstrip()
        new = f"{line[: first.col_offset].rstrip()}{comment}\n{new}"
    lines[first.lineno - 1 : first.end_lineno] = [new]


def first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


if __name__ == "__main__":
    STUB.write_text(with_docstrings(STUB.read_text()))
