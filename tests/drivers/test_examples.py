"""The examples in the docstrings of drivers do what they show. They need no server."""

from __future__ import annotations

import doctest

import pytest

from tuckbox.drivers import contract, memcached, memory, redis, urls


@pytest.mark.parametrize("module", [contract, memcached, memory, redis, urls])
def test_examples(module: object) -> None:
    done = doctest.testmod(module)
    assert done.attempted > 0
    assert done.failed == 0
