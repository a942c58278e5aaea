"""Which folder of the engine may use which. An arrow that is not drawn here was not meant.

An arrow is an import, or a call of a method that only one file defines: methods need no import.
"""

from __future__ import annotations

import re
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "crates" / "engine" / "src"

# From the bottom up: each may use those that it names.
ARROWS: dict[str, set[str]] = {
    "error": set(),
    "value": set(),
    "format": {"error", "value"},
    "storage": {"error", "value", "format"},
    "index": {"format", "storage"},
    "repair": {"error", "value", "format", "storage", "index"},
    # Decides, and cannot reach what it decides about.
    "policy": {"value", "format"},
    # Judges a record that it is given: does not know how entries are found.
    "invalidation": {"format", "storage"},
    "eviction": {"value", "format", "storage", "index", "policy", "invalidation"},
    "reading": {
        "error", "value", "format", "storage", "index", "repair", "invalidation", "eviction",
    },
    "writing": {
        "error", "value", "format", "storage", "index", "repair", "invalidation", "eviction",
        "reading",
    },
    # One maker at a time: sees entries as a read and a conditional write do.
    "leases": {
        "error", "value", "format", "storage", "index", "repair", "invalidation", "reading",
        "writing",
    },
    "cache": {
        "error", "value", "format", "storage", "index", "repair", "invalidation", "eviction",
        "reading", "writing", "leases",
    },
    "stats": {"value", "format", "storage", "cache"},
    "resize": {
        "error", "value", "format", "storage", "index", "repair", "invalidation", "eviction",
        "reading", "writing", "cache", "stats",
    },
    # Which file is at the path: sees only what a user of the cache sees.
    "handle": {"error", "value", "reading", "leases", "cache", "stats", "resize"},
}  # fmt: skip
# Files that see everything: the crate's face, and models of its protocol.
FACES = {"lib", "models"}
FLAT_FILES_MAX = 10
# Methods that the standard library or another crate has, too.
COMMON = {
    "arena", "as_any", "bytes", "clear", "close", "contains", "count", "end", "expire", "find",
    "finish", "get", "hash", "id", "insert", "is_empty", "key", "len", "load", "lock", "new",
    "next", "now_us", "of", "open", "path", "pop", "put", "read", "receive", "region", "replace",
    "resize", "set", "store", "tag", "tail", "take", "try_lock", "value", "version", "word",
    "words", "write",
}  # fmt: skip


def product(text: str) -> str:
    """Return the code without tests and comments."""
    text = re.split(r"\n#\[cfg\((?:all\()?test\b[^\n]*\nmod tests", text)[0]
    return re.sub(r"//[^\n]*", "", text)


class Tree:
    """The files of a source tree, and the arrows between them."""

    def __init__(self, sources: Path) -> None:
        self.texts = {
            ".".join(path.relative_to(sources).with_suffix("").parts): product(path.read_text())
            for path in sorted(sources.rglob("*.rs"))
            if path.stem not in FACES
        }
        self.owners: dict[str, set[str]] = defaultdict(set)
        for name, text in self.texts.items():
            for method in re.findall(r"\bfn (\w+)\s*(?:<[^(]*>)?\(\s*&?(?:mut )?self\b", text):
                self.owners[method].add(name)
        self.arrows = {name: self.uses(name) - {name} for name in self.texts if not is_face(name)}

    def uses(self, name: str) -> set[str]:
        text, folder = self.texts[name], name.split(".", maxsplit=1)[0]
        found: set[str] = set()
        for start, path in re.findall(r"\b(crate|super)::((?:\w+::)*(?:\w+|\{[^;]*?\}))", text):
            for one in names_in(path):
                found |= self.files_of(one if start == "crate" else [folder, *one])
        for method in re.findall(r"\.(\w+)(?:::<[^(]*>)?\(", text):
            if method not in COMMON and len(self.owners[method]) == 1:
                found |= self.owners[method]
        return found

    def files_of(self, path: list[str]) -> set[str]:
        """Return the file that a path leads to, also by way of its folder's face."""
        if (file := ".".join(path[:2])) in self.texts:
            return {file}
        if path[0] in self.texts:
            return {path[0]}
        face = self.texts.get(f"{path[0]}.mod", "")
        for module, names in re.findall(r"pub use self::(\w+)::(\{[^}]*\}|\w+);", face):
            if len(path) > 1 and path[1] in re.findall(r"\w+", names):
                return {f"{path[0]}.{module}"}
        return set()


def is_face(name: str) -> bool:
    return name.endswith(".mod")


def names_in(path: str) -> list[list[str]]:
    """Return the paths that an import stands for."""
    head, brace, names = path.partition("{")
    start = [part for part in head.split("::") if part]
    if not brace:
        return [start]
    return [[*start, *one.split("::")] for one in re.findall(r"[\w:]+", names)]


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree(SOURCES)


def test_folders_use_what_is_drawn(tree: Tree) -> None:
    surprises = [
        f"{name} -> {target}"
        for name, targets in tree.arrows.items()
        for target in sorted(targets)
        if (one := name.split(".")[0]) != (other := target.split(".")[0])
        and other not in ARROWS[one]
    ]
    assert not surprises, f"arrows that nobody drew: {', '.join(surprises)}"
    assert {name.split(".")[0] for name in tree.texts} == set(ARROWS)
    drawn = sum(len(targets) for targets in tree.arrows.values())
    assert drawn > 100, "the arrows are not recognised any more"


def test_there_is_no_circle(tree: Tree) -> None:
    for graph in (tree.arrows, ARROWS):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            pytest.fail(f"a circle: {' -> '.join(error.args[1])}")


def test_few_files_are_outside_of_the_folders() -> None:
    assert len(list(SOURCES.glob("*.rs"))) <= FLAT_FILES_MAX
