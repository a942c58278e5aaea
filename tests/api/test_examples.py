"""The examples in docstrings and documents do what they show."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tuckbox
from documents import LANGUAGES, blocks_of, run_page, run_session
from tuckbox import Cache, _engine
from tuckbox.advice import unexpected
from tuckbox.coordination.locks import Lock, RLock
from tuckbox.coordination.queues import Queue
from tuckbox.coordination.rates import Permit, RateLimit
from tuckbox.coordination.semaphores import Semaphore
from tuckbox.coordination.transactions import Transaction
from tuckbox.objects import Objects
from tuckbox.places import place_of
from tuckbox.signing import Signer
from tuckbox.sizes import parse_size

ROOT = Path(__file__).parents[2]
PUBLIC = [getattr(tuckbox, name) for name in tuckbox.__all__]
DOCUMENTED: dict[str, object] = {
    **{value.__name__: value for value in PUBLIC if inspect.isclass(value)},
    **{f"Cache.{name}": getattr(Cache, name) for name in dir(Cache) if not name.startswith("_")},
    "Cache.__init__": Cache.__init__,
    "ManualClock": _engine.ManualClock,
    **{
        f"{kind.__name__}.{name}": getattr(kind, name)
        for kind in (Lock, Queue, RateLimit, Transaction)
        for name in dir(kind)
        if not name.startswith("_")
    },
    **{
        kind.__name__: kind
        for kind in (Lock, RLock, Semaphore, RateLimit, Permit, Queue, Transaction)
    },
    "parse_size": parse_size,
    "place_of": place_of,
    "unexpected": unexpected,
    "Objects": Objects,
    "Signer": Signer,
}
EXAMPLES = {name: value.__doc__ for name, value in DOCUMENTED.items() if ">>>" in value.__doc__}


PAGES = {
    str(path.relative_to(ROOT)): blocks_of(path.read_text())
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
DOCUMENTS = {
    page: blocks
    for page, blocks in PAGES.items()
    if any(block.language in LANGUAGES for block in blocks)
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
        "Objects": Objects,
        "Permit": Permit,
        "Signer": Signer,
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
    run_page(page, DOCUMENTS[page], vars(module))
