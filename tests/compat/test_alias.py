"""``python -m tuckbox.compat.diskcache`` runs programs that import ``diskcache``."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import diskcache as real
import pytest

from tuckbox.compat import diskcache as dc

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import multiprocessing
import subprocess
import sys

import diskcache
from diskcache.core import ENOVAL, args_to_key, full_name
from diskcache.djangocache import DjangoCache
from diskcache.fanout import FanoutCache
from diskcache.persistent import Deque, Index
from diskcache.recipes import Averager

import neighbour


def kind(_):
    return diskcache.Cache.__module__


if __name__ == "__main__":
    assert Deque is diskcache.Deque
    assert diskcache.DjangoCache is DjangoCache
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(kind(0), *pool.map(kind, [0]), *sys.argv[1:])
    command = [sys.executable, "-c", "import diskcache; print(diskcache.Cache.__module__)"]
    subprocess.run(command, check=True)
"""
OURS = "tuckbox.compat.diskcache.core"


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tuckbox.compat.diskcache", *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        cwd=directory,
    )


@pytest.mark.parametrize("how", [["program.py"], ["-m", "program"]])
def test_a_program_and_its_children_use_the_drop_in(tmp_path, how):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "neighbour.py").write_text("")
    done = run(tmp_path, "--", *how, "--option", "x")
    assert (done.stderr, done.stdout) == ("", f"{OURS} {OURS} --option x\n{OURS}\n")


def test_the_exit_status_is_that_of_the_program(tmp_path):
    (tmp_path / "program.py").write_text("import diskcache\nraise SystemExit(7)\n")
    assert run(tmp_path, "program.py").returncode == 7


DJANGO = """
import sys
if sys.argv[1] == "missing":
    class WithoutDjango:
        def __init__(self, finder):
            self.finder = finder
        def find_spec(self, name, *others):
            if name.partition(".")[0] != "django":
                return self.finder.find_spec(name, *others)
    sys.meta_path[:] = map(WithoutDjango, sys.meta_path)
import diskcache
assert diskcache.Cache.__module__.startswith("tuckbox.")
assert "django" not in sys.modules
print("DjangoCache" in diskcache.__all__)
from diskcache import *
print("DjangoCache" in dir())
"""


@pytest.mark.parametrize("django", ["present", "missing"])
def test_django_is_imported_only_if_it_is_there_and_asked_for(tmp_path, django):
    alias = os.path.join(os.path.dirname(dc.__file__), "..", "alias")
    done = subprocess.run(
        [sys.executable, "-c", DJANGO, django], capture_output=True, text=True, timeout=50,
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": alias}, check=False,
    )  # fmt: skip
    assert (done.stderr, done.stdout) == ("", f"{django == 'present'}\n" * 2)


def test_it_says_how_it_is_used(tmp_path):
    assert run(tmp_path).stderr.startswith("usage: ")


def test_without_it_programs_have_the_real_package():
    assert real.Cache.__module__ == "diskcache.core"


def test_it_has_every_public_name():
    assert set(real.__all__) <= set(dc.__all__)
    assert dc.DjangoCache.__name__ == "DjangoCache"
    assert dc.__version__ == real.__version__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        dc.nothing  # noqa: B018


@pytest.mark.parametrize("name", ["_sql", "_con", "_sql_retry"])
def test_there_is_no_sql(tmp_path, name):
    cache = dc.Cache(str(tmp_path))
    with pytest.raises(AttributeError, match=rf"no attribute '{name}': .* SQL .* use get\(\)"):
        getattr(cache, name)
    assert not hasattr(cache, name)
