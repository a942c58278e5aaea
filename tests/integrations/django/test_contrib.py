"""What Django makes of a cache, end to end: pages, fragments of templates, sessions."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from django.contrib.sessions.backends.cache import SessionStore
from django.core.cache import cache
from django.test import Client, override_settings

from integrations.django import project

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def site(location: str) -> Iterator[None]:
    """The project, with all that it caches in one file."""
    settings = {"BACKEND": project.BACKEND, "LOCATION": location}
    with override_settings(CACHES={"default": settings}):
        yield
        assert cache._cache.check().is_sound
        cache._cache.close()


def test_a_page_is_made_once() -> None:
    first, second = Client().get("/page"), Client().get("/page")
    assert first.content.startswith(b"page ")
    assert second.content == first.content
    assert second.cookies["flavour"].value == "plain"
    cache.clear()
    assert Client().get("/page").content != first.content


def test_a_fragment_is_made_once_and_stays_safe() -> None:
    first, second = Client().get("/fragment"), Client().get("/fragment")
    assert first.content.startswith(b"<b>")
    assert second.content == first.content


def test_visitors_are_remembered() -> None:
    ada, bob = Client(), Client()
    assert [ada.get("/visits").content for _ in range(3)] == [b"1", b"2", b"3"]
    assert bob.get("/visits").content == b"1"
    assert ada.get("/visits").content == b"4"


def test_visitors_are_remembered_by_the_next_process(location: str) -> None:
    ada = Client()
    ada.get("/visits")
    session = ada.cookies["sessionid"].value
    code = (
        "import sys; sys.path[:0] = sys.argv[3:]\n"
        "from integrations.django import project; project.configure()\n"
        "from django.test import Client, override_settings\n"
        "settings = {'BACKEND': project.BACKEND, 'LOCATION': sys.argv[1]}\n"
        "with override_settings(CACHES={'default': settings}):\n"
        "    ada = Client()\n"
        "    ada.cookies['sessionid'] = sys.argv[2]\n"
        "    print(ada.get('/visits').content.decode(), end='')\n"
    )
    command = [sys.executable, "-c", code, location, session, *sys.path]
    assert subprocess.run(command, check=True, capture_output=True).stdout == b"2"
    assert ada.get("/visits").content == b"3"


def test_a_session_that_is_no_plain_value_is_kept() -> None:
    session = SessionStore()
    session["range"] = range(3)
    session.save()
    assert SessionStore(session.session_key)["range"] == range(3)
    session.flush()
    assert SessionStore(session.session_key or "gone").get("range") is None
