"""The examples in docstrings do what they show."""

from __future__ import annotations

import doctest
import inspect
from typing import TYPE_CHECKING

import pytest

import tuckbox
from tuckbox import Cache, _engine
from tuckbox.integrations.envelopes import Envelopes
from tuckbox.sizes import parse_size

if TYPE_CHECKING:
    from pathlib import Path

PUBLIC = [getattr(tuckbox, name) for name in tuckbox.__all__]
DOCUMENTED: dict[str, object] = {
    **{value.__name__: value for value in PUBLIC if inspect.isclass(value)},
    **{f"Cache.{name}": getattr(Cache, name) for name in dir(Cache) if not name.startswith("_")},
    "Cache.__init__": Cache.__init__,
    "ManualClock": _engine.ManualClock,
    "parse_size": parse_size,
    "Envelopes": Envelopes,
}
EXAMPLES = {name: value.__doc__ for name, value in DOCUMENTED.items() if ">>>" in value.__doc__}


def test_operations_have_examples() -> None:
    operations = {name for name, value in DOCUMENTED.items() if "." in name and callable(value)}
    assert operations <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_does_what_it_shows(
    name: str, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "examples"
    folder.mkdir(mode=0o700)
    monkeypatch.chdir(folder)
    names = {
        "Cache": Cache,
        "ManualClock": _engine.ManualClock,
        "Envelopes": Envelopes,
        "parse_size": parse_size,
        "cache": cache,
    }
    example = doctest.DocTestParser().get_doctest(EXAMPLES[name], names, name, None, None)
    output: list[str] = []
    result = doctest.DocTestRunner().run(example, out=output.append)
    assert result.attempted > 0
    assert not result.failed, "".join(output)
