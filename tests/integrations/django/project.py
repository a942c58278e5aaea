"""The Django project of these tests, and how a process becomes a part of it."""

from __future__ import annotations

import django
from django.conf import settings

BACKEND = "tuckbox.integrations.django.TuckboxCache"

FRAGMENT = "{% load cache %}{% cache 60 fragment %}<b>{{ count }}</b>{% endcache %}"


def configure() -> None:
    """Set Django up in this process, unless that was done."""
    if settings.configured:
        return
    loader = ("django.template.loaders.locmem.Loader", {"fragment.html": FRAGMENT})
    settings.configure(
        ALLOWED_HOSTS=["testserver"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=["django.contrib.sessions"],
        LOGGING_CONFIG=None,
        MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware"],
        ROOT_URLCONF="integrations.django.pages",
        SECRET_KEY="known to these tests, and to whoever reads them",
        SESSION_ENGINE="django.contrib.sessions.backends.cache",
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "OPTIONS": {"loaders": [loader]},
            }
        ],
        USE_TZ=True,
    )
    django.setup()
