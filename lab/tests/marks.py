"""Marks of tests that need the rights of root."""

from __future__ import annotations

import os

import pytest

# Under CI the test runs in any case: without the rights it fails.
ROOT_ONLY = pytest.mark.skipif(
    os.geteuid() != 0 and "CI" not in os.environ, reason="only root may install, mount and unshare"
)
