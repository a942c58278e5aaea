"""Runs classes of `cases.py`, as Django's `runtests.py` would, and prints what became of them.

    run.py TESTS BACKEND LOCATION CASE...

TESTS is the folder `tests` of Django's source distribution; a CASE is a class, or one of its tests.
The last line of the output is JSON.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path


def main(tests: str, backend: str, location: str, *labels: str) -> None:
    os.environ["TUCKBOX_TESTED_BACKEND"] = backend
    os.environ["TUCKBOX_TESTED_LOCATION"] = location
    sys.path[:0] = [tests, str(Path(__file__).parent)]

    import django
    from django.conf import settings
    from django.test.runner import DiscoverRunner
    from django.utils import deprecation

    # As in Django's runtests.py.
    removed = [value for name, value in vars(deprecation).items() if name.startswith("RemovedIn")]
    for category in (*removed, ResourceWarning, RuntimeWarning):
        warnings.simplefilter("error", category)

    import test_sqlite

    from tuckbox.integrations import django as django_backend

    own = {name: value for name, value in vars(test_sqlite).items() if name.isupper()}
    settings.configure(
        **own,
        ALLOWED_HOSTS=[],
        INSTALLED_APPS=["django.contrib.sessions", "cache", "sessions_tests"],
        LANGUAGE_CODE="en",
        MIDDLEWARE=[],
        ROOT_URLCONF="urls",
        SITE_ID=1,
        STATIC_URL="static/",
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
    )
    django.setup()
    # As in a server: in a test process, a private cache would take the place of the file.
    django_backend.current_test_process = lambda: None
    runner = DiscoverRunner(verbosity=1, interactive=False)
    runner.setup_test_environment()
    suite = runner.build_suite([f"cases.{label}" for label in labels])
    databases = runner.setup_databases()
    result = runner.run_suite(suite)
    runner.teardown_databases(databases)
    runner.teardown_test_environment()
    names = {
        kind: sorted({test.id().removeprefix("cases.") for test, _ in found})
        for kind, found in (
            ("failed", result.failures + result.errors),
            ("skipped", result.skipped),
            ("expected_failures", result.expectedFailures),
        )
    }
    sys.stdout.write(json.dumps({"run": result.testsRun, **names}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
