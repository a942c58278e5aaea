"""The native contestants keep large values and their limits; their crates are in order."""

from __future__ import annotations

import os
from typing import Final

import pytest

from lab.protocol import Opened, Verdict
from lab.runner import catalogue
from lab.runner.catalogue import LAB, Contestant
from lab.stream import GET, SET, Operation
from lab.tests.runtimes import Hosts, cargo, only
from lab.tests.talking import needs, one_worker
from rig.cores import kept_to

CRATES: Final = sorted(path.parent.name for path in LAB.glob("**/contestants/native_*/Cargo.toml"))
ROWS: Final = [
    row for row in catalogue.contestants().values() if row.host == "native" and row.stores
]


@only("native")
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_contestant_keeps_large_values(hosts: Hosts, row: Contestant) -> None:
    # With many processors, quick_cache makes shards that cannot hold two values.
    with kept_to({min(os.sched_getaffinity(0))}):
        host = hosts.start(row)
    sets = [Operation(SET, key, 2_222_981) for key in range(8)]
    gets = [Operation(GET, key, 0) for key in range(8)]
    plan = hosts.plan(row, one_worker(sets, gets))
    host.load_or_skip(plan.load())
    host.ask(plan.open(bytes_max=1 << 30), Opened)
    host.run(0, "throughput", block=4)
    ran = host.run(1, "throughput", block=4)
    assert ran.verdict == Verdict()
    assert ran.actions["get"].miss == 0


@only("native")
@pytest.mark.parametrize(
    ("row", "limit"),
    [pytest.param(row, limit, id=f"{row.name}-{limit}") for row in ROWS for limit in row.counts],
)
def test_a_contestant_obeys_what_it_counts(hosts: Hosts, row: Contestant, limit: str) -> None:
    count, size = 4_000, 600
    sets = [Operation(SET, key, size) for key in range(count)]
    gets = [Operation(GET, key, 0) for key in range(count)]
    keys = [f"key-{number}" for number in range(count)]
    host, plan = hosts.loaded(row, one_worker(sets, gets), keys=keys)
    entries_max = 1_000 if limit == "entries" else 0
    bytes_max = 720_896 if limit == "bytes" else 64_000_000
    host.ask(plan.open(entries_max=entries_max, bytes_max=bytes_max), Opened)
    host.run(0, "throughput")
    ran = host.run(1, "throughput")
    assert ran.verdict == Verdict()
    kept = count - ran.actions["get"].miss
    # Contestants that evict asynchronously may be a little late.
    most = 1.1 * (entries_max or bytes_max / size)
    assert most / 3 < kept < most


@needs("cargo")
def test_the_crates_pass_their_own_tests() -> None:
    # The whole workspace, because a part of it would be built with other features.
    cargo("test", "--workspace", "--lib")


@pytest.mark.parametrize("name", CRATES)
def test_the_program_has_the_name_of_its_folder(name: str) -> None:
    (folder,) = [path for path in LAB.glob(f"**/contestants/{name}") if path.is_dir()]
    assert f'name = "{name}"' in (folder / "Cargo.toml").read_text()
    assert 'host = "native"' in (folder / "contestant.toml").read_text()
    assert "cargo = true" in (folder / "contestant.toml").read_text()
