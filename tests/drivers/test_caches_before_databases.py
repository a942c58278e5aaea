"""As `test_caches`, with near tiers before databases: a file of its own runs at the same time."""

from __future__ import annotations

import pytest

from conftest import DATABASES
from drivers.test_caches import opened, store_tests  # noqa: F401 - `opened` is a fixture.
from organising.test_namespaces import blog  # noqa: F401 - A fixture.

RUNS_ON = DATABASES
pytestmark = pytest.mark.timeout(180)  # Hundreds of operations of milliseconds each.
# A thousand turns of operations that the others have, too: a minute more.
LONG = "test_no_stale_store_is_accepted_and_no_other_is_refused_in_test_leases"

globals().update({name: test for name, test in store_tests().items() if name != LONG})
