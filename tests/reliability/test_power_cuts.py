"""Workers end in every way, and then the machine starts once more.

Whether it had lost power meanwhile, nobody can tell from a file whose processes did not close it.
What a disk holds after a real cut is tried by ``torture pages``.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reliability.boots import boot, demand
from tuckbox import Cache
from tuckbox.errors import CacheOpenError

if TYPE_CHECKING:
    from collections.abc import Callable

    from reliability.conftest import Trials

pytestmark = pytest.mark.family("T-R7")

ENTRIES = 50
WORKERS = 3

WORKER = """
import os, signal, sys
from tuckbox import Cache

path, mode, name, ending = sys.argv[1:]
if ending == "handled":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
cache = Cache(path, size="2 MiB", after_power_cut=mode)
cache.set_many({(name, n): "old" for n in range(%d)})
cache.set_many({(name, n): "new" for n in range(%d)})
cache.delete((name, 0))
print("ready", flush=True)
sys.stdin.readline()
if ending == "os._exit":
    os._exit(0)
""" % (ENTRIES, ENTRIES)  # noqa: UP031 - Braces are part of the program.

READER = """
import sys
from tuckbox import Cache

cache = Cache(sys.argv[1])
entries = {key: value for key, value in cache.items()}
print(len(entries), set(entries.values()) <= {"new"}, cache.stats().discards)
cache.close()
"""


def start(prefix: tuple[str, ...], *arguments: str) -> subprocess.Popen[str]:
    command = [*prefix, sys.executable, "-c", WORKER, *arguments]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"
    return worker


def entries_of(prefix: tuple[str, ...], path: str) -> tuple[int, int]:
    """Return how many entries another boot finds, and how often it has discarded all."""
    command = [*prefix, sys.executable, "-c", READER, path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    entries, are_new, discards = done.stdout.split()
    assert are_new == "True", "a deleted or an overwritten entry is there"
    return int(entries), int(discards)


def return_from_main(worker: subprocess.Popen[str]) -> None:
    worker.communicate("\n", timeout=60)


def end_by(number: signal.Signals) -> Callable[[subprocess.Popen[str]], None]:
    def end(worker: subprocess.Popen[str]) -> None:
        worker.send_signal(number)
        worker.communicate(timeout=60)

    return end


ENDINGS = {
    # How a worker ends, and whether that closes its cache.
    "returns": (return_from_main, True),
    "handled": (end_by(signal.SIGTERM), True),
    "SIGTERM": (end_by(signal.SIGTERM), False),
    "SIGKILL": (end_by(signal.SIGKILL), False),
    "os._exit": (return_from_main, False),
}


@pytest.mark.parametrize("mode", ["keep", "discard"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_all_workers_end_in_one_way(
    ending: str, mode: str, path: str, tmp_path: Path, trials: Trials
) -> None:
    end, is_closed = ENDINGS[ending]
    first, second, third = (boot(tmp_path, number) for number in range(3))
    demand(first)
    workers = [start(first, path, mode, str(n), ending) for n in range(WORKERS)]
    for worker in workers:
        end(worker)
    all_entries = WORKERS * (ENTRIES - 1)
    # The machine still runs: nothing is lost by the death of processes.
    assert entries_of(first, path) == (all_entries, 0)
    trials.add(1, "restarts")
    workers = [start(first, path, mode, str(n), ending) for n in range(WORKERS)]
    for worker in workers:
        end(worker)
    is_kept = mode == "keep" or is_closed
    assert entries_of(second, path) == ((all_entries, 0) if is_kept else (0, 1))
    # The second boot ended in order in any case.
    assert entries_of(third, path) == ((all_entries, 0) if is_kept else (0, 1))
    trials.add(2, "restarts")


@pytest.mark.parametrize("last", ENDINGS)
def test_the_last_one_closes_for_those_that_were_killed(
    last: str, path: str, tmp_path: Path, trials: Trials
) -> None:
    first, second = (boot(tmp_path, number) for number in range(2))
    demand(first)
    killed = [start(first, path, "discard", str(n), "SIGKILL") for n in range(2)]
    end, is_closed = ENDINGS[last]
    worker = start(first, path, "discard", "last", last)
    for one in killed:
        end_by(signal.SIGKILL)(one)
    end(worker)
    all_entries = 3 * (ENTRIES - 1)
    assert entries_of(second, path) == ((all_entries, 0) if is_closed else (0, 1))
    trials.add(1, "restarts")


def test_a_reader_waits_for_a_writer(path: str, tmp_path: Path, trials: Trials) -> None:
    first = boot(tmp_path, 0)
    demand(first)
    end_by(signal.SIGKILL)(start(first, path, "discard", "one", "SIGKILL"))
    with pytest.raises(CacheOpenError, match="open it without read_only first"):
        Cache(path, read_only=True)
    with Cache(path) as writer, Cache(path, read_only=True) as reader:
        assert (len(writer), len(reader), writer.stats().discards) == (0, 0, 1)
    trials.add(1, "restarts")


def test_without_a_boot_id_only_keep_works(path: str, tmp_path: Path, trials: Trials) -> None:
    prefix = boot(tmp_path, 0)
    demand(prefix)
    # The file that stands in for the boot id.
    Path(prefix[-1]).write_text("")
    program = "import sys, tuckbox; tuckbox.Cache(sys.argv[1], after_power_cut=sys.argv[2])"
    command = [*prefix, sys.executable, "-c", program, path]
    refused = subprocess.run([*command, "discard"], capture_output=True, text=True, check=False)
    assert "CacheOpenError" in refused.stderr
    assert 'after_power_cut="discard" needs /proc/sys/kernel/random/boot_id' in refused.stderr
    assert not Path(path).exists()
    subprocess.run([*command, "keep"], check=True)
    trials.add(2, "restarts")
