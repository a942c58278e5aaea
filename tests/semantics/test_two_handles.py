"""Two handles on one file, opened before there is anything in it: what one stores, the other finds
and keeps, though the file has grown since it was opened."""

from __future__ import annotations

import os
from typing import Any

import pytest


@pytest.mark.parametrize("size", ["64 KiB", "4 MiB", "32 MiB", "256 MiB"])
def test_the_other_ones_entries_are_kept(opened: Any, path: str, size: str) -> None:
    for _ in range(10):  # Which shard a key lies in differs from file to file.
        one, other = opened(path, size=size), opened(path)
        for number in range(40):
            (one, other)[number % 2][number] = number
        assert [other.get(number) for number in range(40)] == list(range(40))
        assert [one.get(number) for number in range(40)] == list(range(40))
        assert one.stats().evictions == 0
        one.close()
        other.close()
        os.remove(path)


def test_values_that_make_the_file_grow(opened: Any, path: str) -> None:
    one, other = opened(path, size="64 MiB"), opened(path)
    for number in range(60):
        (one, other)[number % 2][number] = bytes([number]) * 400_000
    for handle in (one, other):
        assert all(handle.get(n) == bytes([n]) * 400_000 for n in range(60))
