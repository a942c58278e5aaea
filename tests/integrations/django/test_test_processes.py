"""Tests of a project: each of their processes has a cache of its own, and leaves no file behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integrations.django.commands import Site

if TYPE_CHECKING:
    from pathlib import Path

# Two processes run this at the same time.
BOTH = """
import os, time
from pathlib import Path
from django.core.cache import cache

HERE = Path(__file__).parent

# The parent of the workers imports this, too, and opens a cache.
cache.get("project")

def meet(stage):
    (HERE / f"{stage}-{os.getpid()}").touch()
    deadline = time.monotonic() + 40
    while len(list(HERE.glob(f"{stage}-*"))) < 2:
        assert time.monotonic() < deadline, "the other process did not come"
        time.sleep(0.01)
    return sorted(path.name for path in HERE.glob(f"{stage}-*"))

class Alone:
    def test_no_other_process_sees_or_clears_the_cache(self):
        self.assertIsNone(cache.get("project"))
        cache.set("key", os.getpid())
        first, second = meet("stored")
        self.assertEqual(cache.get("key"), os.getpid())
        meet("read")
        if first == f"stored-{os.getpid()}":
            cache.clear()
        meet("cleared")
        expected = None if first == f"stored-{os.getpid()}" else os.getpid()
        self.assertEqual(cache.get("key"), expected)

    def test_a_process_that_a_test_forks_shares_the_cache(self):
        cache.set("parent", 1)
        child = os.fork()
        if child == 0:
            cache.set("child", cache.get("parent"))
            os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(cache.get("child"), 1)

    async def test_an_event_loop_shares_the_cache(self):
        await cache.aset("loop", {1, 2})
        await cache.aset("object", Path("a"))
        self.assertEqual(cache.get("loop"), {1, 2})
        self.assertEqual(await cache.aget("object"), Path("a"))
"""

ONE = """
from django.test import SimpleTestCase
from both import Alone

class Test{name}(Alone, SimpleTestCase):
    pass
"""

STORE = "from django.core.cache import cache; cache.set('project', 'kept', None)"
SHOW = "from django.core.cache import cache; print(cache.get('project'))"

EARLY = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "site_settings"
import django
django.setup()
from django.core.cache import cache
from django.test.utils import setup_test_environment, teardown_test_environment

cache.set("opened", "before the tests")
setup_test_environment()
cache.clear()
cache.set("opened", "by a test")
teardown_test_environment()
cache.close()
print(cache.get("opened"))
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A project with tests, and an entry in its cache."""
    return site_at(tmp_path, "pages")


def site_at(folder: Path, place: str) -> Site:
    site = Site(folder, LOCATION=place)
    site.write("both.py", BOTH)
    for name in ("One", "Two"):
        site.write(f"test_{name.lower()}.py", ONE.format(name=name))
    site.manage("shell", "-c", STORE)
    return site


def files(site: Site) -> set[Path]:
    return {*site.folder.glob("cache.tuck*"), *site.memory.rglob("*")}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_manage_py_test_parallel_share_nothing(site: Site, method: str) -> None:
    manage = (site.folder / "manage.py").read_text()
    chosen = f"import multiprocessing; multiprocessing.set_start_method({method!r}, force=True)\n"
    site.write("manage.py", chosen + manage)
    before = files(site)
    assert "Ran 6 tests" in site.manage("test", "--parallel", "2", "--verbosity", "2")
    assert files(site) == before
    assert "kept" in site.manage("shell", "-c", SHOW)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("plugin", ["pytest-django", "none"])
def test_workers_of_pytest_xdist_share_nothing(site: Site, plugin: str) -> None:
    options = ["-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider"]
    if plugin == "none":
        site.write(
            "conftest.py",
            "import os, django\n"
            "os.environ['DJANGO_SETTINGS_MODULE'] = 'site_settings'\n"
            "django.setup()\n",
        )
        options += ["-p", "no:django"]
    else:
        options += ["--ds", "site_settings"]
    before = files(site)
    assert "6 passed" in site.run("-m", "pytest", *options)
    assert files(site) == before
    assert "kept" in site.manage("shell", "-c", SHOW)


@pytest.mark.parametrize("place", ["a path", "a name"])
def test_a_test_that_clears_the_cache_leaves_the_projects_alone(tmp_path: Path, place: str) -> None:
    site = site_at(tmp_path, str(tmp_path / "cache.tuck") if place == "a path" else "pages")
    before = files(site)
    site.write(
        "test_one.py",
        "from django.core.cache import cache\n"
        "from django.test import SimpleTestCase\n"
        "class TestClear(SimpleTestCase):\n"
        "    def test_clear(self):\n"
        "        cache.clear()\n"
        "        cache.set('project', 'of a test')\n",
    )
    site.write("test_two.py", "")
    site.manage("test")
    assert files(site) == before
    assert "kept" in site.manage("shell", "-c", SHOW)


def test_a_server_that_a_test_starts_uses_the_projects_cache(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workers share it, as they do without pytest-xdist."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    assert "kept" in site.manage("shell", "-c", SHOW)


def test_a_cache_that_was_opened_before_the_tests_is_left_alone(site: Site) -> None:
    site.write("early.py", EARLY)
    assert "before the tests" in site.run("early.py")
