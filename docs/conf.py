"""Settings of the documents' site, which `make docs` builds with Sphinx.

Owns what Sphinx cannot know: the types of the extension's methods, which are in `_engine.pyi`, and
links from a page to a file that is not a page.
"""

from __future__ import annotations

import ast
import re
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

import tuckbox

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
ARCHITECTURE = "explanation/architecture"
"""The page that shows ARCHITECTURE.md."""

project = "Tuckbox"
author = "the authors of Tuckbox"
release = tuckbox.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4

default_role = "code"  # The docstrings of the extension have Markdown's backticks.
autodoc_member_order = "bysource"
add_module_names = False
python_display_short_literal_types = True

html_theme = "furo"
html_title = "Tuckbox"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def _repository() -> str | None:
    """Return the address of the repository's files, None while pyproject.toml names none."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {})
    return f"{urls['Repository'].rstrip('/')}/blob/main" if "Repository" in urls else None


class FileLinks(SphinxTransform):
    """Links to what is not a page: copies files of docs/, leads to the repository for others.

    Sphinx would offer each file for download under a name of its own.
    """

    default_priority = 400

    def apply(self, **_: object) -> None:
        """Replace each link to a file."""
        for link in list(self.document.findall(addnodes.download_reference)):
            link.replace_self(self._replacement(link["reftarget"], link))
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link["refdomain"] == "doc" and link["reftarget"].startswith("/"):
                # Outside of docs/, MyST takes each Markdown file for a page.
                link.replace_self(self._replacement(f"{link['reftarget']}.md", link))

    def _replacement(self, target: str, link: nodes.Element) -> nodes.Node:
        content = [child.deepcopy() for child in link.children]
        path = (DOCS / self.env.docname).parent.joinpath(target).resolve()
        if path == ROOT / "ARCHITECTURE.md":
            page = link.deepcopy()
            page["reftarget"] = ARCHITECTURE
            return page
        if path.is_relative_to(DOCS):
            copy = self.app.outdir / path.relative_to(DOCS)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            return nodes.reference("", "", *content, refuri=target)
        repository = _repository()
        if repository is None:
            return nodes.inline("", "", *content)
        address = f"{repository}/{path.relative_to(ROOT).as_posix()}"
        return nodes.reference("", "", *content, refuri=address)


def _show_architecture(app: Sphinx, page: str, source: list[str]) -> None:
    if page == ARCHITECTURE:
        path = ROOT / "ARCHITECTURE.md"
        app.env.note_dependency(path)
        source[0] = re.sub(r"\]\((?!#|https?:)", "](../../", path.read_text())


def _stub() -> dict[str, list[ast.FunctionDef]]:
    """Return the definitions of each method of `Core` in the stub of the extension."""
    module = ast.parse((ROOT / "python" / "tuckbox" / "_engine.pyi").read_text())
    (core,) = (
        node for node in module.body if isinstance(node, ast.ClassDef) and node.name == "Core"
    )
    methods: dict[str, list[ast.FunctionDef]] = {}
    for node in core.body:
        if isinstance(node, ast.FunctionDef):
            methods.setdefault(node.name, []).append(node)
    return methods


def _signature(definitions: list[ast.FunctionDef]) -> tuple[str, str]:
    """Return the parameters and the result of a method. Its last overload has the most general."""
    method = definitions[-1]
    if len(definitions) > 1 and not method.args.defaults:
        first = definitions[0].args
        missing = len(method.args.args) - len(first.args)
        method.args.defaults = [*first.defaults, *[ast.Constant(...)] * missing]
    method.args.args = method.args.args[1:]
    names = [ast.unparse(method.args), ast.unparse(method.returns) if method.returns else "None"]
    # The names of type variables begin with an underscore.
    arguments, result = (re.sub(r"\b_([A-Z])\b", r"\1", name) for name in names)
    return f"({arguments})", result


STUB = _stub()
for name, definitions in STUB.items():
    if any(ast.unparse(one) == "property" for one in definitions[0].decorator_list):
        # Autodoc reads the type of an extension's property from here.
        tuckbox.Cache.__annotations__[name] = ast.unparse(definitions[0].returns)


def _typed(_app: Sphinx, kind: str, name: str, *_: object) -> tuple[str, str] | None:
    method = name.rpartition(".")[2]
    is_native = kind == "method" and method in STUB and method not in vars(tuckbox.Cache)
    return _signature(STUB[method]) if is_native else None


def _rephrased(
    _app: Sphinx, _kind: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    # For Sphinx, the text before the first colon is the name of an error.
    lines[:] = [re.sub(r"^    As (`)", r"    others: as \1", line) for line in lines]


def setup(app: Sphinx) -> None:
    """Connect the parts above to Sphinx."""
    app.add_transform(FileLinks)
    app.connect("source-read", _show_architecture)
    app.connect("autodoc-process-signature", _typed)
    # Before Napoleon, which has the standard priority of 500.
    app.connect("autodoc-process-docstring", _rephrased, priority=400)
