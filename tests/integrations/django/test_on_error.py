"""What a site sees if its cache fails: with "log" a slower page, with "raise" the error."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync
from django.core.cache import caches
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.test import Client, override_settings

from integrations.django import project
from tuckbox.errors import (
    DirectoryMissing,
    KeyTooLong,
    LockTimeout,
    ValueTooLarge,
    ValueTypeError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tuckbox.integrations.django import TuckboxCache

    Opened = Callable[..., TuckboxCache]

RAISES: dict[str, Any] = {"on_error": "raise"}

# The operations, and what each returns if there is no cache.
MISSES = [
    ("get", ("key", "default"), "default"),
    ("get_many", (["key"],), {}),
    ("has_key", ("key",), False),
    ("set", ("key", 1), None),
    ("add", ("key", 1), False),
    ("touch", ("key",), False),
    ("delete", ("key",), False),
    ("set_many", ({"key": 1},), ["key"]),
    ("delete_many", (["key"],), None),
    ("clear", (), None),
    ("get_or_set", ("key", 1), 1),
]


def forms(backend: TuckboxCache, name: str) -> list[Callable[..., Any]]:
    """The operation, and its asynchronous form."""
    return [getattr(backend, name), async_to_sync(getattr(backend, f"a{name}"))]


@pytest.mark.parametrize(("name", "arguments", "missed"), MISSES)
def test_a_cache_that_cannot_be_opened_is_an_empty_one(  # noqa: PLR0917 - Fixtures.
    opened: Opened,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    arguments: tuple[Any, ...],
    missed: Any,
) -> None:
    location = str(tmp_path / "missing" / "app.tuck")
    for operation in forms(opened(LOCATION=location), name):
        caplog.clear()
        assert operation(*arguments) == missed
        assert location in caplog.text
        assert "does not exist" in caplog.text
        assert {record.levelno for record in caplog.records} == {logging.ERROR}
    if name == "get_or_set":
        return
    for operation in forms(opened(LOCATION=location, OPTIONS=RAISES), name):
        with pytest.raises(DirectoryMissing):
            operation(*arguments)


def test_a_cache_is_used_as_soon_as_it_can_be_opened(opened: Opened, tmp_path: Path) -> None:
    backend = opened(LOCATION=str(tmp_path / "late" / "app.tuck"))
    backend.set("key", 1)
    assert backend.get("key") is None
    (tmp_path / "late").mkdir(mode=0o700)
    backend.set("key", 2)
    assert backend.get("key") == 2


@pytest.mark.parametrize("on_error", ["log", "raise"])
def test_a_counter_that_cannot_be_counted_is_missing(
    opened: Opened, tmp_path: Path, on_error: str
) -> None:
    location = str(tmp_path / "missing" / "app.tuck")
    expected = ValueError if on_error == "log" else DirectoryMissing
    for name in ("incr", "decr"):
        for operation in forms(opened(LOCATION=location, OPTIONS={"on_error": on_error}), name):
            with pytest.raises(expected):
                operation("key")


@pytest.mark.parametrize("on_error", ["log", "raise"])
def test_a_page_that_is_too_large_is_still_a_page(
    location: str, caplog: pytest.LogCaptureFixture, on_error: str
) -> None:
    options = {"size": "8 MB", "on_error": on_error}
    settings = {"BACKEND": project.BACKEND, "LOCATION": location, "OPTIONS": options}
    with override_settings(CACHES={"default": settings}):
        try:
            if on_error == "raise":
                with pytest.raises(ValueTooLarge):
                    Client().get("/large")
            else:
                page = Client().get("/large")
                assert page.status_code == 200
                assert len(page.content) == 20_000_000
                assert location in caplog.text
        finally:
            caches["default"]._cache.close()


@pytest.mark.parametrize("name", ["page", "fragment", "visits"])
def test_a_page_comes_although_a_lock_is_held(
    held: int, location: str, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """The page and its session are only not cached."""
    options = {"lock_timeout": 0.01}
    settings = {"BACKEND": project.BACKEND, "LOCATION": location, "OPTIONS": options}
    engine = "django.contrib.sessions.backends.cached_db"
    with override_settings(CACHES={"default": settings}, SESSION_ENGINE=engine):
        call_command("migrate", verbosity=0)
        assert Client().get(f"/{name}").status_code == 200
        assert "set failed: waited" in caplog.text
        caches["default"]._opened().close()


def test_an_old_value_is_not_taken_for_one_that_was_too_large(opened: Opened) -> None:
    backend = opened(OPTIONS={"size": "64 KiB"})
    for store in forms(backend, "set"):
        backend.set("key", "old")
        store("key", "v" * 10**6)
        assert backend.get("key") is None
        backend.set("key", "old", version=2)
        store("key", "v" * 10**6, version=2)
        assert backend.get("key", version=2) is None
    backend.set("key", "old")
    assert not backend.add("key", "v" * 10**6)
    assert backend.get("key") == "old"


def test_a_lock_that_is_held_too_long_is_no_error(
    held: int, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    backend = opened(OPTIONS={"lock_timeout": 0.05})
    for name, arguments, missed in MISSES:
        if name in {"get", "get_many", "has_key", "get_or_set"}:
            continue
        for operation in forms(backend, name):
            caplog.clear()
            assert operation(*arguments) == missed, name
            assert "failed: " in caplog.text, name
    with pytest.raises(ValueError, match="not found"):
        backend.incr("key")
    asyncio.run(backend.aset("key", 1))
    raising = opened(OPTIONS={"lock_timeout": 0.05, **RAISES})
    with pytest.raises(LockTimeout):
        raising.set("key", 1)


def test_a_key_of_a_visitor_may_be_too_long(opened: Opened) -> None:
    key = "k" * (64 << 10)
    with pytest.warns(Warning, match="memcached"):
        assert opened().get(key, "default") == "default"
    with pytest.warns(Warning, match="memcached"), pytest.raises(KeyTooLong):
        opened(OPTIONS=RAISES).get(key)


def test_mistakes_of_the_program_are_raised(opened: Opened) -> None:
    backend = opened()
    with pytest.raises((AttributeError, TypeError), match=r"local|pickle"):
        backend.set("key", lambda: None)
    with pytest.raises(ValueTypeError):
        opened(OPTIONS={"pickle": "never"}).set("key", object)
    with pytest.raises(ImproperlyConfigured, match="'log', 'raise', not 'ignore'"):
        opened(OPTIONS={"on_error": "ignore"})


def test_a_handle_that_other_code_closed_is_opened_again(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    backend, other = opened(), opened()
    for one in (backend, other):
        one.set("key", 1)
        asyncio.run(one.aset("another", 2))
    backend._cache.close()
    for one in (backend, other):
        assert one.get("key") == 1
        assert asyncio.run(one.aget("another")) == 2
        asyncio.run(one.aset("another", 2))
    assert "is opened again" in caplog.text
    assert backend._cache is other._cache
