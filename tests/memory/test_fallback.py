"""Without the extension, the package works in one process and says so."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tuckbox

SOURCE = Path(tuckbox.__file__).parents[1]
WITHOUT = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "tuckbox._engine":
            raise {error}
sys.meta_path.insert(0, Finder())
"""
ABSENT = 'ModuleNotFoundError(f"No module named {name!r}", name=name)'


def run(program: str, *options: str, error: str = ABSENT) -> subprocess.CompletedProcess[str]:
    program = WITHOUT.format(error=error) + textwrap.dedent(program)
    return subprocess.run(
        [sys.executable, *options, "-c", program],
        cwd=SOURCE,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_cache_works_and_warns_once() -> None:
    done = run("""
        import warnings
        import tuckbox
        from tuckbox.errors import OneProcessWarning
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            for place in ("pages", None, "pages"):
                cache = tuckbox.Cache(place)
                cache.set("user:42", {"name": "Ada"}, ttl="5m", tags=["users"])
                assert cache["user:42"] == {"name": "Ada"}
            assert "user:42" not in tuckbox.Cache("other")
        assert [one.category for one in given] == [OneProcessWarning], given
        assert given[0].filename == "<string>", given[0]
        print(given[0].message)
        assert tuckbox.__version__ == "0.1.0"
        assert "tuckbox._engine" not in sys.modules
        assert "tuckbox.cache" not in sys.modules
    """)
    assert not done.stderr
    assert "<Cache 'pages' in this process> is in this process alone" in done.stdout


def test_memory_can_be_in_front_of_another_place(tmp_path: Path) -> None:
    done = run(f"""
        import tuckbox
        cache = tuckbox.connect("memory:pages", "file://{tmp_path}/entries")
        cache.set("user:42", "Ada", ttl=60)
        assert [cache.get("user:42"), cache.get("user:42")] == ["Ada", "Ada"]
        assert cache.health().far_hits == 1
        assert "tuckbox._engine" not in sys.modules
    """)
    assert not done.stderr


def test_as_an_error_the_warning_names_the_line() -> None:
    done = run("import tuckbox\ntuckbox.Cache('pages')", "-W", "error")
    assert "OneProcessWarning" in done.stderr


@pytest.mark.parametrize("path", ["'/var/cache/app.tuck'", "'./app.tuck'", "Path('app.tuck')"])
def test_a_path_is_an_error_that_says_why(path: str) -> None:
    done = run(f"""
        from pathlib import Path
        import tuckbox
        try:
            tuckbox.Cache({path})
        except tuckbox.errors.CacheOpenError as error:
            print(type(error).__name__, error)
    """)
    assert done.stdout.startswith("NoSharedFiles ")
    assert "is a path, but this installation of Tuckbox has no extension for" in done.stdout


def test_every_module_but_those_of_the_file_can_be_imported() -> None:
    done = run("""
        import importlib, pkgutil
        import tuckbox
        failed = set()
        for module in pkgutil.walk_packages(tuckbox.__path__, "tuckbox."):
            if ".integrations" in module.name or module.name == "tuckbox._engine":
                continue
            try:
                importlib.import_module(module.name)
            except ImportError as error:
                assert "_engine" in str(error), error
                failed.add(module.name)
        print(sorted(failed))
    """)
    assert done.stdout == (
        "['tuckbox.cache', 'tuckbox.tiers.shared_first', 'tuckbox.volumes']\n"
    ), done.stderr


def test_what_only_other_systems_lack_is_not_needed() -> None:
    done = run("""
        import os
        for name in ("pwd", "grp", "fcntl", "resource"):
            sys.modules[name] = None
        for name in ("geteuid", "getuid", "fork", "register_at_fork"):
            delattr(os, name)
        import time
        for name in ("clock_gettime", "CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
            delattr(time, name)
        import tuckbox
        cache = tuckbox.Cache("pages")
        cache.set("k", 1, ttl=60)
        assert cache.get_entry("k").expiry > time.time() + 50
        print(cache["k"])
    """)
    assert done.stdout == "1\n", done.stderr


def test_an_extension_that_is_broken_is_an_error() -> None:
    done = run("import tuckbox", error='ImportError("libc is too old", name=name)')
    assert "ImportError: libc is too old" in done.stderr
