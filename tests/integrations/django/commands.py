"""A Django project in a folder, whose commands are run as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import tuckbox
from integrations.django import project

SETTINGS = """
from pathlib import Path

BASE_DIR = Path(__file__).parent
CACHES = {caches!r}
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "db"}}}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = {apps!r}
SECRET_KEY = {secret!r}
USE_TZ = True

# Where named caches lie.
from tuckbox import places
places.MEMORY = BASE_DIR / "memory"
"""

MANAGE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "site_settings"
from django.core.management import execute_from_command_line
if __name__ == "__main__":
    execute_from_command_line(sys.argv)
"""

APPS = (
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "tuckbox.integrations.django.TuckboxConfig",
)


class Site:
    """A project with one cache.

    Args:
        folder: Where the project is made.
        settings: The settings of its cache, without BACKEND.
    """

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        caches = {"default": {"BACKEND": project.BACKEND, **settings}}
        text = SETTINGS.format(caches=caches, apps=APPS, secret=f"of {folder}")
        self.memory = folder / "memory"
        self.memory.mkdir(exist_ok=True)
        (folder / "site_settings.py").write_text(text)
        (folder / "manage.py").write_text(MANAGE)

    def write(self, name: str, text: str) -> None:
        """Add a module."""
        (self.folder / name).write_text(text)

    def manage(self, *arguments: str) -> str:
        """Run a command of the project; return what it printed."""
        return self.run("manage.py", *arguments)

    def run(self, *arguments: str) -> str:
        """Run Python in the folder of the project; return what it printed."""
        packages = [str(Path(tuckbox.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(packages)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout
