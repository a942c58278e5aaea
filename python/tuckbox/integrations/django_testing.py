"""Whether this process runs a Django project's tests.

Asks modules that are already imported, and imports none: a server must not load test code.
"""

from __future__ import annotations

import os
import sys
from typing import Optional

__all__ = ["current_test_process"]


def current_test_process() -> Optional[str]:
    """Return the name of this test process, or None if it runs no tests.

    Django's runner and pytest-django call ``setup_test_environment`` in each of their processes.
    Workers of ``manage.py test --parallel`` are numbered, and workers of pytest-xdist are named
    even if they do not use pytest-django.

    Returns:
        A name that differs between the workers that were forked from one process. A process that
        a test forks has the name of its parent.

    Example:
        >>> current_test_process() is None
        True
    """
    # Programs that a test starts inherit the variable, but do not run tests.
    worker = os.environ.get("PYTEST_XDIST_WORKER") if "pytest" in sys.modules else None
    state = getattr(sys.modules.get("django.test.utils"), "_TestState", None)
    if worker is None and hasattr(state, "saved_data"):
        runner = sys.modules.get("django.test.runner")
        return f"worker {getattr(runner, '_worker_id', 0)}"
    return worker
