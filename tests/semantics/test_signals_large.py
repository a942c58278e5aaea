"""A signal that comes while a large value is read raises what its handler raises."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tuckbox import Cache

if TYPE_CHECKING:
    from pathlib import Path


class HandlerError(Exception):
    pass


def test_the_handlers_exception_comes_out_of_get(tmp_path: Path) -> None:
    def handle(*_: object) -> None:
        raise HandlerError

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with Cache(tmp_path / "cache.tuck", size="64 MB") as cache:
            cache["large"] = b"v" * 5_000_000
            for turn in range(100):
                with pytest.raises(HandlerError):
                    signal.setitimer(signal.ITIMER_REAL, 0.0003 + turn * 3e-6)
                    while True:
                        assert len(cache["large"]) == 5_000_000
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
