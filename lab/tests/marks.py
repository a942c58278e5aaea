"""Marks of tests that need root."""

from __future__ import annotations

import os

import pytest

# Under CI the test always runs, and fails without root.
ROOT_ONLY = pytest.mark.skipif(
    os.geteuid() != 0 and "CI" not in os.environ, reason="only root may install, mount and unshare"
)
