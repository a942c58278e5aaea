"""Django's own tests, on our backend.

`run.py` imports this with the folder `tests` of Django's source distribution on the path. No test
of Django's is changed: each class here gives one class of Django's a backend, as Django's own
subclasses do.
"""

from __future__ import annotations

import os
from unittest import mock

from asgiref.sync import async_to_sync
from cache import tests, tests_async
from django.core.cache import cache, caches
from django.test import SimpleTestCase, TestCase, override_settings
from sessions_tests.tests import CacheDBSessionTests, CacheSessionTests

OURS = {
    "BACKEND": os.environ["TUCKBOX_TESTED_BACKEND"],
    "LOCATION": os.environ["TUCKBOX_TESTED_LOCATION"],
}
OTHER = {**OURS, "LOCATION": f"{OURS['LOCATION']}-other"}

for_base_tests = override_settings(CACHES=tests.caches_setting_for_tests(**OURS))
for_one_cache = override_settings(CACHES={"default": OURS})


@for_base_tests
class Base(tests.BaseCacheTests, TestCase):
    """What Django asks of each of its backends."""


@for_base_tests
class BaseOnLoop(tests.BaseCacheTests, TestCase):
    """The same of the asynchronous methods: whatever is called is called by its other name."""

    def setUp(self) -> None:
        super().setUp()
        twins = {alias: Twin(caches[alias]) for alias in caches}
        for name, value in {"caches": twins, "cache": twins["default"]}.items():
            patch = mock.patch.object(tests, name, value)
            patch.start()
            self.addCleanup(patch.stop)


class Twin:
    """A cache each of whose operations is its asynchronous twin, run on an event loop."""

    def __init__(self, through: object) -> None:
        vars(self)["through"] = through

    def __getattr__(self, name: str) -> object:
        through = vars(self)["through"]
        twin = getattr(through, f"a{name}", None)
        return getattr(through, name) if twin is None else async_to_sync(twin)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(vars(self)["through"], name, value)

    def __contains__(self, key: object) -> bool:
        return self.has_key(key)


@for_one_cache
class AnyAsync(SimpleTestCase):
    """Those of Django's asynchronous tests that are true of more than the dummy backend."""

    def tearDown(self) -> None:
        cache.clear()


for name in (
    "test_aclear",
    "test_aclose",
    "test_adelete_many",
    "test_adelete_many_invalid_key",
    "test_aget_many_invalid_key",
    "test_aget_or_set_callable",
    "test_aset_many",
    "test_aset_many_invalid_key",
    "test_atouch",
    "test_non_existent",
):
    setattr(AnyAsync, name, vars(tests_async.AsyncDummyCacheTests)[name])


class Cleared:
    def tearDown(self) -> None:
        cache.clear()
        super().tearDown()


@for_one_cache
class Sessions(Cleared, CacheSessionTests):
    """django.contrib.sessions.backends.cache, sync and async."""


@for_one_cache
class DatabaseSessions(Cleared, CacheDBSessionTests):
    """django.contrib.sessions.backends.cached_db."""


@override_settings(CACHES={"default": OURS, "other": {**OTHER, "TIMEOUT": "1"}})
class Middleware(Cleared, tests.CacheMiddlewareTest):
    """Cached pages."""


@for_one_cache
class Utilities(Cleared, tests.CacheUtils):
    """Keys of cached pages."""


@override_settings(CACHES={"default": {**OURS, "KEY_PREFIX": "cacheprefix"}})
class PrefixedUtilities(Cleared, tests.PrefixedCacheUtils):
    """The same with a prefix."""


@for_one_cache
class Head(Cleared, tests.CacheHEADTest):
    """Cached answers to HEAD."""


@for_one_cache
class Languages(Cleared, tests.CacheI18nTest):
    """Cached pages in several languages and time zones."""


@for_one_cache
class Templates(Cleared, tests.TestWithTemplateResponse):
    """Cached responses that were made from templates."""
