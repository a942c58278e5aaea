"""The examples in the drop-in's docstrings do what they show."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING

import pytest

from documents import run_session
from tuckbox.compat import diskcache
from tuckbox.compat.diskcache import disk, memoizing, settings, signatures

if TYPE_CHECKING:
    from pathlib import Path

CLASSES = [diskcache.Cache, diskcache.FanoutCache, diskcache.Disk, diskcache.JSONDisk]
CLASSES += [settings.Constant, settings.Policy, signatures.Signatures]
CLASSES += [diskcache.Deque, diskcache.Index, diskcache.Averager, diskcache.BoundedSemaphore]
CLASSES += [diskcache.Lock, diskcache.RLock]
FUNCTIONS = [memoizing.full_name, memoizing.args_to_key]
FUNCTIONS += [diskcache.barrier, diskcache.memoize_stampede, diskcache.throttle]
EXAMPLES = {
    f"{owner.__name__}.{name}": inspect.getdoc(value)
    for owner in CLASSES
    for name, value in [("", owner), *inspect.getmembers(owner, inspect.isfunction)]
} | {function.__name__: function.__doc__ for function in FUNCTIONS}


@pytest.mark.parametrize("name", [name for name, text in EXAMPLES.items() if ">>>" in (text or "")])
def test_an_example_does_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    modules = (diskcache, disk, memoizing, settings, signatures)
    names = {key: value for module in modules for key, value in vars(module).items()}
    with diskcache.Cache(os.path.join(tmp_path, "cache")) as cache:
        run_session(EXAMPLES[name], {**names, "cache": cache}, name, 0)


def test_operations_are_documented() -> None:
    for owner in CLASSES:
        for name, value in inspect.getmembers(owner, inspect.isfunction):
            assert name.startswith("_") or value.__doc__, f"{owner.__name__}.{name}"
