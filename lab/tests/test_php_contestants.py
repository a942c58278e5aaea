"""PHP contestants that need no server: what they answer."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab import protocol
from lab.stream import Operation
from lab.tests.php_hosts import (
    SHIPPED,
    gets,
    load,
    mixed,
    sets,
    started,
)
from lab.tests.talking import (
    model,
    needs,
)

pytestmark = needs("php")


@pytest.mark.parametrize(
    ("name", "form"),
    [("php_array", ""), ("php_apcu", "limited"), ("php_sqlite", ""), ("php_files", "tmpfs")],
)
def test_a_shipped_contestant_answers_right(tmp_path: Path, name: str, form: str) -> None:
    plan = tomllib.loads((SHIPPED / name / "contestant.toml").read_text())
    operations = mixed(1000)
    for value in plan.get("values", ["binary"]):
        with started(tmp_path, SHIPPED / name, form) as host:
            request = load(
                tmp_path,
                SHIPPED / name,
                operations,
                value=value,
                distribution=plan.get("install", {}).get("distribution", ""),
            )
            host.load_or_skip(request)
            host.open()
            host.ask(protocol.ProbeWrite(), protocol.Probed)
            read = host.ask(protocol.ProbeRead([0]), protocol.Probed)
            assert read.verdict == protocol.Verdict()
            host.ask(protocol.Close(), protocol.Closed)
            host.open()
            ran = host.run(0)
            assert ran.verdict.wrong == ran.verdict.stale == 0, ran.verdict
            assert ran.actions == model(operations, set())
            host.ask(protocol.Close(), protocol.Closed)


def two_levels(folder: Path, *phases: Sequence[Operation]) -> protocol.Load:
    """Return the request that loads APCu before files."""
    return load(
        folder,
        SHIPPED / "php_two_level",
        *phases,
        distribution="apcu",
        settings={"far": "php_files"},
    )


def test_two_levels_answer_as_one(tmp_path: Path) -> None:
    operations = mixed(1000)
    with started(tmp_path, SHIPPED / "php_two_level", "memcached") as host:
        host.load_or_skip(two_levels(tmp_path, operations))
        host.open()
        host.ask(protocol.ProbeWrite(), protocol.Probed)
        assert host.ask(protocol.ProbeRead([0]), protocol.Probed).verdict == protocol.Verdict()
        host.ask(protocol.Close(), protocol.Closed)
        host.open()
        ran = host.run(0)
    assert ran.verdict.wrong == ran.verdict.stale == 0, ran.verdict
    assert ran.actions == model(operations, set())


def test_the_near_level_answers_first_and_the_far_one_has_everything(tmp_path: Path) -> None:
    # APCu's 32 MB cannot hold 50 values of 1 MB, and throws away all it has when it is full.
    phases = [sets(50, 1_000_000), gets(50), gets(50)]
    with started(tmp_path, SHIPPED / "php_two_level", "memcached") as host:
        host.load_or_skip(two_levels(tmp_path, *phases))
        host.open()
        host.run(0)
        assert host.run(1).actions["get"] == protocol.Tally(count=50)
        (folder,) = tmp_path.glob("store-*")
        for file in folder.iterdir():
            file.unlink()
        ran = host.run(2)
    assert 0 < ran.actions["get"].miss < 50
    assert ran.verdict.wrong == ran.verdict.stale == 0


def test_null_stores_nothing_and_is_no_liar(tmp_path: Path) -> None:
    with started(tmp_path, SHIPPED / "php_null") as host:
        host.ask(load(tmp_path, SHIPPED / "php_null", gets(100)), protocol.Loaded)
        host.open()
        ran = host.run(0)
        assert ran.actions["get"] == protocol.Tally(count=100, miss=100, absent=100)
        assert ran.verdict == protocol.Verdict()
