"""The listing of a folder is timed only if it has every file."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.contestants.glob1 import adapter
from lab.hosts.python.contract import Limits


def test_a_listing_that_is_not_whole_is_no_answer(tmp_path: Path) -> None:
    store = adapter.open(str(tmp_path), Limits(entries=0, bytes=0), {})
    for key in ("a", "b"):
        store.set(key, key.encode())
    assert store.get("b") == b"b"
    store.delete("a")
    assert store.get("a") is None
    (listed,) = tmp_path.iterdir()
    (listed / "stray.djcache").touch()
    with pytest.raises(RuntimeError, match="2 of 1 files are listed"):
        store.get("b")
