"""What holds for interpreters other than the main one of a process."""

from __future__ import annotations

import subprocess
import sys
import sysconfig

import pytest

PROGRAM = """
import importlib
import tuckbox

name = "_interpreters" if {has_new} else "_xxsubinterpreters"
interpreters = importlib.import_module(name)
second = interpreters.create({kind})
source = '''
try:
    import tuckbox
except ImportError as error:
    print(type(error).__name__, error, flush=True)
else:
    print("imported", flush=True)
'''
interpreters.run_string(second, source)
interpreters.destroy(second)

with tuckbox.Cache() as cache:
    cache.set("still", "works")
    print(cache.get("still"), cache["still"], flush=True)
"""


@pytest.mark.parametrize("kind", ["", "'legacy'"])
def test_a_second_interpreter_is_refused_and_the_first_goes_on(kind: str) -> None:
    has_new = sys.version_info >= (3, 13)
    if kind and not has_new:
        pytest.skip("only Python 3.13 and later name the kinds of interpreters")
    program = PROGRAM.format(has_new=has_new, kind=kind)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    refused, works = done.stdout.splitlines()
    assert refused.startswith("ImportError")
    assert works == "works works"


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python always has the GIL"
)
def test_a_free_threaded_python_gets_its_gil_back() -> None:
    program = "import sys, tuckbox; print(sys._is_gil_enabled())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"
    assert "tuckbox._engine" in done.stderr, "Python should warn"
