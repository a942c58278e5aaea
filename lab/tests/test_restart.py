"""A contestant's `survives_restart` is true: the next process finds its data, or does not.

Not for contestants with servers, because the lab starts a new server each time, nor for those with
a separate file system, which a restart would empty.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.disk import memory_name, remove_memory
from lab.protocol import Close, Closed, Load, Open, Opened, Probed
from lab.protocol import ProbeRead as Read
from lab.protocol import ProbeWrite as Write
from lab.runner import catalogue
from lab.runner.catalogue import Contestant, StoreLimits, host
from lab.runner.cell import adapter_of
from lab.runner.hosts import command_of
from lab.runner.placeholders import fill_values, limit_words
from lab.tests.talking import Conversation

LIMITS = StoreLimits(entries=1_000, bytes=64 << 20)
ROWS = {
    name: one
    for name, one in catalogue.contestants().items()
    if one.stores and not one.server and not one.mount
}
PROBED, DELETED = 64, 16


@pytest.mark.parametrize("one", ROWS.values(), ids=ROWS)
def test_data_survives_a_restart_or_does_not(one: Contestant, own_folder: Path) -> None:
    folder = own_folder / "store"
    folder.mkdir()
    assert ask(one, folder, own_folder, Write()).refused in (0, 2 * PROBED)
    # A reboot removes shared memory.
    remove_memory(memory_name(folder))
    verdict = ask(one, folder, own_folder, Read([0])).verdict
    assert (verdict.wrong, verdict.stale) == (0, 0), verdict.examples
    assert verdict.lost == (0 if one.survives_restart else PROBED - DELETED)


def ask(one: Contestant, folder: Path, desk: Path, request: Write | Read) -> Probed:
    """Return the answer of a new process that opens the store, runs an operation and closes it."""
    keys = desk / "keys"
    keys.write_text("0\n", "utf-8")
    load = Load(
        adapter=adapter_of(one),
        distribution=one.install.distribution,
        settings=fill_values(one.settings, limit_words(LIMITS)),
        seed=1,
        worker=0,
        workers=1,
        keys=str(keys),
        value=one.values[0],
        phases=[],
    )
    try:
        talk = Conversation(command_of(host(one.host), one, LIMITS), desk / "words.txt")
    except FileNotFoundError as error:
        pytest.skip(f"{error.filename} is not there")
    with talk:
        talk.load_or_skip(load)
        talk.ask(Open(str(folder), LIMITS.entries, LIMITS.bytes), Opened)
        answer = talk.ask(request, Probed)
        talk.ask(Close(), Closed)
        assert talk.end() == 0
    return answer
